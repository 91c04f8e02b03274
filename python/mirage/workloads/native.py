"""Programs as their authors would write them for speed: with PyTorch's fused attention, keys in the
layout that it prefers, no repeated keys, and weights in the other order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

Inputs = tuple["torch.Tensor", ...]


def as_they_are(inputs: Inputs) -> Inputs:
    """Return the inputs in their own layout."""
    return inputs


@dataclass(frozen=True)
class Native:
    """A program that computes the same as a workload, mostly with ``scaled_dot_product_attention``.

    ``prepare`` first changes the layout of the workload's inputs, once. ``alone`` says that the
    program consists of attention and nothing else, so that compiling it has nothing to add;
    ``attention`` says that the library has several kernels for it, one of which must be chosen."""

    name: str
    program: Callable[..., Any]
    prepare: Callable[[Inputs], Inputs] = as_they_are
    alone: bool = True
    attention: bool = True


def keys_by_row(inputs: Inputs) -> Inputs:
    """``(q, k, v)`` with K stored as ``(..., keys, d)`` instead of ``(..., d, keys)``."""
    q, k, v = inputs
    return q, k.transpose(-1, -2).contiguous(), v


def attend(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, scale: float, causal: bool = False
) -> torch.Tensor:
    """Attention of ``(heads, rows, d)``; it is ``causal`` if there are as many rows as keys."""
    import torch

    fused = torch.nn.functional.scaled_dot_product_attention
    return fused(q[None], k[None], v[None], is_causal=causal, scale=scale)[0]


def flexible(scale: float, window: int | None) -> Native:
    """FlexAttention (compiled, on a GPU) of ``(heads, rows, d)``, in which each row sees itself and
    the rows before it, or only the last ``window`` of these; empty tiles are left out."""
    made: list[tuple[Any, Any]] = []

    def program(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        import torch
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        def seen(_batch: Any, _head: Any, row: Any, key: Any) -> Any:
            near = key <= row
            return near if window is None else near & (row - key < window)

        if not made:
            rows, keys = q.shape[-2], k.shape[-2]
            mask = create_block_mask(seen, None, None, rows, keys, device=q.device.type)
            compiled = torch.compile(flex_attention, dynamic=False) if q.is_cuda else flex_attention
            made.append((compiled, mask))
        attention, mask = made[0]
        return attention(q[None], k[None], v[None], block_mask=mask, scale=scale)[0]

    return Native("flex", program, attention=False)


def grouped(group: int, scale: float, causal: bool) -> tuple[Native, ...]:
    """Heads ``(batch, heads, rows, d)`` in groups that share keys; the rows are the last ones of a
    sequence. Either the kernel shares the keys, or rows of a group are rows of one head."""

    def shared(q: Any, k: Any, v: Any, m: Any = None) -> torch.Tensor:
        import torch
        from torch.nn.attention.bias import causal_lower_right

        mask = causal_lower_right(q.shape[-2], k.shape[-2]) if causal else m
        fused = torch.nn.functional.scaled_dot_product_attention
        return fused(q, k, v, attn_mask=mask, scale=scale, enable_gqa=True)

    def folded(q: Any, k: Any, v: Any, m: Any = None) -> torch.Tensor:
        import torch

        batch, heads, rows, d = q.shape
        q = q.reshape(batch, heads // group, group * rows, d)
        fused = torch.nn.functional.scaled_dot_product_attention
        mask = m.repeat(group, 1) if causal else m
        return fused(q, k, v, attn_mask=mask, scale=scale).reshape(batch, heads, rows, d)

    return Native("gqa", shared), Native("folded", folded)
