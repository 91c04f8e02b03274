"""Tensors computed at import that can be written as a formula: one number everywhere, positions
along a dimension, or a repetition of these. Kernels compute them instead of reading them.
"""

from __future__ import annotations

from fractions import Fraction

import torch

from mirage.frontend.torch_import.rows.lowering import Lowering
from mirage.semantics.numbers import as_number
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.positions import MAX_POSITIONS, iota
from mirage.semantics.scalar import BinaryFn, DType

_LEAST = 2
"""The fewest positions for which a formula is worthwhile."""


def as_formula(b: Lowering, data: torch.Tensor, result: TensorType) -> Value | None:
    """Return the ops that give ``data`` (which may be repeated by strides of 0); None if it is not
    a formula."""
    if not data.numel():
        return None
    narrow = data
    for dim, (size, stride) in enumerate(zip(data.shape, data.stride(), strict=True)):
        if size > 1 and stride == 0:
            narrow = narrow.narrow(dim, 0, 1)
    found = _uniform(b, narrow, result) or _positions(b, narrow, result.dtype)
    if found is None:
        return None
    return found if found.shape == result.shape else b.broadcast(found, result.shape)


def _uniform(b: Lowering, data: torch.Tensor, result: TensorType) -> Value | None:
    first = data.reshape(-1)[0]
    if not bool((data == first).all()):  # not a number is equal to nothing
        return None
    number = float(first)
    exact = Fraction(number) if torch.isfinite(first) else number
    return b.filled(as_number(exact), result)


def _positions(b: Lowering, data: torch.Tensor, dtype: DType) -> Value | None:
    long = [d for d, n in enumerate(data.shape) if n > 1]
    if len(long) != 1 or dtype not in (DType.I32, DType.I64):
        return None
    size = data.shape[long[0]]
    line = data.reshape(-1)
    start, step = int(line[0]), int(line[1] - line[0])
    expected = torch.arange(size, dtype=line.dtype, device=line.device) * step + start
    if size < _LEAST or size > MAX_POSITIONS or not torch.equal(line, expected):
        return None
    value = iota(b, (size,), 0, dtype)
    if step != 1:
        value = b.combine(BinaryFn.MUL, value, as_number(step))
    if start:
        value = b.combine(BinaryFn.ADD, value, as_number(start))
    return b.reshaped(value, tuple(data.shape))
