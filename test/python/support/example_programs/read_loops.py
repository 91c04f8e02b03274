"""Loops over keys with masks that compare positions with integers from the caller."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.positions import TileIota
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    TensorType,
    Value,
)

from example_programs.position_masks import value

LengthMask = Callable[[Builder, Value, list[Value]], Value]
"""Return the positions of keys (a row) and the integers of the block in a builder."""


def up_to(b: Builder, cols: Value, read: list[Value]) -> Value:
    """`arange(n) <= position`: the keys of a static cache."""
    return b.binary(BinaryFn.LE, cols, read[0])


def below(b: Builder, cols: Value, read: list[Value]) -> Value:
    """`arange(n) < length`: a ragged batch."""
    return b.binary(BinaryFn.LT, cols, read[0])


def after(b: Builder, cols: Value, read: list[Value]) -> Value:
    """`arange(n) > start`: earlier elements are padding."""
    return b.binary(BinaryFn.LT, read[0], cols)


def between(b: Builder, cols: Value, read: list[Value]) -> Value:
    """`start < arange(n) <= position`: a window at a position that is known at run time."""
    return b.binary(BinaryFn.AND, below(b, cols, read[1:]), after(b, cols, read))


@dataclass(frozen=True)
class ReadLoop:
    """Sums of exponentials of scores (batch, keys) of which a mask keeps some, with a running
    maximum; ``rows`` of the batch per block, ``tile`` keys per step, ``split`` parts of keys."""

    mask: LengthMask = up_to
    keys: int = 64
    batch: int = 2
    rows: int = 1
    tile: int = 8
    split: int = 1
    read: int = 1
    dtype: DType = DType.I64

    def graph(self) -> KernelGraph:
        """Inputs are the scores, then the integers, one for each row of the batch."""
        batch, keys, steps = self.batch, self.keys, -(-self.keys // self.tile)
        assert steps % self.split == 0
        x = value(batch, keys, dtype=DType.F32)
        read = [Value(TensorType((batch, 1), self.dtype)) for _ in range(self.read)]
        params = [Value(v.type) for v in (x, *read)]
        outer = ("s",) if self.split > 1 else ()
        b, step = Builder(in_block=True), Builder(in_block=True)
        integers = [b.load(p, (("b",), ()), (self.rows, 1)) for p in params[1:]]
        tile = step.load(params[0], (("b",), (*outer, "k")), (self.rows, self.tile))
        place = value(1, self.tile, dtype=DType.F32)
        step.ops.append(TileIota((), (place,), 1, (*outer, "k"), keys))
        bias = step.unary(UnaryFn.BIAS, self.mask(step, place, integers))
        scores = step.binary(BinaryFn.ADD, tile, bias)
        if keys % self.tile:
            scores = step.mask(scores, 1, (*outer, "k"), keys, -np.inf)
        most = step.reduce(ReduceFn.MAX, scores, (1,))
        m = step.running_max(step.binary(BinaryFn.MAX, most, step.constant(-1e30)))
        e = step.unary(UnaryFn.EXP, step.binary(BinaryFn.SUB, scores, m))
        total = step.reduce(ReduceFn.SUM, e, (1,))
        carried = (Accumulator(AccumulateFn.SUM, total, m), Accumulator(AccumulateFn.LAST, m))
        sums, maxima = b.loop(Axis("k", steps // self.split), tuple(step.ops), carried)
        grid = (
            Axis("b", batch // self.rows),
            *((Axis("s", self.split),) if self.split > 1 else ()),
        )
        places = (("b",), outer)
        outputs = (Output(sums, places), Output(maxima, places))
        body = BlockGraph(tuple(params), tuple(b.ops), outputs)
        out = tuple(value(batch, self.split, dtype=DType.F32) for _ in range(2))
        g = KernelGraph("g", (x, *read), (Launch((x, *read), out, grid, body),), out)
        check_graph(g)
        return g


def with_sum(graph: KernelGraph, case: ReadLoop, cut: bool = False) -> KernelGraph:
    """Return the graph of a case with a second kernel that adds up the parts of its keys; or that
    computes something for each part, if this dimension is ``cut``."""
    b, places = Builder(in_block=True), (("b",), ("p",) if cut else ())
    params = [Value(v.type) for v in graph.outputs]
    shape = (1, 1 if cut else case.split)
    sums, maxima = (b.load(p, places, shape) for p in params)
    top = b.reduce(ReduceFn.MAX, maxima, (1,))
    each = b.binary(BinaryFn.MUL, sums, b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, maxima, top)))
    results = b.reduce(ReduceFn.SUM, each, (1,)), top
    body = BlockGraph(tuple(params), tuple(b.ops), tuple(Output(r, places) for r in results))
    out = tuple(value(case.batch, case.split if cut else 1, dtype=DType.F32) for _ in results)
    grid = (Axis("b", case.batch), *((Axis("p", case.split),) if cut else ()))
    combine = Launch(graph.outputs, out, grid, body)
    return replace(graph, ops=(*graph.ops, combine), outputs=out)


READ: dict[str, ReadLoop] = {
    "position": ReadLoop(),
    "length": ReadLoop(below),
    "length of i32": ReadLoop(below, dtype=DType.I32),
    "a tail": ReadLoop(keys=61),
    "keys split": ReadLoop(split=4),
    "keys split, a tail": ReadLoop(below, keys=61, split=2),
    "start": ReadLoop(after),
    "start, keys split": ReadLoop(after, split=2),
    "window": ReadLoop(between, read=2),
    "window, keys split": ReadLoop(between, read=2, split=4),
    "several rows": ReadLoop(batch=4, rows=2),
    "window of several rows": ReadLoop(between, batch=4, rows=4, read=2),
}

FAR = (1 << 63) - 1


def integers(case: ReadLoop) -> Iterator[list[Array]]:
    """Values for all inputs that are integers: no keys, one, an odd number, all, beyond, below
    zero, and the limits of the type."""
    far = FAR if case.dtype is DType.I64 else (1 << 31) - 1
    numbers = [0, 1, 17, case.keys - 1, case.keys, case.keys + 9, -1, -100, far, -far - 1]
    for shift in range(len(numbers)):
        column = np.array([numbers[(i * 3 + shift) % len(numbers)] for i in range(case.batch)])
        yield [np.roll(column, i)[:, None] for i in range(case.read)]


def expected(case: ReadLoop, x: Array, read: list[Array]) -> Array:
    """Return the sums of exponentials of the elements that the mask keeps, over all parts of
    keys."""
    at = np.arange(case.keys)
    seen = {
        up_to: lambda: at <= read[0],
        below: lambda: at < read[0],
        after: lambda: at > read[0],
        between: lambda: (at > read[0]) & (at < read[1]),
    }[case.mask]()
    return np.where(seen, np.exp(x), 0.0).sum(axis=1)
