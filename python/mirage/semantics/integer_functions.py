"""The meaning of the functions in formulas of exact arithmetic, for integers of 64 bits. These are
the functions of the scalar table that map whole numbers to whole numbers, functions of bits, and
conversions. Results wrap around at the ends of their types.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mirage.semantics.scalar import Array, BinaryFn, DType, UnaryFn

CAST = "cast"


def wrapped(x: Array, dtype: DType) -> Array:
    return x if dtype is DType.I1 else x.astype(dtype.numpy).astype(np.int64)


def _floor_div(a: Array, b: Array) -> Array:
    """Return quotients rounded down; 0 where the divisor is."""
    divisor = np.where((b == 0) | (b == -1), 1, b)
    return np.where(b == 0, 0, np.where(b == -1, np.negative(a), np.floor_divide(a, divisor)))


def _remainder(a: Array, b: Array) -> Array:
    """Return remainders with the sign of the divisor; 0 where that is 0."""
    divisor = np.where((b == 0) | (b == -1), 1, b)
    return np.where((b == 0) | (b == -1), 0, np.mod(a, divisor))


def _truth(function: Callable[..., Array]) -> Callable[..., Array]:
    return lambda *xs: function(*xs).astype(np.int64)


_UNARY: dict[UnaryFn, Callable[[Array], Array]] = {
    UnaryFn.NEG: np.negative,
    UnaryFn.ABS: np.abs,
    UnaryFn.SQUARE: lambda x: x * x,
    UnaryFn.RELU: lambda x: np.maximum(x, 0),
    UnaryFn.NOT: _truth(lambda x: x == 0),
}
_BINARY: dict[BinaryFn, Callable[[Array, Array], Array]] = {
    BinaryFn.ADD: np.add,
    BinaryFn.SUB: np.subtract,
    BinaryFn.MUL: np.multiply,
    BinaryFn.MAX: np.maximum,
    BinaryFn.MIN: np.minimum,
    BinaryFn.LT: _truth(np.less),
    BinaryFn.LE: _truth(np.less_equal),
    BinaryFn.EQ: _truth(np.equal),
    BinaryFn.NE: _truth(np.not_equal),
    BinaryFn.AND: _truth(np.logical_and),
    BinaryFn.OR: _truth(np.logical_or),
    BinaryFn.XOR: _truth(np.logical_xor),
    BinaryFn.FLOOR_DIV: _floor_div,
    BinaryFn.REMAINDER: _remainder,
    BinaryFn.KEEP: lambda p, x: np.where(p != 0, x, 0),
}


def _shift_left(a: Array, b: Array, dtype: DType) -> Array:
    """Shift to the left. The result is 0 for a negative number of bits, or for at least the width
    of the type."""
    beyond = (b < 0) | (b >= dtype.bits)
    return np.where(beyond, 0, np.left_shift(a, np.where(beyond, 0, b)))


def _shift_right(a: Array, b: Array, dtype: DType) -> Array:
    """Shift to the right. Only copies of the sign remain for a negative number of bits, or for at
    least the width of the type."""
    beyond = (b < 0) | (b >= dtype.bits)
    return np.right_shift(a, np.where(beyond, dtype.bits - 1, b))


BITS: dict[str, Callable[[Array, Array, DType], Array]] = {
    "bit_and": lambda a, b, _: np.bitwise_and(a, b),
    "bit_or": lambda a, b, _: np.bitwise_or(a, b),
    "bit_xor": lambda a, b, _: np.bitwise_xor(a, b),
    "shift_left": _shift_left,
    "shift_right": _shift_right,
}
"""The functions of bits, by their names in formulas."""
ARITIES = {
    CAST: 1, **dict.fromkeys(BITS, 2), **{fn.value: 1 for fn in _UNARY},
    **{fn.value: 2 for fn in _BINARY},
}  # fmt: skip
"""The numbers of operands of all functions, by their names."""


def is_exact(fn: object) -> bool:
    """Return whether a scalar function has a meaning for integers of any size."""
    return fn in _UNARY or fn in _BINARY


def picked(dtype: DType, table: Array, *indices: Array) -> Array:
    """Return the elements of a table of a type at indices; 0, or NaN of floats, where one of them
    is outside."""
    outside = 0 if dtype.is_integer else np.nan
    inside = np.asarray(True)
    for index, size in zip(indices, table.shape, strict=True):
        inside = inside & (index >= 0) & (index < size)
    if not table.size:
        return np.full(inside.shape, outside)
    at = (np.where(inside, index, 0).astype(np.int64) for index in indices)
    found = table[tuple(at)]
    return np.where(inside, np.asarray(found, np.int64) if dtype.is_integer else found, outside)


def applied(name: str, args: list[Array], dtype: DType) -> Array:
    if name == CAST:
        found = _truncated(args[0])
        return wrapped(found, dtype) if dtype.is_integer else found
    args = [np.asarray(x, np.int64) for x in args]
    if name in BITS:
        return wrapped(BITS[name](args[0], args[1], dtype), dtype)
    function = _UNARY[UnaryFn(name)] if len(args) == 1 else _BINARY[BinaryFn(name)]
    return wrapped(np.asarray(function(*args), np.int64), dtype)


def _truncated(x: Array) -> Array:
    """Return the integers to which floats are truncated, limited to the range of i64; 0 for NaN.
    Integers do not change."""
    if x.dtype.kind != "f":
        return np.asarray(x, np.int64)
    ends = np.iinfo(np.int64)
    wide = np.trunc(np.nan_to_num(np.asarray(x, np.float64), nan=0.0))
    inside = (wide >= -(2.0**63)) & (wide < 2.0**63)
    found = np.where(inside, wide, 0.0).astype(np.int64)
    return np.where(inside, found, np.where(wide > 0, ends.max, ends.min))
