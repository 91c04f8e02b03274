"""Loops that leave out the steps whose tiles a mask empties.

It is known for each block which steps are idle (:mod:`mirage.semantics.bounds.idle_steps`). The
remaining steps of a block, from the first one that is not idle to the last one, are bounded by two
lines over the number of the block's tile: the tightest ones of the form that a loop can have. If a
mask compares with integers that are loaded, a line may be one over the integer that the block reads
(:mod:`mirage.transforms.steps.read_steps`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from mirage.semantics.alternatives import Alternatives, with_parts
from mirage.semantics.bounds.idle_steps import (
    Bounds,
    IdleSteps,
    are_idle,
    bounds_of,
    idle_steps,
    left_out,
    positions_of,
    with_loops,
)
from mirage.semantics.bounds.tile_ranges import Positions
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import (
    KernelGraph,
    Launch,
    Loop,
    StepNumber,
    Steps,
    axis_extents,
)
from mirage.transforms.steps.alternate_parts import with_alternating_parts
from mirage.transforms.steps.read_steps import find_read_steps
from mirage.transforms.steps.step_lines import EACH, Line, reduced, tightest_lines


def skip_steps(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with kernels that leave out idle steps, in all candidates that have such
    steps. Parts of loops take steps in turns in candidates only, which are verified afterwards."""
    known = positions_of(graph.ops)

    def in_candidates(op: Alternatives) -> Alternatives:
        reference, *candidates = op.programs
        programs = [reference]
        for program in candidates:
            pairs = zip(program.inputs, op.operands, strict=True)
            inside = {p: known[tensor] for p, tensor in pairs if tensor in known}
            bounded = with_loops(program, inside, _steps)
            programs.append(with_alternating_parts(bounded, inside))
        return replace(op, programs=tuple(programs))

    return with_loops(with_parts(graph, in_candidates), {}, _steps)


def _steps(launch: Launch, loop: Loop, positions: Positions) -> Bounds:
    if loop.steps is not None:
        return bounds_of(loop)
    return find_read_steps(launch, loop, find_steps(launch, loop, positions), positions)


def find_steps(launch: Launch, loop: Loop, positions: Positions) -> Steps | None:
    """Return the fewest steps that blocks have to take, among those that lines can express; None if
    all steps are needed."""
    idle = idle_steps(launch, loop, positions)
    if not idle.idle.any():
        return None
    best, fewest = None, None
    for steps in _candidates(launch, loop, idle):
        changed = replace(loop, steps=steps)
        out = left_out(launch, changed)
        count = int(np.broadcast_to(~out, np.broadcast_shapes(out.shape, idle.idle.shape)).sum())
        if (
            out.any()
            and (fewest is None or count < fewest)
            and are_idle(launch, changed, positions)
        ):
            best, fewest = steps, count
    return best


@dataclass(frozen=True)
class _Rows:
    """The first and the last step that is not idle, for each tile along some grid axes, over all
    parts of the loop's dimension; ``first > last`` if there is none."""

    first: Array
    last: Array


def _candidates(launch: Launch, loop: Loop, idle: IdleSteps) -> Iterator[Steps]:
    """Yield the possibilities: the axes of each tile whose positions are known, and no axes."""
    grid = {a.name for a in launch.grid}
    columns = {
        (a, n) for a, n in idle.cuts if a and a[-1] == loop.axis.name and grid.issuperset(a[:-1])
    }
    for outer, tile in sorted(columns):
        split = outer[:-1]
        rows = {a for a, _ in idle.cuts if grid.issuperset(a) and not set(a) & set(split)}
        for axes in sorted({(), *rows}):
            yield from _lines(launch, loop, idle, axes, split, tile)


def _lines(
    launch: Launch, loop: Loop, idle: IdleSteps, axes: tuple[str, ...], split: tuple[str, ...],
    tile: int,
) -> Iterator[Steps]:  # fmt: skip
    extents, extent = axis_extents(launch), loop.axis.extent
    rows = _rows(launch, loop, idle, axes, split)
    steps = extent * prod(extents[a] for a in split)
    terms, strides = list[tuple[str, int]](), 1
    for axis in reversed(axes):
        terms.insert(0, (axis, strides))
        strides *= extents[axis]
    parts, before = list[tuple[str, int]](), extent
    for axis in reversed(split):
        parts.insert(0, (axis, before))
        before *= extents[axis]
    exists = rows.first <= rows.last
    starts, ends = ([EACH, *_groups(idle, axes, last=last)] for last in (False, True))
    first = tightest_lines(rows.first, exists, steps, tile, starts, upper=False)
    end = tightest_lines(rows.last + 1, exists, steps, tile, ends, upper=True)

    def of(lines: tuple[Line, Line]) -> StepNumber:
        (slope, constant, divisor), (factor, shift, size) = lines
        group = reduced(StepNumber(tuple((a, factor * n) for a, n in terms), shift, size))
        part = StepNumber(tuple((a, -n) for a, n in parts))
        number = group.times(slope).plus(StepNumber((), constant))
        return reduced(number.plus(part.times(divisor)).over(divisor))

    if not idle.at_the_end:
        yield Steps(of(first), StepNumber((), extent))
    else:
        yield Steps(of(first), of(end))


def _groups(idle: IdleSteps, axes: tuple[str, ...], *, last: bool) -> Iterator[Line]:
    """Number the groups of rows in which the first (or the ``last``) row of each tile lies."""
    for tile in sorted({n for cut, n in idle.cuts if cut == axes and axes}):
        for divisor in idle.divisors:
            yield tile, (tile - 1 if last else 0), divisor


def _rows(
    launch: Launch, loop: Loop, idle: IdleSteps, axes: tuple[str, ...], split: tuple[str, ...]
) -> _Rows:
    names = [a.name for a in launch.grid]
    extents = axis_extents(launch)
    busy = np.broadcast_to(~idle.idle, (*(a.extent for a in launch.grid), loop.axis.extent))
    others = [n for n in names if n not in axes and n not in split]
    order = [names.index(n) for n in (*others, *axes, *split)] + [len(names)]
    count = prod(extents[n] for n in others)
    tiles = prod(extents[a] for a in axes)
    seen: Array = np.asarray(busy).transpose(order).reshape(count, tiles, -1).max(axis=0)
    steps = seen.shape[1]
    last = np.where(seen.max(axis=1), steps - 1 - seen[:, ::-1].argmax(axis=1), -1)
    first = np.where(seen.max(axis=1), seen.argmax(axis=1), steps)
    return _Rows(first, last)
