"""Floats that are rounded and clamped are converted to bytes in the kernel that computes them."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.cost import H200
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Cast, KernelGraph, Launch, TensorType, Value
from mirage.transforms.partition.clamped_numbers import clamped_numbers, converts_whole_numbers
from mirage.transforms.partition.exact_integers import integers_as_calls

Tensor = torch.Tensor
X = torch.randn(16, 192, generator=torch.Generator().manual_seed(0)).half()


def _stored(x: Tensor) -> Tensor:
    scale = x.abs().amax(-1, keepdim=True) / 127
    return (x / scale).round().clamp(-128, 127).to(torch.int8)


def test_one_kernel_stores_bytes() -> None:
    graph = integers_as_calls(mi.from_torch(_stored, X).graph)
    (cast,) = (op for op in graph.ops if op.results[0] is graph.outputs[0])
    assert isinstance(cast, Cast)
    assert cast.whole
    found = superoptimize(graph, H200, SearchLimits(candidates=1)).candidates[0].graph
    assert [type(op) for op in found.ops] == [Launch]
    (ours,) = evaluate_floats(found, (X.float().numpy(),), TypedFloat())
    np.testing.assert_array_equal(ours, _stored(X).numpy())


@pytest.mark.parametrize(
    "program",
    [
        lambda x: x.round().to(torch.int8),
        lambda x: x.clamp(-128, 127).to(torch.int8),
        lambda x: x.round().clamp(-129, 127).to(torch.int8),
        lambda x: x.round().clamp(-128, 128).to(torch.int8),
        lambda x: (x.round() / 2).clamp(-128, 127).to(torch.int8),
    ],
)
def test_other_conversions_are_exact_arithmetic(program: Callable[[Tensor], Tensor]) -> None:
    graph = integers_as_calls(mi.from_torch(program, X).graph)
    assert not any(isinstance(op, Cast) and op.whole for op in graph.ops)


def test_ends_that_a_type_does_not_have_are_rounded() -> None:
    """127.75 is a number of f16, and 128 in bf16."""
    known = []
    for dtype in (DType.F16, DType.BF16):
        x, b = Value(TensorType((4, 8), DType.F32)), Builder()
        y = b.binary(BinaryFn.MIN, b.unary(UnaryFn.FLOOR, x), b.constant(127))
        y = b.binary(BinaryFn.MAX, y, b.constant(-128))
        half = b.cast(b.binary(BinaryFn.MIN, x, b.constant(127.75)), dtype)
        stored = b.cast(b.cast(y, dtype), DType.I8)
        graph = KernelGraph("g", (x,), tuple(b.ops), (stored, half))
        found = clamped_numbers(graph)
        assert converts_whole_numbers(b.ops[-1], found)
        known.append(found[half][1])
    assert known == [127.75, np.inf]
