"""Masks computed from positions, for tensors and for tiles."""

from __future__ import annotations

from collections.abc import Callable

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import TensorType, Value


def value(*shape: int, dtype: DType = DType.F16) -> Value:
    return Value(TensorType(shape, dtype))


Mask = Callable[[Builder, Value, Value], Value]
"""Return the positions of rows (a column) and of columns (a row) in a builder."""


def number(b: Builder, n: int) -> Value:
    return b.constant(n, DType.F32 if b.in_block else DType.I64)


def causal(b: Builder, rows: Value, cols: Value) -> Value:
    return b.binary(BinaryFn.LE, cols, rows)


def window(size: int, shift: int = 0) -> Mask:
    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        moved = b.binary(BinaryFn.ADD, rows, number(b, shift)) if shift else rows
        near = b.binary(BinaryFn.LT, b.binary(BinaryFn.SUB, moved, cols), number(b, size))
        return b.binary(BinaryFn.AND, causal(b, rows, cols), near)

    return mask


def blocks(size: int) -> Mask:
    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        r, c = (b.binary(BinaryFn.FLOOR_DIV, x, number(b, size)) for x in (rows, cols))
        return b.binary(BinaryFn.EQ, r, c)

    return mask


def prefix(length: int) -> Mask:
    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        inside = b.binary(BinaryFn.LT, cols, number(b, length))
        return b.binary(BinaryFn.OR, causal(b, rows, cols), inside)

    return mask


def later(b: Builder, rows: Value, cols: Value) -> Value:
    return b.binary(BinaryFn.LE, rows, cols)


def moved(by: int) -> Mask:
    return lambda b, rows, cols: b.binary(
        BinaryFn.LE, cols, b.binary(BinaryFn.ADD, rows, number(b, by))
    )


def sinks(first: int, size: int) -> Mask:
    """The first ones are always visible."""

    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        near = b.binary(BinaryFn.LT, b.binary(BinaryFn.SUB, rows, cols), number(b, size))
        seen = b.binary(BinaryFn.OR, near, b.binary(BinaryFn.LT, cols, number(b, first)))
        return b.binary(BinaryFn.AND, causal(b, rows, cols), seen)

    return mask


def dilated(step: int) -> Mask:
    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        distance = b.binary(BinaryFn.SUB, rows, cols)
        met = b.binary(
            BinaryFn.EQ, b.binary(BinaryFn.REMAINDER, distance, number(b, step)), number(b, 0)
        )
        return b.binary(BinaryFn.AND, causal(b, rows, cols), met)

    return mask


def block_causal(size: int) -> Mask:
    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        r, c = (b.binary(BinaryFn.FLOOR_DIV, x, number(b, size)) for x in (rows, cols))
        return b.binary(BinaryFn.LE, c, r)

    return mask


def two_sided(size: int) -> Mask:
    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        before = b.binary(BinaryFn.LT, b.binary(BinaryFn.SUB, rows, cols), number(b, size))
        after = b.binary(BinaryFn.LT, b.binary(BinaryFn.SUB, cols, rows), number(b, size))
        return b.binary(BinaryFn.AND, before, after)

    return mask
