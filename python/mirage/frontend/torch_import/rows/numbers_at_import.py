"""The results of ops on numbers that are known when a program is imported.

PyTorch writes ``lerp`` with a weight of 0.1 as a choice that depends on whether the weight is less
than a half. If all operands are numbers, so is the result; it is computed here if it is exact. The
position of a single token is the number of tokens before it, plus zero: integers plus zero, or
times one, are these integers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from mirage.semantics.ops.kinds import Elementwise
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn

_UNARY: dict[UnaryFn, Callable[[Fraction], Fraction]] = {
    UnaryFn.NEG: lambda x: -x,
    UnaryFn.ABS: abs,
    UnaryFn.SQUARE: lambda x: x * x,
    UnaryFn.NOT: lambda x: Fraction(x == 0),
    UnaryFn.FLOOR: lambda x: Fraction(math.floor(x)),
}
_BINARY: dict[BinaryFn, Callable[[Fraction, Fraction], Fraction]] = {
    BinaryFn.ADD: lambda x, y: x + y,
    BinaryFn.SUB: lambda x, y: x - y,
    BinaryFn.MUL: lambda x, y: x * y,
    BinaryFn.MAX: max,
    BinaryFn.MIN: min,
    BinaryFn.LT: lambda x, y: Fraction(x < y),
    BinaryFn.LE: lambda x, y: Fraction(x <= y),
    BinaryFn.EQ: lambda x, y: Fraction(x == y),
    BinaryFn.NE: lambda x, y: Fraction(x != y),
    BinaryFn.AND: lambda x, y: Fraction(x != 0 and y != 0),
    BinaryFn.OR: lambda x, y: Fraction(x != 0 or y != 0),
}


def exact_number(op: Op, known: Mapping[Value, Fraction]) -> Fraction | None:
    """Return the result of an op on rank-0 numbers; None if they are not all known, or if the
    result is not an exact number of its type."""
    numbers = [known.get(v) for v in op.operands]
    if op.result.shape or None in numbers:
        return None
    xs = [x for x in numbers if x is not None]
    fn, dtype = op.function, op.result.dtype
    if isinstance(fn, UnaryFn) and fn in _UNARY:
        found = _UNARY[fn](xs[0])
    elif isinstance(fn, BinaryFn) and fn in _BINARY:
        found = _BINARY[fn](xs[0], xs[1])
    elif isinstance(op, Elementwise) and op.identity:
        # constants of 16 bits are used in f32: a cast that rounds remains a cast
        rounded = float(dtype.round(np.asarray(float(xs[0]))))
        found = xs[0] if dtype is DType.F64 or rounded == xs[0] else None
    else:
        return None
    return found


_NEUTRAL = {BinaryFn.ADD: (0, 0), BinaryFn.SUB: (None, 0), BinaryFn.MUL: (1, 1),
            BinaryFn.FLOOR_DIV: (None, 1)}  # fmt: skip
"""The number that, as the first or second operand, does not change any integer."""


def unchanged(op: Op, known: Mapping[Value, Fraction]) -> Value | None:
    """Return the operand that an op on integers does not change (its shape may be smaller than the
    result's); None if it may change."""
    if op.function not in _NEUTRAL or not op.result.dtype.is_integer:
        return None
    for x, y, number in zip(op.operands, reversed(op.operands), _NEUTRAL[op.function], strict=True):
        if number is not None and known.get(x) == number and y.dtype is op.result.dtype:
            return y
    return None


def kept_for_certain(op: Op, known: Mapping[Value, Fraction]) -> Value | Fraction | None:
    """Return the result of a mask with a known truth value: the other operand (if it has the
    result's shape), or zero; None for other ops."""
    if op.function is not BinaryFn.KEEP or op.operands[0] not in known:
        return None
    if not known[op.operands[0]]:
        return Fraction(0)
    kept = op.operands[1]
    return kept if kept.type == op.result.type else None
