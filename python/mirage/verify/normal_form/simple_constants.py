"""Constants that were computed in floating point, as the numbers that they were computed from.

``1 - 0.9`` is a double whose last digits are those of the subtraction: it is read as ``1/10``, if
both compile to the same number (:mod:`mirage.verify.normal_form.constants` has the argument).
``2.4849066497880004`` may be read as ``log(12)`` in the same way, since an exponential of it is
then a number.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import Number, is_simple, nearest, simplest_near
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.substitute import rename_ops
from mirage.semantics.ugraph import KernelGraph, Op, Structure

_ULPS = 8
"""The distance of a double from the number that it was computed for, in units of its last digit."""
_SIMPLE_ARGUMENT = 1 << 20
"""The most that numerator times denominator of a logarithm's argument may be."""
_LARGEST_EXPONENT = 40.0

Compiled = Callable[[Number, DType], object]


@dataclass(frozen=True)
class Logarithm:
    """The logarithm of a positive number."""

    of: Fraction

    def __str__(self) -> str:
        return f"log({self.of})"


def simple_number(value: Number) -> Fraction | None:
    """Return the simple number that a double was computed for; None if there is none, or if the
    number is simple itself."""
    if not isinstance(value, Fraction) or not value or is_simple(value):
        return None
    found = simplest_near(value, _ULPS * Fraction(math.ulp(nearest(value))))
    return found if found is not None and found != value else None


def with_logarithms(
    graph: KernelGraph, compiled: Compiled
) -> tuple[KernelGraph, dict[Number, Logarithm]]:
    """Return a program with constants written as logarithms of simple numbers, and these constants.
    Each compiles to the same number as the logarithm."""
    read: dict[Number, Logarithm] = {}
    return replace(graph, ops=_written(graph.ops, compiled, read)), read


def _written(
    ops: tuple[Op, ...], compiled: Compiled, read: dict[Number, Logarithm]
) -> tuple[Op, ...]:
    result: list[Op] = []
    for op in ops:
        if isinstance(op, Structure):
            op = op.rebuilt(_written(op.inside, compiled, read), lambda v: v)
        number = op.number
        if number is None or op.results[0].shape:
            result.append(op)
            continue
        log = _logarithm(number, op.results[0].dtype, compiled)
        if log is None:
            result.append(op)
            continue
        read[number] = log
        b = Builder()
        value = b.unary(UnaryFn.LOG, b.constant(log.of, op.results[0].dtype))
        result += rename_ops(tuple(b.ops), {value: op.results[0]})
    return tuple(result)


def _logarithm(number: Number, dtype: DType, compiled: Compiled) -> Logarithm | None:
    value = nearest(number)
    if not isinstance(number, Fraction) or not 0 < abs(value) < _LARGEST_EXPONENT:
        return None
    if is_simple(number):
        return None
    near = Fraction(math.exp(value))
    off = near * _ULPS * Fraction(math.ulp(1.0)) * max(1, math.ceil(abs(value)))
    argument = simplest_near(near, off)
    if argument is None or argument.numerator * argument.denominator > _SIMPLE_ARGUMENT:
        return None
    log = math.log(argument)
    alike = {compiled(Fraction(x), dtype) for x in _neighbours(log)}
    return Logarithm(argument) if alike == {compiled(number, dtype)} else None


def _neighbours(x: float) -> tuple[float, float, float]:
    """Return doubles between which the exact number is whose nearest double is about ``x``."""
    return math.nextafter(x, -math.inf), x, math.nextafter(x, math.inf)
