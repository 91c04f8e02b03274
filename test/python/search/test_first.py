"""The celebrated graphs are found, and every candidate computes what its program computes."""

from __future__ import annotations

import numpy as np
import pytest

from mirage.cost import H200, check_launch
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.check import check_graph
from mirage.semantics.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Builder, KernelGraph, Launch, Loop, TensorType, Value


def tensor(name: str, *shape: int) -> Value:
    return Value(TensorType(shape, DType.F16), name)


def rms_linear(m: int, k: int, n: int) -> KernelGraph:
    x, g, w = tensor("x", m, k), tensor("g", k), tensor("w", k, n)
    b = Builder()
    out = b.matmul(b.rms_norm(x, g), w)
    return KernelGraph("rms_linear", (x, g, w), tuple(b.ops), (out,))


def swiglu(m: int, k: int, n: int) -> KernelGraph:
    x, w1, w2 = tensor("x", m, k), tensor("w1", k, n), tensor("w2", k, n)
    b = Builder()
    out = b.binary(BinaryFn.MUL, b.unary(UnaryFn.SILU, b.matmul(x, w1)), b.matmul(x, w2))
    return KernelGraph("swiglu", (x, w1, w2), tuple(b.ops), (out,))


def lora(m: int, k: int, r: int, n: int) -> KernelGraph:
    x, w, a, c = tensor("x", m, k), tensor("w", k, n), tensor("a", k, r), tensor("b", r, n)
    b = Builder()
    out = b.binary(BinaryFn.ADD, b.matmul(x, w), b.matmul(b.matmul(x, a), c))
    return KernelGraph("lora", (x, w, a, c), tuple(b.ops), (out,))


def attention(h: int, s: int, t: int, d: int) -> KernelGraph:
    q, k, v = tensor("q", h, s, d), tensor("k", h, d, t), tensor("v", h, t, d)
    b = Builder()
    out = b.matmul(b.softmax(b.matmul(q, k), -1), v)
    return KernelGraph("attention", (q, k, v), tuple(b.ops), (out,))


@pytest.mark.parametrize(
    "graph",
    [
        rms_linear(4, 64, 96), swiglu(5, 96, 80), lora(16, 80, 20, 100), attention(2, 20, 100, 24),
    ],
    ids=lambda g: g.name,
)  # fmt: skip
def test_candidates_compute_the_program(graph: KernelGraph) -> None:
    result = superoptimize(graph, H200, SearchLimits(plans=8))
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) for v in graph.inputs]
    (expected,) = evaluate_floats(graph, inputs)
    assert result.candidates
    for candidate in result.candidates:
        check_graph(candidate.graph)
        (got,) = evaluate_floats(candidate.graph, inputs)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


def best(graph: KernelGraph) -> tuple[Launch, ...]:
    launches = tuple(op for op in superoptimize(graph, H200).candidates[0].graph.ops if isinstance(op, Launch))
    for launch in launches:
        check_launch(launch, H200)
    return launches


def test_rms_linear_is_one_kernel_with_one_loop() -> None:
    (launch,) = best(rms_linear(16, 4096, 6144))
    (loop,) = [op for op in launch.body.ops if isinstance(op, Loop)]
    assert len(loop.accumulators) == 2


def test_split_attention_is_two_kernels() -> None:
    first, combine = best(attention(2, 256, 4096, 64))
    assert len(first.results) == 2
    assert not any(isinstance(op, Loop) for op in combine.body.ops)
