"""Functions of scalars and element types as PyTorch has them, for the oracle."""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from mirage.semantics.scalar import DType
from oracle_torch import torch

Tensor = torch.Tensor

_HELD_IN = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32}


def rounded(x: Tensor, dtype: DType) -> Tensor:
    """``x`` as a number of that type, held in f32 (f64: what is wider, and whole numbers)."""
    held = _HELD_IN.get(dtype.value)
    if held is None:
        return x.to(torch.float64)
    if held is torch.float32:
        return x.to(torch.float32)
    return x.to(torch.float32).to(held).to(torch.float32)


def number(value: object) -> float:
    """A constant as the nearest double."""
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
    "keep": lambda p, x: torch.where(p != 0, x, torch.zeros_like(x)),
}
