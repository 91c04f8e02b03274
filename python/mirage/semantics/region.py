"""Parts of tensors, and the parts of its operands that an op needs for a part of its result.

A full-size evaluation may compute only a sample of the outputs. :func:`demand` walks the graph
backwards to find what that sample needs; the evaluator then computes just those parts.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Generic, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from mirage.semantics.indexing.indices import Indices, distinct, either, simplify, union, whole
from mirage.semantics.indexing.indices import Region as Region
from mirage.semantics.indexing.indices import region_shape as region_shape
from mirage.semantics.indexing.indices import reshape_groups as reshape_groups
from mirage.semantics.scalar import Array
from mirage.semantics.tile_parts import TileParts, part_of, tile_parts
from mirage.semantics.ugraph import (
    KernelGraph,
    Launch,
    Load,
    Op,
    Source,
    Structure,
    Value,
    all_ops,
    axis_extents,
)

_T = TypeVar("_T")

Positions = Mapping[str, Array]
"""The sorted steps to execute, for each grid axis."""


def contiguous_start(
    whole: Sequence[int], part: Sequence[int], offsets: Sequence[int]
) -> int | None:
    """Return the number of elements before a block of shape ``part`` at ``offsets`` of a dense
    tensor of shape ``whole``, if the block is contiguous; otherwise None.
    """
    cut = [i for i, (n, all_) in enumerate(zip(part, whole, strict=True)) if n != all_]
    if any(n != 1 for n in part[: max(cut, default=0)]):
        return None
    return sum(o * prod(whole[i + 1 :]) for i, o in enumerate(offsets))


def part_numbers(axes: tuple[str, ...], extents: Mapping[str, int], positions: Positions) -> Array:
    """Return mixed-radix part numbers, with one array dimension for each axis; an axis without
    positions (a loop) runs over all steps.
    """
    number = np.zeros((1,) * len(axes), dtype=np.int64)
    for i, axis in enumerate(axes):
        steps = positions[axis] if axis in positions else np.arange(extents[axis])
        number = number * extents[axis] + steps.reshape(
            (1,) * i + (-1,) + (1,) * (len(axes) - i - 1)
        )
    return number


class OfLaunches(Generic[_T]):
    """A cache of results for launches, by key: the choice of a sample asks the same question about
    the same launch repeatedly. At most :data:`_REMEMBERED` results are kept for each launch; those
    of a deleted launch are dropped."""

    def __init__(self) -> None:
        self._known: WeakKeyDictionary[Launch, dict[Hashable, _T]] = WeakKeyDictionary()

    def get(self, launch: Launch, key: Hashable, compute: Callable[[], _T]) -> _T:
        """Return the result of ``compute`` for the key, calling it only if the result is not
        cached."""
        known = self._known.setdefault(launch, {})
        if key not in known:
            if len(known) >= _REMEMBERED:
                known.clear()
            known[key] = compute()
        return known[key]


_REMEMBERED = 64
_POSITIONS: OfLaunches[dict[str, Array]] = OfLaunches()
_PARTS: OfLaunches[TileParts | None] = OfLaunches()
_DEMANDS: OfLaunches[dict[Value, Region]] = OfLaunches()


def by_content(indices: Iterable[Indices]) -> Hashable:
    """Return a key that is equal for equal regions."""
    return tuple(None if x is None else x.tobytes() for x in indices)


def launch_positions(launch: Launch, regions: Mapping[Value, Region]) -> Mapping[str, Array]:
    """Return the steps of each grid axis that the wanted regions of the launch's results need."""
    key = _results(launch, regions)
    return _POSITIONS.get(launch, key, lambda: _launch_positions(launch, regions))


def _results(launch: Launch, regions: Mapping[Value, Region]) -> Hashable:
    return tuple(by_content(regions[v]) if v in regions else None for v in launch.results)


def _launch_positions(launch: Launch, regions: Mapping[Value, Region]) -> dict[str, Array]:
    extents = axis_extents(launch)
    wanted: dict[str, Array] = {}
    for value, output in zip(launch.results, launch.body.outputs, strict=True):
        if value not in regions:
            continue
        for size, tile, axes, region in zip(
            value.shape, output.value.shape, output.map, regions[value], strict=True
        ):
            parts = np.arange(-(-size // tile)) if region is None else distinct(region // tile)
            stride = prod(extents[a] for a in axes)
            for axis in axes:
                stride //= extents[axis]
                steps = distinct(np.sort(parts // stride % extents[axis]))
                wanted[axis] = either(wanted[axis], steps) if axis in wanted else steps
    # No wanted output names this axis: every block stores the same, and running all of them checks
    # that.
    return {a.name: wanted.get(a.name, np.arange(a.extent)) for a in launch.grid}


def launch_parts(launch: Launch, regions: Mapping[Value, Region]) -> TileParts | None:
    """Return the parts of tiles that the wanted regions of the launch's results need, as
    :func:`mirage.semantics.tile_parts.tile_parts` does."""
    return _PARTS.get(launch, _results(launch, regions), lambda: tile_parts(launch, regions))


def launch_demand(
    launch: Launch, positions: Positions, parts: TileParts | None = None
) -> Mapping[Value, Region]:
    """Return the region of each operand that the blocks at ``positions`` read for these ``parts``
    of tiles."""
    loads = [op.result for op in launch.body.ops if isinstance(op, Source)]
    places = None if parts is None else tuple(by_content(parts.get(v, ())) for v in loads)
    key = by_content(positions[a.name] for a in launch.grid), places
    return _DEMANDS.get(launch, key, lambda: _launch_demand(launch, positions, parts))


def _launch_demand(
    launch: Launch, positions: Positions, parts: TileParts | None
) -> dict[Value, Region]:
    extents = axis_extents(launch)
    operand = dict(zip(launch.body.params, launch.operands, strict=True))
    result: dict[Value, Region] = {}
    for op in all_ops(launch.body.ops):
        loads = (op,) if isinstance(op, Load) else op.reads if isinstance(op, Structure) else ()
        for load in loads:
            if parts is not None and load.result not in parts:
                continue
            source = operand[load.operands[0]]
            part = part_of(parts, load.result)
            new = _loaded(load, source.shape, extents, positions, part)
            result[source] = union(result[source], new, source.shape) if source in result else new
    return result


def _loaded(
    op: Source,
    shape: tuple[int, ...],
    extents: Mapping[str, int],
    positions: Positions,
    part: Region,
) -> Region:
    region: list[Array | None] = []
    for size, tile, within, axes in zip(shape, op.result.shape, part, op.cuts, strict=True):
        parts = part_numbers(axes, extents, positions).ravel()  # each once, in order
        places = np.arange(tile) if within is None else within
        index = (parts[:, None] * tile + places).ravel()
        region.append(simplify(index[index < size], size))
    return tuple(region)


@dataclass(frozen=True)
class Demand:
    """The parts to compute: regions of values (other values are not needed), grid positions of
    launches, and parts of their tiles unless these are computed as a whole. Evaluations record in
    ``takes`` which parts of its operands each op takes, since they are the same for all inputs."""

    regions: Mapping[Value, Region]
    positions: Mapping[Launch, Positions]
    parts: Mapping[Launch, TileParts] = field(default_factory=dict["Launch", "TileParts"])
    takes: dict[Op, Takes] = field(default_factory=dict["Op", "Takes"], compare=False, repr=False)


@dataclass(frozen=True)
class Takes:
    """The parts that an op takes: for each operand, which was computed in the regions ``have``, the
    indices to take along some dimensions; and the region and shape of the result. ``as_they_are``
    says that the op computes with its whole operands and that its result has elements;
    ``nothing_else`` says that the taken part is the result."""

    have: tuple[Region, ...]
    indices: tuple[tuple[tuple[int, Array], ...], ...]
    region: Region
    shape: tuple[int, ...]
    as_they_are: bool = False
    nothing_else: bool = False


def demand(graph: KernelGraph, outputs: Iterable[Region]) -> Demand:
    """Return the parts that the given regions of the outputs need; ``graph`` must be free of
    composite ops."""
    regions: dict[Value, Region] = {}
    positions: dict[Launch, Positions] = {}
    parts: dict[Launch, TileParts] = {}

    def want(value: Value, region: Region) -> None:
        regions[value] = union(regions[value], region, value.shape) if value in regions else region

    for value, region in zip(graph.outputs, outputs, strict=True):
        want(value, region)
    for op in reversed(graph.ops):
        if not any(v in regions for v in op.results):
            continue
        if isinstance(op, Launch):
            positions[op] = launch_positions(op, regions)
            needed = launch_parts(op, regions)
            if needed is not None:
                parts[op] = needed
            for value, region in launch_demand(op, positions[op], needed).items():
                want(value, region)
        else:
            for value, region in zip(op.operands, op.needs(regions[op.result]), strict=True):
                want(value, region)
    return Demand(regions, positions, parts)


def whole_demand(graph: KernelGraph) -> Demand:
    """Return the demand that contains everything."""
    regions: dict[Value, Region] = {v: whole(len(v.shape)) for v in graph.inputs}
    positions: dict[Launch, Positions] = {}
    for op in graph.ops:
        regions.update({v: whole(len(v.shape)) for v in op.results})
        if isinstance(op, Launch):
            positions[op] = {a.name: np.arange(a.extent) for a in op.grid}
    return Demand(regions, positions)
