"""Launches with fewer parts: the sizes of their tensors and ops."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mirage.pipeline.checks.smaller_launch import NotSmallerError, smaller
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.ops.taken_steps import StepNumber, Steps
from mirage.semantics.positions import TileGather, TileIota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Mask,
    Output,
    TensorType,
    Value,
    all_ops,
    axis_extents,
    loops,
)
from written_kernels.product_kernels import product_kernel


def shapes(launch: Launch) -> list[tuple[int, ...]]:
    """Return the shapes of a valid launch."""
    graph = KernelGraph("small", tuple(dict.fromkeys(launch.operands)), (launch,), launch.results)
    check_graph(graph)
    return [v.shape for v in (*launch.operands, *launch.results)]


def test_ends_of_tensors_stay() -> None:
    launch = product_kernel(1000, 130, 4100, (64, 64, 64), 2, 4)
    assert axis_extents(launch) == {"m": 16, "n": 3, "k": 65}
    small = smaller(launch, {"m": 2, "k": 5})
    assert axis_extents(small) == {"m": 2, "n": 3, "k": 5}
    assert shapes(small) == [(104, 260), (130, 260), (104, 130)]
    assert small.schedule == launch.schedule
    assert shapes(smaller(launch, {})) == shapes(launch)


def maximum(*, rows: int = 40, columns: int = 1000, tile: int = 64, whole: bool = False) -> Launch:
    """The largest element of each row, in steps of ``tile`` columns, from which a mask takes the
    padding; ``whole``: and the sum of all columns, which are read at once."""
    x, out = Value(TensorType((rows, columns), DType.F32)), Value(TensorType((rows, 1), DType.F32))
    steps = -(-columns // tile)
    b = Builder(in_block=True)
    part = b.load(x, (("m",), ("k",)), (8, tile))
    best = b.reduce(ReduceFn.MAX, b.mask(part, 1, ("k",), columns, -9.0), (1,))
    body = Builder(in_block=True)
    accumulated = Accumulator(AccumulateFn.MAX, best)
    (result,) = body.loop(Axis("k", steps), tuple(b.ops), (accumulated,))
    if whole:
        row = body.load(x, (("m",), ()), (8, columns))
        result = body.binary(BinaryFn.ADD, result, body.reduce(ReduceFn.SUM, row, (1,)))
    graph = BlockGraph((x,), tuple(body.ops), (Output(result, (("m",), ())),))
    return Launch((x,), (out,), (Axis("m", -(-rows // 8)),), graph)


def test_padding_begins_where_the_tensor_ends() -> None:
    small = smaller(maximum(), {"m": 2, "k": 3})
    assert shapes(small) == [(16, 168), (16, 1)]
    (mask,) = (op for op in all_ops(small.inside) if isinstance(op, Mask))
    assert mask.extent == 168


def test_what_is_read_whole_keeps_its_size() -> None:
    small = smaller(maximum(whole=True), {"m": 2, "k": 3})
    assert axis_extents(small) == {"m": 2, "k": 16}
    assert shapes(small) == [(16, 1000), (16, 1)]


def test_positions_and_steps() -> None:
    """A loop whose steps follow from the block's position; positions of columns are loaded."""
    launch = maximum()
    (loop,) = loops(launch)
    first, end = StepNumber((("m", 1),)), StepNumber((("m", 1),), 4)
    counted = Value(TensorType((8, 64), DType.F32))
    iota = TileIota((), (counted,), 1, ("k",), 1000)
    body = (iota, *loop.body)
    changed = replace(loop, body=body, steps=Steps(first, end))
    block = replace(launch.body, ops=(changed,))
    small = smaller(replace(launch, body=block), {"m": 2, "k": 3})
    assert shapes(small) == [(16, 168), (16, 1)]
    (loop,) = loops(small)
    assert (loop.axis.extent, loop.steps) == (3, changed.steps)
    (iota,) = (op for op in loop.body if isinstance(op, TileIota))
    assert iota.extent == 168


def gathering(rows: int, index: int) -> Launch:
    """Rows of a table by index, eight per block and 64 columns per step, added up."""
    table = Value(TensorType((rows, 1000), DType.F32))
    indices = Value(TensorType((index,), DType.I64))
    out = Value(TensorType((index, 1), DType.F32))
    tile = Value(TensorType((8, 64), DType.F32))
    b = Builder(in_block=True)
    b.ops.append(TileGather((table, indices), (tile,), (("m",), ("k",))))
    accumulated = Accumulator(AccumulateFn.SUM, b.reduce(ReduceFn.SUM, tile, (1,)))
    body = Builder(in_block=True)
    (result,) = body.loop(Axis("k", 16), tuple(b.ops), (accumulated,))
    block = BlockGraph((table, indices), tuple(body.ops), (Output(result, (("m",), ())),))
    return Launch((table, indices), (out,), (Axis("m", -(-index // 8)),), block)


def test_tables_keep_their_rows() -> None:
    assert shapes(smaller(gathering(77, 30), {"m": 2, "k": 3})) == [(77, 168), (14,), (14, 1)]


def test_a_mask_whose_tiles_are_gone() -> None:
    """The mask is not about a tensor's end."""
    launch = maximum()
    (loop,) = loops(launch)
    body = tuple(replace(op, extent=100) if isinstance(op, Mask) else op for op in loop.body)
    block = replace(launch.body, ops=(replace(loop, body=body),))
    with pytest.raises(NotSmallerError, match="100 indices in tiles of 64"):
        smaller(replace(launch, body=block), {"k": 3})
