"""Loops over tiles of scores with masks computed from positions, which leave out steps."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.positions import TileIota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Loop,
    Output,
    Steps,
    launches,
    loops,
)

from example_programs.position_masks import (
    Mask,
    block_causal,
    blocks,
    causal,
    later,
    moved,
    prefix,
    sinks,
    two_sided,
    value,
    window,
)

TILE = (8, 4)
"""Rows per block, keys per step."""


def looped(mask: Mask, n: int = 24, split: int = 1) -> KernelGraph:
    """Sums of exponentials of scores with a mask, in blocks and steps, with a running maximum. With
    ``split`` the grid cuts the keys too, and stores maxima and sums of parts."""
    rows, keys = TILE
    x, param = value(n, n, dtype=DType.F32), value(n, n, dtype=DType.F32)
    parts = -(-n // keys)
    assert parts % split == 0
    outer = ("s",) if split > 1 else ()
    b = Builder(in_block=True)
    row = TileIota((), (value(rows, 1, dtype=DType.F32),), 0, ("m",), n)
    b.ops.append(row)
    step = Builder(in_block=True)
    tile = step.load(param, (("m",), (*outer, "k")), TILE)
    col = TileIota((), (value(1, keys, dtype=DType.F32),), 1, (*outer, "k"), n)
    step.ops.append(col)
    bias = step.unary(UnaryFn.BIAS, mask(step, row.result, col.result))
    scores = step.binary(BinaryFn.ADD, tile, bias)
    if n % keys:
        scores = step.mask(scores, 1, (*outer, "k"), n, -np.inf)
    most = step.reduce(ReduceFn.MAX, scores, (1,))
    m = step.running_max(step.binary(BinaryFn.MAX, most, step.constant(-1e30)))
    e = step.unary(UnaryFn.EXP, step.binary(BinaryFn.SUB, scores, m))
    total = step.reduce(ReduceFn.SUM, e, (1,))
    accumulators = (
        Accumulator(AccumulateFn.SUM, total, m),
        Accumulator(AccumulateFn.LAST, m),
    )
    sums, maxima = b.loop(Axis("k", parts // split), tuple(step.ops), accumulators)
    grid = (Axis("m", -(-n // rows)), *((Axis("s", split),) if split > 1 else ()))
    tile_map = (("m",), outer)
    body = BlockGraph((param,), tuple(b.ops), (Output(sums, tile_map), Output(maxima, tile_map)))
    out = tuple(value(n, split, dtype=DType.F32) for _ in range(2))
    g = KernelGraph("g", (x,), (Launch((x,), out, grid, body),), out)
    check_graph(g)
    return g


STEPPED: dict[str, tuple[Mask, int, int]] = {
    "causal": (causal, 24, 1),
    "causal, a tail": (causal, 22, 1),
    "causal, keys split": (causal, 24, 2),
    "window": (window(5), 24, 1),
    "window, keys split": (window(5), 24, 3),
    "blocks": (blocks(8), 24, 1),
    "window, a tail": (window(5), 22, 1),
    "blocks of two tiles": (blocks(16), 32, 1),
    "blocks of two tiles, keys split": (blocks(16), 48, 2),
    "blocks in which tiles do not fit": (blocks(12), 24, 1),
}


MORE_STEPPED: dict[str, tuple[Mask, int, int]] = {
    "blocks, a tail": (blocks(6), 22, 1),
    "blocks by order": (block_causal(8), 24, 1),
    "blocks by order, keys split": (block_causal(4), 24, 2),
    "causal, in thirds": (causal, 36, 3),
    "later": (later, 24, 1),
    "long prefix": (prefix(9), 28, 1),
    "moved": (moved(3), 26, 1),
    "moved back": (moved(-2), 24, 1),
    "narrow window": (window(2), 32, 1),
    "sinks": (sinks(3, 6), 28, 1),
    "two sides": (two_sided(5), 24, 1),
    "two sides, keys split": (two_sided(3), 32, 2),
    "wide window, a tail": (window(11), 30, 1),
    "window, moved": (window(6, 3), 28, 1),
}
"""Other cases: a mask, the numbers of rows and keys, and the number of parts of the keys."""


def loop_of(graph: KernelGraph) -> Loop:
    (launch,) = launches(graph.ops)
    (loop,) = loops(launch)
    return loop


def with_steps(graph: KernelGraph, steps: Steps | None) -> KernelGraph:
    (launch,) = launches(graph.ops)
    ops = tuple(replace(op, steps=steps) if isinstance(op, Loop) else op for op in launch.body.ops)
    body = BlockGraph(launch.body.params, ops, launch.body.outputs)
    return replace(graph, ops=(replace(launch, body=body),))
