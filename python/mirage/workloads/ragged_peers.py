"""PyTorch's own attention of one token of each of several sequences of different lengths: over
packed rows, over keys that are split, and over keys that a block mask selects.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mirage.workloads.native import Inputs, Native

if TYPE_CHECKING:
    import torch


def _packed(inputs: Inputs) -> Inputs:
    """Return ``(q, k, v, lengths)`` with the keys of all sequences one after the other, in the form
    for kernels for ragged batches, and the places where sequences begin."""
    import torch

    q, k, v, lengths = inputs
    count = lengths.long()
    seen = torch.arange(k.shape[2], device=k.device) < count[:, None]
    k, v = (x.transpose(1, 2)[seen].contiguous() for x in (k, v))
    ends = torch.nn.functional.pad(count.cumsum(0), (1, 0)).to(torch.int32)
    starts = torch.arange(len(q) + 1, dtype=torch.int32, device=q.device)
    return q, k, v, starts, ends, torch.tensor(int(count.max()))


def packed() -> Native:
    """Flash attention of ragged batches, which nested tensors call."""

    def program(q: Any, k: Any, v: Any, starts: Any, ends: Any, longest: Any) -> torch.Tensor:
        import torch

        if not q.is_cuda:
            parts = [
                torch.nn.functional.scaled_dot_product_attention(
                    q[i : i + 1], *(x[a:b].transpose(0, 1)[None] for x in (k, v)), enable_gqa=True
                )
                for i, (a, b) in enumerate(zip(ends.tolist(), ends.tolist()[1:], strict=False))
            ]
            return torch.cat(parts)
        rows = q[:, :, 0]
        y = torch.ops.aten._flash_attention_forward(
            rows, k, v, starts, ends, 1, int(longest), 0.0, False, False, scale=q.shape[-1] ** -0.5
        )[0]
        return y[:, :, None]

    return Native("packed", program, _packed, attention=False)


def folded_lengths(group: int) -> Native:
    """The heads of a group as rows of one head, with a dense mask."""

    def program(q: Any, k: Any, v: Any, lengths: Any) -> torch.Tensor:
        import torch

        batch, heads, _, d = q.shape
        mask = torch.arange(k.shape[2], device=q.device) < lengths[:, None, None, None]
        fused = torch.nn.functional.scaled_dot_product_attention
        y = fused(q.reshape(batch, heads // group, group, d), k, v, attn_mask=mask)
        return y.reshape(q.shape)

    return Native("folded", program)


def flexible_lengths(most: int, page: int) -> Native:
    """FlexAttention, compiled on a GPU: each sequence sees its keys up to its length, which block
    masks select; with a ``page``, the keys are in a pool, and a table selects the pages. Masks are
    made in advance."""
    masks: list[Any] = []
    compiled: list[Any] = []

    def prepare(inputs: Inputs) -> Inputs:
        import torch
        from torch.nn.attention.flex_attention import create_block_mask

        q, k, v, *rows, lengths = inputs
        if page:
            masks.append(_of_pages(rows[0], lengths, page))
            k, v = (x.transpose(0, 1)[None] for x in (k, v))
        else:
            masks.append(
                create_block_mask(
                    lambda b, _h, _i, j: j < lengths[b],
                    len(q),
                    None,
                    1,
                    most,
                    device=q.device.type,
                )
            )
        return q, k, v, torch.tensor(len(masks) - 1)

    def program(q: Any, k: Any, v: Any, number: torch.Tensor) -> torch.Tensor:
        import torch
        from torch.nn.attention.flex_attention import flex_attention

        if not compiled:
            attend = torch.compile(flex_attention, dynamic=False) if q.is_cuda else flex_attention
            compiled.append(attend)
        return compiled[0](q, k, v, block_mask=masks[int(number)], enable_gqa=True)

    return Native("flex", program, prepare, attention=False)


def _of_pages(rows: torch.Tensor, lengths: torch.Tensor, page: int) -> Any:
    """Return a block mask over a pool: blocks are the pages of each sequence up to its length."""
    import torch
    from torch.nn.attention.flex_attention import BlockMask

    batch, most = rows.shape
    table = (rows[:, ::page] // page).to(torch.int32)
    place, owner = torch.empty(2, table.numel(), dtype=torch.int64, device=rows.device)
    place[table.long()] = torch.arange(most // page, device=rows.device)
    owner[table.long()] = torch.arange(batch, device=rows.device)[:, None]
    listed = torch.zeros(batch, 1, 1, table.numel(), dtype=torch.int32, device=rows.device)
    listed[:, 0, 0, : table.shape[1]] = table
    full = (lengths // page).to(torch.int32)
    last = table.gather(1, full.long().clamp(max=table.shape[1] - 1)[:, None])
    part = listed.clone()
    part[:, 0, 0, :1] = last

    def seen(b: Any, _head: Any, _row: Any, key: Any) -> Any:
        near = place[key // page] * page + key % page < lengths[b]
        return near & (owner[key // page] == b)

    mixed = (lengths % page > 0).to(torch.int32)
    return BlockMask.from_kv_blocks(
        mixed[:, None, None], part, full[:, None, None], listed, BLOCK_SIZE=(128, page),
        mask_mod=seen, seq_lengths=(1, rows.numel()), compute_q_blocks=False,
    )  # fmt: skip
