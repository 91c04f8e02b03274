"""The choices of sizes of a frame type, as columns: NumPy arrays with one entry for each choice."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from math import ceil, prod
from typing import Any

import numpy as np

from mirage.cost.compilable import FEW_ROWS, MAX_COLUMNS, MAX_LONG, MAX_ROWS, MAX_WIDE_DIMS
from mirage.search.algebra.axes import Dims
from mirage.search.kernel.loop_nests.frames import AxisUse, FrameType
from mirage.search.kernel.problems.one_tile import NARROWEST

IntArray = np.ndarray[Any, np.dtype[np.int64]]
BoolArray = np.ndarray[Any, np.dtype[np.bool_]]
SWIZZLED_ROW = 128
"""The bytes of a row of the widest swizzle of a tile in shared memory."""
RING_STAGES = (2, 3, 4, 6, 8)
"""The numbers of slots to try for the rings that warpgroups read: many, since data that is not in
L2 takes long to arrive."""
GROUP_TILES = (32, 96, 192)
"""Further tile extents for warpgroups, besides powers of two from 64 on: 64 tiles of 96 columns
keep more multiprocessors busy than 48 tiles of 128, and tiles of 32 columns more than tiles of
64."""
DIVIDING_TILES = (160, 224)
"""Further tile extents that are used if they divide an axis, rounded up to whole instructions:
28672 columns are 128 tiles of 224, nearly one for each of 132 multiprocessors, or 112 tiles of 256;
257 rows are two tiles of 160, like 320 rows, or three of 96."""
GROUP_ROWS, GROUP_COLUMNS, MOST_BEYOND = 64, 8, 8
"""The rows of an instruction of warpgroups, and the number that divides its columns. If a tensor
has fewer rows, at most one of ``MOST_BEYOND`` rows of its tile may lie beyond the end, since copies
take longer for such rows."""
MAX_NESTED_TILE = 256
"""The largest tile extent along an axis of one of two nested loops."""
MAX_LINE, LEAST_LINE = 1024, 128
"""The largest tile extent along an axis of the outputs that no product has; and the least extent
that is acceptable if only small tiles divide the axis (70000 is 4375 times 16)."""
MAX_SUMMED_TILE, MAX_SUMMED_STEPS = 8192, 16
"""The largest tile extent along an axis that is summed, and the number of steps that an axis must
have for extents above 512: the blocks must have enough in flight to keep device memory busy."""
MAX_TWICE_TILE, FEWEST_TWICE_STEPS = 16384, 4
"""The largest tile extent and the fewest steps along rows that are read twice: fewer bytes in
flight take longer (softmax of 65,536 columns on an H200 in 4, 8, 16 and 32 steps, with four slots:
174.7, 188.8, 235 and 321 µs; of 32,768 columns 145.8, 157.2, 194 and 272)."""
MOST_BEYOND_END = 0.05
"""The share of an axis that is summed, without products, by which longer tiles than those that
divide it may go beyond its end. 128,256 columns are divided by 256 at most, and 8 steps of 16,384
are 2 % more; cross-entropy takes 63.6 µs in tiles of 512 columns, and 66.2 in tiles of 256."""
MAX_PARTS, MOST_LONG_PARTS = 256, 512
"""The most blocks that share a sum, and one of millions of elements, so that each has the largest
tile to do (67 MB of f16 in 256 blocks of an H200 18.15 µs, in 512 17.83; of f32 18.53 and 17.76).
"""


DEPTH = 16
"""The summed elements that an instruction of a product takes, for types of 16 bits."""
CLUSTERS, LEAST_SHARE = (2, 4, 8, 16), 8192
"""The numbers of blocks that share a row, and the fewest elements of it that each has."""
MANY_BLOCKS = 8192
"""The fewest blocks of one warp: several multiprocessors' worth of them are packed, and otherwise
each holds too few."""
FEW_SUIT = 16
"""The number of combinations of sizes that are drawn for each wanted one, if few are suitable."""


_Space = tuple[list[list[tuple[int, int, int]]], list[tuple[int, int]], bool, int]
"""The options of each axis, the warps and stages, whether warpgroups multiply, and the number of
blocks of a cluster."""


@dataclass(frozen=True)
class Columns:
    """The choices of sizes: for each axis the tile's extent and the numbers of loop steps and grid
    parts; and the schedule. Of rows that ``cluster`` blocks share, these are the sizes of each
    block's part, which is one of as many parts of the grid."""

    tile: dict[str, IntArray]
    steps: dict[str, IntArray]
    grid: dict[str, IntArray]
    warps: IntArray
    stages: IntArray
    warpgroups: BoolArray
    cluster: IntArray

    @property
    def count(self) -> int:
        """The number of choices."""
        return len(self.warps)

    def take(self, index: IntArray | list[int]) -> Columns:
        """Return some of the choices."""

        def pick(table: dict[str, IntArray]) -> dict[str, IntArray]:
            return {k: v[index] for k, v in table.items()}

        return Columns(
            pick(self.tile),
            pick(self.steps),
            pick(self.grid),
            self.warps[index],
            self.stages[index],
            self.warpgroups[index],
            self.cluster[index],
        )

    def with_warps_alone(self) -> Columns:
        """Return the choices in which each warp multiplies on its own."""
        return self if not self.warpgroups.any() else self.take(np.flatnonzero(~self.warpgroups))

    def blocks(self) -> IntArray:
        """Return the number of blocks in the grid."""
        out = np.ones(self.count, dtype=np.int64)
        for g in self.grid.values():
            out = out * g
        return out

    def exact(self, axis: str, size: int) -> BoolArray:
        """Return whether the parts of an axis divide it exactly."""
        return self.tile[axis] * self.steps[axis] * self.grid[axis] == size

    def wide(self, axes: Iterable[str]) -> IntArray:
        """Return the number of axes along which a tile is larger than one."""
        out = np.zeros(self.count, dtype=np.int64)
        for a in axes:
            out += self._wider[a]
        return out

    @cached_property
    def _wider(self) -> dict[str, BoolArray]:
        """Whether a tile is larger than one along each axis."""
        return {a: tile > 1 for a, tile in self.tile.items()}

    @cached_property
    def _cuts(self) -> dict[str, BoolArray]:
        """Whether each axis is cut into several tiles."""
        return {a: self.grid[a] * self.steps[a] > 1 for a in self.tile}

    def contiguous(self, dims: Dims, sizes: Mapping[str, int]) -> BoolArray:
        """Return whether tiles along merged dimensions are contiguous blocks of them."""
        ok = np.ones(self.count, dtype=bool)
        for dim in dims:
            for i, inner in enumerate(dim[1:], start=1):
                ok &= self.exact(inner, sizes[inner])
                for outer in dim[:i]:
                    ok &= ~(self._cuts[inner] & self._wider[outer])
        return ok

    def sample(self, limit: int, seed: int) -> Columns:
        """Return ``limit`` of the choices, or all if there are no more."""
        if self.count <= limit:
            return self
        rng = np.random.default_rng(seed)
        return self.take(np.sort(rng.choice(self.count, size=limit, replace=False)))

    def suiting(self, tensors: Iterable[Dims], sizes: Mapping[str, int]) -> Columns:
        """Return the choices for which all of these tensors can be tiled."""
        ok = np.ones(self.count, dtype=bool)
        for dims in tensors:
            ok &= self.wide(a for dim in dims for a in dim) <= MAX_WIDE_DIMS
            ok &= self.contiguous(dims, sizes)
        return self if ok.all() else self.take(np.flatnonzero(ok))


def _powers(low: int, high: int) -> list[int]:
    out: list[int] = []
    p = low
    while p <= high:
        out.append(p)
        p *= 2
    return out


def _dividing(options: list[int], size: int) -> list[int]:
    """Return the options that divide ``size``, unless they are too few."""
    exact = [o for o in options if size % o == 0]
    return exact if len(exact) >= min(2, len(options)) else options


def tile_options(axis: str, use: AxisUse) -> list[int]:
    """Return the tile extents to try for an axis of the outputs."""
    size = use.sizes[axis]
    rows = any(axis in m.rows for m in use.matmuls)
    columns = any(axis in m.columns for m in use.matmuls)
    batch = any(axis in m.batch for m in use.matmuls)
    if batch and not rows and not columns:
        return [1]
    if rows or columns:
        limit = MAX_ROWS if rows else MAX_LONG if _is_long(axis, use) else MAX_COLUMNS
        merged = any(
            axis in side and len(side) > 1 for m in use.matmuls for side in (m.rows, m.columns)
        )
        least = NARROWEST if rows else use.narrowest
        if size <= least:
            return sorted({1, size} if merged else {size})
        options = _dividing([o for o in _powers(least, limit) if o <= size], size)
        if size <= limit:
            options = [*options, size]
        return sorted({*options, 1} if merged else set(options))
    powers = [o for o in _powers(1, MAX_LINE) if o <= size]
    options = _dividing(powers, size)
    if size <= MAX_LINE:
        options = [*options, size]
    elif max(options) < LEAST_LINE:  # blocks of few elements take longer than a tail does
        options = [*options, *(o for o in powers if o >= LEAST_LINE)]
    return sorted(set(options))


def _is_long(axis: str, use: AxisUse) -> bool:
    """Return whether a tile may have all columns of products, since all of these have few rows."""
    rows = (m.rows for m in use.matmuls if axis in m.columns)
    few = all(prod(use.sizes[a] for a in r) <= FEW_ROWS for r in rows)
    return few and use.sizes[axis] <= MAX_LONG


def _beyond(size: int, tile: int) -> float:
    """Return the share of an axis's tiles that lies beyond its end."""
    return -size % tile / size


def axis_options(axis: str, use: AxisUse, kind: FrameType) -> list[tuple[int, int, int]]:
    """Return the (tile, steps, parts) to try for one axis."""
    size = use.sizes[axis]
    if axis in use.mixed:
        return [(size, 1, 1)]
    if axis in use.free:
        return [(t, 1, ceil(size / t)) for t in tile_options(axis, use)]
    low = _least_depth(axis, use, kind) if use.contracted(axis) else 32 if size > 64 else 1
    low, high = (low, 512) if kind.inner is None else (min(32, low), MAX_NESTED_TILE)
    if not use.contracted(axis) and kind.inner is None:
        while high < MAX_SUMMED_TILE and size > high * MAX_SUMMED_STEPS * MAX_PARTS:
            high *= 2
        if axis in use.twice:
            high = max(high, min(MAX_TWICE_TILE, size // FEWEST_TWICE_STEPS))
    tiles = _dividing([t for t in _powers(low, high) if t < size], size) or [size]
    if not use.contracted(axis):
        tiles += [t for t in _powers(2 * max(tiles), high) if _beyond(size, t) <= MOST_BEYOND_END]
    parts = [p for p in _powers(2, 64) if size // p >= 16] or [1]
    # one of 64 parts of a long axis would be too long for a tile
    parts += [p for p in (128, MAX_PARTS) if size // p >= 128]
    parts += [MOST_LONG_PARTS] if size // MOST_LONG_PARTS >= MAX_SUMMED_TILE else []
    parts = _dividing(parts, size)
    out: list[tuple[int, int, int]] = []
    if axis == kind.loop and axis == kind.split:
        for t in tiles:
            for p in parts:
                steps = ceil(size / (p * t))
                if steps > 1:  # as few parts as these steps need: 65 tiles are 13 times 5
                    out.append((t, steps, ceil(ceil(size / t) / steps)))
        out = sorted({o for o in out if o[2] > 1})
    elif axis in (kind.loop, kind.inner):
        out = [(t, ceil(size / t), 1) for t in tiles if t < size]
    elif axis == kind.split:
        for p in parts:
            t = ceil(size / p)
            # 64 parts of 4097 are tiles of 80, of which there are 52, or one more part than 64
            for tile in {ceil(t / 16) * 16, t // 16 * 16} if t >= 16 else {t}:
                if tile < size:
                    out.append((tile, 1, ceil(size / tile)))
        out = sorted(set(out))
    else:
        out = [(size, 1, 1)]
    return out


def _least_depth(axis: str, use: AxisUse, kind: FrameType) -> int:
    """Return the shortest tile along an axis of products' sums: that of an instruction, or less if
    the tile has other such axes whole (the elements of a group that has a scale of its own)."""
    split = (axis, kind.loop, kind.inner, kind.split)
    sums = (m.contracted for m in use.matmuls if axis in m.contracted)
    depth = min((prod(use.sizes[a] for a in own if a not in split) for own in sums), default=1)
    return max(1, DEPTH // depth)


def columns_of(
    use: AxisUse,
    kind: FrameType,
    limit: int,
    seed: int,
    group_row: int = 0,
    clusters: bool = False,
    suiting: Callable[[Columns], Columns] = lambda columns: columns,
) -> tuple[Columns, bool] | None:
    """Return all choices of sizes of a type that are ``suiting``, and whether ``limit`` excluded
    some, or None if there are none. Choices in which warpgroups multiply follow, also up to
    ``limit``, if ``group_row`` (the number of factors' elements in a row of a swizzled tile) is not
    0, and with ``clusters`` those in which several blocks share a row.
    """
    axes = [*use.free, *(a for a in (*use.reduced, *use.mixed) if a not in use.free)]
    options = [axis_options(a, use, kind) for a in axes]
    # at most two of many axes are larger than one in a tile: few combinations are suitable
    sparse = kind.loop is None and not use.matmuls and len(axes) > MAX_WIDE_DIMS
    # without a loop a block loads everything at once, so many small blocks for each SM are best;
    # tiles of two of many axes are small enough for a warp
    warps = (4, 8, 16) if kind.loop or use.matmuls else (1, 2, 4, 8, 16)[not sparse :]
    schedules = [(w, s) for w in warps for s in ((2, 3, 4) if kind.loop else (1,))]
    spaces: list[_Space] = [(options, schedules, False, 1)]
    if group_row and kind.loop is not None and kind.inner is None and use.contracted(kind.loop):
        large = [
            _for_warpgroups(a, o, use, kind, group_row) for a, o in zip(axes, options, strict=True)
        ]
        spaces.append((large, [(w, s) for w in (4, 8) for s in RING_STAGES], True, 1))
    if clusters:
        spaces += _for_clusters(axes, options, use, kind)
    drawn = FEW_SUIT * limit if sparse else limit
    found = [_choose(axes, *space, drawn, seed) for space in spaces]
    found = [(None if c is None else suiting(c), cut) for c, cut in found]
    if sparse:
        found = [(None if c is None else _without_few_warps(c), cut) for c, cut in found]
        found = [(None if c is None else c.sample(limit, seed), cut) for c, cut in found]
    chosen = [columns for columns, _ in found if columns is not None]
    if not chosen or found[0][0] is None:
        return None
    return _joined(chosen), any(cut for _, cut in found)


def _without_few_warps(columns: Columns) -> Columns:
    """Return the choices except for blocks of one warp that are too few to be packed."""
    few = (columns.warps == 1) & (columns.blocks() < MANY_BLOCKS)
    return columns.take(np.flatnonzero(~few)) if few.any() else columns


def _for_warpgroups(
    axis: str, options: list[tuple[int, int, int]], use: AxisUse, kind: FrameType, row: int
) -> list[tuple[int, int, int]]:
    """Return the options of an axis that warpgroups can use: at least 64 rows and columns, or all
    of an axis of fewer, which is then the columns; and steps as deep as one or two rows of a
    swizzled tile, of ``row`` elements. Half of such a row is used only if the axis is no longer:
    twice as many copies of half rows take more time than deeper rings save (1.1 to 1.2 times,
    measured)."""
    if axis == kind.loop:
        whole = [o for o in options if o[0] in (row, 2 * row)]
        return whole or [o for o in options if o[0] == row // 2]
    if any(axis in side for m in use.matmuls for side in (m.rows, m.columns)):
        # the largest extents are worth it even if the last tile is cut short (1088 rows: 9 of 128)
        large = {MAX_ROWS, MAX_COLUMNS} - {o[0] for o in options}
        tiles = (*GROUP_TILES, *sorted(large))
        cut = axis in use.free and axis not in use.mixed  # axes that are also summed stay whole
        rounded = ceil(use.sizes[axis] / GROUP_ROWS) * GROUP_ROWS
        dividing = [t for t in DIVIDING_TILES if rounded % t == 0]
        between = [t for t in (*tiles, *dividing) if cut and t < use.sizes[axis]]
        longer = _longer_tiles(use.sizes[axis]) if cut else []
        more = [(t, 1, ceil(use.sizes[axis] / t)) for t in (*between, *longer)]
        beyond = GROUP_ROWS if axis in use.lines else GROUP_ROWS // MOST_BEYOND
        if cut and 0 < GROUP_ROWS - use.sizes[axis] <= beyond:
            more.append((GROUP_ROWS, 1, 1))
        columns = ceil(use.sizes[axis] / GROUP_COLUMNS) * GROUP_COLUMNS
        if cut and columns < GROUP_ROWS and MOST_BEYOND * (columns - use.sizes[axis]) <= columns:
            more.append((columns, 1, 1))
        return [o for o in options if o[0] % 64 == 0 or o[0] == 1] + more
    return options


def _for_clusters(
    axes: list[str], options: list[list[tuple[int, int, int]]], use: AxisUse, kind: FrameType
) -> list[_Space]:
    """Return the choices in which blocks share the longest axis that a tile has whole, without
    loops: each has its part in registers."""
    long = max(use.mixed, key=lambda a: use.sizes[a], default=None)
    if long is None or kind.loop is not None or kind.split is not None or use.matmuls:
        return []
    size, place = use.sizes[long], axes.index(long)
    found: list[_Space] = []
    for blocks in CLUSTERS:
        if size % blocks == 0 and size // blocks >= LEAST_SHARE:
            shared = [[o for o in own if o[0] == 1] for own in options]  # one row at a time
            shared[place] = [(size // blocks, 1, blocks)]
            found.append((shared, [(w, 1) for w in (4, 8, 16)], False, blocks))
    return found


def _longer_tiles(size: int) -> list[int]:
    """Return tiles for an axis slightly longer than a multiple of the usual ones: as many as the
    multiple has, each somewhat longer, so that the rest takes no tile of its own. They are columns
    of products, which come in eights (2049 rows: 16 tiles of 136)."""
    found = set[int]()
    for usual in (GROUP_ROWS, MAX_ROWS):
        parts = max(1, size // usual)
        tile = ceil(ceil(size / parts) / GROUP_COLUMNS) * GROUP_COLUMNS
        if usual < tile <= usual * (1 + 1 / MOST_BEYOND):
            found.add(tile)
    return sorted(found)


def _choose(
    axes: list[str],
    options: list[list[tuple[int, int, int]]],
    schedules: list[tuple[int, int]],
    warpgroups: bool,
    cluster: int,
    limit: int,
    seed: int,
) -> tuple[Columns | None, bool]:
    """Return up to ``limit`` of the combinations, and whether there are more."""
    shape = [*(len(o) for o in options), len(schedules)]
    total = prod(shape)
    if total == 0:
        return None, False
    cut = total > limit
    if cut:
        picks = np.sort(np.random.default_rng(seed).choice(total, size=limit, replace=False))
    else:
        picks = np.arange(total)
    index = np.unravel_index(picks, shape)
    tile: dict[str, IntArray] = {}
    steps: dict[str, IntArray] = {}
    grid: dict[str, IntArray] = {}
    for axis, option, i in zip(axes, options, index[:-1], strict=True):
        table = np.array(option, dtype=np.int64)[i]
        tile[axis], steps[axis], grid[axis] = table[:, 0], table[:, 1], table[:, 2]
    schedule = np.array(schedules, dtype=np.int64)[index[-1]]
    engine = np.full(len(picks), warpgroups)
    together = np.full(len(picks), cluster)
    return Columns(tile, steps, grid, schedule[:, 0], schedule[:, 1], engine, together), cut


def _joined(parts: list[Columns]) -> Columns:
    """Concatenate the choices of all parts."""
    if len(parts) == 1:
        return parts[0]

    def join(tables: list[dict[str, IntArray]]) -> dict[str, IntArray]:
        return {k: np.concatenate([t[k] for t in tables]) for k in tables[0]}

    return Columns(
        join([p.tile for p in parts]),
        join([p.steps for p in parts]),
        join([p.grid for p in parts]),
        np.concatenate([p.warps for p in parts]),
        np.concatenate([p.stages for p in parts]),
        np.concatenate([p.warpgroups for p in parts]),
        np.concatenate([p.cluster for p in parts]),
    )
