"""Comparisons of large integers, part by part."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirage.semantics.bounds.integer_ranges import ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import MAX_POSITIONS, iota
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import External, KernelGraph, TensorType, Value
from mirage.transforms.partition.exact_integers import integers_as_calls
from mirage.transforms.partition.integers_in_parts import PART, compared_in_parts


def compared(fn: BinaryFn, dtype: DType, n: int = 8) -> KernelGraph:
    ids, b = Value(TensorType((n,), dtype)), Builder()
    y = b.binary(fn, b.reshape(ids, (n, 1)), ids)
    return KernelGraph("same", (ids,), tuple(b.ops), (y,))


def in_parts(graph: KernelGraph) -> KernelGraph:
    return compared_in_parts(graph, ranges_of(graph))


@given(
    st.lists(
        st.one_of(
            st.integers(-(2**52), 2**52),  # integers that float64 holds
            st.sampled_from([0, 1, -1, PART, PART + 1, -PART, PART**2, PART**2 + 1, -(PART**2)]),
        ),
        min_size=8, max_size=8,
    ),
    st.sampled_from([BinaryFn.EQ, BinaryFn.NE]),
)  # fmt: skip
def test_parts_say_what_the_integers_say(ids: list[int], fn: BinaryFn) -> None:
    graph = compared(fn, DType.I64)
    other = in_parts(graph)
    check_graph(other)
    assert other.outputs == graph.outputs
    x = np.array(ids, dtype=np.float64)
    (first,), (second,) = (evaluate_floats(g, [x]) for g in (graph, other))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("dtype", [DType.I32, DType.I64])
def test_each_part_is_exact_in_kernels(dtype: DType) -> None:
    graph = in_parts(compared(BinaryFn.EQ, dtype))
    ranges = ranges_of(graph)
    sides = [v for op in graph.ops if op.function is BinaryFn.EQ for v in op.operands]
    assert len(sides) == (4 if dtype is DType.I32 else 6)
    for v in sides:
        assert max(abs(end) for end in ranges[v]) < MAX_POSITIONS
    called = integers_as_calls(compared(BinaryFn.EQ, dtype))
    pairs = [op for op in called.ops if op.function is BinaryFn.EQ]
    assert len(pairs) == len(sides) // 2  # PyTorch computes the parts, and nothing else


def test_what_is_compared_as_it_is() -> None:
    b = Builder()
    ids, more = (Value(TensorType((8,), DType.I64)) for _ in range(2))
    places = iota(b, (8,), 0)
    column = b.reshape(ids, (8, 1))
    results = (
        b.binary(BinaryFn.EQ, column, places),  # one is small
        b.binary(BinaryFn.EQ, ids, more),  # as many pairs as integers
        b.binary(BinaryFn.LE, column, more),  # an order
    )
    graph = KernelGraph("others", (ids, more), tuple(b.ops), results)
    assert in_parts(graph) is graph


def test_kernels_have_numbers_of_their_own() -> None:
    """PyTorch makes the exponent 3 of integers; the kernel, which compares with 3, does not read
    it."""
    b = Builder()
    ids = Value(TensorType((8,), DType.I64))
    three = b.constant(3, DType.I64)
    moved = b.binary(BinaryFn.POW, ids, three)
    large = b.cast(b.binary(BinaryFn.LT, three, ids), DType.F32)
    graph = integers_as_calls(KernelGraph("numbers", (ids,), tuple(b.ops), (moved, large)))
    calls = [op.target for op in graph.ops if isinstance(op, External)]
    assert calls == ["aten.scalar_tensor.default", "aten.pow.Tensor_Tensor"]
    made = {v for op in graph.ops if isinstance(op, External) for v in op.results}
    kernels = [op for op in graph.ops if not isinstance(op, External)]
    assert made.isdisjoint(v for op in kernels for v in op.operands)
