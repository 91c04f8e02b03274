"""The places of a block where ops are written: before its loops, in them, between and after them.

A block is a sequence of loops; values that are computed between two of them need the first one's
sums. A nest is one of these loops, with another loop in its body: ops come before the inner loop
(loads and other values that the inner loop needs), in it, and after it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from mirage.search.kernel.derivations.derive import Derivations, Goal
from mirage.search.kernel.derivations.moves import Edge, EmitError
from mirage.search.kernel.loop_nests.phases import Where
from mirage.semantics.builder import Builder
from mirage.semantics.ugraph import Accumulator, Axis, Loop, Op, Value

NEST = 1
"""The number of a nest among the loops of a block; number 0 is for sums that do not need it."""


def _builder() -> Builder:
    return Builder(in_block=True)


@dataclass
class LoopBody:
    """One loop, and the ops after it and before the next one."""

    body: Builder = field(default_factory=_builder)
    accumulators: list[Accumulator] = field(default_factory=list[Accumulator])
    results: list[Value] = field(default_factory=list[Value])
    after: Builder = field(default_factory=_builder)
    inner: LoopBody | None = None

    def write(self, names: tuple[str, ...], steps: dict[str, int]) -> list[Op]:
        """Return the loop and the ops after it; ``names`` are the names of its axis and of the
        inner loop's axis, and ``steps`` their extents."""
        name, *rest = names
        body = list(self.body.ops)
        if self.inner is not None:
            body.extend(self.inner.write(tuple(rest), steps))
        if not self.accumulators:
            raise EmitError("expected an accumulator for the values in the loop, got none")
        loop = Loop(
            (), tuple(self.results), Axis(name, steps[name]), tuple(body), tuple(self.accumulators)
        )
        return [loop, *self.after.ops]


class Bodies:
    """The places of one block to which ops are written, by the phase of the value."""

    def __init__(self, derivations: Derivations, choice: dict[Goal, Edge]) -> None:
        self.phases = derivations.phases
        self.kind = derivations.kind
        self.current = 0  # the loop that is being written
        self._choice = choice
        self._before, self._after = _builder(), _builder()
        self._loops: list[LoopBody] = []
        self._early: set[Goal] = set()

    # ---- what is needed early

    def mark_early(self, goals: Iterable[Goal]) -> None:
        """Mark the values that a loop uses but does not change; they are computed before it."""
        seen: set[tuple[Goal, Where]] = set()

        def visit(goal: Goal, used: Where) -> None:
            if (goal, used) in seen:
                return
            seen.add((goal, used))
            where = self.phases.where(goal[0])
            if where < used:
                self._early.add(goal)
            for child in self._choice[goal].children:
                visit(child, max(where, used))

        for goal in goals:
            visit(goal, Where.OUTSIDE)

    # ---- places

    def builder(self, goal: Goal) -> Builder:
        """Return the builder of the place where a value is written."""
        where = self.phases.where(goal[0])
        if where is Where.OUTSIDE:
            if self.kind.loop is not None and goal not in self._early:
                return self._after
            ended = self.phases.ended(goal[0])
            return self._loop(ended - 1).after if ended else self._before
        loop = self._loop(self._number(where))
        if loop.inner is None:
            return loop.body
        if where is Where.INNER:
            return loop.inner.body
        return loop.body if goal in self._early else loop.inner.after

    def place(self, goal: Goal) -> int:
        """Return the number of the loop to which a value belongs, or -1: the same value is written
        once in each place."""
        where = self.phases.where(goal[0])
        return -1 if where is Where.OUTSIDE else self._number(where)

    def axis_name(self, label: str) -> str | None:
        """Return the loop axis that splits ``label`` in the current loop, if any."""
        if label not in (self.kind.loop, self.kind.inner):
            return None
        return self._name(label, self.current)

    def _name(self, label: str, number: int) -> str:
        if self.kind.inner is None:
            return label if number == 0 else f"{label}_again{number}"
        return f"{label}_first" if number < NEST else label

    def _number(self, where: Where) -> int:
        return NEST if self.kind.inner is not None and where is Where.LOOP else self.current

    def _loop(self, number: int) -> LoopBody:
        while len(self._loops) <= number:
            nest = self.kind.inner is not None and len(self._loops) == NEST
            self._loops.append(LoopBody(inner=LoopBody() if nest else None))
        return self._loops[number]

    # ---- sums over steps

    def enter(self, child: Goal) -> int:
        """Start writing the loop that sums ``child``; return the loop that was being written."""
        before = self.current
        if self.kind.inner is None:
            self.current = self.phases.ended(child[0])
        else:
            self.current = NEST if self.phases.within_nest(child[0]) else NEST - 1
        return before

    def accumulate(self, accumulator: Accumulator, axis: str) -> Value:
        """Return the sum over the steps of the current loop."""
        loop = self._loop(self.current)
        if loop.inner is not None and axis == self.kind.inner:
            loop = loop.inner
        result = Value(accumulator.value.type)
        loop.accumulators.append(accumulator)
        loop.results.append(result)
        return result

    def ops(self, steps: dict[str, int]) -> list[Op]:
        """Return all ops of the block; ``steps`` maps labels of axes to their steps."""
        out = list(self._before.ops)
        for number, loop in enumerate(self._loops):
            if self.kind.inner is not None and number < NEST and not loop.accumulators:
                continue  # every sum needs the nest
            labels = [self.kind.loop] if self.kind.inner is None or number == NEST else []
            labels.append(self.kind.inner)
            kept = [label for label in labels if label is not None]
            names = tuple(self._name(label, number) for label in kept)
            out.extend(loop.write(names, {n: steps[a] for n, a in zip(names, kept, strict=True)}))
        return [*out, *self._after.ops]
