"""Ops that occur twice in a program: one kernel, and separate results."""

from __future__ import annotations

from collections.abc import Callable

import mirage
import pytest
import torch
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import External, KernelGraph, Launch, TensorType, Value
from mirage.transforms.partition.repeated_ops import without_repeated_ops
from thorough import some_of

NO_SEARCH: dict[str, int] = dict.fromkeys(("plans", "goals", "cuts", "columns"), 1)
"""Limits that leave a program with its own ops."""


def f32(*shape: int) -> Value:
    return Value(TensorType(shape, DType.F32))


def cast_twice(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x * w).half(), (x * w).half(), (x * w).half().float().exp()


def views(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return (x + w).sum(1), (x + w).sum(1, keepdim=True), (x + w).sum(1)[None]


def inside(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return torch.softmax(x * w, 0), torch.softmax(x * w, 0), x * w


def updates(x: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
    at = torch.tensor([1])
    return x.index_copy(0, at, w[:1] * 2), x.index_copy(0, at, w[:1] * 2), w[:1] * 2


@pytest.mark.parametrize("program", some_of([cast_twice, views, inside, updates], every=2))
def test_a_program_of_own_ops_has_results_of_their_own(program: Callable[..., object]) -> None:
    """Equal kernels used to be merged, and the program was refused, since two outputs were one
    tensor."""
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    graph = mirage.from_torch(program, x, w, allow_fallback=True)
    options = OptimizeOptions(chip="h200", bounds=NO_SEARCH, jobs=1, use_cache=False)
    optimized = optimize(graph, options)
    assert not any(isinstance(op, Launch) for op in optimized.graph.ops)
    assert not optimized.report.notes
    assert optimized.artifacts
    results = optimized(x, w)
    torch.testing.assert_close(results, program(x, w))
    for i, result in enumerate(results):
        for other in results[:i]:
            assert result.untyped_storage().data_ptr() != other.untyped_storage().data_ptr()


def test_a_program_without_repeats_is_the_same_object() -> None:
    build = Builder()
    x = f32(4, 8)
    y = build.binary(BinaryFn.ADD, build.unary(UnaryFn.EXP, x), build.unary(UnaryFn.TANH, x))
    graph = KernelGraph("twice", (x,), tuple(build.ops), (y,))
    assert without_repeated_ops(graph) is graph


def test_a_repeat_that_is_not_returned_costs_nothing() -> None:
    build = Builder()
    x = f32(4, 8)
    first, second = build.unary(UnaryFn.EXP, x), build.unary(UnaryFn.EXP, x)
    y = build.unary(UnaryFn.TANH, second)
    graph = KernelGraph("twice", (x,), tuple(build.ops), (first, y))
    found = without_repeated_ops(graph)
    assert len(found.ops) == 2
    assert found.outputs == (first, y)


def test_what_one_of_two_equal_ops_returns_is_not_copied() -> None:
    build = Builder()
    x = f32(4, 8)
    first, second = build.unary(UnaryFn.EXP, x), build.unary(UnaryFn.EXP, x)
    y = build.unary(UnaryFn.TANH, first)
    graph = KernelGraph("twice", (x,), tuple(build.ops), (y, second))
    found = without_repeated_ops(graph)
    assert not any(isinstance(op, External) for op in found.ops)
    assert found.outputs == (y, second)
    assert {op.operands[0] for op in found.ops} == {x, second}
