"""Bounds of loops that are known when a block runs: lines over integers that it reads.

A mask may compare positions with integers from the caller: the position of the token for which a
cache is read, the length of a sequence, or both ends of a window. The idle steps are found for a
few values of such an integer (as if the tensor held them), a line is laid around the other steps,
and the line is kept if for *every* integer it leaves out only idle steps
(:func:`mirage.semantics.bounds.idle_steps.are_idle`). If the mask does not compare positions along
the loop, the integer decides whether a block needs the loop at all.
"""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np

from mirage.semantics.bounds.idle_steps import Bounds, IdleSteps, are_idle, idle_steps
from mirage.semantics.bounds.read_bounds import MOST_NUMBERS, Part, Pieces, bounding_parts
from mirage.semantics.bounds.tile_ranges import Positions
from mirage.semantics.positions import MAX_POSITIONS
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import (
    ExtremeFn,
    Launch,
    Loop,
    Reading,
    StepNumber,
    Steps,
    axis_extents,
)
from mirage.transforms.steps.step_lines import reduced, tightest_line


def find_read_steps(
    launch: Launch, loop: Loop, steps: Steps | None, positions: Positions
) -> Bounds:
    """Return ``steps`` (None stands for all steps) with bounds by integers that blocks read, at the
    ends that ``steps`` leaves open."""
    found: Bounds = steps, ()
    parts = [*bounding_parts(launch, positions)]
    for upper in (True, False):
        open_ = found[0] is None or _is_open(found[0], upper, loop.axis.extent)
        for part in parts if open_ else ():
            bounded = _bounded(launch, loop, found, part, upper, positions)
            if bounded is not None:
                found = bounded
                break
    return found


def _is_open(steps: Steps, upper: bool, extent: int) -> bool:
    """Return whether an end leaves out nothing at any block."""
    number = steps.end if upper else steps.first
    if number.axes or number.depends_on_reads:
        return False
    constant = number.constant // number.divisor
    return constant >= extent if upper else constant <= 0


def _bounded(
    launch: Launch, loop: Loop, known: Bounds, part: Part, upper: bool, positions: Positions
) -> Bounds | None:
    """Return ``known`` with another first step, or end (``upper``); None if there is none."""
    param, tile_map, tile = part
    steps, operands = known
    steps = steps or Steps(StepNumber(()), StepNumber((), loop.axis.extent))
    fn = ExtremeFn.MAX if upper or prod(tile) == 1 else ExtremeFn.MIN
    for split, size in _columns(launch, loop, positions):
        total = loop.axis.extent * prod(axis_extents(launch)[a] for a in split)
        if total * size >= min(MAX_POSITIONS, MOST_NUMBERS):
            continue
        reading = Reading(fn, tile_map, tile, -1, total * size)
        line = _line(launch, loop, part, reading, split, size, upper, positions)
        if line is None:
            continue
        readings, params = steps.readings, operands
        if (reading, param) not in zip(readings, params, strict=True):
            readings, params = (*readings, reading), (*params, param)
        at = [*zip(readings, params, strict=True)].index((reading, param))
        number = replace(line, reads=tuple((at, factor) for _, factor in line.reads))
        first, end = (steps.first, number) if upper else (number, steps.end)
        changed = Steps(first, end, readings)
        if are_idle(launch, replace(loop, steps=changed, operands=params), positions):
            return changed, params
    return None


NO_COLUMNS: tuple[tuple[str, ...], int] = ((), 1)
"""Positions along the loop decide nothing: an integer only says whether there are any steps."""


def _columns(launch: Launch, loop: Loop, positions: Positions) -> list[tuple[tuple[str, ...], int]]:
    """Return the grid axes that cut positions in addition to the loop, and the number of positions
    in a tile."""
    grid = {a.name for a in launch.grid}
    cuts = idle_steps(launch, loop, positions).cuts
    found = {
        (a[:-1], n) for a, n in cuts if a and a[-1] == loop.axis.name and grid.issuperset(a[:-1])
    }
    whole = [NO_COLUMNS] if loop.axis.extent > 1 else []  # a block takes at least one step
    return sorted(found) or whole


def _line(
    launch: Launch,
    loop: Loop,
    part: Part,
    reading: Reading,
    split: tuple[str, ...],
    tile: int,
    upper: bool,
    positions: Positions,
) -> StepNumber | None:
    """Return the tightest line around the steps that are not idle, for some numbers that
    ``reading`` may be."""
    rank = len(launch.grid) + 1

    def idle_at(numbers: Array) -> IdleSteps:
        assumed = {part: Pieces(reading, numbers, numbers).range(rank)}
        return idle_steps(launch, loop, positions, assumed)

    numbers = _samples(reading, tile)
    idle = idle_at(numbers)
    if idle.idle.ndim == rank or not idle.idle.any() or (upper and not idle.at_the_end):
        return None  # the integer decides nothing
    dense = np.zeros(reading.most - reading.least + 1, int)
    some = np.zeros(len(dense), bool)
    while True:
        busy = _busy(launch, loop, idle, split)
        count, at = busy.shape[1], numbers - reading.least
        some[at] = busy.any(axis=1)
        dense[at] = count - busy[:, ::-1].argmax(axis=1) if upper else busy.argmax(axis=1)
        numbers = _between_changes(dense, some) + reading.least
        if not len(numbers):
            break
        idle = idle_at(numbers)
    if (split, tile) == NO_COLUMNS:  # up to the first number with steps, the end is at most 0
        first = int(some.argmax()) if upper else 0
        slope, constant, divisor = count * (first > 0), count * (1 - first), 1
    else:
        slope, constant, divisor = tightest_line(dense, some, 0, count, tile, upper=upper)
    if slope == 0:
        return None
    terms, before, extents = list[tuple[str, int]](), loop.axis.extent, axis_extents(launch)
    for axis in reversed(split):
        terms.insert(0, (axis, -before * divisor))
        before *= extents[axis]
    constant -= slope * reading.least
    return reduced(StepNumber(tuple(terms), constant, divisor, ((0, slope),)))


def _between_changes(bounds: Array, exists: Array) -> Array:
    """Return the middles of the first and of the last gap between known numbers in which a step
    begins: at the end of the gap if nothing is in between."""
    known = np.flatnonzero(exists)
    changed = np.flatnonzero(np.diff(bounds[known]))
    found = {(int(known[i]) + int(known[i + 1])) // 2 for i in (*changed[:1], *changed[-1:])}
    return np.array(sorted(found - set(known.tolist())), int)


def _samples(reading: Reading, tile: int) -> Array:
    """Return numbers at which steps begin: around the ends and in the middle."""
    around = np.arange(-2, 3)
    last = reading.most
    places = [0, tile, 2 * tile, last // 2 // tile * tile, last - tile, last]
    every = np.concatenate([place + around for place in places])
    return np.unique(np.clip(every, reading.least, reading.most))


def _busy(launch: Launch, loop: Loop, idle: IdleSteps, split: tuple[str, ...]) -> Array:
    """Return, for each number, which steps (of all parts) are not idle at some block."""
    names = [a.name for a in launch.grid]
    others = tuple(1 + i for i, name in enumerate(names) if name not in split)
    busy = np.asarray((~idle.idle).any(axis=others))
    extents = axis_extents(launch)
    kept = [name for name in names if name in split]
    shape = (len(busy), *(extents[name] for name in kept), loop.axis.extent)
    order = [0, *(1 + kept.index(name) for name in split), len(kept) + 1]
    return np.broadcast_to(busy, shape).transpose(order).reshape(len(busy), -1)
