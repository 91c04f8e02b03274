"""Layers of experts: each token is computed by some of them, and their results are added."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.frontend.handles import Tensor
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.semantics.scalar import Array, BinaryFn, DType
from mirage.workloads.native import Native
from mirage.workloads.workload import InputSpec, Workload

if TYPE_CHECKING:
    import torch


def experts() -> Iterator[Workload]:
    """Yield all expert layers: Mixtral's, and those of a model with many small experts."""
    for count, width, inner in ((8, 4096, 14336), (64, 2048, 1024)):
        for top in (2, 8):
            name = f"moe{count}_top{top}"
            if 16 * top < count:  # most experts have no row
                yield grouped_experts(f"{name}_m16", 16, count, top, width, inner, 16)
            else:
                yield routed_experts(f"{name}_m16", 16, count, top, width, inner)
            block = 128 if 1024 * top >= 256 * count else 64  # little of the blocks is padding
            yield grouped_experts(f"{name}_m1024", 1024, count, top, width, inner, block)


def _weights(count: int, width: int, inner: int) -> tuple[InputSpec, ...]:
    up = {"shape": (count, width, inner), "std": float(width) ** -0.5, "weight": True}
    down = {"shape": (count, inner, width), "std": float(inner) ** -0.5, "weight": True}
    return InputSpec("w1", **up), InputSpec("w2", **up), InputSpec("w3", **down)  # type: ignore[arg-type]


def _swiglu(x: Any, w1: Any, w2: Any, w3: Any) -> torch.Tensor:
    import torch

    return (torch.nn.functional.silu(x @ w1) * (x @ w2)) @ w3


def routed_experts(
    name: str, tokens: int, count: int, top: int, width: int, inner: int
) -> Workload:
    """Few tokens: softmax and the largest of the router's scores, the products of all experts,
    which read each weight once, and the results that each token keeps."""

    def build(g: GraphBuilder, x: Tensor, scores: Tensor, *w: Tensor) -> Tensor:
        w1, w2, w3 = w
        p = g.softmax(scores)
        mine, other = g.reshape(p, (tokens, count, 1)), g.reshape(p, (tokens, 1, count))
        number = g.iota(count)
        earlier = g.binary(
            BinaryFn.LT, g.reshape(number, (1, count)), g.reshape(number, (count, 1))
        )
        level = g.binary(BinaryFn.AND, earlier, g.binary(BinaryFn.EQ, mine, other))
        before = g.binary(BinaryFn.OR, g.binary(BinaryFn.LT, mine, other), level)
        rank = g.reshape(g.sum(g.cast(before, "float32"), 2), (tokens, count))
        kept = g.keep(g.cast(g.binary(BinaryFn.LT, rank, float(top)), "float32"), p)
        gates = g.cast(kept / g.sum(kept, 1), x.dtype)
        x = g.reshape(x, (1, tokens, width))
        y = (g.silu(x @ w1) * (x @ w2)) @ w3
        y = y * g.reshape(g.transpose(gates), (count, tokens, 1))
        return g.reshape(g.sum(y, 0), (tokens, width))

    def module(x: torch.Tensor, scores: Any, *w: Any) -> torch.Tensor:
        import torch

        p, chosen = torch.topk(torch.softmax(scores, -1), top)
        p = (p / p.sum(-1, keepdim=True)).to(x.dtype)
        gates = torch.zeros(tokens, count, dtype=x.dtype, device=x.device).scatter(1, chosen, p)
        y = _swiglu(x[None], *w)
        return (y * gates.t()[:, :, None]).sum(0)

    def grouped(x: torch.Tensor, scores: Any, *w: Any) -> torch.Tensor:
        import torch

        p, chosen = torch.topk(torch.softmax(scores, -1), top)
        return _by_groups(x, chosen, (p / p.sum(-1, keepdim=True)).to(x.dtype), *w)

    inputs = (
        InputSpec("x", (tokens, width)),
        InputSpec("scores", (tokens, count), dtype=DType.F32),
        *_weights(count, width, inner),
    )
    text = f"{top} of {count} experts ({width}, {inner}) for each of {tokens} tokens"
    natives = (Native("grouped", grouped, attention=False),)
    family = f"routed_experts {top}"
    return Workload(name, text, inputs, build, module, DType.BF16, natives, family=family)


def _by_groups(x: Any, chosen: Any, gates: Any, w1: Any, w2: Any, w3: Any) -> torch.Tensor:
    """Rows sorted by expert, multiplied with PyTorch's grouped products."""
    import torch

    tokens, top = chosen.shape
    order = torch.argsort(chosen.flatten(), stable=True)
    numbers = torch.arange(w1.shape[0], device=x.device)
    ends = (chosen.flatten()[None, :] <= numbers[:, None]).sum(1).to(torch.int32)
    rows = x[order // top]
    if x.is_cuda:
        product = torch.ops.aten._grouped_mm.default
        h = torch.nn.functional.silu(product(rows, w1, offs=ends)) * product(rows, w2, offs=ends)
        y = product(h, w3, offs=ends)
    else:
        cut = [0, *ends.tolist()]
        y = torch.cat(
            [_swiglu(rows[a:b], w1[e], w2[e], w3[e])
             for e, (a, b) in enumerate(pairwise(cut))]
        )  # fmt: skip
    back = torch.empty_like(y).index_copy(0, order, y).view(tokens, top, -1)
    return (back * gates[:, :, None]).sum(1)


def padded_rows(tokens: int, count: int, top: int, block: int) -> int:
    """Return the number of rows in blocks that can hold each expert's rows, however tokens are
    distributed."""
    every = tokens * top + count * (block - 1)
    return min(every // block, tokens * top) * block


def grouped_experts(
    name: str, tokens: int, count: int, top: int, width: int, inner: int, block: int
) -> Workload:
    """Many tokens: rows in the order of experts, with separate blocks for each expert, as a router
    gives them. The products of a block read the weights of its expert."""
    size = padded_rows(tokens, count, top, block)
    blocks = size // block

    def build(g: GraphBuilder, x: Tensor, rows: Tensor, owner: Tensor, *rest: Tensor) -> Tensor:
        place, gates, w1, w2, w3 = rest
        x = g.reshape(g.gather(x, rows), (blocks, block, width))
        h = g.silu(x @ g.gather(w1, owner)) * (x @ g.gather(w2, owner))
        y = g.reshape(h @ g.gather(w3, owner), (size, width))
        y = g.gather(y, place) * g.reshape(gates, (tokens, top, 1))
        return g.reshape(g.sum(y, 1), (tokens, width))

    def module(x: Any, rows: Any, owner: Any, place: Any, gates: Any, *w: Any) -> torch.Tensor:
        import torch

        y = torch.empty(size, width, dtype=x.dtype, device=x.device)
        blocked = x[rows].view(blocks, block, width)
        for some in range(0, blocks, 8):  # weights of some blocks at a time
            own = owner[some : some + 8]
            part = _swiglu(blocked[some : some + 8], *(m[own] for m in w))
            y[some * block : (some + 8) * block] = part.flatten(0, 1)
        return (y[place] * gates[:, :, None]).sum(1)

    def grouped(x: Any, rows: Any, owner: Any, place: Any, gates: Any, *w: Any) -> torch.Tensor:
        return _by_groups(x, owner[place // block], gates, *w)

    def together(rng: np.random.Generator) -> dict[str, Array]:
        return blocked_routing(rng, tokens, count, top, block)

    inputs = (
        InputSpec("x", (tokens, width)),
        InputSpec("rows", (size,), dtype=DType.I64, below=tokens),
        InputSpec("owner", (blocks,), dtype=DType.I64, below=count),
        InputSpec("place", (tokens, top), dtype=DType.I64, below=size),
        InputSpec("gates", (tokens, top), std=0.1, mean=1.0 / top),
        *_weights(count, width, inner),
    )
    text = f"{top} of {count} experts ({width}, {inner}) for each of {tokens} tokens, in blocks"
    natives = (Native("grouped", grouped, attention=False),)
    family = f"grouped_experts {block}"
    return Workload(
        name, text, inputs, build, module, DType.BF16, natives, together=together, family=family
    )


def blocked_routing(
    rng: np.random.Generator, tokens: int, count: int, top: int, block: int
) -> dict[str, Array]:
    """Random experts: the token of each row of a block, the expert of each block, and the rows of
    each token. Unused rows are token 0, and nothing reads them."""
    chosen = np.argsort(rng.random((tokens, count)), axis=1)[:, :top]
    rows = np.zeros(padded_rows(tokens, count, top, block))
    owner = np.zeros(len(rows) // block)
    place = np.zeros((tokens, top))
    start = 0
    for expert in range(count):
        token, slot = np.nonzero(chosen == expert)
        rows[start : start + len(token)] = token
        place[token, slot] = start + np.arange(len(token))
        end = start + -(-len(token) // block) * block
        owner[start // block : end // block] = expert
        start = end
    return {
        k: v.astype(np.float32) for k, v in (("rows", rows), ("owner", owner), ("place", place))
    }
