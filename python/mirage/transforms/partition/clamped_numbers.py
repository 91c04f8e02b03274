"""Floats that are whole numbers of a small range, unless they are NaN.

``(x / s).round().clamp(-128, 127).to(torch.int8)`` converts whole numbers that i8 has. A NaN stays
NaN until it is converted, and PyTorch does not define the integer that it becomes. So a kernel that
has such a number in a tile may write it as an integer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

import numpy as np

from mirage.semantics.numbers import nearest
from mirage.semantics.scalar import UNARY, BinaryFn, UnaryFn
from mirage.semantics.ugraph import Elementwise, KernelGraph, Movement, Op, Value

Known = tuple[float, float, bool]
"""The ends of a value's range, and whether all of its numbers are whole."""

_UNKNOWN: Known = (-inf, inf, False)
_WHOLE: Known = (-inf, inf, True)
_SUMS = (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL)


def clamped_numbers(graph: KernelGraph) -> dict[Value, Known]:
    """Return what is known of the floats in a graph of tensor ops, unless they are NaN."""
    found: dict[Value, Known] = {}
    for op in graph.ops:
        given = [found.get(v, _UNKNOWN) for v in op.operands]
        found.update((v, _of(op, v, given)) for v in op.results if not v.dtype.is_integer)
    return found


def converts_whole_numbers(op: Op, known: Mapping[Value, Known]) -> bool:
    """Return whether a conversion of floats only converts numbers that its type has."""
    if not (isinstance(op, Elementwise) and op.converts and op.result.dtype.is_number):
        return False
    low, high, whole = known.get(op.operands[0], _UNKNOWN)
    half = 2.0 ** (op.result.dtype.bits - 1)
    return whole and -half <= low and high < half


def _of(op: Op, result: Value, given: Sequence[Known]) -> Known:
    if op.number is not None:
        number = float(nearest(op.number))
        return number, number, number.is_integer()
    fn = op.function
    if fn is UnaryFn.FLOOR:
        return _WHOLE
    if isinstance(op, Elementwise) and op.identity:
        return _rounded(result, given[0]) if not op.operands[0].dtype.is_integer else _integers(op)
    if isinstance(op, Movement) and given:
        lows, highs, wholes = zip(*given, strict=True)
        return min(*lows, 0.0), max(*highs, 0.0), all(wholes)  # elements may be missing
    if fn in (BinaryFn.MAX, BinaryFn.MIN):
        choose = max if fn is BinaryFn.MAX else min
        (a, b, one), (c, d, other) = given
        return choose(a, c), choose(b, d), one and other
    if fn in (UnaryFn.NEG, UnaryFn.ABS) or fn in _SUMS:
        return _WHOLE if all(whole for *_, whole in given) else _UNKNOWN
    if isinstance(fn, UnaryFn) and UNARY[fn].truth:
        return 0.0, 1.0, True
    return _UNKNOWN


def _integers(op: Op) -> Known:
    """Return what is known of integers that became floats; large ones are rounded to whole
    numbers."""
    return (0.0, 1.0, True) if not op.operands[0].dtype.is_number else _WHOLE


def _rounded(result: Value, x: Known) -> Known:
    """Return what is known of numbers that are rounded to a type: whole ones stay whole, and so do
    the ends that the type has."""
    low, high, whole = x
    ends = np.array([low, high])
    held = np.array_equal(result.dtype.round(ends), ends)
    return (low, high, whole) if held else (-inf, inf, whole)
