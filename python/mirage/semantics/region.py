"""Parts of tensors, and which parts of its operands an op needs for a part of its result.

A full-size evaluation may look at a sample of the outputs only. What that sample needs is found by
walking the graph backwards with :func:`demand`; the evaluator then computes just those parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import (
    Concat,
    KernelGraph,
    Launch,
    Load,
    Matmul,
    Op,
    Reduce,
    Reshape,
    Slice,
    Transpose,
    Value,
    axis_extents,
    walk,
)

Region = tuple["Array | None", ...]
"""For each dimension the sorted indices of interest, ``None`` meaning all of them."""

Positions = Mapping[str, Array]
"""For each grid axis the sorted steps to execute."""


def whole(rank: int) -> Region:
    """All of a tensor of that rank."""
    return (None,) * rank


def region_shape(region: Region, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Number of selected indices in each dimension."""
    return tuple(n if r is None else len(r) for r, n in zip(region, shape, strict=True))


def union(a: Region, b: Region, shape: tuple[int, ...]) -> Region:
    """The smallest region that contains both."""
    return tuple(
        None if x is None or y is None else _simplify(np.union1d(x, y), n)
        for x, y, n in zip(a, b, shape, strict=True)
    )


def _simplify(index: Array, size: int) -> Array | None:
    return None if len(index) == size else index


@dataclass(frozen=True)
class Group:
    """Consecutive dimensions of a reshape's operand and result that hold the same elements."""

    operand: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def kept(self) -> bool:
        """Whether this is one dimension that the reshape leaves alone."""
        return len(self.operand) == len(self.result) == 1


def reshape_groups(operand: tuple[int, ...], result: tuple[int, ...]) -> tuple[Group, ...]:
    """The finest matching of consecutive dimensions with equal numbers of elements."""
    groups: list[Group] = []
    i = j = 0
    while i < len(operand) or j < len(result):
        first_i, first_j = i, j
        a = b = 1
        if i < len(operand):
            a, i = a * operand[i], i + 1
        if j < len(result):
            b, j = b * result[j], j + 1
        while a != b:
            if (a < b and i < len(operand)) or j >= len(result):
                a, i = a * operand[i], i + 1
            else:
                b, j = b * result[j], j + 1
        groups.append(Group(tuple(range(first_i, i)), tuple(range(first_j, j))))
    return tuple(groups)


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


def operand_regions(op: Op, result: Region) -> tuple[Region, ...]:
    """The region of each operand of a primitive kernel-level op that ``result`` needs."""
    if isinstance(op, Matmul):
        a, b = op.operands
        lead = result[:-2]
        return (
            (*_aligned(lead, a.shape[:-2]), result[-2], None),
            (*_aligned(lead, b.shape[:-2]), None, result[-1]),
        )
    (x, *_) = op.operands or (op.result,)
    if isinstance(op, Reduce):
        return (tuple(None if d in op.dims else r for d, r in enumerate(result)),)
    if isinstance(op, Transpose):
        region: list[Array | None] = [None] * len(x.shape)
        for i, d in enumerate(op.permutation):
            region[d] = result[i]
        return (tuple(region),)
    if isinstance(op, Reshape):
        region = [None] * len(x.shape)
        for group in reshape_groups(x.shape, op.result.shape):
            if group.kept:
                region[group.operand[0]] = result[group.result[0]]
        return (tuple(region),)
    if isinstance(op, Slice):
        return (
            tuple(
                _simplify(o + (np.arange(size) if r is None else r), n)
                for o, r, n, size in zip(op.offsets, result, x.shape, op.result.shape, strict=True)
            ),
        )
    if isinstance(op, Concat):
        regions: list[Region] = []
        start = 0
        for v in op.operands:
            size = v.shape[op.dim]
            part = result[op.dim]
            inside = (
                None
                if part is None
                else _simplify(part[(part >= start) & (part < start + size)] - start, size)
            )
            regions.append((*result[: op.dim], inside, *result[op.dim + 1 :]))
            start += size
        return tuple(regions)
    return tuple(_aligned(result, v.shape) for v in op.operands)


def _aligned(result: Region, shape: tuple[int, ...]) -> Region:
    """What of a tensor of ``shape`` is needed when it broadcasts to a result of which ``result`` is
    wanted.
    """
    last = result[len(result) - len(shape) :]
    return tuple(None if n == 1 else r for r, n in zip(last, shape, strict=True))


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
    for op in walk(launch.body.ops):
        if not isinstance(op, Load):
            continue
        source = operand[op.operands[0]]
        region: list[Array | None] = []
        for size, tile, axes in zip(source.shape, op.result.shape, op.map, strict=True):
            parts = np.unique(part_numbers(axes, extents, positions))
            index = (parts[:, None] * tile + np.arange(tile)).ravel()
            region.append(_simplify(index[index < size], size))
        new = tuple(region)
        result[source] = union(result[source], new, source.shape) if source in result else new
    return result


@dataclass(frozen=True)
class Demand:
    """What to compute: regions of values (others are not needed) and grid positions of launches."""

    regions: Mapping[Value, Region]
    positions: Mapping[Launch, Positions]


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
            for value, region in zip(
                op.operands, operand_regions(op, regions[op.result]), strict=True
            ):
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
