"""The domain from which inputs are drawn: where a program gives numbers."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.evidence.samples.where_defined import Part, where_defined

OPTIONS = VerifyOptions(seed=5)
ADD, SUB, MUL, DIV = BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.DIV
SQRT, RSQRT, LOG, ABS = UnaryFn.SQRT, UnaryFn.RSQRT, UnaryFn.LOG, UnaryFn.ABS
Write = Callable[[Builder, Value, Value], Value]


def program(*writes: Write) -> KernelGraph:
    """A program of x [8, 16] and v [16]."""
    x, v = graphs.tensor(8, 16, dtype=DType.F32), graphs.tensor(16, dtype=DType.F32)
    b = Builder()
    results = tuple(write(b, x, v) for write in writes)
    return KernelGraph("p", (x, v), tuple(b.ops), results)


def deviation(b: Builder, v: Value) -> Value:
    return b.unary(SQRT, b.binary(ADD, v, b.constant(1e-5)))


def log_of_less(b: Builder, x: Value, v: Value) -> Value:
    """log(1 - x^2), for numbers between -1 and 1."""
    return b.unary(LOG, b.binary(SUB, b.constant(1.0), b.unary(UnaryFn.SQUARE, x)))


PROGRAMS: dict[str, tuple[Write, dict[int, Part]]] = {
    "everywhere": (lambda b, x, v: b.binary(ADD, x, v), {}),
    "a variance": (lambda b, x, v: b.binary(DIV, x, deviation(b, v)), {1: Part.MAGNITUDES}),
    "both": (lambda b, x, v: b.unary(SQRT, b.binary(MUL, x, v)),
             {0: Part.MAGNITUDES, 1: Part.MAGNITUDES}),
    "one above the other": (
        lambda b, x, v: b.unary(LOG, b.binary(SUB, x, v)), {0: Part.ABOVE_ONE, 1: Part.UNIT}),
    "below one": (log_of_less, {0: Part.UNIT}),
    "a share": (
        lambda b, x, v: b.binary(
            ADD, b.unary(LOG, v), b.unary(LOG, b.binary(SUB, b.constant(1.0), v))),
        {1: Part.SHARES}),
    "two kinds": (
        lambda b, x, v: b.binary(ADD, log_of_less(b, x, v), b.unary(LOG, v)),
        {0: Part.UNIT, 1: Part.MAGNITUDES}),
    "nowhere": (lambda b, x, v: b.binary(ADD, b.unary(LOG, b.binary(
        SUB, b.constant(0.0), b.unary(UnaryFn.SQUARE, x))), v), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_few_as_possible(name: str) -> None:
    write, expected = PROGRAMS[name]
    assert where_defined(program(write)).parts == expected


@pytest.mark.parametrize("part", Part)
def test_parts_hold_what_they_say(part: Part) -> None:
    x = part.of(np.random.default_rng(0).standard_normal(1000) * 50.0)
    least, most = {
        Part.ALL: (-np.inf, np.inf), Part.MAGNITUDES: (0.0, np.inf), Part.ABOVE_ONE: (1.0, np.inf),
        Part.UNIT: (-1.0, 1.0), Part.SHARES: (0.0, 1.0),
    }[part]  # fmt: skip
    assert (x >= least).all()
    assert (x <= most).all()
    assert len(np.unique(x)) == 1000


def normalized(eps: float) -> Write:
    def write(b: Builder, x: Value, v: Value) -> Value:
        return b.binary(MUL, x, b.unary(RSQRT, b.binary(ADD, v, b.constant(eps))))

    return write


def test_a_variance_that_is_an_input() -> None:
    reference = program(lambda b, x, v: b.binary(DIV, x, deviation(b, v)))
    verdict = verify(reference, program(normalized(1e-5)), OPTIONS)
    assert verdict.accepted, verdict
    assert "where the reference is defined: input 1 not negative" in str(verdict)


def test_another_epsilon_is_seen() -> None:
    reference = program(lambda b, x, v: b.binary(DIV, x, deviation(b, v)))
    verdict = verify(reference, program(normalized(1e-3)), OPTIONS)
    assert verdict.kind is Kind.REFUTED, verdict


def test_outputs_that_are_defined_everywhere_are_compared_everywhere() -> None:
    """The other output is a logarithm of x: x and its magnitude are the same wherever that is
    defined."""
    log: Write = lambda b, x, v: b.unary(LOG, x)  # noqa: E731
    first = program(log, lambda b, x, v: b.binary(ADD, x, v))
    second = program(log, lambda b, x, v: b.binary(ADD, b.unary(ABS, x), v))
    assert where_defined(first).parts == {0: Part.MAGNITUDES}
    assert verify(first, second, OPTIONS).kind is Kind.REFUTED
