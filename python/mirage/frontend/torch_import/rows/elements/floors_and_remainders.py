"""Rows of rounding ops and of remainders."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.nearest_whole import nearest_whole
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Value


def sign_of(b: Lowering, x: Value) -> Value:
    """Return 1, 0 or -1; the sign of NaN is 0."""
    over, under = b.combine(BinaryFn.LT, 0, x), b.combine(BinaryFn.LT, x, 0)
    dtype = DType.F64 if x.dtype is DType.F64 else DType.F32
    return b.binary(BinaryFn.SUB, *(b.cast(v, dtype) for v in (over, under)))


def _whole(made: Callable[[Lowering, Value], Value]) -> Row:
    """Return a row for a rounding op, which does not change integers."""

    def row(b: Lowering, c: Call) -> Value:
        x = c.value(0)
        return x if x.dtype.is_integer else b.typed(made(b, wide(b, x)), c.result.dtype)

    return row


def _ceil(b: Lowering, x: Value) -> Value:
    return b.unary(UnaryFn.NEG, b.unary(UnaryFn.FLOOR, b.unary(UnaryFn.NEG, x)))


def truncated(b: Lowering, x: Value) -> Value:
    """Truncate: the floor of the absolute value, with the sign."""
    size = b.unary(UnaryFn.FLOOR, b.unary(UnaryFn.ABS, x))
    below = b.combine(BinaryFn.LT, x, 0.0)
    above = b.binary(BinaryFn.KEEP, b.unary(UnaryFn.NOT, below), size)
    return b.binary(BinaryFn.SUB, above, b.binary(BinaryFn.KEEP, below, size))


def _decimals(b: Lowering, c: Call) -> Value:
    """``op(x, decimals)``."""
    x, digits = c.value(0), c.integer(1)
    if x.dtype.is_integer:
        if digits < 0:
            raise Unsupported("tens of integers")
        return x
    if not digits:
        return b.typed(nearest_whole(b, wide(b, x)), x.dtype)
    fn, back = (BinaryFn.MUL, BinaryFn.DIV) if digits > 0 else (BinaryFn.DIV, BinaryFn.MUL)
    scale = Fraction(10 ** abs(digits))
    whole = nearest_whole(b, b.combine(fn, wide(b, x), scale))
    return b.typed(b.combine(back, whole, scale), x.dtype)


Operand = Value | Number


def _operands(b: Lowering, c: Call) -> tuple[Operand, Operand]:
    """Return both operands in the type of the result; floats are at least f32."""

    def typed(index: int) -> Operand:
        x = c.operand(index)
        if not isinstance(x, Value):
            if c.result.dtype.is_integer and int(x) != x:
                raise Unsupported(f"an integer and {float(x):g}")
            return x
        return b.typed(x, c.result.dtype) if c.result.dtype.is_integer else wide(b, x)

    x, y = typed(0), typed(1)
    if c.result.dtype is DType.I1:
        raise Unsupported("a division of truth values")
    if isinstance(x, Value) and isinstance(y, Value) and x.dtype is not y.dtype:
        x, y = b.typed(x, DType.F64), b.typed(y, DType.F64)
    return x, y


def _negative(b: Lowering, x: Operand) -> Value | bool:
    return b.combine(BinaryFn.LT, x, 0) if isinstance(x, Value) else x < 0


def _remaining(b: Lowering, x: Operand, y: Operand) -> tuple[Value, Value]:
    """Return the remainder of integers if their quotient is rounded down, and where this quotient
    is less than the one rounded towards zero: where the remainder is not zero and the signs differ.
    (Absolute values would not do: the least integer has none.)"""
    rest = b.combine(BinaryFn.REMAINDER, x, y)
    is_divided = b.combine(BinaryFn.NE, rest, 0)
    first, second = _negative(b, x), _negative(b, y)
    if isinstance(first, Value) and isinstance(second, Value):
        return rest, b.binary(BinaryFn.AND, is_divided, b.binary(BinaryFn.XOR, first, second))
    one, fixed = (first, second) if isinstance(first, Value) else (second, first)
    assert isinstance(one, Value)
    differ = b.unary(UnaryFn.NOT, one) if fixed else one
    return rest, b.binary(BinaryFn.AND, is_divided, differ)


def _divided(b: Lowering, c: Call) -> Value:
    """``op(x, y)`` or ``op(x, y, rounding_mode)``."""
    mode = c.arg(2, "floor")
    if mode == "floor":
        x, y = _operands(b, c)
        return b.typed(b.combine(BinaryFn.FLOOR_DIV, x, y), c.result.dtype)
    if mode == "trunc" and c.result.dtype.is_integer:
        x, y = _operands(b, c)
        down = b.combine(BinaryFn.FLOOR_DIV, x, y)
        _, less = _remaining(b, x, y)
        return b.typed(b.binary(BinaryFn.ADD, down, b.cast(less, down.dtype)), c.result.dtype)
    x, y = _operands(b, c)
    quotient = b.combine(BinaryFn.DIV, x, y)
    return b.typed(truncated(b, quotient) if mode == "trunc" else quotient, c.result.dtype)


def _remainder(b: Lowering, c: Call) -> Value:
    """``op(x, y)``, with the sign of ``y``."""
    x, y = _operands(b, c)
    return b.typed(b.combine(BinaryFn.REMAINDER, x, y), c.result.dtype)


def _fmod(b: Lowering, c: Call) -> Value:
    """``op(x, y)``, with the sign of ``x``."""
    x, y = _operands(b, c)
    if c.result.dtype.is_integer:
        rest, less = _remaining(b, x, y)
        divisor = y if isinstance(y, Value) else b.constant(y, rest.dtype)
        off = b.binary(BinaryFn.KEEP, less, divisor)
        return b.typed(b.binary(BinaryFn.SUB, rest, off), c.result.dtype)
    one, other = (b.unary(UnaryFn.ABS, v) if isinstance(v, Value) else abs(v) for v in (x, y))
    size = b.combine(BinaryFn.REMAINDER, one, other)
    if not isinstance(x, Value):
        return b.typed(b.unary(UnaryFn.NEG, size) if x < 0 else size, c.result.dtype)
    below = b.combine(BinaryFn.LT, x, 0)
    above = b.binary(BinaryFn.KEEP, b.unary(UnaryFn.NOT, below), size)
    signed = b.binary(BinaryFn.SUB, above, b.binary(BinaryFn.KEEP, below, size))
    return b.typed(signed, c.result.dtype)


def _whole_number(c: Call) -> int:
    """Return argument 1 as an integer: a number of bits, or a mask."""
    x = c.operand(1)
    if isinstance(x, Value) or not c.value(0).dtype.is_integer or c.result.dtype is DType.I1:
        raise Unsupported("bits that are not those of integers and a fixed number")
    return int(x)


def _shift(*, left: bool) -> Row:
    """``op(x, bits)``: a product with a power of two, or a division by one."""
    fn = BinaryFn.MUL if left else BinaryFn.FLOOR_DIV

    def row(b: Lowering, c: Call) -> Value:
        x, bits = c.value(0), _whole_number(c)
        if not 0 <= bits < x.dtype.bits - 1:
            raise Unsupported(f"a shift of {x.dtype.value} by {bits} bits")
        return b.combine(fn, x, 1 << bits)

    return row


def _low_bits(b: Lowering, c: Call) -> Value:
    """``op(x, mask)`` for a mask of the lowest bits: a remainder."""
    mask = _whole_number(c)
    if mask < 0 or mask & (mask + 1) or mask.bit_length() >= c.value(0).dtype.bits - 1:
        raise Unsupported(f"bits of integers by the mask {mask}")
    return b.combine(BinaryFn.REMAINDER, c.value(0), mask + 1)


ROUNDING: dict[str, Row] = {
    "aten.ceil": _whole(_ceil),
    "aten.round": _whole(nearest_whole),
    "aten.round.decimals": _decimals,
    "aten.trunc": _whole(truncated),
    "aten.div.Tensor_mode": _divided,
    "aten.div.Scalar_mode": _divided,
    "aten.floor_divide": _divided,
    "aten.floor_divide.Scalar": _divided,
    "aten.remainder.Tensor": _remainder,
    "aten.remainder.Scalar": _remainder,
    "aten.remainder.Scalar_Tensor": _remainder,
    "aten.fmod.Tensor": _fmod,
    "aten.fmod.Scalar": _fmod,
    "aten.__lshift__.Scalar": _shift(left=True),
    "aten.__rshift__.Scalar": _shift(left=False),
    "aten.bitwise_left_shift.Tensor_Scalar": _shift(left=True),
    "aten.bitwise_right_shift.Tensor_Scalar": _shift(left=False),
    "aten.bitwise_and.Scalar": _low_bits,
}
"""Torch ops that round, and divide with a remainder."""
