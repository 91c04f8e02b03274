"""Rows that a program averages are equal in some situations."""

from __future__ import annotations

import numpy as np
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.evidence.roundings.activations import Activations
from mirage.verify.evidence.roundings.averaged_rows import averaged_inputs
from mirage.verify.evidence.roundings.kinds_of_situations import averaged
from mirage.verify.evidence.samples.sampled_outputs import choose_sample


def _attention() -> KernelGraph:
    shapes = ((4, 8), (8, 32), (32, 8))
    q, k, v = (Value(TensorType(s, DType.F16)) for s in shapes)
    b = Builder()
    e = b.unary(UnaryFn.EXP, b.cast(b.matmul(q, k), DType.F32))
    p = b.cast(b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,))), DType.F16)
    out = b.matmul(p, v)
    return KernelGraph("attention", (q, k, v), tuple(b.ops), (out,))


def test_values_of_an_attention_are_averaged_and_weights_are_not() -> None:
    assert averaged_inputs(_attention(), {}) == {2}
    x, w = (Value(TensorType((8, 8), DType.F16)) for _ in range(2))
    b = Builder()
    out = b.matmul(b.unary(UnaryFn.TANH, x), w)
    linear = KernelGraph("linear", (x, w), tuple(b.ops), (out,))
    assert averaged_inputs(linear, {}) == set()


def test_counts_of_cells_are_not_negative() -> None:
    x, counts, v = (Value(TensorType(s, DType.F32)) for s in ((4, 8), (8,), (8, 4)))
    b = Builder()
    out = b.matmul(b.binary(BinaryFn.MUL, b.unary(UnaryFn.EXP, x), counts), v)
    graph = KernelGraph("cells", (x, counts, v), tuple(b.ops), (out,))
    assert averaged_inputs(graph, {1: np.ones(8)}) == {2}
    assert averaged_inputs(graph, {1: -np.ones(8)}) == set()


def test_all_elements_are_equal_and_weights_are_drawn_again() -> None:
    graph = _attention()
    sample = choose_sample([graph], 1e6, np.random.default_rng(0))
    found = [s for s in averaged(Activations(graph, sample, 0)) if s is not None]
    assert len(found) == 4
    queries = [s.inputs[0].planes[0] for s in found]
    assert all(len(np.unique(s.inputs[2].planes[0])) == 1 for s in found)
    assert not any(np.array_equal(queries[0], q) for q in queries[1:])
