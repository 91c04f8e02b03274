"""The elements that some blocks of a kernel wrote, compared with the meaning of its op.

The elements that a block writes are observed, not predicted: the tiles in which something was
written are computed in float64, from the parts of the operands that they need.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from mirage.emulator.run_artifact import TOLERANCE
from mirage.pipeline.checks.kernel_memory import KernelMemory, stray_bytes, written_elements
from mirage.pipeline.checks.named_rows import with_named_rows
from mirage.semantics.domain import Float64, TypedFloat
from mirage.semantics.evaluation.evaluate import Sampled, evaluate_sampled
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.region import Demand, Region, demand, launch_positions, part_numbers
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph, Launch, Op, Value, all_ops, axis_extents, launches
from mirage.verify.evidence.samples.real_sizes import restrict


class WrongValueError(Exception):
    """Blocks wrote wrong values; the message says where."""


def compare(op: Op, memory: KernelMemory, positions: int) -> int:
    """Compare the written elements for a number of ``positions`` of the grid. Return the number of
    elements that were compared: those that are defined and not decided by rounding; 0 if these are
    fewer than half. Raises :class:`WrongValueError`."""
    written = [written_elements(r) for r in memory.results]
    if (stray := stray_bytes(memory.results)) > 0:
        types = ", ".join(str(v.type) for v in op.results)
        raise WrongValueError(f"{stray} bytes beside the results {types} are written")
    launch = next(launches((op,)), None)
    if launch is not None:
        tiles = _tiles(launch, written[0])
        if len(tiles) != positions and _each_has_a_tile(launch):
            raise WrongValueError(
                f"expected {positions} tiles to be written, one for each position that was run, "
                f"got {len(tiles)}"
            )
    else:
        tiles = [[_hull(w, v) for w, v in zip(written, op.results, strict=True)]]
    arrays = dict(zip(op.operands, memory.operands, strict=True))
    graph = loaded(KernelGraph("kernel", tuple(arrays), (op,), op.results))
    graph, given = with_named_rows(graph, tuple(arrays.values()))
    seen = [np.zeros(len(w), bool) for w in written]
    tolerance = _tolerance(op)
    compared = 0
    for tile in tiles:
        wants, nears = _values(op, graph, given, tile)
        for number, value in enumerate(op.results):
            places = _places(tile[number], value.shape)
            at = np.searchsorted(written[number], places)
            there = at < len(written[number])
            there[there] = written[number][at[there]] == places[there]
            seen[number][at[there]] = True
            if launch is not None and not there.all():
                raise WrongValueError(
                    f"{_name(places[~there], value)} is not written, but others of its tile are"
                )
            got = memory.results[number].array.reshape(-1)[places[there]]
            want, near = wants[number][there], nears[number][there]
            compared += _agreeing(got, want, near, places[there], value, tolerance)
    for value, w, s in zip(op.results, written, seen, strict=True):
        if not s.all():
            raise WrongValueError(
                f"{_name(w[~s], value)} is written by a block that has another tile"
            )
    return compared if 2 * compared >= sum(map(len, written)) else 0


def _tolerance(op: Op) -> float:
    """Return the tolerance of the coarsest type in the kernel: products round their operands to
    it."""
    values = (v for inner in all_ops((op,)) for v in (*inner.operands, *inner.results))
    return max(TOLERANCE[v.dtype.value] for v in values)


def _agreeing(
    got: Array, want: Array, near: Array, places: Array, value: Value, tolerance: float
) -> int:
    """Return how many elements can be compared, numbers and infinities. ``near`` is the predicted
    result of a GPU: where it is far from ``want``, rounding decides the value. Raises
    :class:`WrongValueError` if other elements differ."""
    got = got.astype(np.float64)
    finite = want[np.isfinite(want)]
    typical = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
    with np.errstate(all="ignore"):
        allowed = tolerance * (typical + np.abs(want))
        known = np.isfinite(want) & (np.abs(near - want) <= 0.25 * allowed)
        infinite = np.isinf(want) & (near == want)
        wrong = known & ~(np.abs(got - want) <= allowed) | infinite & (got != want)
    if wrong.any():
        worst = int(np.flatnonzero(wrong)[0])
        raise WrongValueError(
            f"{int(wrong.sum())} of {wrong.size} elements of a tile are wrong; "
            f"{_name(places[[worst]], value)} is {got[worst]:g}, expected {want[worst]:g} within "
            f"{allowed[worst]:.2g}"
        )
    return int((known | infinite).sum())


def _name(places: Array, value: Value) -> str:
    index = np.unravel_index(int(places[0]), value.shape or (1,))
    return f"element ({', '.join(str(int(i)) for i in index)}) of a result {value.type}"


# ---- the written elements


def _hull(written: Array, value: Value) -> Region:
    """Return, for each dimension, the indices at which something is written."""
    indices = np.unravel_index(written, value.shape or (1,))
    return tuple(np.unique(i) for i in indices[: len(value.shape)])


def _tiles(launch: Launch, written: Array) -> list[list[Region]]:
    """Return, for each block that wrote elements of the first result, the tiles of all results."""
    extents, outputs = axis_extents(launch), launch.body.outputs
    first, tile = launch.results[0], outputs[0].value.shape
    indices = np.unravel_index(written, first.shape or (1,))[: len(tile)]
    numbers = [_numbers(launch, written, dim) for dim in range(len(tile))]
    found: list[list[Region]] = []
    for place in sorted(set(zip(*(n.tolist() for n in numbers), strict=True))) or [()]:
        own: Region = tuple(
            np.arange(p * t, min((p + 1) * t, n))
            for p, t, n in zip(place, tile, first.shape, strict=True)
        )
        at = launch_positions(launch, {first: own})
        mine = np.logical_and.reduce([n == p for n, p in zip(numbers, place, strict=True)])
        earlier = {
            axes for axes, i, p, t in zip(outputs[0].map, indices, place, tile, strict=True)
            if i[mine].min() < p * t
        }  # fmt: skip
        found.append(
            [
                tuple(
                    _inside(part_numbers(axes, extents, at), t, n, axes in earlier)
                    for axes, t, n in zip(o.map, o.value.shape, v.shape, strict=True)
                )
                for o, v in zip(outputs, launch.results, strict=True)
            ]
        )
    return found


def _numbers(launch: Launch, written: Array, dim: int) -> Array:
    """Return, for each element of the first result, the number along a dimension of the tile that
    wrote it.

    If tiles of warpgroups do not divide a dimension, the last one may end where the tensor ends and
    overlap the one before: the block that writes the last index then writes a full tile before it.
    It makes no difference whether the block of the previous tile wrote those elements too."""
    shape, output = launch.results[0].shape, launch.body.outputs[0]
    size, tile = shape[dim], output.value.shape[dim]
    index = np.unravel_index(written, shape)[dim]
    numbers = index // tile
    if launch.schedule.warpgroups and tile < size and size % tile and len(output.map[dim]) == 1:
        step = prod(shape[dim + 1 :])
        begin, end = (written + (i - index) * step for i in (size - tile, size - 1))
        overlaps = (index >= size - tile) & np.isin(begin, written) & np.isin(end, written)
        numbers = np.where(overlaps, (size - 1) // tile, numbers)
    return numbers


def _inside(parts: Array, tile: int, size: int, earlier: bool) -> Array:
    """Return the indices of tiles; a last tile that starts ``earlier`` ends where the tensor
    ends."""
    starts = np.unique(parts) * tile
    if earlier:
        starts = np.minimum(starts, size - tile)
    index = (starts[:, None] + np.arange(tile)).ravel()
    return index[index < size]


def _each_has_a_tile(launch: Launch) -> bool:
    """Return whether every block's tile of the first result is at least partly inside of it."""
    extents, output = axis_extents(launch), launch.body.outputs[0]
    return all(
        (prod(extents[a] for a in axes) - 1) * t < n
        for axes, t, n in zip(output.map, output.value.shape, launch.results[0].shape, strict=True)
    )


def _places(region: Region, shape: tuple[int, ...]) -> Array:
    """Return the flat indices of a region's elements, in order."""
    flat = np.zeros((1,) * len(shape), np.int64)
    for dim, (index, size) in enumerate(zip(region, shape, strict=True)):
        own = np.arange(size) if index is None else index
        where = [1] * len(shape)
        where[dim] = -1
        flat = flat + own.reshape(where) * prod(shape[dim + 1 :])
    return flat.ravel()


# ---- their expected values


def _values(
    op: Op, graph: KernelGraph, arrays: Sequence[Array], tile: Sequence[Region]
) -> tuple[list[Array], list[Array]]:
    """Return the elements of a tile in float64, and rounded as a GPU rounds them."""
    wanted = demand(graph, tile)
    given = [_operand(v, x, wanted) for v, x in zip(graph.inputs, arrays, strict=True)]
    found: list[list[Array]] = []
    for domain in (Float64(), TypedFloat()):
        inputs = [
            Sampled(domain.cast(x.planes, v.dtype), x.region)
            for x, v in zip(given, graph.inputs, strict=True)
        ]
        results = evaluate_sampled(graph, domain, inputs, wanted)
        found.append(
            [
                restrict(x, region, v)[0].reshape(-1).astype(np.float64)
                for x, region, v in zip(results, tile, op.results, strict=True)
            ]
        )
    return found[0], found[1]


def _operand(value: Value, array: Array, wanted: Demand) -> Sampled:
    """Return the wanted part of an operand; one element if nothing is wanted."""
    nothing = tuple(np.arange(min(1, n)) for n in value.shape)
    region = wanted.regions.get(value, nothing)
    part = array.reshape(value.shape)
    for dim, index in enumerate(region):
        if index is not None:
            part = np.take(part, index, axis=dim)
    return Sampled((part.astype(np.float64),), region)
