"""All parts of a program, solved within the time that there is.

With little time for so many ops no part is solved for long before each has a first answer: the
best of a few plans, verified by workers side by side. Then better answers are looked for, first
where most may be gained. So a part keeps its own ops because nothing was found for it, rather than
because others took the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

from mirage.pipeline.deadline import INTERRUPTED, Deadline
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.parts.kept_part import KeptParts, reference_of
from mirage.pipeline.parts.part import PartSolver
from mirage.pipeline.parts.part_data import PartOptions, SolvedPart
from mirage.semantics.alternatives import Alternatives, applied_to
from mirage.semantics.bounds.idle_steps import positions_of
from mirage.semantics.positions import Iota
from mirage.semantics.ugraph import KernelGraph, Launch, Op
from mirage.transforms.partition.partition import Part, Step, parts_to_search

SMALL_PART = 10
"""Ops that each part counts for, besides its own, when parts share the time."""
AGAIN = 2.0
"""Times as long as its first answer took to verify that a part has for the next one at least."""
TURN = 1.5
"""Times its share of the time of all workers that the verification of an answer may take, as others
wait."""
FIRST_ANSWERS = 1.0
"""With fewer seconds for each op there is a first answer for every part before a better one is
looked for."""


class Parts:
    """The parts of a program; equal ones are solved once."""

    def __init__(
        self,
        whole: KernelGraph,
        options: OptimizeOptions,
        part_options: PartOptions,
        kept: KeptParts,
    ) -> None:
        self.whole, self.options, self.part_options, self.kept = whole, options, part_options, kept
        self.steps = parts_to_search(whole)
        self.deadline = part_options.deadline
        self.different: dict[str, Part] = {}
        """Of equal parts the first, by their key."""
        self.places: Counter[str] = Counter()
        """How many equal parts there are."""
        self.keys = [self._key(s) if isinstance(s, Part) else None for s in self.steps]
        for step, key in zip(self.steps, self.keys, strict=True):
            if isinstance(step, Part) and key is not None:
                self.different.setdefault(key, step)
                self.places[key] += 1
        self.sizes = {key: SMALL_PART + len(p.graph.ops) for key, p in self.different.items()}
        every = sum(self.sizes.values())
        self.hurried = options.budget < FIRST_ANSWERS * every
        self.budgets = {key: options.budget * size / every for key, size in self.sizes.items()}
        """Seconds of each part, if all take as long as they may."""
        self.solvers: dict[str, PartSolver] = {}
        self.solved: dict[str, SolvedPart] = {}

    def solve(self, executor: Executor | None) -> None:
        """Finds verified candidates of each part, the more ops the more of the time it has."""
        o = self.options
        options = replace(self.part_options, executor=executor)
        for number, (key, part) in enumerate(self.different.items()):
            found = None
            if o.reuses:
                found = self.kept.solved(part.graph, key, self.budgets[key], number)
            if found is not None:
                o.say(f"part {number} was found before: {len(found.checked)} verified candidates")
                self.solved[key] = found
                continue
            share = replace(options, portion=self.budgets[key] / o.budget)
            self.solvers[key] = PartSolver(part.graph, number, share, self._positions(part))
        if self.hurried:
            try:
                self._begin(executor)
            except KeyboardInterrupt:
                self.deadline.stop(INTERRUPTED)
        self._finish()
        self.solved = {key: self.solved[key] for key in self.different}

    @property
    def progress(self) -> str:
        """How many of the parts have an answer; empty where none is looked for."""
        if not self.solvers and not self.solved:
            return ""
        first = sum(s.answered for key, s in self.solvers.items() if key not in self.solved)
        return f"{len(self.solved) + first} of {len(self.different)} parts have an answer"

    def so_far(self, stage: str) -> KernelGraph | None:
        """The program with what each part has at a stage; None while a first answer is verified."""
        if any(s.under_way for s in self.solvers.values()):
            return None
        solved = {k: s.solved() for k, s in self.solvers.items()} | self.solved
        return self._assembled(solved, stage)()

    def together(self, stage: str) -> Callable[[], KernelGraph]:
        """The program with what each part has at a stage, once all are solved; it is made when it
        is asked for."""
        return self._assembled(self.solved, stage)

    def go_on_without(self, broken: Mapping[int, Sequence[Launch]]) -> bool:
        """Solves parts without kernels that do not compile; whether anything has changed."""
        changed = False
        for key, solver in self.solvers.items():
            if solver.go_on_without(broken, self.deadline.portion(1.0 / len(self.solvers))):
                self.solved[key] = solver.solved()
                changed = True
        return changed

    def keep(self) -> None:
        """Keeps what was found for each part."""
        for key, solver in self.solvers.items():
            self.kept.keep(solver, key, self.budgets[key])

    # ---- rounds

    def _begin(self, executor: Executor | None) -> None:
        """A first answer for each part, those with most places first, as long as there is time to
        find one more and to compile it. While all workers verify, this process searches alone; with
        several parts nothing else is begun before all of them are verified."""
        left = every = self._size(self.solvers)
        longest = 0.0
        begun: list[PartSolver] = []
        for key in sorted(self.solvers, key=lambda key: -self.places[key]):
            solver, start = self.solvers[key], self.deadline.left
            compiling = sum(s.compiling_about() for s in (*begun, solver))
            if start - compiling <= longest:
                solver.leave()
                continue
            solver.within(self.deadline.portion(1.0, but=compiling))
            begun.append(solver)
            alone = sum(s.under_way for s in begun) >= self.options.processes
            seconds = self._turn(self.deadline, self.sizes[key] / every)
            solver.begin(self.sizes[key] / left, seconds, None if alone else executor)
            left -= self.sizes[key]
            longest = max(longest, start - self.deadline.left)
        if len(self.solvers) > 1 or executor is None:
            for solver in begun:
                solver.await_first()
            self.part_options.answered()
            self._improve()

    def _improve(self) -> None:
        """A better answer for each part that has a first one, first where most may be gained in a
        second; it is verified by a worker while the next part is searched. What there is no time to
        verify is not looked for."""
        begun = self._begun()
        compiling = sum(s.compiling() for s in begun.values())
        order = sorted(begun, key=lambda key: -self._promise(key))
        left = every = self._size(order)
        for key in order:
            solver, whole = begun[key], self.deadline.portion(1.0, but=compiling)
            if whole.left > AGAIN * solver.took:
                solver.within(whole)
                share = max(self.sizes[key] / left, solver.took / whole.left)
                solver.better(share, self._turn(whole, self.sizes[key] / every))
            left -= self.sizes[key]
        for key in order:
            begun[key].await_first()

    def _promise(self, key: str) -> float:
        """Predicted µs of a part in all of its places, for each op that a search looks at."""
        return self.solvers[key].time * self.places[key] / self.sizes[key]

    def _finish(self) -> None:
        """Solves the parts, one after the other."""
        reserved = {key: s.compiling() for key, s in self._begun().items()}  # seconds
        left = self._size(self.solvers)
        for key, solver in self.solvers.items():
            reserved.pop(key, None)
            others = sum(reserved.values())
            try:
                solver.within(self.deadline.portion(self.sizes[key] / left, but=others))
                self.solved[key] = solver.solved() if solver.left_alone else solver.run()
                reserved[key] = solver.compiling()
            except KeyboardInterrupt:
                self.deadline.stop(INTERRUPTED)
                self.solved[key] = solver.solved()
            left -= self.sizes[key]

    def _begun(self) -> dict[str, PartSolver]:
        """The parts whose first answer was verified, with whatever verdict."""
        return {key: s for key, s in self.solvers.items() if s.took}

    def _size(self, keys: Sequence[str] | Mapping[str, PartSolver]) -> int:
        return sum(self.sizes[key] for key in keys)

    def _turn(self, deadline: Deadline, share: float) -> float:
        """Seconds that a worker has for an answer of a part."""
        return TURN * self.options.processes * deadline.left * share

    # ---- parts

    def _positions(self, part: Part) -> dict[int, Iota]:
        """Which inputs of a part are positions, and which."""
        made = positions_of(self.steps)
        return {i: made[v] for i, v in enumerate(part.graph.inputs) if v in made}

    def _key(self, part: Part) -> str:
        """Equal for parts that have the same solutions."""
        return reference_of(part.graph, self._positions(part))

    def _assembled(self, solved: Mapping[str, SolvedPart], stage: str) -> Callable[[], KernelGraph]:
        """The program with what the parts have at a stage, once it is asked for."""
        forms: dict[str, Alternatives] = {k: getattr(p, stage) for k, p in solved.items()}
        return partial(_assembled, self.whole, self.steps, self.keys, forms)


def _assembled(
    whole: KernelGraph,
    steps: Sequence[Step],
    keys: Sequence[str | None],
    forms: Mapping[str, Alternatives],
) -> KernelGraph:
    """``whole`` with the ``forms`` of its parts, by the keys of those among its steps."""
    first: set[str] = set()
    ops: list[Op] = []
    for step, key in zip(steps, keys, strict=True):
        if not isinstance(step, Part) or key is None:
            assert not isinstance(step, Part)
            ops.append(step)
            continue
        ops.append(applied_to(forms[key], step.graph) if key in first else forms[key])
        first.add(key)
    return KernelGraph(whole.name, whole.inputs, tuple(ops), whole.outputs)
