"""PyTorch's functions for the oracle; if PyTorch is not installed, the same functions in NumPy."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
else:
    try:
        import torch
    except ModuleNotFoundError:
        from oracle import torch_in_numpy as torch

__all__ = ["torch"]
