"""Which steps of a loop contribute nothing, because a mask empties their tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np

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
"""Of arrays over pieces, blocks and steps, so that they stay in the processor's cache."""


@dataclass(frozen=True)
class IdleSteps:
    """``idle`` has a dimension for each grid axis, then one for the steps, or 1 in their place:
    where it is true, the step may be left out. Unless ``at_the_end``, there must be a step after
    it that is not left out. ``cuts`` are the axes that cut positions, and the sizes of tiles."""

    idle: Array
    at_the_end: bool
    cuts: tuple[tuple[tuple[str, ...], int], ...]


def idle_steps(
    launch: Launch, loop: Loop, positions: Positions, assumed: Assumed = NOTHING
) -> IdleSteps:
    """The steps that contribute nothing to the results of ``loop``, for all values that inputs may
    have, integers that are ``assumed`` to be within bounds apart: those put a dimension in front.

    A step is idle if it leaves all that the loop carries as it is: sums have zeros added, maxima
    have minus infinity beside them or what is no larger than what each step has.
    """
    found = TileRanges(launch, loop, positions, assumed)
    idle = np.ones((1,) * (len(launch.grid) + 1), bool)
    for op in loop.body:
        if isinstance(op, Scan):
            known = type(op) is RunningMax  # of another one nothing is known
            idle = idle & (known and _no_more(found.tiles[op.operands[0]].all))
    for a in loop.accumulators:
        if a.fn is AccumulateFn.SUM:
            idle = idle & found.tiles[a.value].all.zero
        elif a.fn is AccumulateFn.MAX:
            idle = idle & _no_more(found.tiles[a.value].all)
    kept = _kept(loop)
    at_the_end = all(a.value in kept for a in loop.accumulators if a.fn is AccumulateFn.LAST)
    return IdleSteps(idle, at_the_end, tuple(found.cuts))


def _no_more(x: Range) -> Array:
    """Where a step's elements add nothing to the maximum of any steps of the block."""
    least = x.least
    if least.ndim:
        least = np.where(x.below | x.wild, -np.inf, least).min(axis=-1, keepdims=True)
    return np.asarray((x.most <= least) & ~x.wild & ~_any_wild(x))


def _any_wild(x: Range) -> Array:
    return np.asarray(x.wild.any(axis=-1, keepdims=True)) if x.wild.ndim else x.wild


def _kept(loop: Loop) -> set[Value]:
    """Values of the body that a step leaves as they are if it leaves what the loop carries: what is
    made of running maxima and of values from outside of the loop."""
    inside = {v for op in all_ops(loop.body) for v in op.results}
    kept: set[Value] = set()
    for op in loop.body:
        made = not isinstance(op, Structure) and not op.reads_axes
        if isinstance(op, Scan) or (made and inside.intersection(op.operands) <= kept):
            kept.update(op.results)
    return kept


def left_out(launch: Launch, loop: Loop, read: Sequence[Array] = ()) -> Array:
    """The steps that blocks do not take, with dimensions as in :class:`IdleSteps`; ``read`` are the
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
    """Whether all steps that the loop leaves out contribute nothing, whatever integers bound it."""
    if loop.steps is not None and loop.steps.readings:
        return all(_side_is_idle(launch, loop, positions, upper) for upper in (False, True))
    out = left_out(launch, loop)
    return _contribute_nothing(out, idle_steps(launch, loop, positions))


def _contribute_nothing(out: Array, found: IdleSteps) -> bool:
    ends = bool(out[..., -1].any())
    return bool(np.all(found.idle | ~out)) and (found.at_the_end or not ends)


def _side_is_idle(launch: Launch, loop: Loop, positions: Positions, upper: bool) -> bool:
    """Whether the steps before the first one (or, ``upper``, from the end on) contribute nothing.

    Each side for itself, for all integers that bound the other one: what is left out for two
    integers is left out by the one or by the other. As a block takes a step at least, there is no
    more left out than that.
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
    """The tensors that are positions, of those that some ops make."""
    return {op.result: op for op in ops if isinstance(op, Iota)}


Bounds: TypeAlias = "tuple[Steps | None, tuple[Value, ...]]"
"""The steps of a loop, and the params that it reads to know them."""
Change: TypeAlias = "Callable[[Launch, Loop, Positions], Bounds]"
"""What a loop of a launch is to take; params hold positions."""
ALL_STEPS: Bounds = (None, ())


def bounds_of(loop: Loop) -> Bounds:
    """What a loop takes."""
    return loop.steps, loop.operands


def with_loops(graph: KernelGraph, known: Positions, change: Change) -> KernelGraph:
    """``graph`` with other loops; itself where none is another. ``known`` are tensors that hold
    positions, beside those that the graph makes itself."""
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
    """Whether a loop of the graph leaves out steps."""
    return any(loop.steps is not None for launch in launches(graph.ops) for loop in loops(launch))
