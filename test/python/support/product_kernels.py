"""Products by warpgroups, as launches in tiles set by hand."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    Launch,
    Output,
    Schedule,
    TensorType,
    Value,
)


def product_kernel(
    m: int, n: int, k: int, tile: tuple[int, int, int], stages: int, warps: int
) -> Launch:
    """``x @ w.T`` of warpgroups, in tiles of (rows, columns, depth)."""
    tm, tn, tk = tile
    x, w = Value(TensorType((m, k), DType.F16)), Value(TensorType((n, k), DType.F16))
    b = Builder(in_block=True)
    left = b.load(x, (("m",), ("k",)), (tm, tk))
    right = b.transpose(b.load(w, (("n",), ("k",)), (tn, tk)), (1, 0))
    total = Accumulator(AccumulateFn.SUM, b.matmul(left, right))
    body = Builder(in_block=True)
    (result,) = body.loop(Axis("k", -(-k // tk)), tuple(b.ops), (total,))
    graph = BlockGraph((x, w), tuple(body.ops), (Output(result, (("m",), ("n",))),))
    grid = (Axis("m", -(-m // tm)), Axis("n", -(-n // tn)))
    out = Value(TensorType((m, n), DType.F16))
    return Launch((x, w), (out,), grid, graph, Schedule(warps, stages, True))
