"""Rows of several heads that tiles do not divide: no tile may hold rows of two of them."""

from __future__ import annotations

import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200
from mirage.search import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import Launch, launches
from mirage.verify import VerifyOptions, verify
from mirage.verify.verdict import Kind
from mirage.workloads.prompts import prompt_attention
from thorough import some_of


@pytest.mark.parametrize("tokens", [129, 192])
def test_heads_that_share_keys_are_proved_whatever_their_rows(tokens: int) -> None:
    program = prompt_attention("p", 4, 2, tokens, 64, False).graph()
    best = superoptimize(program, H200).candidates[0].graph
    assert sum(isinstance(op, Launch) for op in best.ops) == 1
    assert verify(program, best, VerifyOptions()).kind is Kind.PROVED


@pytest.mark.parametrize(
    ("tokens", "rows"), some_of([(8, 16), (128, 256), (129, 129), (192, 192)], every=2)
)
def test_rows_of_several_heads_are_one_axis_where_tiles_divide_them(tokens: int, rows: int) -> None:
    program = prompt_attention("p", 4, 2, tokens, 64, False).graph()
    best = superoptimize(program, H200).candidates[0].graph
    launch = next(op for op in best.ops if isinstance(op, Launch))
    assert {v.shape[-2] for v in launch.operands} == {rows, tokens}


def test_rows_that_are_multiplied_by_one_matrix_are_one_axis() -> None:
    """Three sequences of 197 tokens: no tile is cut short at the end of each."""
    b, x, w = Builder(), tensor("x", 3, 197, 64), tensor("w", 64, 128)
    residual = tensor("r", 3, 197, 128)
    y = b.unary(UnaryFn.GELU, b.binary(BinaryFn.ADD, b.matmul(x, w), residual))
    program = graph("linear", (x, w, residual), b, y)
    best = superoptimize(program, H200).candidates[0].graph
    (launch,) = launches(best.ops)
    assert sorted(v.shape for v in launch.operands) == [(64, 128), (591, 64), (591, 128)]
    assert verify(program, best, VerifyOptions()).kind is Kind.PROVED
