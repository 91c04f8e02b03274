"""Execution of a launch: all of its blocks in parallel, tile by tile, step by step."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np

from mirage.semantics.domain import (
    Domain,
    Planes,
    as_integers,
    in_type_of,
    map_planes,
    pad_rank,
    shape_of,
)
from mirage.semantics.evaluation.parts_of_ops import (
    EvaluationError,
    Tensor,
    computed,
    indices_of,
    locate,
    taken,
)
from mirage.semantics.region import Positions, Takes, part_numbers, region_shape, whole
from mirage.semantics.scalar import Array, BinaryFn, DType
from mirage.semantics.tile_parts import TileParts, part_of
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Launch,
    Load,
    Loop,
    Mask,
    Op,
    RunningMax,
    TileMap,
    UnknownOp,
    Value,
    axis_extents,
)


class BlockEvaluator:
    """Runs the blocks of ``launch`` at the given grid positions. Use once. If ``parts`` of tiles
    are given, only these are computed; ``known`` has the operands' parts that were taken in an
    earlier evaluation.

    Arrays of tensors start with ``sets`` dimensions, one for the sets of inputs that are evaluated
    together; arrays of tiles have dimensions for the grid axes after these."""

    def __init__(
        self,
        domain: Domain,
        launch: Launch,
        params: Mapping[Value, Tensor],
        positions: Positions,
        sets: int = 0,
        parts: TileParts | None = None,
        known: dict[Op, Takes] | None = None,
    ) -> None:
        self.domain = domain
        self.launch = launch
        self.params = params
        self.positions = positions
        self.extents = axis_extents(launch)
        self.grid = tuple(a.name for a in launch.grid)
        self.sets = sets
        self.lead = sets + len(self.grid)  # array dimensions before a tile's own
        self.parts = parts
        self.known: dict[Op, Takes] = {} if known is None else known
        self.made = dict(parts or {})  # the parts of tiles that ops computed, which may be larger
        self.step: dict[str, int] = {}
        self.values: dict[Value, Planes] = {}
        self.before: dict[Value, Planes] = {}  # running maxima as they were one step ago
        self.started: Array | None = None  # blocks that have taken a step of the loop; None: all
        self.tiles: dict[Load, tuple[Planes, tuple[str, ...]]] = {}

    def run(self) -> tuple[Tensor, ...]:
        """Return the launch's results, as far as the blocks at the given positions write them."""
        self._run(self.launch.body.ops)
        return tuple(
            self._store(output.value, output.map, result)
            for output, result in zip(self.launch.body.outputs, self.launch.results, strict=True)
        )

    def _run(self, ops: tuple[Op, ...]) -> None:
        values = self.values
        for op in ops:
            if self.parts is not None and op.result not in self.parts:
                continue
            if isinstance(op, Load):
                values[op.result] = self._load(op)
            elif isinstance(op, Mask):
                values[op.result] = self._mask(op)
            elif isinstance(op, RunningMax):
                self._running_max(op)
            elif isinstance(op, Loop):
                self._loop(op)
            elif self.parts is not None:
                tiles = [Tensor(values[v], self.made[v]) for v in op.operands]
                part = self.parts[op.result]
                found = computed(self.domain, op, tiles, part, self.known, self.lead)
                values[op.result], self.made[op.result] = found
            else:
                xs = [self.values[v] for v in op.operands]
                self.values[op.result] = op.compute(self.domain, xs, self.lead, op.result.shape)

    # ---- loads -----------------------------------------------------------------------------------

    def _load(self, op: Load) -> Planes:
        if op not in self.tiles:
            self.tiles[op] = self._cut(op)
        planes, loops = self.tiles[op]
        key = (slice(None),) * self.lead + tuple(self.step[axis] for axis in loops)
        tile = map_planes(lambda p: p[(*key, ...)], planes)  # an array even if its rank is 0
        return as_integers(tile) if op.result.dtype.is_number else tile

    def _cut(self, op: Load) -> tuple[Planes, tuple[str, ...]]:
        """Return all tiles of a load, with dimensions for the grid axes, then for the loop axes
        (named), then the tile's own.
        """
        source = op.operands[0]
        tensor = self.params[source]
        planes = tensor.planes
        names: list[
            str | int
        ] = []  # for each array dimension, an axis or the number of a tile dimension
        for dim in range(len(source.shape)):
            at = self.sets + len(names)
            planes = self._cut_dim(planes, at, op, dim, tensor.region[dim])
            names.extend((*op.map[dim], dim))
        for axis in {n for n in names if isinstance(n, str)}:
            while (
                names.count(axis) > 1
            ):  # one axis that splits two dimensions walks along the diagonal
                i = names.index(axis)
                j = names.index(axis, i + 1)
                a, b = self.sets + i, self.sets + j
                planes = map_planes(lambda p, a=a, b=b: np.diagonal(p, axis1=a, axis2=b), planes)
                names = [n for k, n in enumerate(names) if k not in (i, j)] + [axis]
        loops = tuple(sorted({n for n in names if isinstance(n, str) and n not in self.grid}))
        wanted: list[str | int] = [*self.grid, *loops, *range(len(source.shape))]
        order = [*range(self.sets), *(self.sets + names.index(n) for n in wanted if n in names)]
        shape = tuple(self.sets + i for i, n in enumerate(wanted) if n not in names)
        return map_planes(lambda p: np.expand_dims(p.transpose(order), shape), planes), loops

    def _cut_dim(self, planes: Planes, at: int, op: Load, dim: int, have: Array | None) -> Planes:
        """Replace array dimension ``at`` by one dimension for each axis of the map and one for the
        tile."""
        size, tile, axes = op.operands[0].shape[dim], op.result.shape[dim], op.map[dim]
        parts = part_numbers(axes, self.extents, self.positions)
        within = part_of(self.parts, op.result)[dim]
        every = within is None and parts.size * tile == size
        every = every and np.array_equal(parts.ravel(), np.arange(parts.size))
        if have is None and every:  # all parts in order, nothing outside
            return map_planes(
                lambda p: p.reshape(p.shape[:at] + parts.shape + (tile,) + p.shape[at + 1 :]),
                planes,
            )
        index = parts[..., None] * tile + (np.arange(tile) if within is None else within)
        inside = index < size
        if not inside.any():  # only what lies outside is read: zeros
            shape = shape_of(planes)
            planes = map_planes(
                lambda p: np.zeros((*shape[:at], *inside.shape, *shape[at + 1 :]), p.dtype), planes
            )
            return self.domain.select(np.zeros((), bool), planes, 0.0, op.result.dtype)
        first = 0 if have is None else int(have[0])
        at_index = locate(np.where(inside, index, first), have)
        count = int(inside.sum())
        flat = at_index.ravel()[:count]
        if inside.ravel()[:count].all() and (flat[1:] == flat[:-1] + 1).all():  # in one piece
            piece = (*(slice(None),) * at, slice(int(flat[0]), int(flat[-1]) + 1))
            planes = self._extended(map_planes(lambda p: p[piece], planes), at, inside.size, op)
            return map_planes(
                lambda p: p.reshape(p.shape[:at] + inside.shape + p.shape[at + 1 :]), planes
            )
        planes = map_planes(lambda p: np.take(p, at_index, axis=at), planes)
        if inside.all():
            return planes
        keep = inside.reshape(
            (1,) * at + inside.shape + (1,) * (len(shape_of(planes)) - at - inside.ndim)
        )
        return self.domain.select(keep, planes, 0.0, op.result.dtype)

    def _extended(self, planes: Planes, at: int, count: int, op: Load) -> Planes:
        """Return ``planes`` with zeros up to ``count`` elements along array dimension ``at``."""
        shape = shape_of(planes)
        if shape[at] == count:
            return planes
        rest = (*shape[:at], count - shape[at], *shape[at + 1 :])
        zero = self.domain.constant(0.0, op.result.dtype)
        zeros = tuple(
            np.broadcast_to(in_type_of(p, z), rest) for p, z in zip(planes, zero, strict=False)
        )
        return self.domain.concat([planes, zeros], at)

    # ---- masks, maxima, loops --------------------------------------------------------------------

    def _mask(self, op: Mask) -> Planes:
        x = self.values[op.operands[0]]
        tile = op.result.shape[op.dim]
        part = part_of(self.parts, op.result)
        if self.parts is not None:
            have = self.made[op.operands[0]]
            x = taken(x, indices_of(part, have, op.result.shape), self.lead)
        within = part[op.dim]
        grid_axes = tuple(a for a in op.axes if a in self.grid)
        number = np.zeros((1,) * len(self.grid), dtype=np.int64)
        for axis in op.axes:
            step = np.asarray(self.positions[axis] if axis in grid_axes else self.step[axis])
            where = [1] * len(self.grid)
            if axis in grid_axes:
                where[self.grid.index(axis)] = -1
            number = number * self.extents[axis] + step.reshape(where)
        places = np.arange(tile) if within is None else within
        index = number[..., None] * tile + places
        rest = len(op.result.shape) - op.dim - 1
        keep = (index < op.extent).reshape(
            number.shape + (1,) * op.dim + (len(places),) + (1,) * rest
        )
        return self.domain.select(keep, x, op.fill, op.result.dtype)

    def _running_max(self, op: RunningMax) -> None:
        x = self.values[op.operands[0]]
        previous = self.before.get(op.result)
        now = x
        if previous is not None:
            now = self.domain.binary(BinaryFn.MAX, previous, x, op.result.dtype)
            now = self._where(self.started, now, x)
        self.values[op.result] = now

    def _loop(self, op: Loop) -> None:
        for m in op.maxima:
            self.before.pop(m, None)
        totals: list[Planes | None] = [None] * len(op.accumulators)
        around, started = self.started, np.zeros((1,) * self.lead, bool)
        for step in range(op.axis.extent):
            takes = self._takes(op, step)
            if takes is not None and not takes.any():
                continue
            self.started = None if takes is None else started
            self.step[op.axis.name] = step
            self._run(op.body)
            totals = [
                self._taken(takes, self._accumulate(a, t), t)
                for a, t in zip(op.accumulators, totals, strict=True)
            ]
            for m in op.maxima:
                self.before[m] = self._taken(takes, self.values[m], self.before.get(m))
            started = started | (True if takes is None else takes)
        self.started = around
        del self.step[op.axis.name]
        for result, total in zip(op.results, totals, strict=True):
            assert total is not None
            self.values[result] = total

    def _takes(self, op: Loop, step: int) -> Array | None:
        """Return which blocks take a step, with dimensions like those before a tile's own; None if
        all do."""
        if op.steps is None:
            return None
        rank = len(self.grid)
        positions = {
            axis: np.asarray(self.positions[axis]).reshape((1,) * i + (-1,) + (1,) * (rank - i - 1))
            for i, axis in enumerate(self.grid)
        }
        first, end = op.steps.range_at(positions, op.axis.extent, self._read(op))
        takes = np.asarray((first <= step) & (step < end))
        return takes.reshape((1,) * (self.lead - takes.ndim) + takes.shape)

    def _read(self, op: Loop) -> list[Array]:
        """Return the integers that bound a loop, with dimensions like those before a tile's own."""
        readings = () if op.steps is None else op.steps.readings
        found: list[Array] = []
        for load, reading in zip(op.reads, readings, strict=True):
            planes = self._load(load)
            if len(planes) != 1:
                raise UnknownOp("expected bounds that are known numbers, got residues")
            found.append(reading.of(planes[0]))
        return found

    def _taken(self, takes: Array | None, now: Planes, before: Planes | None) -> Planes:
        """Return the values of blocks after a step; blocks that do not take it keep their previous
        values."""
        return now if before is None else self._where(takes, now, before)

    def _where(self, blocks: Array | None, x: Planes, y: Planes) -> Planes:
        """Return ``x`` for some blocks and ``y`` for the others."""
        if blocks is None:
            return x
        lead = self.lead

        def chosen(p: Array, q: Array) -> Array:
            rank = max(p.ndim, q.ndim) - lead
            return np.where(blocks.reshape(blocks.shape + (1,) * rank), p, q)

        return tuple(chosen(p, q) for p, q in zip(x, y, strict=False))

    def _accumulate(self, a: Accumulator, total: Planes | None) -> Planes:
        value = self.values[a.value]
        if total is None or a.fn is AccumulateFn.LAST:
            return value
        return self._where(self.started, self._combined(a, total, value), value)

    def _combined(self, a: Accumulator, total: Planes, value: Planes) -> Planes:
        own = a.value.dtype
        dtype = own if own is DType.F64 or own.is_number else DType.F32
        if a.fn is AccumulateFn.MAX:
            return self.domain.binary(BinaryFn.MAX, total, value, dtype)
        if a.rescale is not None:
            lead, rank = self.lead, len(a.value.shape)
            before = pad_rank(self.before[a.rescale], lead, rank)
            total = self.domain.rescale(
                total, before, pad_rank(self.values[a.rescale], lead, rank), dtype
            )
        return self.domain.binary(BinaryFn.ADD, total, value, dtype)

    # ---- stores ----------------------------------------------------------------------------------

    def _store(self, stored: Value, tile_map: TileMap, result: Value) -> Tensor:
        if self.parts is not None and stored not in self.parts:
            return Tensor((), ())  # not wanted
        sets, lead, tile, x = self.sets, self.lead, stored.shape, self.values[stored]
        part = whole(len(tile)) if self.parts is None else self.made[stored]
        named = [axis for axes in tile_map for axis in axes]
        if len(set(named)) != len(named):
            raise EvaluationError(
                f"store map {tile_map}: an axis is named twice, so elements stay unwritten"
            )
        for i, axis in enumerate(self.grid):
            if axis not in named and shape_of(x)[sets + i] > 1:
                first = map_planes(lambda p, i=sets + i: np.take(p, [0], axis=i), x)
                if not self.domain.equal(x, first).all():
                    raise EvaluationError(
                        f"blocks along grid axis '{axis}' store different values to one element"
                    )
                x = first
        target = tuple(len(self.positions[a]) if a in named else 1 for a in self.grid)
        x = self.domain.cast(
            map_planes(lambda p: np.broadcast_to(p, p.shape[:sets] + target + p.shape[lead:]), x),
            result.dtype,
        )
        order: list[int] = []
        for dim, axes in enumerate(tile_map):
            order.extend((*(sets + self.grid.index(a) for a in axes), lead + dim))
        skipped = (*range(sets), *(sets + i for i, a in enumerate(self.grid) if a not in named))
        flat = tuple(
            prod(len(self.positions[a]) for a in axes) * t
            for axes, t in zip(tile_map, region_shape(part, tile), strict=True)
        )
        planes = map_planes(
            lambda p: p.transpose((*skipped, *order)).reshape(p.shape[:sets] + flat), x
        )
        region: list[Array | None] = []
        each = zip(tile_map, tile, part, result.shape, strict=True)
        for dim, (axes, t, within, size) in enumerate(each):
            parts = part_numbers(axes, self.extents, self.positions)
            if prod(self.extents[a] for a in axes) * t < size:
                raise EvaluationError(
                    f"dimension {dim} of a result has {size} elements, blocks write only the first "
                    f"{prod(self.extents[a] for a in axes) * t}"
                )
            places = np.arange(t) if within is None else within
            index = (parts[..., None] * t + places).ravel()
            inside = index < size
            if not inside.all():
                planes = map_planes(
                    lambda p, d=sets + dim, i=inside: np.compress(i, p, axis=d), planes
                )
                index = index[inside]
            region.append(None if len(index) == size else index)
        return Tensor(planes, tuple(region))
