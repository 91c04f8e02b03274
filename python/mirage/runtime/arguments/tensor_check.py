"""The checks of every tensor that a caller passes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirage.runtime.errors import (
    ArgumentShapeError,
    ArgumentStrideError,
    ArgumentTypeError,
    GradientError,
)
from mirage.runtime.serialization.manifest import TORCH_NAMES, TensorSpec

if TYPE_CHECKING:
    import torch


class TensorCheck:
    """Compares tensors with a specification; valid tensors cause no allocation. ``what`` names the
    argument in messages, and ``reason`` says why it is required.

    The caller checks the device between the two methods, since the strides of a tensor on another
    device do not matter.
    """

    def __init__(self, spec: TensorSpec, what: str, reason: str = "") -> None:
        import torch

        self.spec = spec
        self.what = what
        self.reason = reason
        self.shape = torch.Size(spec.shape)
        self.strides = spec.strides
        self.dtype = getattr(torch, TORCH_NAMES[spec.dtype])
        self.tensor_type = torch.Tensor
        self.grad_enabled = torch.is_grad_enabled

    def check_kind(self, x: Any) -> None:
        """Raise :class:`ArgumentTypeError` or :class:`ArgumentShapeError` for an invalid tensor."""
        if not isinstance(x, self.tensor_type):
            raise ArgumentTypeError(f"{self.what}: expected a torch.Tensor, got {type(x).__name__}")
        if x.dtype is not self.dtype:
            raise ArgumentTypeError(
                f"{self.what}: expected elements of type {self.dtype}, got {x.dtype}"
            )
        if x.shape != self.shape:
            raise ArgumentShapeError(
                f"{self.what}: expected shape {tuple(self.shape)}{self.reason}, got "
                f"{tuple(x.shape)}"
            )

    def check_layout(self, x: torch.Tensor) -> None:
        """Raise :class:`ArgumentStrideError` or :class:`GradientError` for an invalid tensor."""
        if x.stride() != self.strides:
            self._check_strides(x)
        if x.requires_grad and self.grad_enabled():
            raise GradientError(
                f"{self.what}: expected a tensor that needs no gradient, got one with "
                "requires_grad; call under torch.no_grad() or pass .detach()"
            )

    def _check_strides(self, x: torch.Tensor) -> None:
        """Check the strides, except those of dimensions of size 1."""
        for size, wanted, got in zip(self.shape, self.strides, x.stride(), strict=True):
            if size > 1 and wanted != got:
                hint = "; pass .contiguous()" if _dense(self.spec) else ""
                raise ArgumentStrideError(
                    f"{self.what}: expected strides {self.strides}{self.reason}, got "
                    f"{x.stride()}{hint}"
                )


def _dense(spec: TensorSpec) -> bool:
    step = 1
    for size, stride in zip(reversed(spec.shape), reversed(spec.strides)):
        if size > 1 and stride != step:
            return False
        step *= max(size, 1)
    return True
