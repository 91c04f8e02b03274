"""The kernel of a launch at smaller sizes: the same block graph with the same tiles and the same
schedule, but with fewer blocks and fewer steps in its loops.

A dimension of a tensor that axes cut into tiles loses as many whole tiles as the axes lose parts,
so what the last tile has beyond the end stays. What an op of a block graph knows of sizes (where
padding begins, how many positions there are) loses the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from math import prod

from mirage.semantics.ops.block_ops import Axis, Load, Loop, Mask
from mirage.semantics.ops.op import Op, Structure, TensorType, Value, all_ops
from mirage.semantics.ops.taken_steps import TileMap
from mirage.semantics.positions import TileGather, TileIota
from mirage.semantics.ugraph import BlockGraph, Launch, Output, axis_extents


class NotSmallerError(ValueError):
    """A launch that cannot be made with fewer parts; the message says why."""


@dataclass(frozen=True)
class _Cut:
    """Dimension ``dim`` of ``tensor`` in tiles of a size, along axes."""

    tensor: Value
    dim: int
    axes: tuple[str, ...]
    tile: int


def smaller(launch: Launch, wanted: Mapping[str, int]) -> Launch:
    """``launch`` with at most ``wanted`` extents of its axes. Axes along which tensors would not
    fit together keep theirs. Raises :class:`NotSmallerError`."""
    extents = {a: min(n, wanted.get(a, n)) for a, n in axis_extents(launch).items()}
    cuts = list(_cuts(launch))
    while True:
        attempt = _Smaller(launch, extents)
        kept = _disagreeing(attempt, cuts)
        if not kept:
            return attempt.run()
        extents |= {a: attempt.before[a] for a in kept}


def _cuts(launch: Launch) -> Iterator[_Cut]:
    """How all tensors of a launch are cut into tiles."""
    operand = dict(zip(launch.body.params, launch.operands, strict=True))

    def of(tensor: Value, tiles: tuple[int, ...], cut: TileMap) -> Iterator[_Cut]:
        for dim, (axes, tile) in enumerate(zip(cut, tiles, strict=True)):
            yield _Cut(tensor, dim, axes, tile)

    for op in all_ops(launch.body.ops):
        loads = op.reads if isinstance(op, Loop) else (op,) if isinstance(op, Load) else ()
        for load in loads:
            yield from of(operand[load.operands[0]], load.result.shape, load.map)
        if isinstance(op, TileGather):
            table, index = (operand[v] for v in op.operands)
            rank, tiles = len(index.shape), op.result.shape
            yield from of(index, tiles[:rank], op.map[:rank])
            yield _Cut(table, 0, (), table.shape[0])
            for cut in of(table, tiles[rank:], op.map[rank:]):
                yield replace(cut, dim=cut.dim + 1)
    for result, output in zip(launch.results, launch.body.outputs, strict=True):
        yield from of(result, output.value.shape, output.map)


def _disagreeing(attempt: _Smaller, cuts: list[_Cut]) -> set[str]:
    """Axes that would make one dimension of a tensor several sizes, or none, and have fewer parts
    than before."""
    axes: set[str] = set()
    for cut in cuts:
        size = attempt.size(cut.tensor.shape[cut.dim], cut.axes, cut.tile)
        known = attempt.sizes.setdefault((cut.tensor, cut.dim), size)
        if size != known or size < 1:
            axes.update(*(c.axes for c in cuts if (c.tensor, c.dim) == (cut.tensor, cut.dim)))
    return {a for a in axes if attempt.extents[a] < attempt.before[a]}


@dataclass
class _Smaller:
    """Rewrites a launch to ``extents``."""

    launch: Launch
    extents: Mapping[str, int]
    before: dict[str, int] = field(init=False)
    sizes: dict[tuple[Value, int], int] = field(init=False)

    def __post_init__(self) -> None:
        self.before = axis_extents(self.launch)
        self.sizes = {}

    def size(self, size: int, axes: tuple[str, ...], tile: int) -> int:
        """Of what was ``size`` indices in tiles along axes."""
        parts = (prod(extents[a] for a in axes) for extents in (self.before, self.extents))
        before, after = parts
        return size - tile * (before - after)

    def run(self) -> Launch:
        launch, body = self.launch, self.launch.body
        outside = {v: self._tensor(v) for v in (*launch.operands, *launch.results)}
        inside = {
            p: Value(outside[v].type, p.name)
            for p, v in zip(body.params, launch.operands, strict=True)
        }
        ops = tuple(self._op(op, inside) for op in body.ops)
        outputs = tuple(Output(o.value, o.map) for o in body.outputs)
        return replace(
            launch,
            operands=tuple(outside[v] for v in launch.operands),
            results=tuple(outside[v] for v in launch.results),
            grid=tuple(map(self._axis, launch.grid)),
            body=BlockGraph(tuple(inside[p] for p in body.params), ops, outputs),
        )

    def _tensor(self, value: Value) -> Value:
        shape = tuple(self.sizes.get((value, d), n) for d, n in enumerate(value.shape))
        return Value(TensorType(shape, value.dtype), value.name)

    def _axis(self, axis: Axis) -> Axis:
        return Axis(axis.name, self.extents[axis.name])

    def _op(self, op: Op, inside: Mapping[Value, Value]) -> Op:
        if isinstance(op, Structure):
            op = op.rebuilt(tuple(self._op(i, inside) for i in op.inside), lambda v: v)
        op = replace(op, operands=tuple(inside.get(v, v) for v in op.operands))
        match op:
            case Loop():
                return replace(op, axis=self._axis(op.axis))
            case Mask() | TileIota():
                tile = op.result.shape[op.dim]
                extent = self.size(op.extent, op.axes, tile)
                if extent < 1:
                    raise NotSmallerError(
                        f"{op.extent} indices are in tiles of {tile} that are gone"
                    )
                return replace(op, extent=extent)
            case Load() | TileGather():
                return op
            case _:
                if op.reads_axes or isinstance(op, Structure):
                    raise NotSmallerError(f"what a {type(op).__name__} is of fewer parts")
                return op
