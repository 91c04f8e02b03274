"""Floors in proofs case by case: what holds for nearly all numbers is not proved."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.evidence.proofs.proof_by_cases import prove_by_cases

X, Y = (Value(TensorType((3,), DType.F32), name) for name in "xy")
Term = Callable[[Builder], Value]


def program(write: Term) -> KernelGraph:
    b = Builder()
    result = write(b)
    return KernelGraph("f", (X, Y), tuple(b.ops), (result,))


def proved(first: Term, second: Term) -> bool:
    return prove_by_cases(program(first), program(second), {}).holds is True


def floor(x: Term) -> Term:
    return lambda b: b.unary(UnaryFn.FLOOR, x(b))


def plus(x: Term, number: float) -> Term:
    return lambda b: b.binary(BinaryFn.ADD, x(b), b.constant(number))


def times(x: Term, number: float) -> Term:
    return lambda b: b.binary(BinaryFn.MUL, x(b), b.constant(number))


def both(fn: BinaryFn, x: Term, y: Term) -> Term:
    return lambda b: b.binary(fn, x(b), y(b))


def x(b: Builder) -> Value:
    return X


def y(b: Builder) -> Value:
    return Y


UP = times(floor(times(x, -1.0)), -1.0)
OVER = both(BinaryFn.SUB, x, floor(x))
EQUAL = [
    (floor(plus(x, 2.5)), plus(floor(plus(x, 0.5)), 2.0)),
    (floor(floor(x)), floor(x)),
    (floor(OVER), times(x, 0.0)),
    (floor(both(BinaryFn.ADD, floor(y), x)), both(BinaryFn.ADD, floor(x), floor(y))),
    (both(BinaryFn.MAX, UP, floor(x)), UP),
    (both(BinaryFn.MAX, OVER, plus(times(x, 0.0), 1.0)), plus(times(x, 0.0), 1.0)),
]
DIFFERENT = [
    (UP, plus(floor(x), 1.0)),
    (UP, floor(x)),
    (floor(times(x, 2.0)), times(floor(x), 2.0)),
    (floor(both(BinaryFn.ADD, x, y)), both(BinaryFn.ADD, floor(x), floor(y))),
    (floor(plus(x, 0.5)), floor(x)),
    (floor(times(floor(x), 0.5)), times(floor(x), 0.5)),
    (both(BinaryFn.MAX, OVER, plus(times(x, 0.0), 0.5)), plus(times(x, 0.0), 0.5)),
    (both(BinaryFn.MIN, UP, floor(x)), UP),
]


@pytest.mark.parametrize("pair", EQUAL)
def test_whole_parts_are_known(pair: tuple[Term, Term]) -> None:
    assert proved(*pair)


@pytest.mark.parametrize("pair", DIFFERENT)
def test_nearly_equal_ones_are_not(pair: tuple[Term, Term]) -> None:
    assert not proved(*pair)
    assert not proved(*pair[::-1])
