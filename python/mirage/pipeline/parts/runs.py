"""Parts assembled from runs of a few ops, each of which is searched and verified separately.

A search of few ops takes a fraction of a second, and layers have many runs in common. So if there
is little time for a program, or if no candidate of a part passes verification, the part is put
together from the answers for its runs: this is much faster than a kernel for each op, but may not
be as fast as the result of a search of the whole part. Runs are cut where parts are, at the
smallest tensors (:mod:`mirage.transforms.partition.divide`), and equal runs are solved once,
whatever part they are in.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from mirage.cost.fused_ops import op_by_op
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.parts.kept_part import KeptParts, reference_of
from mirage.pipeline.parts.part import PartSolver
from mirage.pipeline.parts.part_data import PartOptions, SolvedPart, of_own_ops, with_positions
from mirage.pipeline.parts.seconds import busy
from mirage.pipeline.select import ranking
from mirage.semantics.alternatives import Alternatives, VerdictNote, applied_to, inlined, parts_of
from mirage.semantics.bounds.idle_steps import positions_of
from mirage.semantics.positions import Lookup
from mirage.semantics.ugraph import Boundary, KernelGraph, Op
from mirage.transforms.partition.partition import Part, partition
from mirage.verify import Kind

LARGEST_RUN = 8
"""The most primitive ops of a run, not counting views."""
RUN_PLANS = 32
"""The sets of stored intermediates that are considered for a run."""
ONE = 4.0
"""The most seconds for the search of a run, and for its verification; most take a tenth of that."""


@dataclass(frozen=True)
class CutPart:
    """A part in runs: its ``graph``, each run with its key, and calls of PyTorch between them."""

    graph: KernelGraph
    steps: tuple[tuple[str, Part] | Boundary, ...]

    @property
    def runs(self) -> list[tuple[str, Part]]:
        """The runs without the calls."""
        return [step for step in self.steps if isinstance(step, tuple)]


class Runs:
    """The runs of parts, which are given by their keys. ``known`` are inputs of the parts that are
    positions or rows of tables, and ``places`` says how often each part occurs. With ``calls``,
    PyTorch may be called between runs, for views that leave a part. Runs are numbered from
    ``first``."""

    def __init__(
        self,
        parts: Mapping[str, Part],
        known: Mapping[str, Mapping[int, Lookup]],
        places: Mapping[str, int],
        options: PartOptions,
        kept: KeptParts | None,
        first: int,
        *,
        calls: bool,
    ) -> None:
        self.parts, self.known, self.places = parts, known, places
        self.options, self.kept, self.first, self.calls = options, kept, first, calls
        self.cuts: dict[str, CutPart] = {}
        """The parts that were cut so far, by their keys."""
        self.solvers: dict[str, PartSolver] = {}
        self.solved: dict[str, SolvedPart] = {}

    def solve(self, keys: Collection[str], deadline: Deadline, executor: Executor | None) -> None:
        """Solve the runs of some parts before a deadline, first those that would take longest in
        all of their places. A worker verifies one while the next ones are searched."""
        new = self._cut(keys)
        found: list[str] = []  # those whose verdicts are not known
        for key in sorted(new, key=lambda key: -self._promise(key, new[key])):
            if not deadline.left:
                break
            run, known = new[key]
            number = self.first + len(self.solved.keys() | self.solvers.keys())
            solved = self.kept.solved(run.graph, key, ONE, number) if self.kept else None
            if solved is not None:
                self.solved[key] = solved
                continue
            options = replace(
                self.options,
                executor=executor,
                portion=0.0,
                first_plans=RUN_PLANS,
                enough=1,
                answered=lambda: None,
            )
            solver = PartSolver(run.graph, number, options, known)
            seconds = ONE * busy(deadline)
            solver.within(deadline)
            solver.begin(min(1.0, seconds / deadline.left), seconds, None)
            self.solvers[key] = solver
            found.append(key)
            known_now = [other for other in found if not self.solvers[other].under_way]
            for other in known_now:
                self._finish(other, deadline)
            found = [other for other in found if other not in known_now]
        for key in found:
            self._finish(key, deadline)

    def _finish(self, key: str, deadline: Deadline) -> None:
        """Take the verdict on a run's first answer; if it did not pass, look for others."""
        solver = self.solvers[key]
        solver.await_first()
        if not solver.answered and deadline.left:
            solver.within(deadline.at_most(ONE * busy(deadline)))
            solver.run()
        self.solved[key] = solver.solved()

    def put_together(self, key: str) -> Alternatives | None:
        """Return a part with the best answers for its runs as its only candidate; None if there are
        none."""
        cut = self.cuts.get(key)
        if cut is None or not any(self._has_kernels(run) for run, _ in cut.runs):
            return None
        ops = tuple(map(self._answered, cut.steps))
        graph = KernelGraph(cut.graph.name, cut.graph.inputs, ops, cut.graph.outputs)
        orders = {op: ranking(op, self.options.target) for op in parts_of(graph)}
        if not all(orders.values()):
            return None
        best = {op: order[0][1] for op, order in orders.items()}
        program = inlined(graph, best.__getitem__)
        note = together([op.verdicts[k - 1] for op, k in best.items() if op.verdicts])
        programs = (cut.graph, program)
        return Alternatives(graph.inputs, graph.outputs, programs, (note,), (None, None))

    def _answered(self, step: tuple[str, Part] | Boundary) -> Op:
        """Return a run with its answers; with its own ops if there was no time for it."""
        if not isinstance(step, tuple):
            return step
        key, part = step
        found = self.solved.get(key)
        return of_own_ops(part.graph) if found is None else applied_to(found.verified, part.graph)

    def used(self, keys: Collection[str]) -> Iterator[SolvedPart]:
        """Yield the runs of some parts, once each, as far as they have answers."""
        runs = dict.fromkeys(
            run for key in keys if key in self.cuts for run, _ in self.cuts[key].runs
        )
        return (self.solved[run] for run in runs if run in self.solved)

    def keep(self, worked: float = 1.0) -> None:
        """Keep the result for each run, found in this share of the seconds that it had."""
        if self.kept is not None:
            for key, solver in self.solvers.items():
                self.kept.keep(solver, key, ONE, worked)

    def _cut(self, keys: Collection[str]) -> dict[str, tuple[Part, dict[int, Lookup]]]:
        """Cut parts into runs. Return those runs that are new, with their inputs that are
        positions or rows of tables."""
        new: dict[str, tuple[Part, dict[int, Lookup]]] = {}
        for key in keys:
            if key in self.cuts:
                continue
            graph = self.parts[key].graph
            steps = partition(with_positions(graph, self.known[key]), LARGEST_RUN)
            runs = [step for step in steps if isinstance(step, Part)]
            made = positions_of(steps)
            given = made | {graph.inputs[i]: op for i, op in self.known[key].items()}
            lookups = set(made.values())
            calls = [s for s in steps if not isinstance(s, Part) and s not in lookups]
            if len(runs) < 2 or any(isinstance(op, Lookup) or not self.calls for op in calls):
                continue
            found: list[tuple[str, Part] | Boundary] = []
            for run in steps:
                if not isinstance(run, Part):
                    found += [run] if run in calls else []
                    continue
                known = {i: given[v] for i, v in enumerate(run.graph.inputs) if v in given}
                name = reference_of(run.graph, known)
                found.append((name, run))
                if name not in self.solved:
                    new.setdefault(name, (run, known))
            self.cuts[key] = CutPart(graph, tuple(found))
        return new

    def _promise(self, key: str, run: tuple[Part, object]) -> float:
        """Return the predicted µs of a run, op by op, in all of its places."""
        counts = Counter[str]()
        for part, cut in self.cuts.items():
            counts[key] += self.places[part] * sum(name == key for name, _ in cut.runs)
        return counts[key] * op_by_op(run[0].graph, self.options.target).time

    def _has_kernels(self, run: str) -> bool:
        return run in self.solved and not self.solved[run].fell_back


def together(notes: Sequence[VerdictNote]) -> VerdictNote:
    """Return the verdict on a program put together from programs with these verdicts: the chances
    of error add up."""
    open_ = [note for note in notes if note.kind != Kind.PROVED.value]
    text = f"put together from {len(notes)} programs, each of which was verified by itself"
    if not open_:
        return VerdictNote(Kind.PROVED.value, 0, text)
    chance = math.fsum(2.0**note.bound_log2 for note in open_)
    return VerdictNote(open_[0].kind, min(0, math.ceil(math.log2(chance))), text)
