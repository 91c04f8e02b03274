"""Tensors of types that kernels do not support, carried by tensors of types that they support.

A complex tensor is carried by the pairs of its real and imaginary parts, as ``view_as_real`` gives
them, so that kernels may compute with it. Unsigned integers and floats of 8 bits with unsigned
zeros are carried by the same bits as signed integers: only calls of PyTorch read those, in their
own type. Nothing is copied.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Carrier:
    """The element type (by its short name) that carries another; with ``pairs``, there is a last
    dimension of two."""

    dtype: str
    pairs: bool = False

    def shape(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the shape of the carrier of a tensor of a ``shape``."""
        return (*shape, 2) if self.pairs else shape


CARRIERS = {
    "complex32": Carrier("f16", pairs=True),
    "complex64": Carrier("f32", pairs=True),
    "complex128": Carrier("f64", pairs=True),
    "uint8": Carrier("i8"),
    "uint16": Carrier("i16"),
    "uint32": Carrier("i32"),
    "uint64": Carrier("i64"),
    **{f"float8_{kind}": Carrier("i8") for kind in ("e4m3fnuz", "e5m2fnuz")},
}
"""The carriers, by PyTorch's names of the carried types."""
_BITS = {"i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64"}


def carried(x: torch.Tensor) -> torch.Tensor:
    """Return the carrier of a tensor: the tensor itself if kernels have its type."""
    import torch

    carrier = CARRIERS.get(name_of(x))
    if carrier is None:
        return x
    if carrier.pairs:
        return torch.view_as_real(x.resolve_conj().resolve_neg())
    return x.view(getattr(torch, _BITS[carrier.dtype]))


def seen_as(x: torch.Tensor, name: str) -> torch.Tensor:
    """Return the tensor of the type ``name`` that ``x`` carries."""
    import torch

    dtype: torch.dtype = getattr(torch, name)
    if not dtype.is_complex:
        return x.view(dtype)
    even = not any(s % 2 for s in (*x.stride()[:-1], x.storage_offset()))
    return torch.view_as_complex(x if even and x.stride(-1) == 1 else x.contiguous())


def name_of(x: torch.Tensor) -> str:
    """Return PyTorch's name of a tensor's element type."""
    return str(x.dtype).removeprefix("torch.")
