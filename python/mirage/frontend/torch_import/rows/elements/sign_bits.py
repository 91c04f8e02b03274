"""Rows of functions of sign bits, which distinguish the two zeros. The zero of the real numbers has
no sign, so another way to compute a zero may give the other one. Therefore the sign bit of a float
is read only from memory, where nothing changes it, or from a number. Other calls stay with PyTorch.
"""

from __future__ import annotations

import math

from mirage.frontend.torch_import.rows.lowering import Lowering, Row
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Boundary, Elementwise, Value, View


def _copy_sign(b: Lowering, c: Call) -> Value:
    """``op(magnitude, sign)``."""
    dtype = c.result.dtype
    x, sign = b.typed(c.value(0), dtype), c.arg(1)
    if isinstance(sign, int | float):
        x = b.unary(UnaryFn.ABS, x)
        return b.unary(UnaryFn.NEG, x) if math.copysign(1.0, sign) < 0 else x
    sign = c.value(1)
    _check_sign(b, sign)
    return b.binary(BinaryFn.COPYSIGN, x, b.typed(sign, dtype))


def _sign_bit(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    if x.dtype is DType.I1:
        return b.spread(b.constant(0, DType.I1), x.shape)
    if not x.dtype.is_integer:
        _check_sign(b, x)
        x = b.combine(BinaryFn.COPYSIGN, 1.0, x)
    return b.combine(BinaryFn.LT, x, 0)


def _check_sign(b: Lowering, x: Value) -> None:
    """Raise :class:`Unsupported` for floats that the program computes."""
    made = {v: op for op in b.ops for v in op.results}
    op = made.get(x)
    while isinstance(op, View) or (isinstance(op, Elementwise) and op.identity):
        op = made.get(op.operands[0])
    called = isinstance(op, Boundary) and not isinstance(op, Lookup)
    if not (x.dtype.is_integer or op is None or called):
        raise Unsupported("the sign of a zero that the program computes")


SIGN_BITS: dict[str, Row] = {
    "aten.copysign.Tensor": _copy_sign,
    "aten.copysign.Scalar": _copy_sign,
    "aten.signbit": _sign_bit,
}
"""Torch ops that read sign bits."""
