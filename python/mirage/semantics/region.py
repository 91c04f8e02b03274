"""Parts of tensors, and which parts of its operands an op needs for a part of its result.

A full-size evaluation may look at a sample of the outputs only. What that sample needs is found by
walking the graph backwards with :func:`demand`; the evaluator then computes just those parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from mirage.semantics.indices import Region as Region
from mirage.semantics.indices import region_shape as region_shape
from mirage.semantics.indices import reshape_groups as reshape_groups
from mirage.semantics.indices import simplify, union, whole
from mirage.semantics.scalar import Array
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

Positions = Mapping[str, Array]
"""For each grid axis the sorted steps to execute."""


def contiguous_start(
    whole: Sequence[int], part: Sequence[int], offsets: Sequence[int]
) -> int | None:
    """Elements before a block of shape ``part`` at ``offsets`` of a dense tensor of shape
    ``whole``, where the block lies in one piece.
    """
    cut = [i for i, (n, all_) in enumerate(zip(part, whole, strict=True)) if n != all_]
    if any(n != 1 for n in part[: max(cut, default=0)]):
        return None
    return sum(o * prod(whole[i + 1 :]) for i, o in enumerate(offsets))


def part_numbers(axes: tuple[str, ...], extents: Mapping[str, int], positions: Positions) -> Array:
    """Mixed-radix part numbers, one array dimension for each axis; axes without positions (loops)
    run over all steps.
    """
    number = np.zeros((1,) * len(axes), dtype=np.int64)
    for i, axis in enumerate(axes):
        steps = positions[axis] if axis in positions else np.arange(extents[axis])
        number = number * extents[axis] + steps.reshape(
            (1,) * i + (-1,) + (1,) * (len(axes) - i - 1)
        )
    return number


def launch_positions(launch: Launch, regions: Mapping[Value, Region]) -> dict[str, Array]:
    """The steps of each grid axis that the wanted regions of the launch's results need."""
    extents = axis_extents(launch)
    wanted: dict[str, Array] = {}
    for value, output in zip(launch.results, launch.body.outputs, strict=True):
        if value not in regions:
            continue
        for size, tile, axes, region in zip(
            value.shape, output.value.shape, output.map, regions[value], strict=True
        ):
            parts = np.unique((np.arange(size) if region is None else region) // tile)
            stride = prod(extents[a] for a in axes)
            for axis in axes:
                stride //= extents[axis]
                steps = np.unique(parts // stride % extents[axis])
                wanted[axis] = np.union1d(wanted[axis], steps) if axis in wanted else steps
    # An axis that no wanted output names: every block stores the same, so running all of them
    # checks just that.
    return {a.name: wanted.get(a.name, np.arange(a.extent)) for a in launch.grid}


def launch_demand(launch: Launch, positions: Positions) -> dict[Value, Region]:
    """The region of each operand that the blocks at ``positions`` read."""
    extents = axis_extents(launch)
    operand = dict(zip(launch.body.params, launch.operands, strict=True))
    result: dict[Value, Region] = {}
    for op in all_ops(launch.body.ops):
        loads = (op,) if isinstance(op, Load) else op.reads if isinstance(op, Structure) else ()
        for load in loads:
            source = operand[load.operands[0]]
            new = _loaded(load, source.shape, extents, positions)
            result[source] = union(result[source], new, source.shape) if source in result else new
    return result


def _loaded(
    op: Source, shape: tuple[int, ...], extents: Mapping[str, int], positions: Positions
) -> Region:
    region: list[Array | None] = []
    for size, tile, axes in zip(shape, op.result.shape, op.cuts, strict=True):
        parts = np.unique(part_numbers(axes, extents, positions))
        index = (parts[:, None] * tile + np.arange(tile)).ravel()
        region.append(simplify(index[index < size], size))
    return tuple(region)


@dataclass(frozen=True)
class Demand:
    """What to compute: regions of values (others are not needed) and grid positions of launches.
    ``takes`` is where evaluations keep which parts of operands each op takes: they are the same
    for all inputs."""

    regions: Mapping[Value, Region]
    positions: Mapping[Launch, Positions]
    takes: dict[Op, Takes] = field(default_factory=dict["Op", "Takes"], compare=False, repr=False)


@dataclass(frozen=True)
class Takes:
    """Of each operand of an op, which was computed in the regions ``have``, the indices to take
    along some dimensions; the region and the shape of the result."""

    have: tuple[Region, ...]
    indices: tuple[tuple[tuple[int, Array], ...], ...]
    region: Region
    shape: tuple[int, ...]


def demand(graph: KernelGraph, outputs: Iterable[Region]) -> Demand:
    """What the given regions of the outputs need; ``graph`` must be free of composite ops."""
    regions: dict[Value, Region] = {}
    positions: dict[Launch, Positions] = {}

    def want(value: Value, region: Region) -> None:
        regions[value] = union(regions[value], region, value.shape) if value in regions else region

    for value, region in zip(graph.outputs, outputs, strict=True):
        want(value, region)
    for op in reversed(graph.ops):
        if not any(v in regions for v in op.results):
            continue
        if isinstance(op, Launch):
            positions[op] = launch_positions(op, regions)
            for value, region in launch_demand(op, positions[op]).items():
                want(value, region)
        else:
            for value, region in zip(op.operands, op.needs(regions[op.result]), strict=True):
                want(value, region)
    return Demand(regions, positions)


def whole_demand(graph: KernelGraph) -> Demand:
    """Everything."""
    regions: dict[Value, Region] = {v: whole(len(v.shape)) for v in graph.inputs}
    positions: dict[Launch, Positions] = {}
    for op in graph.ops:
        regions.update({v: whole(len(v.shape)) for v in op.results})
        if isinstance(op, Launch):
            positions[op] = {a.name: np.arange(a.extent) for a in op.grid}
    return Demand(regions, positions)
