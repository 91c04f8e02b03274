"""The steps of a loop that contribute nothing because a mask empties their tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

from mirage.semantics.bounds.discarded_results import discards
from mirage.semantics.bounds.dropped_elements import dropped
from mirage.semantics.bounds.ranges import Range
from mirage.semantics.bounds.read_bounds import (
    MOST_NUMBERS,
    NOTHING,
    Assumed,
    numbers_of,
    pieces_where_equal,
)
from mirage.semantics.bounds.tile_ranges import Positions, TileRanges
from mirage.semantics.ops.op import Op
from mirage.semantics.positions import Iota
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import (
    AccumulateFn,
    KernelGraph,
    Launch,
    Loop,
    RunningMax,
    Scan,
    Steps,
    Structure,
    Value,
    all_ops,
    launches,
    loops,
)

_MOST_ELEMENTS = 1 << 18
"""The most elements of arrays over pieces, blocks and steps, so that they stay in the processor's
cache."""


@dataclass(frozen=True)
class IdleSteps:
    """The steps that contribute nothing. ``idle`` has a dimension for each grid axis, then one for
    the steps, possibly of size 1: where it is true, the step may be skipped. Unless ``at_the_end``,
    a step that is not skipped must follow. ``cuts`` are the axes that cut positions, and the sizes
    of tiles; ``divisors`` are the numbers by which integers are divided."""

    idle: Array
    at_the_end: bool
    cuts: tuple[tuple[tuple[str, ...], int], ...]
    divisors: tuple[int, ...]


def idle_steps(
    launch: Launch, loop: Loop, positions: Positions, assumed: Assumed = NOTHING
) -> IdleSteps:
    """Return the steps that contribute nothing to the results of ``loop``, for all values of the
    inputs. Integers are ``assumed`` to be within bounds, which adds a leading dimension.

    A step is idle if it leaves everything that the loop carries unchanged, apart from elements that
    are dropped in the end: it adds zeros to sums, and to maxima it contributes minus infinity or an
    element that is no larger than one of every other step. All steps are idle in blocks that
    discard the results.
    """
    found = TileRanges(launch, loop, positions, assumed)
    carried = [op.operands[0] for op in loop.body if isinstance(op, Scan)]
    carried += [a.value for a in loop.accumulators]
    unread = dropped(launch, {v: found.tiles[v].edges for v in carried})

    def stored(value: Value) -> Range:
        """Return the range of the elements that affect what the kernel stores."""
        return found.tiles[value].outside_of(unread[value])

    idle = np.ones((1,) * (len(launch.grid) + 1), bool)
    for op in loop.body:
        if isinstance(op, Scan):
            known = type(op) is RunningMax  # nothing is known about other accumulators
            idle = idle & (known and _no_more(stored(op.operands[0])))
    for a in loop.accumulators:
        if a.fn is AccumulateFn.SUM:
            idle = idle & stored(a.value).zero
        elif a.fn is AccumulateFn.MAX:
            idle = idle & _no_more(stored(a.value))
    idle = idle | discards(launch, loop, found.tiles)
    kept = _kept(loop)
    at_the_end = all(a.value in kept for a in loop.accumulators if a.fn is AccumulateFn.LAST)
    return IdleSteps(idle, at_the_end, tuple(found.cuts), tuple(sorted(found.divisors)))


def _no_more(x: Range) -> Array:
    """Return where a step's elements add nothing to the maximum over any steps of the block."""
    least = x.least
    if least.ndim:
        least = np.where(x.below | x.wild, -np.inf, least).min(axis=-1, keepdims=True)
    return np.asarray((x.most <= least) & ~x.wild & ~_any_wild(x))


def _any_wild(x: Range) -> Array:
    return np.asarray(x.wild.any(axis=-1, keepdims=True)) if x.wild.ndim else x.wild


def _kept(loop: Loop) -> set[Value]:
    """Return the values of the body that a step leaves unchanged if it leaves the carried values
    unchanged: those computed only from running maxima and from values outside of the loop."""
    inside = {v for op in all_ops(loop.body) for v in op.results}
    kept: set[Value] = set()
    for op in loop.body:
        made = not isinstance(op, Structure) and not op.reads_axes
        if isinstance(op, Scan) or (made and inside.intersection(op.operands) <= kept):
            kept.update(op.results)
    return kept


def left_out(launch: Launch, loop: Loop, read: Sequence[Array] = ()) -> Array:
    """Return the steps that blocks skip, with dimensions as in :class:`IdleSteps`; ``read`` are the
    integers that bound them."""
    step = _numbers(launch, loop)
    if loop.steps is None:
        return np.zeros_like(step, dtype=bool)
    first, end = loop.steps.range_at(_places(launch), loop.axis.extent, read)
    return np.asarray((step < first) | (step >= end))


def _places(launch: Launch) -> dict[str, Array]:
    rank = len(launch.grid)
    return {
        a.name: np.arange(a.extent).reshape((1,) * i + (-1,) + (1,) * (rank - i))
        for i, a in enumerate(launch.grid)
    }


def _numbers(launch: Launch, loop: Loop) -> Array:
    return np.arange(loop.axis.extent).reshape((1,) * len(launch.grid) + (-1,))


def are_idle(launch: Launch, loop: Loop, positions: Positions) -> bool:
    """Return whether all steps that the loop skips contribute nothing, for any integers that bound
    it."""
    if loop.steps is not None and loop.steps.readings:
        return all(_side_is_idle(launch, loop, positions, upper) for upper in (False, True))
    out = left_out(launch, loop)
    return _contribute_nothing(out, idle_steps(launch, loop, positions))


def _contribute_nothing(out: Array, found: IdleSteps) -> bool:
    ends = bool(out[..., -1].any())
    return bool(np.all(found.idle | ~out)) and (found.at_the_end or not ends)


def _side_is_idle(launch: Launch, loop: Loop, positions: Positions, upper: bool) -> bool:
    """Return whether the steps before the first one (or, with ``upper``, from the end on)
    contribute nothing.

    Each side is examined by itself, for all integers that bound the other one: a step that two
    integers exclude is excluded by one of them. No other steps are skipped, since a block takes at
    least one step.
    """
    assert loop.steps is not None
    number = loop.steps.end if upper else loop.steps.first
    extent, step = loop.axis.extent, _numbers(launch, loop)

    def out(read: Mapping[int, Array]) -> Array:
        every = [read.get(i, np.zeros((), int)) for i in range(len(loop.operands))]
        at = number.at(_places(launch), every)
        if upper:
            return np.asarray(step >= np.clip(at, 1, extent))
        return np.asarray(step < np.clip(at, 0, extent - 1))

    if any(quotient.depends_on_reads for quotient, _ in number.quotients):
        return False
    if not number.reads:
        return _contribute_nothing(out({}), idle_steps(launch, loop, positions))
    (i, _), *others = number.reads
    if others:
        return False
    reading, rank = loop.steps.readings[i], len(launch.grid) + 1
    if reading.most - reading.least > MOST_NUMBERS:
        return False
    numbers = numbers_of(reading).reshape((-1,) + (1,) * rank)
    ends = np.clip(number.at(_places(launch), [numbers] * (i + 1)), 0, extent)
    pieces = pieces_where_equal(reading, ends)
    part = loop.operands[i], reading.map, reading.tile
    size = idle_steps(launch, loop, positions).idle.size
    for chosen in pieces.chunks(_MOST_ELEMENTS // size):
        found = idle_steps(launch, loop, positions, {part: chosen.range(rank)})
        left = out({i: chosen.low.reshape((-1,) + (1,) * rank)})
        if not _contribute_nothing(left, found):
            return False
    return True


# ---- the loops of a graph


def positions_of(ops: Iterable[object]) -> dict[Value, Iota]:
    """Return the tensors that are positions, among the results of some ops."""
    return {op.result: op for op in ops if isinstance(op, Iota)}


Bounds: TypeAlias = "tuple[Steps | None, tuple[Value, ...]]"
"""The steps of a loop, and the params that it reads to determine them."""
Change: TypeAlias = "Callable[[Launch, Loop, Positions], Bounds]"
"""A function that returns the bounds that a loop of a launch should have; params may hold
positions."""
ALL_STEPS: Bounds = (None, ())


def bounds_of(loop: Loop) -> Bounds:
    """Return the bounds of a loop."""
    return loop.steps, loop.operands


def with_loops(graph: KernelGraph, known: Positions, change: Change) -> KernelGraph:
    """Return ``graph`` with other bounds of its loops, or ``graph`` itself if none changes.
    ``known`` are tensors that hold positions, besides those that the graph computes itself."""
    known = {**known, **positions_of(graph.ops)}
    ops = tuple(_in_launch(op, known, change) for op in graph.ops)
    same = all(a is b for a, b in zip(ops, graph.ops, strict=True))
    return graph if same else replace(graph, ops=ops)


def _in_launch(op: Op, known: Positions, change: Change) -> Op:
    if not isinstance(op, Launch):
        return op
    pairs = zip(op.body.params, op.operands, strict=True)
    positions = {param: known[tensor] for param, tensor in pairs if tensor in known}
    changed = {loop: change(op, loop, positions) for loop in loops(op)}
    if all(bounds_of(loop) == bounds for loop, bounds in changed.items()):
        return op
    ops = tuple(_with_steps(inner, changed) for inner in op.inside)
    return op.rebuilt(ops, lambda value: value)


def _with_steps(op: Op, changed: Mapping[Loop, Bounds]) -> Op:
    if not isinstance(op, Loop):
        return op
    body = tuple(_with_steps(inner, changed) for inner in op.body)
    steps, operands = changed[op]
    return replace(op, body=body, steps=steps, operands=operands)


def leaves_out_steps(graph: KernelGraph) -> bool:
    """Return whether a loop of the graph skips steps."""
    return any(loop.steps is not None for launch in launches(graph.ops) for loop in loops(launch))
