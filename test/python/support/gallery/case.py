"""A case of the gallery, and helpers for its builders."""

from __future__ import annotations

import importlib
import math
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

Width = Literal["small", "real"]
WIDTHS: tuple[Width, ...] = ("small", "real")


class MissingPackageError(ImportError):
    """The package of a case's class is not installed."""


@dataclass(frozen=True)
class Layer:
    """A module in evaluation mode with random weights, and inputs for it; all floats of one type
    except where the original mixes types.
    """

    module: nn.Module
    inputs: tuple[Tensor, ...]


Builder = Callable[[Width], Layer]


@dataclass(frozen=True)
class Case:
    """One layer. ``source`` is its class, or the description that it follows; ``fallback`` says
    that some of its ops (convolutions) are meant to stay with PyTorch.
    """

    name: str
    source: str
    dtype: torch.dtype
    builder: Builder
    fallback: bool = False

    def build(self, width: Width) -> Layer:
        """Build the layer, which is the same each time. Raises :class:`MissingPackageError`."""
        before = torch.get_rng_state()
        torch.manual_seed(zlib.crc32(f"{self.name} {width}".encode()))
        try:
            layer = self.builder(width)
            _randomize(layer.module)
        finally:
            torch.set_rng_state(before)
        module = layer.module.to(self.dtype).eval().requires_grad_(False)
        return Layer(module, tuple(x.to(self.dtype) for x in layer.inputs))


class Called(nn.Module):
    """A layer behind a signature of tensors only: ``call(layer, *inputs)``."""

    def __init__(self, layer: nn.Module, call: Callable[..., Any]) -> None:
        super().__init__()
        self.layer = layer
        self.call = call

    def forward(self, *inputs: Tensor) -> Any:
        return self.call(self.layer, *inputs)


def load(path: str) -> Any:
    """Return the object at a dotted path, such as
    ``transformers.models.bert.modeling_bert.BertLayer``."""
    module, _, name = path.rpartition(".")
    try:
        return getattr(importlib.import_module(module), name)
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] != module.partition(".")[0]:
            raise
        raise MissingPackageError(
            f"expected the package {error.name!r} for {path}, which is not installed; "
            "pip install -r requirements/models.txt"
        ) from error


def normal(*shape: int, scale: float = 1.0) -> Tensor:
    """Return normally distributed values."""
    return torch.randn(shape) * scale


def causal_mask(tokens: int) -> Tensor:
    """Return an additive mask ``[1, 1, tokens, tokens]`` with large negative numbers, like
    Transformers' eager masks.
    """
    above = torch.full((tokens, tokens), -1e4).triu(1)
    return above[None, None]


def padding_mask(batch: int, tokens: int, hidden: int) -> Tensor:
    """Return an additive mask ``[batch, 1, tokens, tokens]``: the last ``hidden`` keys of the last
    row are padding.
    """
    mask = torch.zeros(batch, 1, tokens, tokens)
    mask[-1, :, :, tokens - hidden :] = -1e4
    return mask


def rotary(tokens: int, size: int, *, base: float = 10000.0, leading: int = 1) -> list[Tensor]:
    """Return cosines and sines ``[1, tokens, size]`` (without the leading dimension for 0), with
    equal halves.
    """
    angles = _angles(tokens, size, base)
    both = torch.cat((angles, angles), dim=-1)
    both = both[None] if leading else both
    return [both.cos(), both.sin()]


def rotary_interleaved(tokens: int, size: int, *, base: float = 10000.0) -> list[Tensor]:
    """Return cosines and sines ``[tokens, size]``, each repeated twice."""
    angles = _angles(tokens, size, base).repeat_interleave(2, dim=-1)
    return [angles.cos(), angles.sin()]


def _angles(tokens: int, size: int, base: float) -> Tensor:
    steps = torch.arange(0, size, 2) / size
    return torch.arange(tokens)[:, None] * torch.exp(-math.log(base) * steps)


def _randomize(module: nn.Module) -> None:
    """Set gains and biases other than ones and zeros, as after training, and values that the
    constructor leaves uninitialised.
    """
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() <= 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
