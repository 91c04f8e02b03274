"""Attention to a part of the keys by warpgroups, as launches whose tiles are set by hand."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
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


def partial_attention(
    heads: int, rows: int, dim: int, keys: int, tile: tuple[int, int, int], stages: int, warps: int
) -> Launch:
    """Sums, weights and maxima of ``exp(q @ k) @ v`` for each part of the keys, in f32. ``tile``:
    rows per block, keys per step, and parts."""
    tm, tn, parts = tile
    q = Value(TensorType((heads, rows, dim), DType.F16))
    k = Value(TensorType((heads, dim, keys), DType.F16))
    v = Value(TensorType((heads, keys, dim), DType.F16))
    block, b = Builder(in_block=True), Builder(in_block=True)
    left = block.load(q, (("b",), ("m",), ()), (1, tm, dim))
    scores = b.matmul(left, b.load(k, (("b",), (), ("p", "n")), (1, dim, tn)))
    most = b.binary(BinaryFn.MAX, b.reduce(ReduceFn.MAX, scores, (2,)), b.constant(-1e30))
    so_far = b.running_max(most)
    weights = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, scores, so_far))
    right = b.load(v, (("b",), ("p", "n"), ()), (1, tn, dim))
    product = b.matmul(b.cast(weights, DType.F16), right)
    total = b.reduce(ReduceFn.SUM, weights, (2,))
    found = block.loop(
        Axis("n", keys // parts // tn),
        tuple(b.ops),
        (
            Accumulator(AccumulateFn.SUM, product, so_far),
            Accumulator(AccumulateFn.SUM, total, so_far),
            Accumulator(AccumulateFn.LAST, so_far),
        ),
    )
    outputs, results = [], []
    for value, columns in zip(found, (dim, 1, 1), strict=True):
        place = (("p",), ("b",), ("m",), ())
        outputs.append(Output(block.reshape(value, (1, 1, tm, columns)), place))
        results.append(Value(TensorType((parts, heads, rows, columns), DType.F32)))
    graph = BlockGraph((q, k, v), tuple(block.ops), tuple(outputs))
    grid = (Axis("b", heads), Axis("m", rows // tm), Axis("p", parts))
    return Launch((q, k, v), tuple(results), grid, graph, Schedule(warps, stages, True))
