"""Rows of matrix products and attention."""

from __future__ import annotations

from mirage.frontend.torch_import.rows.lowering import Lowering, Row
from mirage.frontend.torch_import.rows.products.fused_attention import attention
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import Value


def _product(b: Lowering, x: Value, y: Value) -> Value:
    """Multiply as ``torch.matmul`` does: a vector is a row on the left and a column on the
    right."""
    left = b.reshape(x, (1, *x.shape)) if len(x.shape) == 1 else x
    right = b.reshape(y, (*y.shape, 1)) if len(y.shape) == 1 else y
    z = b.product(left, right)
    shape = list(z.shape)
    if len(y.shape) == 1:
        del shape[-1]
    if len(x.shape) == 1:
        del shape[-1 if len(y.shape) == 1 else -2]
    return b.reshaped(z, tuple(shape))


def _matmul(b: Lowering, c: Call) -> Value:
    return _product(b, c.value(0), c.value(1))


def _linear(b: Lowering, c: Call) -> Value:
    y = _product(
        b, c.value(0), b.swapped(c.value(1), -1, -2) if len(c.value(1).shape) > 1 else c.value(1)
    )
    bias = c.optional(2)
    return y if bias is None else b.binary(BinaryFn.ADD, y, bias)


def _addmm(b: Lowering, c: Call) -> Value:
    """``beta * a + alpha * (x @ y)``."""
    a, z = c.value(0), _matmul(b, Call(c.op, c.args[1:3], c.results, c.used))
    beta, alpha = c.number(3, 1.0), c.number(4, 1.0)
    z = z if alpha == 1.0 else b.combine(BinaryFn.MUL, z, alpha)
    if beta == 0.0:
        return z
    return b.binary(BinaryFn.ADD, a if beta == 1.0 else b.combine(BinaryFn.MUL, a, beta), z)


def _scaled_product(b: Lowering, c: Call) -> Value:
    """``op(x, y, scale_x, scale_y, bias, scale_result, out_dtype, use_fast_accum)``: a scale is one
    number for a tensor, or one for each row of ``x`` or column of ``y``. Sums are accumulated at
    least as accurately as requested."""
    x, y = c.value(0), c.value(1)
    if c.optional(5) is not None:
        raise Unsupported("a scale of the result")
    z = b.matmul(x, y)
    for scale, rows in ((c.value(2), (x.shape[0], 1)), (c.value(3), (1, y.shape[1]))):
        if scale.dtype is not DType.F32 or (scale.type.size != 1 and scale.shape != rows):
            raise Unsupported(
                f"scales of {scale.type}: expected one f32, or {rows[0]} x {rows[1]} of them"
            )
        one = b.reshaped(scale, () if scale.type.size == 1 else rows)
        z = b.binary(BinaryFn.MUL, z, one)
    bias = c.optional(4)
    return z if bias is None else b.binary(BinaryFn.ADD, z, b.typed(bias, DType.F32))


CONTRACTION: dict[str, Row] = {
    "aten.mm": _matmul,
    "aten.bmm": _matmul,
    "aten.matmul": _matmul,
    "aten.mv": _matmul,
    "aten.dot": _matmul,
    "aten.linear": _linear,
    "aten.addmm": _addmm,
    "aten._scaled_mm": lambda b, c: b.typed(_scaled_product(b, c), c.result.dtype),
    "aten.baddbmm": _addmm,
    "aten.addmv": _addmm,
    "aten.scaled_dot_product_attention": attention,
}
"""Torch ops that contract dimensions of two tensors."""
