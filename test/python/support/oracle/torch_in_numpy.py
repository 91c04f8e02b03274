"""The few functions of PyTorch that the oracle calls, in NumPy, for machines without PyTorch.

Names and meanings are PyTorch's; ``test_torch_in_numpy.py`` compares them. This module is written
only for the oracle, and shares no code with the verifier, either.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np

float16, float32, float64 = np.dtype(np.float16), np.dtype(np.float32), np.dtype(np.float64)
bfloat16 = np.dtype(ml_dtypes.bfloat16)
int64, bool_ = np.dtype(np.int64), np.dtype(np.bool_)
nan, inf = math.nan, math.inf
Dims = int | Sequence[int] | None

np.seterr(all="ignore")  # PyTorch does not warn about NaN or overflow


class Tensor(np.ndarray):
    """An array with the methods of a tensor that NumPy's arrays do not have, or have in another
    form."""

    def __getitem__(self, index: Any) -> Tensor:  # pyright: ignore
        return _tensor(super().__getitem__(index))  # an array where NumPy has a scalar

    def to(self, dtype: np.dtype[Any]) -> Tensor:
        return self if self.dtype == dtype else _tensor(self.astype(dtype))

    def numpy(self) -> np.ndarray:
        return self.view(np.ndarray)

    def numel(self) -> int:
        return self.size

    def expand(self, *shape: Any) -> Tensor:
        (wanted,) = shape if len(shape) == 1 and not isinstance(shape[0], int) else (shape,)
        return _tensor(np.broadcast_to(self, tuple(wanted)))

    def contiguous(self) -> Tensor:
        return _tensor(np.ascontiguousarray(self)) if self.ndim else self

    def clone(self) -> Tensor:
        return _tensor(self.copy())

    def permute(self, dims: Sequence[int]) -> Tensor:
        return _tensor(self.transpose(tuple(dims)))

    def reshape(self, *shape: Any) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        (wanted,) = shape if len(shape) == 1 and not isinstance(shape[0], int) else (shape,)
        return _tensor(np.reshape(self.numpy(), wanted))

    def sum(self, dims: Dims = None, keepdim: bool = False) -> Tensor:  # pyright: ignore
        return _tensor(np.sum(self.numpy(), _axes(dims), keepdims=keepdim))

    def mean(self, dims: Dims = None, keepdim: bool = False) -> Tensor:  # pyright: ignore
        return _tensor(np.mean(self.numpy(), _axes(dims), keepdims=keepdim))

    def amax(self, dims: Dims = None, keepdim: bool = False) -> Tensor:
        return _tensor(np.max(self.numpy(), _axes(dims), keepdims=keepdim))

    def any(self, dims: Dims = None, keepdim: bool = False) -> Tensor:  # pyright: ignore
        return _tensor(np.any(self.numpy(), _axes(dims), keepdims=keepdim))

    def all(self, dims: Dims = None, keepdim: bool = False) -> Tensor:  # pyright: ignore
        return _tensor(np.all(self.numpy(), _axes(dims), keepdims=keepdim))

    def nonzero(self) -> Tensor:  # pyright: ignore[reportIncompatibleMethodOverride]
        return _tensor(np.argwhere(self.numpy()))

    def clamp(self, min: float) -> Tensor:
        return _tensor(np.maximum(self.numpy(), np.asarray(min, self.dtype)))

    def masked_fill(self, mask: Tensor, value: float) -> Tensor:
        return where(mask, np.asarray(value, self.dtype), self)

    def isfinite(self) -> Tensor:
        return _tensor(np.isfinite(self.numpy()))

    def isnan(self) -> Tensor:
        return _tensor(np.isnan(self.numpy()))

    def abs(self) -> Tensor:
        return _tensor(np.abs(self.numpy()))

    def sqrt(self) -> Tensor:
        return _tensor(np.sqrt(self.numpy()))


def _tensor(x: Any) -> Tensor:
    return np.asarray(x).view(Tensor)


def _axes(dims: Dims) -> int | tuple[int, ...] | None:
    return dims if dims is None or isinstance(dims, int) else tuple(dims)


def _in_numpy(function: Callable[..., Any]) -> Callable[..., Tensor]:
    return lambda *xs: _tensor(function(*(np.asarray(x) for x in xs)))


# ---- made of nothing


def set_num_threads(count: int) -> None:
    """Do nothing: there is one thread, and matrix products follow the environment."""


def from_numpy(x: np.ndarray) -> Tensor:
    return _tensor(x)


def tensor(value: Any, dtype: np.dtype[Any] | None = None) -> Tensor:
    return _tensor(np.array(value, dtype))


def arange(*ends: int, dtype: np.dtype[Any] = int64) -> Tensor:
    return _tensor(np.arange(*ends, dtype=dtype))


def full(shape: Sequence[int], value: float, dtype: np.dtype[Any]) -> Tensor:
    return _tensor(np.full(shape, value, dtype))


def zeros(shape: Sequence[int], dtype: np.dtype[Any]) -> Tensor:
    return _tensor(np.zeros(shape, dtype))


def zeros_like(x: Tensor) -> Tensor:
    return _tensor(np.zeros(x.shape, x.dtype))


def full_like(x: Tensor, value: float) -> Tensor:
    return _tensor(np.full(x.shape, value, x.dtype))


# ---- of several tensors


def cat(xs: Sequence[Tensor], dim: int) -> Tensor:
    return _tensor(np.concatenate([x.numpy() for x in xs], dim))


where = _in_numpy(np.where)
matmul = _in_numpy(np.matmul)
add, sub, mul = (_in_numpy(f) for f in (np.add, np.subtract, np.multiply))
pow, remainder = _in_numpy(np.power), _in_numpy(np.remainder)
copysign = _in_numpy(np.copysign)
maximum, minimum = _in_numpy(np.maximum), _in_numpy(np.minimum)
lt, le, eq, ne = (_in_numpy(f) for f in (np.less, np.less_equal, np.equal, np.not_equal))
logical_and, logical_or = _in_numpy(np.logical_and), _in_numpy(np.logical_or)
logical_xor = _in_numpy(np.logical_xor)


def div(a: Tensor, b: Tensor, rounding_mode: str | None = None) -> Tensor:
    if rounding_mode is None:
        return _tensor(np.true_divide(a.numpy(), b.numpy()))
    return _tensor(np.floor_divide(a.numpy(), b.numpy()))


# ---- of one tensor

neg, abs, exp, log = (_in_numpy(f) for f in (np.negative, np.abs, np.exp, np.log))
log1p = _in_numpy(np.log1p)
sqrt, tanh, floor = (_in_numpy(f) for f in (np.sqrt, np.tanh, np.floor))
sin, cos = _in_numpy(np.sin), _in_numpy(np.cos)
reciprocal = _in_numpy(np.reciprocal)


def rsqrt(x: Tensor) -> Tensor:
    return reciprocal(sqrt(x))


def sigmoid(x: Tensor) -> Tensor:
    return reciprocal(_tensor(1.0 + np.exp(-x)))


def relu(x: Tensor) -> Tensor:
    return x.clamp(min=0.0)


def softmax(x: Tensor, dim: int) -> Tensor:
    e = exp(x - x.amax(dim, keepdim=True))
    return _tensor(e / e.sum(dim, keepdim=True))


_error_function = np.vectorize(math.erf, otypes=[np.float64])


def _gelu(x: Tensor, approximate: str = "none") -> Tensor:
    y = x.numpy()
    if approximate == "tanh":
        inner = math.sqrt(2.0 / math.pi) * (y + 0.044715 * y * y * y)
        return _tensor(0.5 * y * (1.0 + np.tanh(inner)))
    errors = _error_function(y * math.sqrt(0.5)).astype(y.dtype)
    return _tensor(0.5 * y * (1.0 + errors))


def _silu(x: Tensor) -> Tensor:
    return _tensor(x / (1.0 + np.exp(-x)))


nn = SimpleNamespace(functional=SimpleNamespace(gelu=_gelu, silu=_silu))
globals()["bool"] = bool_  # PyTorch's name, which hides Python's
