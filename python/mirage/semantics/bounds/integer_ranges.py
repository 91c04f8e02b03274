"""Known ranges of integers.

A float has a range only if it is known to be whole and exact, such as a count or a value selected
among positions. Its conversion to an integer has the same range. Nothing is known of any other
float, not even that it is a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import floor, inf
from typing import TypeAlias

from mirage.semantics.numbers import nearest
from mirage.semantics.ops.op import NamedRows
from mirage.semantics.scalar import BINARY, BinaryFn, CumulateFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Binary,
    Boundary,
    Composite,
    Contraction,
    Cumulate,
    Cumulation,
    Elementwise,
    KernelGraph,
    Movement,
    Op,
    Structure,
    Unary,
    Value,
    View,
    no_rule,
)

Range: TypeAlias = "tuple[float, float]"
"""The least and the largest number that a value may hold."""

_ALL: Range = (-inf, inf)
_TYPES: dict[DType, Range] = {
    DType.I1: (0, 1), DType.I8: (-128, 127), DType.I16: (-(1 << 15), (1 << 15) - 1),
}  # fmt: skip
"""Types whose numbers are all small."""
_EXACT: dict[DType, int] = {
    DType.BF16: 1 << 8, DType.F16: 1 << 11, DType.F32: 1 << 24, DType.F64: 1 << 53,
    DType.F8E4M3: 1 << 4, DType.F8E5M2: 1 << 3,
}  # fmt: skip
"""The limit up to which each float type represents all whole numbers."""


def ranges_of(graph: KernelGraph, given: Mapping[Value, Range] | None = None) -> dict[Value, Range]:
    """Return the known range of each value; ``given`` are the ranges of values that no op
    computes."""
    ranges: dict[Value, Range] = dict(given or {})

    for op in graph.ops:
        for v in op.results:
            ranges[v] = range_of(op, v, [known_range(x, ranges) for x in op.operands])
    for v in graph.inputs:
        ranges[v] = known_range(v, ranges)
    return ranges


def known_range(value: Value, ranges: Mapping[Value, Range]) -> Range:
    """Return one of the ranges, or that of the value's type."""
    return ranges.get(value, _TYPES.get(value.dtype, _ALL))


def may_wrap(op: Op, ranges: Mapping[Value, Range]) -> bool:
    """Return whether a result of an op may exceed the integers of its type, and so wrap around."""
    if not isinstance(op, Elementwise | Contraction | Cumulation) or op.number is not None:
        return False
    xs = [_held(ranges[v], v.dtype) for v in op.operands]
    return any(
        v.dtype.is_integer and ((found := _found(op, v, xs)) is None or not _within(found, v.dtype))
        for v in op.results
    )


def _within(found: Range, dtype: DType) -> bool:
    """Return whether a type has all numbers of a range; unknown ends are those of the widest
    type."""
    limits = _of_bits(dtype)
    return limits[0] <= found[0] and found[1] <= limits[1]


def range_of(op: Op, result: Value, xs: list[Range]) -> Range:
    """Return the known range of the numbers in a result, given those of the operands."""
    limits = _TYPES.get(result.dtype, _ALL)
    if op.number is not None:
        number = nearest(op.number)
        return (number, number) if number == number // 1 else limits
    found = _found(op, result, xs)
    if found is None:
        return limits
    if result.dtype.is_integer:
        kept = _within(found, result.dtype) or _chooses(op)
        return _both(found, limits) if kept else limits
    exact = max(abs(end) for end in found) <= _EXACT[result.dtype]
    return found if exact else _ALL


def _found(op: Op, result: Value, xs: list[Range]) -> Range | None:
    """Return the range that follows from the ranges of the operands, whatever the type holds."""
    match op:
        case _ if op.indices_below is not None:
            return (0, max(op.indices_below - 1, 0))
        case Elementwise(cuts=True):
            half = 1 << (result.dtype.bits - 1)
            return xs[0] if -half <= xs[0][0] and xs[0][1] < half else None
        case View() | Elementwise(identity=True):
            return xs[0]
        case Unary():
            return _unary(op.fn, xs[0])
        case Binary():
            if op.fn in (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER) and result.dtype.is_integer:
                xs = [_both(x, _of_bits(result.dtype)) for x in xs]
            return _truth(op.fn, *xs) if BINARY[op.fn].truth else _binary(op.fn, *xs)
        case Contraction(function=ReduceFn.MAX):
            return xs[0]
        case Contraction(function=ReduceFn.SUM):
            terms = op.operands[0].type.size // max(result.type.size, 1)
            return (terms * xs[0][0], terms * xs[0][1]) if terms else (0, 0)
        case Cumulate(fn=CumulateFn.MAX, exclusive=False):
            return xs[0]
        case Cumulate(fn=CumulateFn.SUM):
            terms = op.operands[0].shape[op.dim]
            return (min(xs[0][0], terms * xs[0][0], 0), max(xs[0][1], terms * xs[0][1], 0))
        case Movement() if op.joined_along is not None:
            return min(low for low, _ in xs), max(high for _, high in xs)
        case Boundary(names_rows=NamedRows() as rows) if rows.hold(*xs[1]):
            return xs[0]
        case Elementwise() | Movement() | Contraction() | Cumulation() | Boundary() | Structure():
            return None
        case Composite():
            return None
        case _:
            no_rule(op, "ranges of integers")
            return None


def _chooses(op: Op) -> bool:
    """Return whether each number of the result is one of the operands' numbers or zero."""
    chosen = (BinaryFn.MIN, BinaryFn.MAX, BinaryFn.KEEP, ReduceFn.MAX, UnaryFn.RELU)
    moved = isinstance(op, View) or op.joined_along is not None
    same = moved or (isinstance(op, Elementwise) and op.identity)
    return same or op.function in chosen


def _of_bits(dtype: DType) -> Range:
    """Return all numbers of an integer type."""
    half = float(1 << (dtype.bits - 1))
    return (-half, half - 1.0) if dtype is not DType.I1 else (0, 1)


def _both(a: Range, b: Range) -> Range:
    """Return ``a`` if it lies within ``b``, and otherwise ``b``: a value that leaves its type wraps
    around, so it may be any number of the type."""
    return a if b[0] <= a[0] and a[1] <= b[1] else b


def _held(x: Range, dtype: DType) -> Range:
    """Return the range of numbers in a type, which ends where the type does; the ends of i64, which
    floats do not hold, are not used."""
    return _both(x, _of_bits(dtype)) if dtype.is_integer and dtype.bits <= 32 else x


def _unary(fn: UnaryFn, x: Range) -> Range:
    match fn:
        case UnaryFn.NEG:
            return (-x[1], -x[0])
        case UnaryFn.ABS:
            return (0.0, max(-x[0], x[1]))
        case UnaryFn.FLOOR:
            return x
        case UnaryFn.RELU:
            return (max(x[0], 0.0), max(x[1], 0.0))
        case UnaryFn.NOT:
            return (float(x == (0, 0)), float(not _is_true(x)))
        case _:
            return _ALL


def _is_true(x: Range) -> bool:
    """Return whether a number is true for any value in its range, that is, not zero."""
    return x[0] > 0 or x[1] < 0


def _truth(fn: BinaryFn, a: Range, b: Range) -> Range:
    """Return the range of a comparison of numbers with known ranges."""
    always = never = False
    match fn:
        case BinaryFn.LT:
            always, never = a[1] < b[0], a[0] >= b[1]
        case BinaryFn.LE:
            always, never = a[1] <= b[0], a[0] > b[1]
        case BinaryFn.EQ | BinaryFn.NE:
            apart, one = a[1] < b[0] or b[1] < a[0], a == b and a[0] == a[1]
            always, never = (one, apart) if fn is BinaryFn.EQ else (apart, one)
        case BinaryFn.AND:
            always, never = _is_true(a) and _is_true(b), (0, 0) in (a, b)
        case BinaryFn.OR:
            always, never = _is_true(a) or _is_true(b), a == b == (0, 0)
        case _:
            pass
    return (float(always), float(not never))


def _binary(fn: BinaryFn, a: Range, b: Range) -> Range:
    ends = [(x, y) for x in a for y in b]
    finite = all(abs(x) < inf for x in (*a, *b))
    match fn:
        case BinaryFn.ADD:
            return (a[0] + b[0], a[1] + b[1])
        case BinaryFn.SUB:
            return (a[0] - b[1], a[1] - b[0])
        case BinaryFn.MUL if finite:
            return (min(x * y for x, y in ends), max(x * y for x, y in ends))
        case BinaryFn.MAX:
            return (max(a[0], b[0]), max(a[1], b[1]))
        case BinaryFn.MIN:
            return (min(a[0], b[0]), min(a[1], b[1]))
        case BinaryFn.KEEP if _is_true(a):
            return b
        case BinaryFn.KEEP if a == (0, 0):
            return (0.0, 0.0)
        case BinaryFn.KEEP:
            return (min(b[0], 0.0), max(b[1], 0.0))
        case BinaryFn.FLOOR_DIV if finite and b[0] > 0:
            return (min(floor(x / y) for x, y in ends), max(floor(x / y) for x, y in ends))
        case BinaryFn.REMAINDER if finite and b[0] > 0:
            return (0.0, b[1] - 1.0)
        case _:
            return _ALL
