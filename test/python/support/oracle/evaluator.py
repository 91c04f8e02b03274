"""The results of a µGraph, by an evaluator that shares nothing with the project's own.

It reads only the data of a graph (ops, maps, axes). The meaning of each op is defined here
independently, in PyTorch, and a launch is run literally, one block and one step of a loop after the
other. A part of a value (a :data:`Box`) is computed on demand, so a few elements of a large program
cost only what they need. Several inputs are run at once: the first dimension of all tensors here is
that of *runs*, and has length 1 if it is the same in all runs.

*Exact* arithmetic is float64 throughout. *Typed* arithmetic rounds the result of each op to the
type in which a kernel stores or holds it, and computes it in f32 (or in f64 if that is the type).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from math import inf, prod

import numpy as np
from mirage.semantics.positions import Gather, Iota, TileGather, TileIota
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    Accumulator,
    Binary,
    Broadcast,
    Cast,
    Concat,
    Constant,
    KernelGraph,
    Launch,
    LayerNorm,
    Load,
    Loop,
    Mask,
    Matmul,
    Op,
    Reduce,
    Reshape,
    RmsNorm,
    RunningMax,
    Slice,
    Softmax,
    TileMap,
    Transpose,
    Unary,
    Value,
)

from oracle.boxes import (
    Box,
    Parts,
    aligned,
    cut,
    only,
    positions,
    reshaped,
    run_of,
    sizes,
    starts,
    steps_of,
    whole,
)
from oracle.pytorch import torch
from oracle.runs import expanded, gathered, joined, levelled
from oracle.scalar import BINARY, UNARY, number, rounded

torch.set_num_threads(1)  # one process for each core instead

Tensor = torch.Tensor
Input = Callable[[Box], Tensor]
"""A function that gives an input by its parts: float64 numbers of the input's type, with the
dimension of runs first."""

_CALL = 2000.0
"""The cost of starting an op, in elements."""
_DRAWN = 3.0
"""The cost of one element of an input."""
_PRODUCT = 0.1
"""The cost of one multiplication in a matrix product."""


class TooMuchWork(Exception):
    """The requested values need more work than the oracle was given."""


class BadProgram(Exception):
    """A program that does not define its outputs: an element is not written, or written with two
    values."""


class Unsupported(Exception):
    """An op for which the oracle has no meaning."""


def outputs(
    graph: KernelGraph, inputs: Sequence[np.ndarray], *, typed: bool = False
) -> list[np.ndarray]:
    """Return all outputs of a program on arrays; raises :class:`BadProgram`."""

    def given(v: Value, x: np.ndarray) -> Input:
        tensor = torch.from_numpy(np.array(x, dtype=np.float64)[None])
        return lambda box: cut(tensor, box, whole(v.shape))

    run = Oracle(
        graph, [given(v, x) for v, x in zip(graph.inputs, inputs, strict=True)], typed=typed
    )
    return [run.part(v, whole(v.shape)).to(torch.float64).numpy()[0] for v in graph.outputs]


class Oracle:
    """Several simultaneous ``runs`` of a program on ``inputs``. ``most`` is the number of elements
    that each run may compute."""

    def __init__(
        self,
        graph: KernelGraph,
        inputs: Sequence[Input],
        *,
        typed: bool,
        most: float = inf,
        runs: int = 1,
    ) -> None:
        self.typed, self.runs = typed, runs
        self.left = most
        self.made = {v: op for op in graph.ops for v in op.results}
        self.inputs = dict(zip(graph.inputs, inputs, strict=True))
        self.known: dict[Value, Parts] = {}
        self.blocks: dict[tuple[Launch, tuple[int, ...]], list[Tensor]] = {}

    def part(self, value: Value, box: Box) -> Tensor:
        """Return a part of a value of the kernel level."""
        if value not in self.known:
            self.known[value] = Parts()
        found = self.known[value].find(box)
        if found is not None:
            return found
        if value in self.inputs:
            small = value.type.size <= 1 << 14
            box_now = whole(value.shape) if small else box
            self.work(_DRAWN * prod(sizes(box_now)))  # before it is made: it may be very large
            x = self.round(self.inputs[value](box_now), value.dtype)
        else:
            box_now = box
            self.work(prod(sizes(box)))
            x = self._made(value, box)
        if tuple(x.shape[1:]) != sizes(box_now):
            raise AssertionError(f"expected {sizes(box_now)} of {value.type}, got {x.shape}")
        self.known[value].add(box_now, x)
        return cut(x, box, box_now)

    def work(self, elements: float) -> None:
        """Count the computed elements; raises :class:`TooMuchWork`."""
        self.left -= elements + _CALL
        if self.left < 0:
            raise TooMuchWork("expected less to compute")

    def round(self, x: Tensor, dtype: DType) -> Tensor:
        """Return ``x`` in the precision of that type."""
        return rounded(x, dtype) if self.typed else x.to(torch.float64)

    def _made(self, value: Value, box: Box) -> Tensor:
        op = self.made[value]
        if isinstance(op, Launch):
            return self._launched(op, op.results.index(value), box)
        if isinstance(op, Iota):
            along = torch.arange(*box[op.dim], dtype=torch.float64)
            size = [1, *(-1 if d == op.dim else 1 for d in range(len(box)))]
            return along.reshape(size).expand((1, *sizes(box))).clone()
        if isinstance(op, Gather):
            table, indices = op.operands
            rank = len(indices.shape)
            rows = self.part(table, ((0, table.shape[0]), *box[rank:]))
            return self.round(gathered(rows, self.part(indices, box[:rank])), value.dtype)
        xs = [self.part(v, b) for v, b in self._needs(op, box)]
        if isinstance(op, Slice):
            return xs[0]
        if isinstance(op, Reshape):
            return reshaped(op, xs[0], box)
        if isinstance(op, Broadcast):
            return expanded(xs[0], sizes(box))
        if isinstance(op, (Softmax, RmsNorm, LayerNorm)):
            return only(self._composite(op, xs), box)
        if isinstance(op, Concat):
            return self.round(joined(xs, op.dim), value.dtype)
        return self.elementary(op, xs)

    def _needs(self, op: Op, box: Box) -> Iterator[tuple[Value, Box]]:
        """Return the part of each operand that a part of the result is computed from."""
        if isinstance(op, Concat):
            start = 0
            for v in op.operands:
                a, b = (max(start, min(e, start + v.shape[op.dim])) for e in box[op.dim])
                if a < b:
                    yield v, (*box[: op.dim], (a - start, b - start), *box[op.dim + 1 :])
                start += v.shape[op.dim]
            return
        if isinstance(op, Matmul):
            a, b = op.operands
            yield a, (*aligned(box[:-2], a.shape[:-2]), box[-2], (0, a.shape[-1]))
            yield b, (*aligned(box[:-2], b.shape[:-2]), (0, b.shape[-2]), box[-1])
            return
        for i, v in enumerate(op.operands):
            all_of = whole(v.shape)
            if isinstance(op, Slice):
                pairs = zip(box, op.offsets, strict=True)
                yield v, tuple((a + o, b + o) for (a, b), o in pairs)
            elif isinstance(op, Transpose):
                yield v, tuple(box[op.permutation.index(d)] for d in range(len(box)))
            elif isinstance(op, Reshape):
                yield v, run_of(box, op.result.shape, v.shape)[0]
            elif isinstance(op, Reduce):
                yield v, tuple(all_of[d] if d in op.dims else box[d] for d in range(len(box)))
            elif isinstance(op, Softmax):
                yield v, tuple(all_of[d] if d == op.dim else box[d] for d in range(len(box)))
            elif isinstance(op, (RmsNorm, LayerNorm)):
                rows = (*box[: len(box) - op.dims], *whole(op.result.shape[-op.dims :]))
                yield v, rows if i == 0 else aligned(rows, v.shape)
            else:
                yield v, aligned(box, v.shape)

    def _composite(self, op: Op, xs: Sequence[Tensor]) -> Tensor:
        x, *rest = levelled(xs)
        if isinstance(op, Softmax):
            return self.round(torch.softmax(x, op.dim + 1), op.result.dtype)
        assert isinstance(op, (RmsNorm, LayerNorm))
        last = tuple(range(-op.dims, 0))
        if isinstance(op, LayerNorm):
            x = x - x.mean(last, keepdim=True)
        y = x * torch.rsqrt((x * x).mean(last, keepdim=True) + float(op.eps))
        if rest:
            y = y * rest[0]
        return self.round(y + rest[1] if len(rest) > 1 else y, op.result.dtype)

    def elementary(self, op: Op, xs: Sequence[Tensor]) -> Tensor:
        """Return the result of an op that has the same meaning for tensors and tiles."""
        dtype = op.result.dtype
        xs = levelled([self._computed_in(x, dtype) for x in xs])
        if isinstance(op, Constant):
            y = torch.tensor([number(op.value)], dtype=torch.float64)
            if self.typed and dtype.is_half:  # scalars have the type of the computation
                return y.to(torch.float32)
        elif isinstance(op, Unary):
            y = UNARY[op.fn.value](xs[0])
        elif isinstance(op, Binary):
            y = BINARY[op.fn.value](xs[0], xs[1])
        elif isinstance(op, Cast):
            y = xs[0]
        elif isinstance(op, Matmul):
            self.work(_PRODUCT * xs[1].shape[-1] * prod(xs[0].shape[1:]))
            y = torch.matmul(*xs)
        elif isinstance(op, Reduce):
            sums = op.fn.value == "sum"
            dims = tuple(d + 1 for d in op.dims)
            y = xs[0].sum(dims, keepdim=True) if sums else xs[0].amax(dims, keepdim=True)
        elif isinstance(op, Transpose):
            y = xs[0].permute((0, *(d + 1 for d in op.permutation)))
        else:
            raise Unsupported(f"expected an op with a meaning here, got {type(op).__name__}")
        return self.round(y, dtype)

    def _computed_in(self, x: Tensor, dtype: DType) -> Tensor:
        wide = not self.typed or dtype is DType.F64 or dtype.is_integer
        return x.to(torch.float64 if wide else torch.float32)

    # ---- launches

    def _launched(self, launch: Launch, which: int, box: Box) -> Tensor:
        """Return a part of a launch's result, assembled from the tiles of its blocks."""
        output, result = launch.body.outputs[which], launch.results[which]
        extents = {a.name: a.extent for a in launch.grid}
        y = torch.full((self.runs, *sizes(box)), torch.nan, dtype=torch.float64)
        written = torch.zeros(sizes(box), dtype=torch.bool)
        for position in positions(launch.grid, output, box, extents):
            tile = self._block(launch, position)[which]
            place = dict(zip(extents, position, strict=True))
            firsts = starts(output.map, output.value.shape, place, extents)
            both = tuple(
                (max(a, s), min(b, s + t))
                for (a, b), s, t in zip(box, firsts, tile.shape[1:], strict=True)
            )
            if any(a >= b for a, b in both):
                continue
            of = tuple((s, s + t) for s, t in zip(firsts, tile.shape[1:], strict=True))
            new = cut(tile, both, of).to(torch.float64)
            there = tuple(slice(a - c, b - c) for (a, b), (c, _) in zip(both, box, strict=True))
            again, before = written[there], y[(slice(None), *there)]
            if bool(again.any()):
                same = (before == new) | (before.isnan() & new.isnan())
                if bool((again & ~same).any()):
                    raise BadProgram("an element is written with two values")
            y[(slice(None), *there)] = new
            written[there] = True
        if not bool(written.all()):
            raise BadProgram(f"{int((~written).sum())} elements are not written")
        return self.round(y, result.dtype)

    def _block(self, launch: Launch, position: tuple[int, ...]) -> list[Tensor]:
        """Return the tiles that one block stores."""
        key = launch, position
        if key not in self.blocks:
            block = _Block(self, launch, position)
            block.run(launch.body.ops)
            pairs = zip(launch.body.outputs, launch.results, strict=True)
            self.blocks[key] = [self.round(block.values[o.value], r.dtype) for o, r in pairs]
        return self.blocks[key]


class _Block:
    """One block of a launch."""

    def __init__(self, oracle: Oracle, launch: Launch, position: tuple[int, ...]) -> None:
        self.oracle = oracle
        names = tuple(a.name for a in launch.grid)
        # along axes; those of loops change with their steps
        self.place = dict(zip(names, position, strict=True))
        self.extents = {a.name: a.extent for a in launch.grid} | dict(_loops(launch.body.ops))
        self.outside = dict(zip(launch.body.params, launch.operands, strict=True))
        self.values: dict[Value, Tensor] = {}
        self.before: dict[Value, Tensor] = {}  # running maxima up to the step before
        for op in _every(launch.body.ops):
            if isinstance(op, Load):
                self._prefetch(op)

    def run(self, ops: Sequence[Op]) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._loop(op)
            else:
                self.values[op.result] = self._op(op)
                self.oracle.work(op.result.type.size)

    def _op(self, op: Op) -> Tensor:
        if isinstance(op, Load):
            return self._load(op)
        if isinstance(op, TileIota):
            return self._positions(op)
        if isinstance(op, TileGather):
            return self._rows(op)
        xs = [self.values[v] for v in op.operands]
        if isinstance(op, Mask):
            tile = op.result.shape[op.dim]
            index = self._part(op.axes) * tile + torch.arange(tile)
            rest = len(op.result.shape) - op.dim - 1
            keep = (index < op.extent).reshape((tile, *(1,) * rest))
            return torch.where(keep, xs[0], torch.full((), op.fill, dtype=xs[0].dtype))
        if isinstance(op, RunningMax):
            before = self.before.get(op.result)
            return xs[0] if before is None else torch.maximum(before, xs[0])
        if isinstance(op, Reshape):
            return xs[0].reshape((xs[0].shape[0], *op.result.shape))
        if isinstance(op, Broadcast):
            return expanded(xs[0], op.result.shape)
        if isinstance(op, Slice):
            ends = zip(op.offsets, op.result.shape, strict=True)
            return xs[0][(slice(None), *(slice(o, o + n) for o, n in ends))]
        if isinstance(op, Concat):
            return self.oracle.round(joined(xs, op.dim), op.result.dtype)
        return self.oracle.elementary(op, xs)

    def _part(self, axes: Sequence[str]) -> int:
        part = 0
        for axis in axes:
            part = part * self.extents[axis] + self.place[axis]
        return part

    # ---- loads

    def _box(self, tile_map: TileMap, tile: Sequence[int]) -> Box:
        """Return the box that a tile covers here, which may extend beyond the end of the tensor."""
        firsts = [self._part(axes) * t for axes, t in zip(tile_map, tile, strict=True)]
        return tuple((a, a + t) for a, t in zip(firsts, tile, strict=True))

    def _prefetch(self, op: Load) -> None:
        """Request everything that a load reads in all steps of the loops around it at once."""
        (source,) = op.operands
        inner = [a for axes in op.map for a in axes if a not in self.place]
        if not inner:
            return
        ends: list[Box] = []
        for at_end in (False, True):
            self.place.update((a, self.extents[a] - 1 if at_end else 0) for a in inner)
            ends.append(self._box(op.map, op.result.shape))
        for a in inner:
            self.place.pop(a, None)
        both = zip(*ends, source.shape, strict=True)
        box = tuple((min(a, n), min(d, n)) for (a, _), (_, d), n in both)
        if all(a < b for a, b in box):
            self.oracle.part(self.outside[source], box)

    def _load(self, op: Load) -> Tensor:
        (source,) = op.operands
        box = self._box(op.map, op.result.shape)
        return self._tile(
            box, source.shape, op, lambda b: self.oracle.part(self.outside[source], b)
        )

    def _tile(
        self, box: Box, shape: Sequence[int], op: Op, read: Callable[[Box], Tensor]
    ) -> Tensor:
        """Return the elements that ``read`` gives there, with zeros beyond the end."""
        there = tuple((min(a, n), min(b, n)) for (a, b), n in zip(box, shape, strict=True))
        if there == box:
            return self.oracle.round(read(box), op.result.dtype)
        found = read(there).to(torch.float64) if all(a < b for a, b in there) else None
        runs = 1 if found is None else found.shape[0]
        y = torch.zeros((runs, *sizes(box)), dtype=torch.float64)
        if found is not None:
            y[(slice(None), *(slice(0, b - a) for a, b in there))] = found
        return self.oracle.round(y, op.result.dtype)

    def _positions(self, op: TileIota) -> Tensor:
        tile = op.result.shape[op.dim]
        index = self._part(op.axes) * tile + torch.arange(tile, dtype=torch.float64)
        index = torch.where(index < op.extent, index, torch.zeros_like(index))
        size = [1, *(-1 if d == op.dim else 1 for d in range(len(op.result.shape)))]
        found = index.reshape(size).expand((1, *op.result.shape))
        return self.oracle.round(found, op.result.dtype)

    def _rows(self, op: TileGather) -> Tensor:
        table, indices = (self.outside[v] for v in op.operands)
        shape = (*indices.shape, *table.shape[1:])
        rank = len(indices.shape)

        def read(box: Box) -> Tensor:
            rows = self.oracle.part(table, ((0, table.shape[0]), *box[rank:]))
            return gathered(rows, self.oracle.part(indices, box[:rank]))

        return self._tile(self._box(op.map, op.result.shape), shape, op, read)

    # ---- loops

    def _loop(self, op: Loop) -> None:
        maxima = [inner.result for inner in op.body if isinstance(inner, RunningMax)]
        for m in maxima:
            self.before.pop(m, None)
        totals: list[Tensor | None] = [None] * len(op.accumulators)
        for step in steps_of(op.steps, self.place, op.axis.extent):
            self.place[op.axis.name] = step
            self.run(op.body)
            totals = [self._added(a, t) for a, t in zip(op.accumulators, totals, strict=True)]
            for m in maxima:
                self.before[m] = self.values[m]
        del self.place[op.axis.name]
        for result, total in zip(op.results, totals, strict=True):
            assert total is not None
            self.values[result] = total

    def _added(self, a: Accumulator, total: Tensor | None) -> Tensor:
        value = self.values[a.value]
        dtype = DType.F64 if a.value.dtype is DType.F64 else DType.F32
        if total is None or a.fn.value == "last":
            return value
        if a.fn.value == "max":
            return self.oracle.round(torch.maximum(total, value), dtype)
        if a.rescale is not None:
            before, now = self.before[a.rescale], self.values[a.rescale]
            change = torch.where(before == now, torch.zeros_like(before), before - now)
            total = self.oracle.round(total * torch.exp(change), dtype)
        return self.oracle.round(total + value, dtype)


def _every(ops: Sequence[Op]) -> Iterator[Op]:
    for op in ops:
        yield op
        if isinstance(op, Loop):
            yield from _every(op.body)


def _loops(ops: Sequence[Op]) -> Iterator[tuple[str, int]]:
    return ((op.axis.name, op.axis.extent) for op in _every(ops) if isinstance(op, Loop))
