"""Decoding steps of a model whose cache grows with each of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor


def grown(
    model: Callable[..., Any],
    steps: int,
    caches: Sequence[Tensor],
    width: int,
    masks: Callable[[int], tuple[Tensor | None, ...]] = lambda length: (),
) -> list[Tensor]:
    """Return the results of ``model(x, keys, values, *mask)`` for two tokens of ``width`` in each
    step, and the last keys and values; ``masks`` are those for a length."""
    generator = torch.Generator().manual_seed(1)
    keys, values = caches
    start = keys.shape[-2]
    found: list[Tensor] = []
    with torch.no_grad():
        for n in range(steps):
            x = torch.randn(2, 1, width, generator=generator)
            y, keys, values = model(x, keys, values, *masks(start + n + 1))
            found.append(y)
    return [*found, keys, values]


def same(got: list[Tensor], want: list[Tensor]) -> None:
    """Check that tensors are about the same, and have the same strides."""
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)
        assert a.stride() == b.stride()
