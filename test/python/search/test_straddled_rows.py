"""Rows of several heads, or of several sequences, that tiles do not divide."""

from __future__ import annotations

import pytest
from mirage.cost import H200
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.search import superoptimize
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Launch
from mirage.verify import VerifyOptions, verify
from mirage.verify.verdict import Kind
from mirage.workloads.prompts import prompt_attention


@pytest.mark.parametrize("tokens", [129, 192])
def test_heads_that_share_keys_are_proved_whatever_their_rows(tokens: int) -> None:
    program = prompt_attention("p", 4, 2, tokens, 64, False).graph()
    best = superoptimize(program, H200).candidates[0].graph
    assert sum(isinstance(op, Launch) for op in best.ops) == 1
    assert verify(program, best, VerifyOptions()).kind is Kind.PROVED


@pytest.mark.parametrize(("tokens", "rows"), [(8, 16), (128, 256), (129, 129), (192, 192)])
def test_rows_of_several_heads_are_one_axis_where_tiles_divide_them(tokens: int, rows: int) -> None:
    program = prompt_attention("p", 4, 2, tokens, 64, False).graph()
    best = superoptimize(program, H200).candidates[0].graph
    launch = next(op for op in best.ops if isinstance(op, Launch))
    assert {v.shape[-2] for v in launch.operands} == {rows, tokens}


def test_rows_of_several_sequences_are_one_axis_of_a_product() -> None:
    g = GraphBuilder("linear")
    x = g.new_input((32, 197, 1024), DType.BF16, name="x")
    w = g.new_input((1024, 1024), DType.BF16, name="w")
    g.mark_output(x @ w)
    program = g.build()
    best = superoptimize(program, H200).candidates[0].graph
    launch = next(op for op in best.ops if isinstance(op, Launch))
    assert launch.operands[0].shape == (32 * 197, 1024)
    assert verify(program, best, VerifyOptions()).kind is Kind.PROVED
