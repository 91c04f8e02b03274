"""Maxima of rows that may be empty: where the corresponding finite number may replace one, and
where not."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.shared_inputs.guarded_maxima import with_finite_maxima
from thorough import some_of

X, Y, V = (Value(TensorType((4, 4), DType.F32), name) for name in "xyv")
M = Value(TensorType((4, 4), DType.I1), "m")
OPTIONS = VerifyOptions(seed=1, numerics=False, work=1e5)


class Steps(Builder):
    """Two steps of an online softmax: of masked scores, and of others."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = self.binary(BinaryFn.ADD, X, self.unary(UnaryFn.BIAS, self.cast(M, X.dtype)))
        self.first = self.reduce(ReduceFn.MAX, self.scores, (1,))
        self.second = self.binary(BinaryFn.MAX, self.first, self.reduce(ReduceFn.MAX, Y, (1,)))

    def finite(self, m: Value) -> Value:
        empty = self.binary(BinaryFn.EQ, m, self.constant(-math.inf))
        return self.binary(BinaryFn.KEEP, self.unary(UnaryFn.NOT, empty), m)

    def exp(self, x: Value, y: Value) -> Value:
        return self.unary(UnaryFn.EXP, self.binary(BinaryFn.SUB, x, y))

    def mul(self, x: Value, y: Value) -> Value:
        return self.binary(BinaryFn.MUL, x, y)

    def seen(self) -> Value:
        return self.exp(self.scores, self.finite(self.first))


def program(write: Callable[[Steps, Value], Value], maximum: bool = True) -> KernelGraph:
    """A program with the factor from the first to the second step: from the maximum, or from the
    finite number in its place."""
    b = Steps()
    finite = b.finite(b.first)
    start = b.first if maximum else finite
    result = write(b, b.exp(start, b.finite(b.second)))
    return KernelGraph("f", (X, Y, V, M), tuple(b.ops), (result,))


def total(b: Steps, factor: Value) -> Value:
    return b.mul(b.reduce(ReduceFn.SUM, b.seen(), (1,)), factor)


def values(b: Steps, factor: Value) -> Value:
    half = b.mul(b.seen(), b.constant(0.5))
    return b.mul(b.broadcast(factor, (4, 4)), b.matmul(b.binary(BinaryFn.DIV, half, Y), V))


SAME = (total, values)


def other_values(b: Steps, factor: Value) -> Value:
    return b.mul(V, factor)


def one_more(b: Steps, factor: Value) -> Value:
    more = b.binary(BinaryFn.ADD, b.seen(), b.constant(1.0))
    return b.mul(b.reduce(ReduceFn.SUM, more, (1,)), factor)


def columns(b: Steps, factor: Value) -> Value:
    return b.mul(b.transpose(b.seen(), (1, 0)), factor)


def another_row(b: Steps, factor: Value) -> Value:
    return b.mul(b.seen(), b.transpose(b.broadcast(factor, (4, 4)), (1, 0)))


def sums_of_columns(b: Steps, factor: Value) -> Value:
    return b.mul(b.matmul(V, b.seen()), factor)


def other_scores(b: Steps, factor: Value) -> Value:
    return b.mul(b.exp(Y, b.finite(b.first)), factor)


def itself(b: Steps, factor: Value) -> Value:
    return b.binary(BinaryFn.ADD, total(b, factor), factor)


def its_square(b: Steps, factor: Value) -> Value:
    return b.mul(factor, factor)


def of_the_maximum(b: Steps, factor: Value) -> Value:
    return b.mul(b.exp(b.scores, b.first), factor)


OTHERS = (other_values, one_more, columns, another_row, sums_of_columns, other_scores, itself,
          its_square, of_the_maximum)  # fmt: skip


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    mask = np.array([[1, 1, 1, 1], [0, 0, 0, 0], [0, 1, 0, 0], [0, 0, 0, 0]])
    return [*rng.normal(size=(3, 4, 4)), mask]


@pytest.mark.parametrize("write", SAME)
def test_what_vanishes_may_be_rescaled_by_any_number(write: Callable[..., Value]) -> None:
    graph = program(write)
    found = with_finite_maxima(graph)
    assert found is not graph
    with np.errstate(all="ignore"):
        (x,), (y,) = (evaluate_floats(g, inputs()) for g in (graph, found))
    np.testing.assert_allclose(y, x, rtol=1e-12)
    assert verify(graph, program(write, maximum=False), OPTIONS).equivalent


@pytest.mark.parametrize("write", some_of(OTHERS, every=3))
def test_anything_else_may_not(write: Callable[..., Value]) -> None:
    graph = program(write)
    assert with_finite_maxima(graph) is graph
    if write in (other_values, other_scores, another_row):
        assert not verify(graph, program(write, maximum=False), OPTIONS).equivalent
