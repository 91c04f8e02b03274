"""Exponentials of logarithms, and functions composed of exponentials."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions, verify

OPTIONS = VerifyOptions(seed=5, numerics=False)
Write = Callable[[Builder, Value, Value], Value]
ADD, SUB, MUL, DIV = BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.DIV
EXP, LOG, NEG = UnaryFn.EXP, UnaryFn.LOG, UnaryFn.NEG


def program(write: Write) -> KernelGraph:
    """A program of x and y, where y is made positive by ``e^`` first."""
    x, y = (Value(TensorType((3, 4), DType.F32)) for _ in range(2))
    b = Builder()
    result = write(b, x, y)
    return KernelGraph("p", (x, y), tuple(b.ops), (result,))


def positive(b: Builder, y: Value) -> Value:
    return b.binary(ADD, b.unary(EXP, y), b.constant(1.0))


def tanh(b: Builder, x: Value, factor: float = 2.0) -> Value:
    e = b.unary(EXP, b.binary(MUL, x, b.constant(factor)))
    return b.binary(DIV, b.binary(SUB, e, b.constant(1.0)), b.binary(ADD, e, b.constant(1.0)))


def silu(b: Builder, x: Value, sign: float = -1.0) -> Value:
    e = b.unary(EXP, b.binary(MUL, x, b.constant(sign)))
    return b.binary(DIV, x, b.binary(ADD, e, b.constant(1.0)))


def log_of_two(b: Builder, x: Value, y: Value, *, kept: bool = True, sign: float = -1.0) -> Value:
    """The larger one plus the contribution of the other one."""
    apart = b.binary(SUB, x, y)
    apart = b.binary(BinaryFn.KEEP, b.binary(BinaryFn.NE, x, y), apart) if kept else apart
    small = b.unary(EXP, b.binary(MUL, b.unary(UnaryFn.ABS, apart), b.constant(sign)))
    if sign == -1.0:
        small = b.unary(EXP, b.unary(NEG, b.unary(UnaryFn.ABS, apart)))
    return b.binary(ADD, b.binary(BinaryFn.MAX, y, x), b.unary(UnaryFn.LOG1P, small))


def log_of_sum(b: Builder, x: Value, y: Value) -> Value:
    return b.unary(LOG, b.binary(ADD, b.unary(EXP, x), b.unary(EXP, y)))


def joined(b: Builder, x: Value, y: Value) -> Value:
    """The first two columns of one and the others of the other."""
    return b.concat((b.slice(x, (0, 0), (3, 2)), b.slice(y, (0, 2), (3, 2))), 1)


PAIRS: dict[str, tuple[Write, Write, Write]] = {
    "of a logarithm": (
        lambda b, x, y: b.unary(EXP, b.binary(ADD, x, b.unary(LOG, positive(b, y)))),
        lambda b, x, y: b.binary(MUL, b.unary(EXP, x), positive(b, y)),
        lambda b, x, y: b.binary(ADD, b.unary(EXP, x), positive(b, y)),
    ),
    "less a logarithm": (
        lambda b, x, y: b.unary(EXP, b.binary(SUB, x, b.unary(LOG, positive(b, y)))),
        lambda b, x, y: b.binary(DIV, b.unary(EXP, x), positive(b, y)),
        lambda b, x, y: b.binary(MUL, b.unary(EXP, x), positive(b, y)),
    ),
    "from a logarithm": (
        lambda b, x, y: b.unary(EXP, b.binary(SUB, b.unary(LOG, positive(b, y)), x)),
        lambda b, x, y: b.binary(DIV, positive(b, y), b.unary(EXP, x)),
        lambda b, x, y: b.binary(MUL, positive(b, y), b.unary(EXP, x)),
    ),
    "of logarithms that are joined": (
        lambda b, x, y: b.unary(EXP, b.binary(SUB, x, joined(b, b.unary(LOG, positive(b, y)), y))),
        lambda b, x, y: b.binary(
            MUL,
            b.unary(EXP, x),
            joined(b, b.unary(UnaryFn.RECIPROCAL, positive(b, y)), b.unary(EXP, b.unary(NEG, y))),
        ),
        lambda b, x, y: b.binary(
            MUL,
            b.unary(EXP, x),
            joined(b, b.unary(EXP, b.unary(NEG, y)), b.unary(UnaryFn.RECIPROCAL, positive(b, y))),
        ),
    ),
    "of a negative logarithm": (
        lambda b, x, y: b.unary(EXP, b.unary(NEG, b.unary(LOG, positive(b, y)))),
        lambda b, x, y: b.unary(UnaryFn.RECIPROCAL, positive(b, y)),
        lambda b, x, y: positive(b, y),
    ),
    "tanh": (lambda b, x, y: b.unary(UnaryFn.TANH, x), lambda b, x, y: tanh(b, x),
             lambda b, x, y: tanh(b, x, 1.0)),
    "silu": (lambda b, x, y: b.unary(UnaryFn.SILU, x), lambda b, x, y: silu(b, x),
             lambda b, x, y: silu(b, x, 1.0)),
    "of what is added to one": (
        lambda b, x, y: b.unary(EXP, b.unary(UnaryFn.LOG1P, positive(b, y))),
        lambda b, x, y: b.binary(ADD, positive(b, y), b.constant(1.0)),
        lambda b, x, y: b.binary(ADD, positive(b, y), b.constant(2.0)),
    ),
    "added to one": (
        lambda b, x, y: b.unary(UnaryFn.LOG1P, x),
        lambda b, x, y: b.unary(LOG, b.binary(ADD, b.constant(1.0), x)),
        lambda b, x, y: b.unary(LOG, x),
    ),
    "the logarithm of two": (
        log_of_two,
        log_of_sum,
        lambda b, x, y: log_of_two(b, x, b.unary(NEG, y)),
    ),
    "the logarithm of two, as they are": (
        lambda b, x, y: log_of_two(b, x, y, kept=False),
        log_of_sum,
        lambda b, x, y: log_of_two(b, x, y, sign=-2.0),
    ),
    "a magnitude": (
        lambda b, x, y: b.unary(UnaryFn.ABS, x),
        lambda b, x, y: b.binary(BinaryFn.MAX, b.unary(NEG, x), x),
        lambda b, x, y: b.binary(BinaryFn.MAX, b.constant(0.0), x),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PAIRS)
def test_the_rule_holds_and_another_one_does_not(name: str) -> None:
    first, second, wrong = (program(write) for write in PAIRS[name])
    verdict = verify(first, second, OPTIONS)
    assert verdict.equivalent, verdict
    assert verdict.defined
    assert not verify(first, wrong, OPTIONS).equivalent
    assert not verify(wrong, second, OPTIONS).equivalent


def test_a_whole_power_is_defined_everywhere_and_a_variable_one_is_not() -> None:
    cube = program(lambda b, x, y: b.binary(MUL, b.binary(MUL, x, x), x))
    power = program(lambda b, x, y: b.binary(BinaryFn.POW, x, b.constant(3.0)))
    assert verify(cube, power, OPTIONS).defined
    back = program(lambda b, x, y: b.binary(MUL, inverse_of(b, x), b.binary(MUL, x, x)))
    verdict = verify(program(lambda b, x, y: b.binary(ADD, x, b.constant(0.0))), back, OPTIONS)
    assert verdict.equivalent
    assert verdict.defined is False


def inverse_of(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.POW, x, b.constant(-1.0))
