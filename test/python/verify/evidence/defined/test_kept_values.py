"""Values that are defined only because of a mask say nothing about where a program is defined."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.evidence.defined.kept_values import keeps_from_undefined, without_kept

SHAPE = (6, 12)
X, Y = (Value(TensorType(SHAPE, DType.F32), name) for name in "xy")
M = Value(TensorType(SHAPE, DType.I1), "m")
Form = Callable[[Builder], Value]


def program(form: Form) -> KernelGraph:
    b = Builder()
    result = form(b)
    return KernelGraph("kept", (X, Y, M), tuple(b.ops), (result,))


def nonzero(b: Builder) -> Value:
    return b.binary(BinaryFn.NE, Y, b.constant(0.0))


def kept_quotient(b: Builder) -> Value:
    return b.binary(BinaryFn.KEEP, nonzero(b), b.binary(BinaryFn.DIV, X, Y))


def multiplied_quotient(b: Builder) -> Value:
    quotient = b.binary(BinaryFn.DIV, X, Y)
    return b.binary(BinaryFn.MUL, b.cast(nonzero(b), DType.F32), quotient)


def quotient_of_what_is_kept(b: Builder) -> Value:
    return b.binary(BinaryFn.DIV, b.binary(BinaryFn.KEEP, nonzero(b), X), Y)


def scaled(b: Builder) -> Value:
    return b.binary(BinaryFn.KEEP, M, b.binary(BinaryFn.DIV, X, b.constant(8.0)))


def logarithm_of_rows(b: Builder) -> Value:
    count = b.reduce(ReduceFn.SUM, b.cast(M, DType.F32), (1,))
    any_ = b.binary(BinaryFn.NE, count, b.constant(0.0))
    return b.binary(BinaryFn.KEEP, any_, b.unary(UnaryFn.LOG, X))


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (kept_quotient, True),
        (multiplied_quotient, False),
        (quotient_of_what_is_kept, False),
        (scaled, False),  # a constant is not undefined anywhere
        (logarithm_of_rows, False),  # whether a row is empty is tested separately
    ],
)
def test_masks_that_keep_from_being_undefined(form: Form, expected: bool) -> None:
    graph = program(form)
    assert keeps_from_undefined(graph) == expected
    divides = [op for op in without_kept(graph).ops if op.function is BinaryFn.DIV]
    assert bool(divides) == (form not in (kept_quotient, logarithm_of_rows))
    assert expected or len(without_kept(graph).ops) == len(graph.ops)


@pytest.mark.parametrize("form", [multiplied_quotient, quotient_of_what_is_kept])
def test_a_quotient_that_is_kept_does_not_vouch_for_one_that_is_not(form: Form) -> None:
    verdict = verify(program(kept_quotient), program(form), VerifyOptions(seed=7))
    assert not verdict.accepted
    assert not verdict.equivalent or verdict.defined is False, verdict


def test_a_quotient_that_is_kept_vouches_for_another_one() -> None:
    def in_another_order(b: Builder) -> Value:
        quotient = b.binary(BinaryFn.MUL, b.unary(UnaryFn.RECIPROCAL, Y), X)
        return b.binary(BinaryFn.KEEP, nonzero(b), quotient)

    verdict = verify(program(kept_quotient), program(in_another_order), VerifyOptions(seed=7))
    assert verdict.equivalent
    assert verdict.defined
