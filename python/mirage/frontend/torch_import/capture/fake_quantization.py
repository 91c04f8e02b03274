"""Fake quantization in ops that have rows: numbers are rounded like numbers stored in few bits, but
remain floats. PyTorch has no decompositions of these ops.

The quotient by the scale is a product with its reciprocal, and is rounded before the zero point is
added, as PyTorch does it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

Tensor = torch.Tensor


def by_tensor(
    x: Tensor, scale: float, zero_point: int, least: int, most: int
) -> tuple[Tensor, Tensor]:
    """``aten.fake_quantize_per_tensor_affine_cachemask``: the stored numbers as floats, and where
    nothing was clamped."""
    return _quantized(x, 1.0 / scale, scale, zero_point, least, most)


def by_tensors(
    x: Tensor, scale: Tensor, zero_point: Tensor, enabled: Tensor, least: int, most: int
) -> tuple[Tensor, Tensor]:
    """Fake quantization with a scale and a zero point that are tensors of one element; another
    tensor says whether anything is rounded."""
    found, inside = _quantized(x, scale.reciprocal(), scale, zero_point, least, most)
    is_on = enabled != 0
    return torch.where(is_on, found, x), torch.where(is_on, inside, True)


def by_channel(
    x: Tensor, scale: Tensor, zero_point: Tensor, axis: int, least: int, most: int
) -> tuple[Tensor, Tensor]:
    """``aten.fake_quantize_per_channel_affine_cachemask``: each index of a dimension has a scale
    and a zero point."""
    shape = [-1 if d == axis % x.dim() else 1 for d in range(x.dim())]
    scale, zero_point = scale.reshape(shape), zero_point.reshape(shape)
    return _quantized(x, scale.reciprocal(), scale, zero_point, least, most)


def _quantized(
    x: Tensor, inverse: Tensor | float, scale: Tensor | float, zero: Tensor | int, *ends: int
) -> tuple[Tensor, Tensor]:
    least, most = ends
    stored = torch.round(x.float() * inverse) + zero
    clamped = stored.clamp(least, most)
    return ((clamped - zero) * scale).to(x.dtype), (stored >= least) & (stored <= most)


FAKE_QUANTIZATION: dict[Any, Callable[..., Any]] = {
    torch.ops.aten.fake_quantize_per_tensor_affine_cachemask.default: by_tensor,
    torch.ops.aten.fake_quantize_per_channel_affine_cachemask.default: by_channel,
    torch.ops.aten._fake_quantize_per_tensor_affine_cachemask_tensor_qparams.default: by_tensors,
}
"""The decompositions by their ops."""
