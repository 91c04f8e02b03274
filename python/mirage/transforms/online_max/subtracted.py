"""Exponentials that are already taken relative to a maximum and need no rewrite."""

from __future__ import annotations

from collections.abc import Iterable

from mirage.semantics.scalar import BinaryFn, ReduceFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Broadcast,
    Cast,
    KernelGraph,
    Launch,
    Loop,
    Mask,
    Op,
    Reshape,
    RunningMax,
    Transpose,
    Unary,
    Value,
    all_ops,
    axis_extents,
    launches,
)
from mirage.transforms.online_max.padding import LOW
from mirage.transforms.shifts.expressions import Expressions


def already_stable(exps: Iterable[Unary], graph: KernelGraph) -> set[Unary]:
    """Return those of ``exps`` whose argument is ``x - m``, with ``m`` a maximum over elements of
    ``x`` that include this one.
    """
    inside = {op: launch for launch in launches(graph.ops) for op in all_ops(launch.body.ops)}
    blocks = {launch: _Block(launch) for launch in dict.fromkeys(inside.values())}
    return {e for e in exps if e in inside and blocks[inside[e]].subtracts_maximum(e)}


class _Block:
    """The tiles of a launch, and which of them are maxima of others."""

    def __init__(self, launch: Launch) -> None:
        self.extents = axis_extents(launch)
        tensors = dict(zip(launch.body.params, launch.operands, strict=True))
        self.expressions = Expressions({}, tensors, self.extents)
        self.definitions: dict[Value, Op] = {}
        self.accumulated: dict[Value, tuple[Loop, Accumulator]] = {}
        self._read(launch.body.ops)

    def _read(self, ops: tuple[Op, ...]) -> None:
        for op in ops:
            if isinstance(op, Loop):
                self._read(op.body)
                results = zip(op.results, op.accumulators, strict=True)
                self.accumulated.update((r, (op, a)) for r, a in results)
            self.expressions.add(op)
            self.definitions.update((r, op) for r in op.results)

    def subtracts_maximum(self, exp: Unary) -> bool:
        """Return whether the argument is at most 0."""
        argument = self.definitions.get(exp.operands[0])
        if argument is None or argument.function is not BinaryFn.SUB:
            return False
        x, m = argument.operands
        return m is not x and self._bounds(m, x, frozenset())

    def _bounds(self, m: Value, x: Value, finished: frozenset[str]) -> bool:
        """Return whether ``m``, or its maximum over the steps of the loops over ``finished``, is at
        least ``x``.
        """
        op = self.definitions.get(x)
        if op is not None and op.function is BinaryFn.MAX and m is not x:
            if all(self._bounds(m, v, finished) for v in op.operands):
                return True
        elif isinstance(op, Mask) and op.fill <= LOW and self._bounds(m, op.operands[0], finished):
            return True
        return self._covers(m, x, finished) or any(
            self._bounds(part, x, finished | steps) for part, steps in self._parts(m)
        )

    def _covers(self, m: Value, x: Value, finished: frozenset[str]) -> bool:
        if m is x:
            return True
        if m.shape == () or m not in self.expressions or x not in self.expressions:
            return False
        mine, other = self.expressions[m], self.expressions[x]
        complete = not mine.pending and not other.pending
        return (
            complete
            and mine.key == other.key
            and all(
                (a == b and finished.isdisjoint(a.axes)) or a.covers(b, self.extents, finished)
                for a, b in zip(mine.cuts, other.cuts, strict=True)
            )
        )

    def _parts(self, m: Value) -> list[tuple[Value, frozenset[str]]]:
        """Return the values that ``m`` bounds, each in all steps of some loops."""
        none = frozenset[str]()
        if m in self.accumulated:
            loop, accumulator = self.accumulated[m]
            last = self.definitions.get(accumulator.value)
            if accumulator.fn is AccumulateFn.LAST and isinstance(last, RunningMax):
                return [(last.operands[0], frozenset({loop.axis.name}))]
            if accumulator.fn is AccumulateFn.MAX:
                return [(accumulator.value, frozenset({loop.axis.name}))]
            return []
        op = self.definitions.get(m)
        if op is None:
            return []
        if op.function is BinaryFn.MAX:
            return [(v, none) for v in op.operands]
        if isinstance(op, RunningMax | Reshape | Transpose | Cast | Broadcast):
            return [(op.operands[0], none)]
        if op.function is ReduceFn.MAX or (isinstance(op, Mask) and op.fill <= LOW):
            return [(op.operands[0], none)]
        return []
