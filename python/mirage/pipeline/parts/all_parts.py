"""All parts of a program, solved within the available time.

If there is little time for many ops, every part gets a first answer before any part is solved for
long. Several parts are put together from runs of a few ops even before that
(:mod:`mirage.pipeline.parts.runs`), and so are parts for which nothing was found. A first answer is
the best of a few plans; workers verify several of them side by side. Better answers are sought
afterwards, first where the potential gain is largest. So a part keeps its own ops because nothing
was found for it, rather than because other parts took the time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from functools import partial

from mirage.pipeline.deadline import INTERRUPTED, Deadline
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.parts.kept_part import KeptParts, reference_of
from mirage.pipeline.parts.part import PartSolver
from mirage.pipeline.parts.part_data import PartOptions, SolvedPart
from mirage.pipeline.parts.runs import Runs
from mirage.pipeline.parts.seconds import shares_of
from mirage.semantics.alternatives import Alternatives, applied_to
from mirage.semantics.positions import Lookup, looked_up
from mirage.semantics.ugraph import KernelGraph, Launch, Op
from mirage.transforms.partition.partition import Part, Step, parts_to_search

SMALL_PART = 10
"""The number of ops that is added to each part's own when parts share the time."""
AGAIN = 2.0
"""The least time for a part's next answer, as a multiple of the time that verifying its first
answer took."""
TURN = 1.5
"""The most time for verifying one answer, as a multiple of a part's share of all workers' time,
since others wait for the worker."""
FIRST_ANSWERS = 1.0
"""With fewer seconds per op than this, every part gets a first answer before a better one is
sought."""

ON_RUNS = 0.6
"""The share of the time that the runs of parts may take."""


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
        """The first of each set of equal parts, by their key."""
        self.places: Counter[str] = Counter()
        """The number of equal parts, by their key."""
        self.keys = [self._key(s) if isinstance(s, Part) else None for s in self.steps]
        for step, key in zip(self.steps, self.keys, strict=True):
            if isinstance(step, Part) and key is not None:
                self.different.setdefault(key, step)
                self.places[key] += 1
        self.sizes = {key: SMALL_PART + len(p.graph.ops) for key, p in self.different.items()}
        every = sum(self.sizes.values())
        self.hurried = options.budget < FIRST_ANSWERS * every
        self.budgets = {key: options.budget * size / every for key, size in self.sizes.items()}
        """The seconds of each part if all parts use their full time."""
        self.solvers: dict[str, PartSolver] = {}
        self.solved: dict[str, SolvedPart] = {}
        self._longest = 0.0  # seconds that a first answer took
        known = {key: self._lookups(part) for key, part in self.different.items()}
        kept_runs = kept if options.reuses else None
        self.runs = Runs(
            self.different, known, self.places, part_options, kept_runs, len(self.different),
            calls=options.pytorch_where_faster is not False,
        )  # fmt: skip

    def solve(self, executor: Executor | None) -> None:
        """Find verified candidates of each part; a part's share of the time grows with its number
        of ops."""
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
            self.solvers[key] = PartSolver(part.graph, number, share, self._lookups(part))
        if self.hurried:
            try:
                if len(self.different) > 1:
                    self._put_together(self.solvers, self.deadline.portion(ON_RUNS), executor)
                self._begin(executor)
            except KeyboardInterrupt:
                self.deadline.stop(INTERRUPTED)
        self._finish(executor)
        self.solved = {key: self.solved[key] for key in self.different}

    @property
    def progress(self) -> str:
        """Say how many of the parts have an answer; empty if no part is being solved."""
        if not self.solvers and not self.solved:
            return ""
        first = sum(s.answered for key, s in self.solvers.items() if key not in self.solved)
        return f"{len(self.solved) + first} of {len(self.different)} parts have an answer"

    def so_far(self, stage: str) -> KernelGraph | None:
        """Return the program with each part's current form at a stage; None while a first answer is
        being verified."""
        if any(s.under_way for s in self.solvers.values()):
            return None
        solved = {k: s.solved() for k, s in self.solvers.items()} | self.solved
        return self._assembled(solved, stage)()

    def together(self, stage: str) -> Callable[[], KernelGraph]:
        """Return the program with each part's form at a stage, once all are solved; it is assembled
        on demand."""
        return self._assembled(self.solved, stage)

    def go_on_without(self, broken: Mapping[int, Sequence[Launch]]) -> bool:
        """Solve parts again without kernels that do not compile. Return whether anything has
        changed."""
        changed = False
        for key, solver in self.solvers.items():
            if solver.go_on_without(broken, self.deadline.portion(1.0 / len(self.solvers))):
                self.solved[key] = solver.solved()
                changed = True
        return changed

    def keep(self, worked: float = 1.0) -> None:
        """Keep the result for each part, found in this share of the seconds that it had."""
        self.runs.keep(worked)
        for key, solver in self.solvers.items():
            self.kept.keep(solver, key, self.budgets[key], worked)

    @property
    def found(self) -> tuple[SolvedPart, ...]:
        """The different parts, followed by the smaller parts from which some of them are
        assembled."""
        used = [key for key, part in self.solved.items() if part.fell_back and part.in_runs]
        return (*self.solved.values(), *self.runs.used(used))

    # ---- rounds

    def _put_together(
        self, keys: Collection[str], deadline: Deadline, executor: Executor | None
    ) -> None:
        """Give parts answers that are put together from smaller parts, found before a deadline."""
        self.runs.solve(keys, deadline, executor)
        for key in keys:
            found = self.runs.put_together(key)
            if found is not None:
                self.solvers[key].candidates.put_together(found)

    def _begin(self, executor: Executor | None) -> None:
        """Start a first answer for each part, those with the most places first, as long as there is
        time to find and compile one more. While all workers are busy verifying, this process
        searches alone; with several parts, no other work starts before all first answers are
        verified."""
        left = every = self._size(self.solvers)
        begun: list[PartSolver] = []
        for key in self._most_promising(self.solvers):
            solver, start = self.solvers[key], self.deadline.left
            compiling = sum(s.compiling_about() for s in (*begun, solver))
            if start - compiling <= self._longest:
                solver.leave()
                continue
            solver.within(self.deadline.portion(1.0, but=compiling))
            begun.append(solver)
            alone = sum(s.under_way for s in begun) >= self.options.processes
            seconds = self._turn(self.deadline, self.sizes[key] / every)
            solver.begin(self.sizes[key] / left, seconds, None if alone else executor)
            left -= self.sizes[key]
            self._longest = max(self._longest, start - self.deadline.left)
        if len(self.solvers) > 1 or executor is None:
            for solver in begun:
                solver.await_first()
            self.part_options.answered()
            self._improve()

    def _improve(self) -> None:
        """Find a better answer for each part that has a first one, first where the potential gain
        per second is largest. A worker verifies it while the next part is searched. No answer is
        sought if there is no time to verify it."""
        begun = self._begun()
        compiling = sum(s.compiling() for s in begun.values())
        order = self._most_promising(begun)
        shares, every = self._shares(order), self._size(order)
        for key in order:
            solver, whole = begun[key], self.deadline.portion(1.0, but=compiling)
            if whole.left > AGAIN * solver.took:
                solver.within(whole)
                share = max(shares[key], solver.took / whole.left)
                solver.better(share, self._turn(whole, self.sizes[key] / every))
        for key in order:
            begun[key].await_first()

    def _most_promising(self, keys: Collection[str]) -> list[str]:
        """Return the parts in the order in which they get time."""
        return sorted(keys, key=lambda key: -self._promise(key))

    def _shares(self, keys: Sequence[str]) -> dict[str, float]:
        """Return the share of the remaining time that each of several parts gets at its turn. If
        all have a first answer, their predicted times count as well."""
        sizes = [self.sizes[key] for key in keys]
        times = [0.0 for _ in keys]
        if self.hurried:
            times = [self.solvers[key].time * self.places[key] for key in keys]
        return dict(zip(keys, shares_of(sizes, times), strict=True))

    def _promise(self, key: str) -> float:
        """Return the predicted µs of a part in all of its places, divided by the ops that a search
        considers."""
        return self.solvers[key].time * self.places[key] / self.sizes[key]

    def _finish(self, executor: Executor | None) -> None:
        """Solve the parts one after the other, and assemble those for which nothing was found from
        smaller parts. With little time, the parts where most may be gained come first. Parts that
        got no first answer come last, and are solved if there is more time now than was estimated
        then."""
        reserved = {key: s.compiling() for key, s in self._begun().items()}  # seconds
        order = self._most_promising(self.solvers) if self.hurried else list(self.solvers)
        order.sort(key=lambda key: self.solvers[key].left_alone)
        shares = self._shares(order)
        for key in order:
            reserved.pop(key, None)
            solver, others = self.solvers[key], sum(reserved.values())
            try:
                mine = self.deadline.portion(shares[key], but=others)
                if solver.left_alone and mine.left > self._longest + solver.compiling_about():
                    solver.take_up()
                if not solver.left_alone:
                    solver.within(mine)
                self.solved[key] = solver.solved() if solver.left_alone else solver.run()
                reserved[key] = solver.compiling()
            except KeyboardInterrupt:
                self.deadline.stop(INTERRUPTED)
                self.solved[key] = solver.solved()
        without = [k for k in self.solvers if self.solved[k].fell_back and k not in self.runs.cuts]
        try:
            self._put_together(
                without, self.deadline.portion(1.0, but=sum(reserved.values())), executor
            )
        except KeyboardInterrupt:
            self.deadline.stop(INTERRUPTED)
        self.solved.update((key, self.solvers[key].solved()) for key in without)

    def _begun(self) -> dict[str, PartSolver]:
        """Return the parts whose first answer was verified, with any verdict."""
        return {key: s for key, s in self.solvers.items() if s.took}

    def _size(self, keys: Sequence[str] | Mapping[str, PartSolver]) -> int:
        return sum(self.sizes[key] for key in keys)

    def _turn(self, deadline: Deadline, share: float) -> float:
        """Return the seconds that a worker has for an answer of a part."""
        return TURN * self.options.processes * deadline.left * share

    # ---- parts

    def _lookups(self, part: Part) -> dict[int, Lookup]:
        """Return the inputs of a part that are positions or rows of tables, with their ops."""
        made = looked_up(self.steps)
        return {i: made[v] for i, v in enumerate(part.graph.inputs) if v in made}

    def _key(self, part: Part) -> str:
        """Return a key that is equal for parts with the same solutions."""
        return reference_of(part.graph, self._lookups(part))

    def _assembled(self, solved: Mapping[str, SolvedPart], stage: str) -> Callable[[], KernelGraph]:
        """Return the program with the parts' forms at a stage, assembled on demand."""
        forms: dict[str, Alternatives] = {k: getattr(p, stage) for k, p in solved.items()}
        return partial(_assembled, self.whole, self.steps, self.keys, forms)


def _assembled(
    whole: KernelGraph,
    steps: Sequence[Step],
    keys: Sequence[str | None],
    forms: Mapping[str, Alternatives],
) -> KernelGraph:
    """Replace the parts of ``whole`` by their ``forms``, which are found by the keys of the
    steps."""
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
