"""Which steps of a loop contribute nothing, because a mask empties their tiles."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from mirage.semantics.op import Op
from mirage.semantics.positions import Iota
from mirage.semantics.ranges import Range
from mirage.semantics.scalar import Array
from mirage.semantics.tile_ranges import Positions, TileRanges
from mirage.semantics.ugraph import (
    AccumulateFn,
    Constant,
    KernelGraph,
    Launch,
    Loop,
    RunningMax,
    Value,
    loops,
    walk,
)


@dataclass(frozen=True)
class IdleSteps:
    """``idle`` has a dimension for each grid axis, then one for the steps, or 1 in their place:
    where it is true, the step may be left out. Unless ``at_the_end``, there must be a step after
    it that is not left out. ``cuts`` are the axes that cut positions, and the sizes of tiles."""

    idle: Array
    at_the_end: bool
    cuts: tuple[tuple[tuple[str, ...], int], ...]


def idle_steps(launch: Launch, loop: Loop, positions: Positions) -> IdleSteps:
    """The steps that contribute nothing to the results of ``loop``, for all values that inputs may
    have.

    A step is idle if it leaves all that the loop carries as it is: sums have zeros added, maxima
    have minus infinity beside them or what is no larger than what each step has.
    """
    found = TileRanges(launch, loop, positions)
    idle = np.ones((1,) * (len(launch.grid) + 1), bool)
    for op in loop.body:
        if isinstance(op, RunningMax):
            idle = idle & _no_more(found.tiles[op.operands[0]].all)
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
    return x.wild.any(axis=-1, keepdims=True) if x.wild.ndim else x.wild


def _kept(loop: Loop) -> set[Value]:
    """Values of the body that a step leaves as they are if it leaves what the loop carries: what is
    made of running maxima and of values from outside of the loop."""
    inside = {v for op in walk(loop.body) for v in op.results}
    kept: set[Value] = set()
    for op in loop.body:
        if isinstance(op, RunningMax) or (
            _depends_on_operands(op) and all(v in kept or v not in inside for v in op.operands)
        ):
            kept.update(op.results)
    return kept


def _depends_on_operands(op: Op) -> bool:
    """Whether the op is the same at all steps where its operands are."""
    return isinstance(op, Constant) or (bool(op.operands) and op.in_kernel and not op.reads_axes)


def left_out(launch: Launch, loop: Loop) -> Array:
    """The steps that blocks do not take, with dimensions as in :class:`IdleSteps`."""
    rank = len(launch.grid)
    positions = {
        a.name: np.arange(a.extent).reshape((1,) * i + (-1,) + (1,) * (rank - i))
        for i, a in enumerate(launch.grid)
    }
    step = np.arange(loop.axis.extent).reshape((1,) * rank + (-1,))
    if loop.steps is None:
        return np.zeros_like(step, dtype=bool)
    first, end = loop.steps.range_at(positions, loop.axis.extent)
    return np.asarray((step < first) | (step >= end))


def are_idle(launch: Launch, loop: Loop, positions: Positions) -> bool:
    """Whether all steps that the loop leaves out contribute nothing."""
    out = left_out(launch, loop)
    found = idle_steps(launch, loop, positions)
    ends = bool(out[..., -1].any())
    return bool(np.all(found.idle | ~out)) and (found.at_the_end or not ends)


def positions_in(launch: Launch, known: Positions) -> Positions:
    """The positions that a launch loads, by its params, where ``known`` are those of tensors."""
    pairs = zip(launch.body.params, launch.operands, strict=True)
    return {param: known[tensor] for param, tensor in pairs if tensor in known}


def positions_of(graph: KernelGraph) -> Positions:
    """The tensors of a graph that are positions."""
    return {op.result: op for op in graph.ops if isinstance(op, Iota)}


def leaves_out_steps(graph: KernelGraph) -> bool:
    """Whether a loop of the graph leaves out steps."""
    return any(
        loop.steps is not None for op in graph.ops if isinstance(op, Launch) for loop in loops(op)
    )
