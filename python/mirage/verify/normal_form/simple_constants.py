"""Constants that were computed in floating point, as the numbers that they were computed from.

``1 - 0.9`` is a double whose last digits are those of the subtraction: it is read as ``1/10``, if
both compile to the same number (:mod:`mirage.verify.normal_form.constants` has the argument).
``2.4849066497880004`` may be read as ``log(12)`` in the same way, since an exponential of it is
then a number, and ``1.3498588075760032`` as ``exp(3/10)``, a factor that exponentials have, too.
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
"""The largest product of numerator and denominator of a logarithm's argument."""
_LARGEST_EXPONENT = 40.0

Compiled = Callable[[Number, DType], object]


@dataclass(frozen=True)
class OfSimple:
    """The logarithm or the exponential of a simple number."""

    fn: UnaryFn
    of: Fraction

    def __str__(self) -> str:
        return f"{self.fn.value}({self.of})"


def simple_number(value: Number) -> Fraction | None:
    """Return the simple number from which a double was computed; None if there is none, or if the
    double itself is simple."""
    if not isinstance(value, Fraction) or not value or is_simple(value):
        return None
    found = simplest_near(value, _ULPS * Fraction(math.ulp(nearest(value))))
    return found if found is not None and found != value else None


def with_functions(
    graph: KernelGraph, compiled: Compiled
) -> tuple[KernelGraph, dict[Number, OfSimple]]:
    """Return a program with constants written as logarithms or exponentials of simple numbers, and
    these constants. Each compiles to the same number as the function's value."""
    read: dict[Number, OfSimple] = {}
    return replace(graph, ops=_written(graph.ops, compiled, read)), read


def _written(
    ops: tuple[Op, ...], compiled: Compiled, read: dict[Number, OfSimple]
) -> tuple[Op, ...]:
    result: list[Op] = []
    for op in ops:
        if isinstance(op, Structure):
            op = op.rebuilt(_written(op.inside, compiled, read), lambda v: v)
        number = op.number
        if number is None or op.results[0].shape:
            result.append(op)
            continue
        found = _of_simple(number, op.results[0].dtype, compiled)
        if found is None:
            result.append(op)
            continue
        read[number] = found
        b = Builder()
        value = b.unary(found.fn, b.constant(found.of, op.results[0].dtype))
        result += rename_ops(tuple(b.ops), {value: op.results[0]})
    return tuple(result)


def _of_simple(number: Number, dtype: DType, compiled: Compiled) -> OfSimple | None:
    value = nearest(number)
    if not isinstance(number, Fraction) or is_simple(number):
        return None
    size = _ULPS * Fraction(math.ulp(1.0))
    if 0 < abs(value) < _LARGEST_EXPONENT:
        near = Fraction(math.exp(value))
        off = near * size * max(1, math.ceil(abs(value)))
        argument = _simple_argument(near, off)
        if argument is not None and _is_one(number, math.log(argument), dtype, compiled):
            return OfSimple(UnaryFn.LOG, argument)
    if math.exp(-_LARGEST_EXPONENT) < value < math.exp(_LARGEST_EXPONENT):
        argument = _simple_argument(Fraction(math.log(value)), size)
        if argument is not None and _is_one(number, math.exp(argument), dtype, compiled):
            return OfSimple(UnaryFn.EXP, argument)
    return None


def _simple_argument(near: Fraction, off: Fraction) -> Fraction | None:
    found = simplest_near(near, off)
    small = found is not None and abs(found.numerator) * found.denominator <= _SIMPLE_ARGUMENT
    return found if small else None


def _is_one(number: Number, other: float, dtype: DType, compiled: Compiled) -> bool:
    """Return whether a number and another one, rounded to a double, compile to the same."""
    return {compiled(Fraction(x), dtype) for x in _neighbours(other)} == {compiled(number, dtype)}


def _neighbours(x: float) -> tuple[float, float, float]:
    """Return two doubles that enclose the exact number whose nearest double is about ``x``."""
    return math.nextafter(x, -math.inf), x, math.nextafter(x, math.inf)
