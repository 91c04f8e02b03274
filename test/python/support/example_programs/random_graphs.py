"""Random programs that move and reduce data in unusual ways: slices, joins, reshapes, tiles that do
not divide, masks, loops, one axis on two dimensions.
"""

from __future__ import annotations

import random
from math import prod

from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Output,
    TensorType,
    Value,
)

from example_programs import graphs

F32 = DType.F32
_SIZES = (2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24)
_LARGEST = 3000


def random_graph(rng: random.Random) -> KernelGraph:
    """A program of a few ops on one input; not necessarily a valid one."""
    x = graphs.tensor(*(rng.choice(_SIZES) for _ in range(rng.randint(1, 3))), dtype=F32)
    b = Builder()
    values = [x]
    for _ in range(rng.randint(1, 6)):
        try:
            y = _step(b, rng, rng.choice(values[-3:]), values)
        except (ShapeError, IndexError):
            continue
        if y.type.size > _LARGEST:
            break
        values.append(y)
    return KernelGraph("random", (x,), tuple(b.ops), (values[-1],))


def _step(b: Builder, rng: random.Random, v: Value, values: list[Value]) -> Value:
    dims = range(len(v.shape))
    kind = rng.choice(["slice", "slice", "concat", "reshape", "reshape", "order", "pair", "launch"])
    if kind == "slice":
        sizes = tuple(rng.randint(1, n) if rng.random() < 0.5 else n for n in v.shape)
        return b.slice(v, tuple(rng.randint(0, n - m) for n, m in zip(v.shape, sizes)), sizes)
    if kind == "concat":
        return b.concat((v, rng.choice([v, *values])), rng.choice(dims))
    if kind == "reshape":
        left, shape = v.type.size, []
        while left > 1:
            shape.append(rng.choice([d for d in range(2, left + 1) if left % d == 0]))
            left //= shape[-1]
        return b.reshape(v, tuple(shape[:4]) or (1,))
    if kind == "order":
        if rng.random() < 0.5:
            return b.transpose(v, tuple(rng.sample(dims, len(dims))))
        return b.reduce(rng.choice(list(ReduceFn)), v, (rng.choice(dims),))
    if kind == "pair":
        other = rng.choice(values)
        if rng.random() < 0.4:
            return b.matmul(v, other)
        return b.binary(rng.choice([BinaryFn.ADD, BinaryFn.MUL, BinaryFn.MAX]), v, other)
    return _launch(b, rng, v)


def _launch(b: Builder, rng: random.Random, x: Value) -> Value:
    params = graphs.params_of((x,))
    loop_dim = rng.choice(range(len(x.shape))) if rng.random() < 0.6 else None
    grid: list[Axis] = []
    tile_map: list[tuple[str, ...]] = []
    tile: list[int] = []
    steps = Axis("k", rng.randint(1, 5))
    for d, n in enumerate(x.shape):
        count = rng.choice([0, 1, 1, 2]) if d != loop_dim else rng.choice([0, 0, 1])
        axes = [Axis(f"g{d}{i}", rng.randint(1, 4)) for i in range(count)]
        grid.extend(axes)
        axes += [steps] if d == loop_dim else []
        tile_map.append(tuple(a.name for a in axes))
        tile.append(-(-n // prod(a.extent for a in axes)) + (rng.random() < 0.1))
    extents = {a.name: a.extent for a in (*grid, steps)}
    inner = Builder(in_block=True)
    y = inner.load(params[0], tuple(tile_map), tuple(tile))
    for d, axes in enumerate(tile_map):
        if rng.random() < 0.3:
            size = tile[d] * prod(extents[a] for a in axes)
            y = inner.mask(y, d, axes, rng.randint(1, size), 1.0)
    y = inner.unary(rng.choice([UnaryFn.NEG, UnaryFn.TANH]), y)
    ops, store, shape = tuple(inner.ops), list(tile_map), list(x.shape)
    if loop_dim is not None:
        if rng.random() < 0.5:
            y = inner.reduce(rng.choice(list(ReduceFn)), y, (loop_dim,))
        outer = Builder(in_block=True)
        accumulator = Accumulator(rng.choice(list(AccumulateFn)), y)
        (y,) = outer.loop(steps, tuple(inner.ops), (accumulator,))
        ops = tuple(outer.ops)
        store[loop_dim] = tile_map[loop_dim][:-1]
        shape[loop_dim] = y.shape[loop_dim] * prod(extents[a] for a in store[loop_dim])
    body = BlockGraph(params, ops, (Output(y, tuple(store)),))
    b.ops.append(graphs.launch((x,), tuple(grid), body, (TensorType(tuple(shape), F32),)))
    return b.ops[-1].result
