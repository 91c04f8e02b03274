"""What ops give of numbers that are known when a program is imported.

PyTorch writes ``lerp`` with a weight of 0.1 as a choice by whether that is less than a half. Where
all operands are numbers, the result is one; it is computed here if that is exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from mirage.semantics.ops.op import Elementwise, Op, Value
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
    """The number that an op gives of rank-0 numbers; None where they are not all known, or where
    that is no exact number of the result's type."""
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
        # a constant of 16 bits is computed with in f32: what a cast rounds stays a cast
        rounded = float(dtype.round(np.asarray(float(xs[0]))))
        found = xs[0] if dtype is DType.F64 or rounded == xs[0] else None
    else:
        return None
    return found


def kept_for_certain(op: Op, known: Mapping[Value, Fraction]) -> Value | Fraction | None:
    """What is kept where a truth value is known: all of the other operand (where it has the
    result's shape), or nothing; None for other ops."""
    if op.function is not BinaryFn.KEEP or op.operands[0] not in known:
        return None
    if not known[op.operands[0]]:
        return Fraction(0)
    kept = op.operands[1]
    return kept if kept.type == op.result.type else None
