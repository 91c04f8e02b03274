"""Values that may be infinite, which proofs must not treat as numbers."""

from __future__ import annotations

import math

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.normal_form.infinite_values import may_be_infinite

X, Y = (Value(TensorType((4, 8), DType.F32), name) for name in "xy")
M = Value(TensorType((4, 8), DType.I1), "m")


def masked(b: Builder) -> Value:
    return b.binary(BinaryFn.ADD, X, b.unary(UnaryFn.BIAS, b.cast(M, X.dtype)))


def test_what_masks_make_infinite() -> None:
    b = Builder()
    scores = masked(b)
    most = b.reduce(ReduceFn.MAX, scores, (1,))
    start = b.binary(BinaryFn.MAX, b.constant(-math.inf), most)
    opposite = b.unary(UnaryFn.NEG, most)
    infinite = [scores, most, start, opposite, b.unary(UnaryFn.EXP, opposite),
                b.binary(BinaryFn.MUL, scores, Y),
                b.binary(BinaryFn.SUB, scores, start)]  # fmt: skip
    shifted = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, scores, most))
    finite = [shifted, b.reduce(ReduceFn.SUM, shifted, (1,)), b.unary(UnaryFn.TANH, scores),
              b.binary(BinaryFn.LT, scores, Y), b.binary(BinaryFn.MUL, X, Y)]  # fmt: skip
    found = may_be_infinite(KernelGraph("f", (X, Y, M), tuple(b.ops), (scores,)))
    assert found.issuperset(infinite)
    assert found.isdisjoint(finite)


@pytest.mark.parametrize("fn", [UnaryFn.EXP, UnaryFn.SIGMOID])
def test_an_empty_row_is_not_left_out_of_a_proof(fn: UnaryFn) -> None:
    """A function of a maximum, or of zero where the row is empty: equal for all numbers."""

    def program(*, guarded: bool) -> KernelGraph:
        b = Builder()
        most = b.reduce(ReduceFn.MAX, masked(b), (1,))
        if guarded:
            empty = b.binary(BinaryFn.EQ, b.unary(UnaryFn.ABS, most), b.constant(math.inf))
            most = b.binary(BinaryFn.KEEP, b.unary(UnaryFn.NOT, empty), most)
        result = b.binary(BinaryFn.MUL, b.unary(fn, most), Y)
        return KernelGraph("f", (X, Y, M), tuple(b.ops), (result,))

    options = VerifyOptions(seed=1, numerics=False, work=1e5)
    for order in ((False, True), (True, False)):
        first, second = (program(guarded=g) for g in order)
        assert not verify(first, second, options).equivalent
