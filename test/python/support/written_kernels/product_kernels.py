"""Products by warpgroups, as launches whose tiles are set by hand."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType
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
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int, int],
    stages: int,
    warps: int,
    *,
    residual: bool = False,
    resident: int = 0,
) -> Launch:
    """``x @ w.T`` by warpgroups, in tiles of (rows, columns, depth); ``residual``: a tensor like
    the result is added."""
    tm, tn, tk = tile
    x, w = Value(TensorType((m, k), DType.F16)), Value(TensorType((n, k), DType.F16))
    b = Builder(in_block=True)
    left = b.load(x, (("m",), ("k",)), (tm, tk))
    right = b.transpose(b.load(w, (("n",), ("k",)), (tn, tk)), (1, 0))
    total = Accumulator(AccumulateFn.SUM, b.matmul(left, right))
    body = Builder(in_block=True)
    (result,) = body.loop(Axis("k", -(-k // tk)), tuple(b.ops), (total,))
    out = Value(TensorType((m, n), DType.F16))
    inputs = [x, w]
    if residual:
        inputs.append(Value(out.type))
        added = body.load(inputs[-1], (("m",), ("n",)), (tm, tn))
        result = body.binary(BinaryFn.ADD, added, result)
    params = tuple(inputs)
    graph = BlockGraph(params, tuple(body.ops), (Output(result, (("m",), ("n",))),))
    grid = (Axis("m", -(-m // tm)), Axis("n", -(-n // tn)))
    return Launch(params, (out,), grid, graph, Schedule(warps, stages, True, resident))
