"""Rounding to the nearest whole number, in terms of rounding down."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import Value


def nearest_whole(b: Builder, x: Value) -> Value:
    """Round to the nearest whole number, ties to even. The fraction is exact, except for numbers
    just below zero, which have fraction 1 and become 0 as they should. Infinities, whose fraction
    is NaN, do not change."""

    def number(value: Number) -> Value:
        return b.constant(value, x.dtype.computed)

    floor = b.unary(UnaryFn.FLOOR, x)
    rest = b.binary(BinaryFn.SUB, x, floor)
    halves = b.unary(UnaryFn.FLOOR, b.binary(BinaryFn.MUL, floor, number(0.5)))
    is_odd = b.binary(BinaryFn.LT, b.binary(BinaryFn.MUL, halves, number(2.0)), floor)
    is_half = b.binary(BinaryFn.EQ, rest, number(0.5))
    up = b.binary(BinaryFn.AND, is_half, is_odd)
    up = b.binary(BinaryFn.OR, up, b.binary(BinaryFn.LT, number(0.5), rest))
    return b.binary(BinaryFn.ADD, floor, b.cast(up, x.dtype))
