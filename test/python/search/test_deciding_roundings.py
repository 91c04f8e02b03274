"""Kernels round as the program does where a step function depends on it."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import numpy as np
import pytest
import torch
from example_programs.search_programs import tensor
from mirage.cost import H200
from mirage.search import SearchLimits, superoptimize
from mirage.search.program.deciding_roundings import deciding_roundings
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch

LIMITS = SearchLimits(candidates=1)
Tensor = torch.Tensor


def _scale(x: Tensor) -> Tensor:
    return x.abs().amax(-1, keepdim=True) / 127


def _stored(x: Tensor) -> Tensor:
    return (x / _scale(x)).round().clamp(-128, 127)


def _fake(x: Tensor) -> Tensor:
    return _stored(x) * _scale(x)


def _of_product(x: Tensor) -> Tensor:
    return torch.floor(x * 0.3 + x * x)


PROGRAMS: dict[str, tuple[Callable[[Tensor], Tensor], torch.dtype]] = {
    "stored": (_stored, torch.float16),
    "fake": (_fake, torch.float16),
    "fake in bf16": (_fake, torch.bfloat16),
    "fake in f32": (_fake, torch.float32),
    "sums": (_of_product, torch.bfloat16),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_kernel_gives_the_bits_of_pytorch(name: str) -> None:
    """With correctly rounded quotients, as in the interpreter."""
    program, dtype = PROGRAMS[name]
    x = torch.randn(16, 192, generator=torch.Generator().manual_seed(0)).to(dtype)
    found = superoptimize(mi.from_torch(program, x).graph, H200, LIMITS).candidates[0].graph
    assert [type(op) for op in found.ops] == [Launch]
    (ours,) = evaluate_floats(found, (x.float().numpy(),), TypedFloat())
    np.testing.assert_array_equal(ours, program(x).float().numpy())


def test_kernels_that_combine_parts_round_too() -> None:
    def program(x: Tensor) -> Tensor:
        return torch.floor(x.float().sum(-1).half() * 3.7 * 0.9)

    x = torch.randint(-3, 4, (4, 65536), generator=torch.Generator().manual_seed(0)).half()
    found = superoptimize(mi.from_torch(program, x).graph, H200, LIMITS).candidates[0].graph
    assert [type(op) for op in found.ops].count(Launch) == 2
    (ours,) = evaluate_floats(found, (x.float().numpy(),), TypedFloat())
    np.testing.assert_array_equal(ours, program(x).float().numpy())


def test_only_what_a_step_depends_on_is_rounded() -> None:
    x, s, b = tensor("x", 8, 64), tensor("s", 8, 1), Builder()
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, x), (1,))
    scale = b.binary(BinaryFn.MUL, s, total)
    quotient = b.binary(BinaryFn.DIV, b.unary(UnaryFn.NEG, x), scale)
    stored = b.unary(UnaryFn.FLOOR, quotient)
    y = b.binary(BinaryFn.MUL, stored, scale)
    graph = KernelGraph("stored", (x, s), tuple(b.ops), (y,))
    assert deciding_roundings(graph) == {total, scale, quotient}


def test_signs_do_not_depend_on_rounding() -> None:
    x, b = tensor("x", 8, 64), Builder()
    y = b.binary(BinaryFn.MUL, x, x)
    positive = b.binary(BinaryFn.LT, b.constant(0, DType.F16), y)
    above = b.binary(BinaryFn.LT, b.constant(1, DType.F16), y)
    graphs = [KernelGraph("above", (x,), tuple(b.ops), (v,)) for v in (positive, above)]
    kept = [KernelGraph("one", g.inputs, g.ops[:3] if v is positive else g.ops, (v,))
            for g, v in zip(graphs, (positive, above), strict=True)]  # fmt: skip
    assert [deciding_roundings(g) for g in kept] == [frozenset(), {y}]
