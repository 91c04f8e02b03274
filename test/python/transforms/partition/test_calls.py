"""Programs as calls of PyTorch compute the same as the programs."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import iota
from mirage.semantics.scalar import UNARY, BinaryFn, CumulateFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    External,
    KernelGraph,
    LayerNorm,
    RmsNorm,
    Softmax,
    TensorType,
    Value,
)
from mirage.transforms.partition.calls import as_calls
from torch_programs.external_calls import call_external


def values(rng: np.random.Generator, *shape: int) -> np.ndarray:
    return rng.uniform(0.5, 1.5, shape)  # in the domain of every function


def run(graph: KernelGraph, inputs: list[np.ndarray]) -> list[np.ndarray]:
    calls = as_calls(graph)
    assert all(isinstance(op, External) for op in calls.ops)
    known = {
        v: torch.tensor(x, dtype=getattr(torch, v.dtype.numpy.name))
        for v, x in zip(calls.inputs, inputs, strict=True)
    }
    for op in calls.ops:
        assert isinstance(op, External)
        results = call_external(op, known)
        for v, x in zip(op.results, results, strict=True):
            assert tuple(x.shape) == v.shape
            assert str(x.dtype).endswith(v.dtype.numpy.name), (op.target, v.dtype)
            known[v] = x
    return [known[v].double().numpy() for v in calls.outputs]


def check(graph: KernelGraph) -> None:
    rng = np.random.default_rng(0)
    inputs = [values(rng, *v.shape) for v in graph.inputs]
    for got, want in zip(run(graph, inputs), evaluate_floats(graph, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)


def f32(*shape: int) -> Value:
    return Value(TensorType(shape, DType.F32))


@pytest.mark.parametrize("fn", UnaryFn)
def test_unary(fn: UnaryFn) -> None:
    b, x = Builder(), f32(3, 5)
    y = x
    if UNARY[fn].logic:  # of truth values
        y = b.cast(b.binary(BinaryFn.LT, x, b.constant(1.0)), DType.F32)
    check(_graph(b, (x,), b.unary(fn, y)))


@pytest.mark.parametrize("fn", BinaryFn)
def test_binary_and_constants(fn: BinaryFn) -> None:
    b, x, y = Builder(), f32(3, 5), f32(5)
    z = b.binary(fn, b.binary(fn, x, y), b.constant(2.0))
    check(_graph(b, (x, y), z, b.binary(fn, b.constant(2.0), x)))


def test_moves_and_sums() -> None:
    b, x, w = Builder(), f32(2, 6, 4), f32(4, 6)
    y = b.matmul(x, w)
    t = b.transpose(y, (0, 2, 1))
    s = b.slice(t, (0, 1, 2), (1, 4, 3))
    r = b.reduce(ReduceFn.SUM, b.reshape(s, (2, 6)), (1,))
    m = b.reduce(ReduceFn.MAX, y, (0, 2))
    j = b.concat((s, s), 1)
    wide = b.broadcast(r, (3, 2, 5))
    whole = b.slice(x, (0, 0, 0), (2, 6, 4))
    check(_graph(b, (x, w), t, s, r, m, j, wide, whole))


def test_types() -> None:
    b, x, y = Builder(), Value(TensorType((4, 4), DType.F16)), f32(4, 4)
    z = b.binary(BinaryFn.ADD, x, y)
    graph = _graph(b, (x, y), z, b.cast(z, DType.BF16), b.cast(x, DType.F32))
    rng = np.random.default_rng(1)
    inputs = [v.dtype.round(values(rng, *v.shape)) for v in graph.inputs]
    for got, want in zip(run(graph, inputs), evaluate_floats(graph, inputs), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-2)


def test_composites() -> None:
    x, gain, bias = f32(3, 8), f32(8), f32(8)
    types = TensorType((3, 8), DType.F32)
    ops = (
        Softmax((x,), (Value(types),), 1),
        RmsNorm((x,), (Value(types),), 1e-5),
        RmsNorm((x, gain), (Value(types),), 1e-5),
        LayerNorm((x,), (Value(types),), 1e-5),
        LayerNorm((x, gain), (Value(types),), 1e-5),
        LayerNorm((x, gain, bias), (Value(types),), 1e-5),
    )
    check(KernelGraph("g", (x, gain, bias), ops, tuple(op.result for op in ops)))


def _graph(b: Builder, inputs: tuple[Value, ...], *outputs: Value) -> KernelGraph:
    return KernelGraph("g", inputs, tuple(b.ops), outputs)


@pytest.mark.parametrize("dtype", [DType.I1, DType.I32, DType.I64])
def test_sums_of_integers_keep_their_type(dtype: DType) -> None:
    """PyTorch would make all of them i64."""
    b = Builder()
    x = Value(TensorType((3, 5), dtype))
    one = b.binary(BinaryFn.KEEP, b.binary(BinaryFn.EQ, iota(b, (3, 5), 1), b.constant(2)), x)
    total = b.reduce(ReduceFn.SUM, one, (1,))
    outputs = (total,) if dtype is DType.I1 else (total, b.cumulate(CumulateFn.SUM, one, 1))
    graph = KernelGraph("sums", (x,), tuple(b.ops), outputs)
    numbers = np.arange(15).reshape(3, 5) % 2 if dtype is DType.I1 else np.arange(15).reshape(3, 5)
    for got, want in zip(run(graph, [numbers]), evaluate_floats(graph, [numbers]), strict=True):
        np.testing.assert_array_equal(got, want)
