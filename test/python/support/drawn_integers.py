"""Integers for tests of exact arithmetic."""

from __future__ import annotations

import torch
from torch import Tensor


def drawn(dtype: torch.dtype, *shape: int, seed: int = 0) -> Tensor:
    """Numbers of a type, half of them near its ends or 0."""
    generator = torch.Generator().manual_seed(seed)
    ends = torch.iinfo(dtype)
    few = torch.tensor([ends.min, ends.min + 1, ends.max, ends.max - 1, 0, 1, -1, 2, -2, 3, 7, -7])
    any_number = torch.randint(ends.min, ends.max, shape, generator=generator)
    near = few[torch.randint(0, len(few), shape, generator=generator)]
    chosen = torch.rand(shape, generator=generator) < 0.5
    return torch.where(chosen, near, any_number).to(dtype)
