"""Comparisons of sums with integers of any size, solved for these integers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirage.semantics.bounds.integer_ranges import ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import iota
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import External, KernelGraph, TensorType, Value
from mirage.transforms.partition.exact_integers import integers_as_calls
from mirage.transforms.partition.moved_terms import with_moved_terms
from thorough import some_of

_Sum = Callable[[Builder, Value], Value]
N, PLACES = 3, 40
ADD, SUB, DIV = BinaryFn.ADD, BinaryFn.SUB, BinaryFn.FLOOR_DIV


def number(b: Builder, n: int) -> Value:
    return b.constant(n, DType.I64)


def column(b: Builder, v: Value) -> Value:
    return b.reshape(v, (v.shape[0], 1))


SUMS: dict[str, _Sum] = {
    "more": lambda b, p: b.binary(ADD, number(b, 7), column(b, p)),
    "less": lambda b, p: column(b, b.binary(SUB, p, number(b, 7))),
    "left": lambda b, p: column(b, b.binary(SUB, number(b, 12), p)),
    "blocks": lambda b, p: column(b, b.binary(DIV, p, number(b, 8))),
    "blocks before": lambda b, p: column(
        b, b.binary(SUB, b.binary(DIV, b.binary(ADD, p, number(b, 3)), number(b, 8)), number(b, 1))
    ),
    "several places": lambda b, p: column(
        b, b.binary(ADD, b.slice(p, (0,), (1,)), iota(b, (N,), 0))
    ),
    "blocks of several places": lambda b, p: column(
        b, b.binary(DIV, b.binary(SUB, p, iota(b, (N,), 0)), number(b, 8))
    ),
}
COMPARISONS = [
    (fn, swapped) for fn in (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE)
    for swapped in (False, True)
]  # fmt: skip


def compared(name: str, fn: BinaryFn, swapped: bool, dtype: DType = DType.I64) -> KernelGraph:
    p, b = Value(TensorType((N,), dtype)), Builder()
    sides = SUMS[name](b, p), iota(b, (PLACES,), 0, dtype)
    y = b.binary(fn, *(sides[::-1] if swapped else sides))
    return KernelGraph("compared", (p,), tuple(b.ops), (y,))


@pytest.mark.parametrize("name", some_of(SUMS, every=4))
@given(
    st.lists(
        st.one_of(st.integers(-60, 400), st.integers(-(2**50), 2**50)), min_size=N, max_size=N
    ),
    st.sampled_from(COMPARISONS),
)
def test_solved_comparisons_say_the_same(
    name: str, ps: list[int], comparison: tuple[BinaryFn, bool]
) -> None:
    graph = compared(name, *comparison)
    other = with_moved_terms(graph, ranges_of(graph))
    assert other is not graph
    check_graph(other)
    assert other.outputs == graph.outputs
    x = np.array(ps, dtype=np.float64)
    (first,), (second,) = (evaluate_floats(g, [x]) for g in (graph, other))
    assert np.array_equal(first, second)


@pytest.mark.parametrize("name", SUMS)
def test_no_call_is_left(name: str) -> None:
    for comparison in COMPARISONS:
        called = integers_as_calls(compared(name, *comparison))
        targets = [op.target for op in called.ops if isinstance(op, External)]
        assert all("narrow" in t for t in targets), targets


def test_what_may_leave_its_type_or_the_exact_numbers_stays() -> None:
    p, b = Value(TensorType((N,), DType.I64)), Builder()
    far = b.binary(SUB, column(b, p), number(b, 1 << 24))
    y = b.binary(BinaryFn.LT, far, iota(b, (PLACES,), 0))
    graph = KernelGraph("far", (p,), tuple(b.ops), (y,))
    assert with_moved_terms(graph, ranges_of(graph)) is graph
    p, b = Value(TensorType((N,), DType.I32)), Builder()
    less = b.binary(SUB, column(b, p), b.constant(7, DType.I32))
    y = b.binary(BinaryFn.LT, less, iota(b, (PLACES,), 0, DType.I32))
    graph = KernelGraph("narrow", (p,), tuple(b.ops), (y,))
    assert with_moved_terms(graph, ranges_of(graph)) is graph
