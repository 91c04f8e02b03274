"""Loops that leave out the steps whose tiles a mask empties.

Which steps are idle is known for each block (:mod:`mirage.semantics.idle_steps`). What is left of a
block's steps, from the first one that is not idle to the last one, is bounded by two lines over the
number of the block's tile: the tightest ones of the form that a loop can have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import combinations
from math import gcd, prod

import numpy as np

from mirage.semantics.alternatives import Alternatives
from mirage.semantics.idle_steps import (
    IdleSteps,
    are_idle,
    idle_steps,
    left_out,
    positions_in,
    positions_of,
)
from mirage.semantics.op import Op, Value
from mirage.semantics.positions import TileIota
from mirage.semantics.scalar import Array
from mirage.semantics.tile_ranges import Positions
from mirage.semantics.ugraph import (
    BlockGraph,
    KernelGraph,
    Launch,
    Loop,
    StepNumber,
    Steps,
    axis_extents,
    loops,
    walk,
)


def skip_steps(graph: KernelGraph) -> KernelGraph:
    """``graph`` whose kernels leave out idle steps, in all candidates where it has such."""
    known = positions_of(graph)
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, Alternatives):
            reference, *candidates = op.programs
            programs = [reference, *(_in_program(c, op.operands, known) for c in candidates)]
            op = replace(op, programs=tuple(programs))
        elif isinstance(op, Launch):
            op = _in_launch(op, positions_in(op, known))
        ops.append(op)
    return replace(graph, ops=tuple(ops))


def _in_program(program: KernelGraph, operands: tuple[Value, ...], known: Positions) -> KernelGraph:
    given = zip(program.inputs, operands, strict=True)
    inside = {p: known[v] for p, v in given if v in known} | positions_of(program)
    if not inside:
        return program
    ops = [
        _in_launch(op, positions_in(op, inside)) if isinstance(op, Launch) else op
        for op in program.ops
    ]
    same = all(a is b for a, b in zip(ops, program.ops, strict=True))
    return program if same else replace(program, ops=tuple(ops))


def _in_launch(launch: Launch, positions: Positions) -> Launch:
    if not positions and not _has_positions(launch):
        return launch
    found: dict[Loop, Steps] = {}
    for loop in loops(launch):
        if loop.steps is None and (steps := find_steps(launch, loop, positions)) is not None:
            found[loop] = steps
    if not found:
        return launch
    body = launch.body
    ops = tuple(_with_steps(op, found) for op in body.ops)
    return replace(launch, body=BlockGraph(body.params, ops, body.outputs))


def _has_positions(launch: Launch) -> bool:
    return any(isinstance(op, TileIota) for op in walk(launch.body.ops))


def _with_steps(op: Op, found: dict[Loop, Steps]) -> Op:
    if not isinstance(op, Loop):
        return op
    body = tuple(_with_steps(inner, found) for inner in op.body)
    return replace(op, body=body, steps=found.get(op, op.steps))


def find_steps(launch: Launch, loop: Loop, positions: Positions) -> Steps | None:
    """The fewest steps that blocks have to take, of those that lines can state; None where they are
    all steps."""
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
    """Of each tile (along some grid axes), the first and the last step that is not idle, counted
    over all parts of the loop's dimension; ``first > last`` where there is none."""

    first: Array
    last: Array


def _candidates(launch: Launch, loop: Loop, idle: IdleSteps) -> Iterator[Steps]:
    """For the axes of each tile that positions are known of, and for none."""
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
    first = _line(rows.first, rows.first <= rows.last, 0, steps, tile, upper=False)
    end = _line(rows.last + 1, rows.first <= rows.last, 0, steps, tile, upper=True)

    def of(line: tuple[int, int, int]) -> StepNumber:
        slope, constant, divisor = line
        factors = [(a, slope * n) for a, n in terms] + [(a, -n * divisor) for a, n in parts]
        return _reduced(StepNumber(tuple((a, n) for a, n in factors if n), constant, divisor))

    if not idle.at_the_end:
        yield Steps(of(first), StepNumber((), extent))
    else:
        yield Steps(of(first), of(end))


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
    busy = busy.transpose(order).reshape(count, tiles, -1).any(axis=0)
    steps = busy.shape[1]
    last = np.where(busy.any(axis=1), steps - 1 - busy[:, ::-1].argmax(axis=1), -1)
    first = np.where(busy.any(axis=1), busy.argmax(axis=1), steps)
    return _Rows(first, last)


def _line(
    bounds: Array, exists: Array, low: int, high: int, tile: int, *, upper: bool
) -> tuple[int, int, int]:
    """``(slope, constant, divisor)`` of the tightest ``floor((slope * i + constant) / divisor)``
    that is nowhere below ``bounds`` (``upper``) or nowhere above; beyond ``low`` and ``high`` all
    numbers are alike."""
    at = np.flatnonzero(exists)
    if not len(at):
        return 0, (low if upper else high), 1
    wanted = bounds[at]
    free = at[(wanted > low) & (wanted < high)]
    best: tuple[tuple[int, int], tuple[int, int, int]] | None = None
    for divisor in sorted({1, tile}):
        for slope in _slopes(at, free, bounds, divisor):
            if upper:
                constant = int((divisor * wanted - slope * at).max())
            else:
                constant = int((divisor * wanted + divisor - 1 - slope * at).min())
            values = np.clip((slope * at + constant) // divisor, low, high)
            excess = int(np.abs(values - wanted).sum())
            rank = excess, divisor // gcd(divisor, slope)  # of equal ones the simplest
            if best is None or rank < best[0]:
                best = rank, (slope, constant, divisor)
    assert best is not None
    return best[1]


def _slopes(at: Array, free: Array, bounds: Array, divisor: int) -> list[int]:
    """What the slope may be: that between bounds which are not at an end (``free``), or one of
    which is the first that is."""
    ends = {int(i) for i in (*free[:1], *free[-1:], *at[:1], *at[-1:])}
    ends |= {i for j in (*free[:1], *free[-1:]) for i in (int(j) - 1, int(j) + 1) if i in at}
    found = {0}
    for i, j in combinations(sorted(ends), 2):
        rise, near = divisor * int(bounds[j] - bounds[i]), divisor // (j - i) + 1
        found.update(range(rise // (j - i) - near, rise // (j - i) + near + 2))
    return sorted(found, key=abs)


def _reduced(x: StepNumber) -> StepNumber:
    """The same with the smallest divisor."""
    common = gcd(x.divisor, *(n for _, n in x.terms))
    terms = tuple((a, n // common) for a, n in x.terms)
    return StepNumber(terms, x.constant // common, x.divisor // common)
