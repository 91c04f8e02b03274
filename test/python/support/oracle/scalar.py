"""PyTorch's functions of scalars and element types, for the oracle."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

import numpy as np
from mirage.semantics.scalar import DType

from oracle.pytorch import torch

Tensor = torch.Tensor

_HELD_IN = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}

_FEW = 2048
"""The number of elements below which one conversion takes less time than several operations."""


def nearest_half(x: np.ndarray) -> np.ndarray:
    """Return the numbers of f16 nearest to numbers of f32; NumPy would convert them one by one. A
    number plus 1.5 times 2^13 of its power of two has the last digit of f16 as its own last digit,
    including ties to even; numbers below 2^-14 have digits down to 2^-24."""
    with np.errstate(all="ignore"):
        return _nearest_half(x)


def _nearest_half(x: np.ndarray) -> np.ndarray:
    if x.size < _FEW:
        return x.astype(np.float16).astype(np.float32)
    powers = (x.view(np.uint32) & np.uint32(0x7F800000)).view(np.float32)
    large = np.maximum(powers * np.float32(1.5 * 2**13), np.float32(0.75))
    found = np.copysign((np.abs(x) + large) - large, x)
    if not np.abs(found).max(initial=0.0) <= 65504.0:  # infinity and NaN have no digits
        found = np.where(np.abs(found) <= 65504.0, found, np.copysign(np.float32(inf), x))
        found = np.where(np.isfinite(x), found, x)
    return found


def _nearest(digits: int, least: int, most: float) -> Callable[[Tensor], Tensor]:
    """Round to the nearest number of a type that has only a few, by comparing with all of them. Of
    two neighbours, one is even; numbers beyond ``most`` become infinity or NaN, depending on the
    type."""
    small = [m * 2.0 ** (least - digits) for m in range(2**digits)]
    normal = [
        m * 2.0 ** (e - digits)
        for e in range(least, 17)
        for m in range(2**digits, 2 ** (digits + 1))
    ]
    numbers = np.array([x for x in (*small, *normal) if x <= most])

    def nearest(x: Tensor) -> Tensor:
        values = x.to(torch.float64).numpy()
        magnitudes = np.minimum(np.abs(values), numbers[-1])
        above = np.clip(np.searchsorted(numbers, magnitudes), 1, len(numbers) - 1)
        up, down = numbers[above] - magnitudes, magnitudes - numbers[above - 1]
        chosen = np.where((up < down) | ((up == down) & (above % 2 == 0)), above, above - 1)
        found = np.where(np.isnan(values), values, np.copysign(numbers[chosen], values))
        return torch.from_numpy(found)

    return nearest


def _with_infinity(x: Tensor) -> Tensor:
    found = _nearest(2, -14, 65536.0)(x)
    return torch.where(torch.abs(found) > 57344.0, found * inf, found)


EIGHT_BITS: dict[str, Callable[[Tensor], Tensor]] = {
    "f8E4M3FN": _nearest(3, -6, 448.0),
    "f8E5M2": _with_infinity,
}


def rounded(x: Tensor, dtype: DType) -> Tensor:
    """Return ``x`` rounded to that type, held in f32 (in f64 for wider types and whole numbers)."""
    held = _HELD_IN.get(dtype.value)
    if dtype.value in EIGHT_BITS:
        return EIGHT_BITS[dtype.value](x)
    if held is None:
        return x.to(torch.float64)
    if held is torch.float32:
        return x.to(torch.float32)
    if held is torch.float16:
        return torch.from_numpy(nearest_half(x.to(torch.float32).contiguous().numpy()))
    return x.to(torch.float32).to(held).to(torch.float32)


def number(value: object) -> float:
    """Return a constant as the nearest double."""
    try:
        return float(value)  # pyright: ignore[reportArgumentType]
    except OverflowError:
        return inf if value > 0 else -inf  # pyright: ignore[reportOperatorIssue]


def _truth(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *xs: function(*xs).to(xs[0].dtype)


def _logic(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    return lambda *xs: function(*(x != 0 for x in xs)).to(xs[0].dtype)


def _bias(x: Tensor) -> Tensor:
    return torch.zeros_like(x).masked_fill(~(x > 0), -inf)


UNARY: dict[str, Callable[[Tensor], Tensor]] = {
    "neg": torch.neg,
    "abs": torch.abs,
    "exp": torch.exp,
    "log": torch.log,
    "log1p": torch.log1p,
    "sqrt": torch.sqrt,
    "rsqrt": torch.rsqrt,
    "reciprocal": torch.reciprocal,
    "square": lambda x: x * x,
    "sigmoid": torch.sigmoid,
    "silu": torch.nn.functional.silu,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "relu": torch.relu,
    "tanh": torch.tanh,
    "not": _truth(lambda x: x == 0),
    "bias": _bias,
    "floor": torch.floor,
    "sin": torch.sin,
    "cos": torch.cos,
    "round_e4m3": EIGHT_BITS["f8E4M3FN"],
    "round_e5m2": EIGHT_BITS["f8E5M2"],
}

BINARY: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "add": torch.add,
    "sub": torch.sub,
    "mul": torch.mul,
    "div": torch.div,
    "pow": torch.pow,
    "max": torch.maximum,
    "min": torch.minimum,
    "lt": _truth(torch.lt),
    "le": _truth(torch.le),
    "eq": _truth(torch.eq),
    "ne": _truth(torch.ne),
    "and": _logic(torch.logical_and),
    "or": _logic(torch.logical_or),
    "xor": _logic(torch.logical_xor),
    "floor_div": lambda a, b: torch.div(a, b, rounding_mode="floor"),
    "remainder": torch.remainder,
    "copysign": torch.copysign,
    "keep": lambda p, x: torch.where(p != 0, x, torch.zeros_like(x)),
}
