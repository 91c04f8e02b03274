"""From a part of a program to candidates that are verified.

Search and verification take turns: a kernel that cannot be shown to be right is refused, and the
search goes on without it. So what cannot be shown for one kernel costs that kernel only. Where
nothing is left, the part's own ops remain, each a kernel of its own; they are what is to be
computed, so there is nothing to verify.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial

from mirage.cost.predict import predict
from mirage.cost.target import Target
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.search import search_part, side_by_side
from mirage.pipeline.select import ranking
from mirage.pipeline.shortlist import shortlist
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.pipeline.verify import Checked, verify_candidates
from mirage.search import (
    Candidate,
    Pick,
    Planner,
    SearchLimits,
    SearchResult,
    StopReason,
    Watch,
)
from mirage.semantics.alternatives import (
    Alternatives,
    VerdictNote,
    applied_to,
    joined,
    kept_of,
    parts_of,
)
from mirage.semantics.decompose import decompose
from mirage.semantics.op import Contraction
from mirage.semantics.positions import Iota
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Launch, launches
from mirage.transforms import Exponential
from mirage.transforms.skip_steps import skip_steps
from mirage.verify import VerifyOptions
from mirage.verify.ledger import Ledger

ROUNDS = 6
"""Times that the search goes on without kernels that could not be shown to be right."""
SEARCHED = 0.5
"""The share of the time left that the search may take, so that what it finds can be verified."""
VERIFIED = 0.85
"""The same of search and verification together, so that what is verified can be compiled."""
COMPILE, COMPILE_KERNEL, COMPILE_OP = 0.8, 0.25, 0.01
"""Seconds that compilation of a program takes, and more for each kernel, and for each op that
becomes one (on two cores that do nothing else)."""
LEAST = 0.05
"""Seconds of search, however late it is."""
BUSIEST = 4.0
HURRIED = 12.0
"""With fewer seconds left (on a machine that does nothing else) the cheapest candidate is verified
before others."""
INTERRUPTED = "interrupted"
OWN_OPS = VerdictNote("proved", 0, "the program's own ops, each a kernel of its own")


@dataclass(frozen=True)
class PartOptions:
    """How to solve a part: ``wanted`` candidates are verified of those found within ``limits``, or
    fewer, once ``enough`` of them are accepted. ``portion`` is the part's share of the program."""

    target: Target
    limits: SearchLimits
    wanted: int
    enough: int
    verify: VerifyOptions
    deadline: Deadline
    ledger: Ledger
    portion: float = 1.0
    executor: Executor | None = None
    watch_search: Watch | None = None
    watch_verdict: Callable[[Checked], None] | None = None
    say: Callable[[str], None] = lambda text: None
    timed: Callable[[str], AbstractContextManager[None]] = lambda phase: nullcontext()


@dataclass
class SolvedPart:
    """A part's programs in each form, with what was found out on the way. ``exponentials`` and
    ``checked`` have an entry for each candidate of ``search`` that was verified."""

    candidates: Alternatives
    stabilized: Alternatives
    verified: Alternatives
    search: SearchResult
    exponentials: tuple[tuple[Exponential, ...], ...]
    checked: tuple[Checked, ...]
    fell_back: str = ""
    late: bool = False
    """Whether the time was up before all was done."""

    def applied_to(self, graph: KernelGraph) -> SolvedPart:
        """The same for another part that is equal."""
        forms = (self.candidates, self.stabilized, self.verified)
        candidates, stabilized, verified = (applied_to(form, graph) for form in forms)
        return replace(self, candidates=candidates, stabilized=stabilized, verified=verified)


def of_own_ops(graph: KernelGraph) -> Alternatives:
    """A part beside its own ops, each a kernel of its own."""
    programs = (graph, decompose(graph, stable=True))
    return Alternatives(graph.inputs, graph.outputs, programs, (OWN_OPS,), (None, None))


class PartSolver:
    """Finds candidates of a program without external calls, and verifies them."""

    def __init__(
        self,
        graph: KernelGraph,
        number: int,
        options: PartOptions,
        known: Mapping[int, Iota] = {},
    ) -> None:
        self.graph, self.number, self.o = graph, number, options
        self.known = known  # inputs that are positions
        self.seen: set[str] = set()
        self.found: Alternatives | None = None
        self.stable: Alternatives | None = None
        self.verified: Alternatives | None = None
        self.search = SearchResult()
        self.exponentials: list[tuple[Exponential, ...]] = []
        self.checked: list[Checked] = []
        self._planner: Planner | None = None
        self._out_of_time = False
        self._candidate_of: dict[int, Candidate] = {}  # by the id of what was verified

    def run(self) -> SolvedPart:
        """The part with its candidates; at least its own ops."""
        try:
            self._first_rounds()
        except KeyboardInterrupt:
            self.o.deadline.stop(INTERRUPTED)
        self._out_of_time = not self.o.deadline.left
        return self.solved()

    def go_on_without(self, broken: Mapping[int, Sequence[Launch]], deadline: Deadline) -> bool:
        """Drops candidates with kernels that do not compile (by the id of the verified program),
        and finds others without them and their like. Whether anything has changed."""
        self.o = replace(self.o, deadline=deadline)
        picks: dict[int, Pick] = {}
        for program, kernels in broken.items():
            candidate = self._candidate_of.get(program)
            if candidate is not None:
                found = map(candidate.pick_of, kernels)
                picks.update((id(pick), pick) for pick in found if pick is not None)
        if self.verified is None or self._planner is None or not picks:
            return False

        def has(program: KernelGraph) -> bool:
            return any(id(p) in picks for p in self._candidate_of[id(program)].picks.values())

        programs = self.verified.programs
        self.verified = kept_of(
            self.verified, [k for k in range(1, len(programs)) if not has(programs[k])]
        )
        self.o.say(f"search: goes on without {len(picks)} kernels that do not compile")
        try:
            with self.o.timed("search"):
                result = self._planner.again(picks.values(), self._searching())
            if self._promises_more(result):
                self._rounds(result)
        except KeyboardInterrupt:
            self.o.deadline.stop(INTERRUPTED)
        self._out_of_time |= not self.o.deadline.left
        return True

    def solved(self) -> SolvedPart:
        """What was found so far."""
        fell_back = ""
        if self.verified is None or len(self.verified.programs) == 1:
            fell_back = self.o.deadline.reason or self._why()
        own = fell_back or self.verified is None
        verified = of_own_ops(self.graph) if own or self.verified is None else self.verified
        reference = Alternatives(
            self.graph.inputs, self.graph.outputs, (self.graph,), None, (None,), ()
        )
        return SolvedPart(
            self.found or reference, self.stable or reference, verified, self.search,
            tuple(self.exponentials), tuple(self.checked), fell_back, self.late,
        )  # fmt: skip

    @property
    def late(self) -> bool:
        """Whether the time was up before all was done: with more of it more may be found."""
        out = self.search.report.stop is StopReason.BUDGET
        return out or self._out_of_time or any(c.verdict.late for c in self.checked)

    def compiling(self) -> float:
        """About how many seconds it takes to compile the cheapest program that was found."""
        verified = self.solved().verified
        order = ranking(verified, self.o.target)
        ops = verified.programs[order[0][1] if order else 0].ops
        kernels = len(list(launches(ops)))
        return self._compiling(kernels) + busy() * COMPILE_OP * (len(ops) - kernels)

    @property
    def interrupted(self) -> bool:
        """Whether the user has ended it."""
        return self.o.deadline.reason == INTERRUPTED

    def place_of(self, program: KernelGraph) -> int:
        """The number of a verified program among the candidates of the search."""
        candidate = self._candidate_of[id(program)]
        places = enumerate(self.search.candidates)
        return next(i for i, c in places if c is candidate)

    def _why(self) -> str:
        """Why nothing is left."""
        if not self.checked:
            return "; ".join(("the search found no candidate", *self.search.report.notes))
        verdict = self.checked[0].verdict
        if verdict.witness is not None:
            reason = str(verdict.witness)
        else:
            against = [e for e in verdict.evidence if e.holds is not True]
            reason = "; ".join(f"{e.name}: {e.text}" for e in against)
        return f"no candidate passed verification; the first: {verdict.kind.value}: {reason}"

    def _around(self, op: Alternatives) -> KernelGraph:
        """A program of the alternatives and the positions that they read."""
        made = {op.operands[i]: iota for i, iota in self.known.items()}
        lookups = (replace(iota, results=(value,)) for value, iota in made.items())
        inputs = tuple(v for v in op.operands if v not in made)
        return KernelGraph("part", inputs, (*lookups, op), op.results)

    # ---- rounds

    def _searching(self) -> float:
        """Seconds that the search may take now: what is found is to be verified, and compiled."""
        products = sum(isinstance(op, Contraction) for op in self.graph.ops)
        return SEARCHED * max(0.0, self.o.deadline.left - self._compiling(products))

    def _compiling(self, kernels: int) -> float:
        """About how many seconds a candidate takes to compile, on a machine as busy as this one."""
        return busy() * (COMPILE * self.o.portion + COMPILE_KERNEL * kernels)

    def _first_rounds(self) -> None:
        o = self.o
        if not o.deadline.left:
            return
        limits = replace(o.limits, budget=max(LEAST, min(o.limits.budget, self._searching())))
        with o.timed("search"):
            self._planner, result = search_part(
                self.graph, o.target, limits, o.executor, o.watch_search
            )
        self.search.report = result.report
        o.say(f"search: {len(result.candidates)} candidates, stopped: {result.report.reason}")
        self._rounds(result)

    def _rounds(self, result: SearchResult) -> None:
        o = self.o
        assert self._planner is not None
        for number in range(ROUNDS):
            refused, blamed = self._round(result)
            if not refused or not o.deadline.left or number == ROUNDS - 1:
                return
            o.say(f"search: goes on without {len(refused)} kernels that could not be verified")
            with o.timed("search"):
                result = self._planner.again(refused, self._searching(), blamed)
            if not self._promises_more(result):
                return

    def _promises_more(self, result: SearchResult) -> bool:
        """Whether something new is predicted to be faster than all that is verified."""
        new = [c.cost.time for c in result.candidates if signature(c.graph) not in self.seen]
        return bool(new) and min(new) < self._best()

    def _best(self) -> float:
        programs = () if self.verified is None else self.verified.programs[1:]
        costs = (predict(p, self.o.target) for p in programs)
        return min((c.time for c in costs if c is not None), default=float("inf"))

    def _round(self, result: SearchResult) -> tuple[list[Pick], list[Pick]]:
        """Verifies what is new of the candidates, the cheapest first, until enough are through;
        gives the kernels of those that were dropped, as far as they are to blame, and those of them
        that are known to be."""
        o = self.o
        new = [c for c in result.candidates if signature(c.graph) not in self.seen]
        self.seen.update(signature(c.graph) for c in new)
        result = replace(result, candidates=new)
        found = side_by_side(self.graph, result)
        with o.timed("stabilize"):
            graph, exponentials = stabilize_candidates(self._around(found))
            graph = skip_steps(graph)
            graph, kept = shortlist(graph, o.target, o.wanted, exponentials)
        places = kept[0] if kept else ()
        (stable,) = parts_of(graph)
        self.found = joined(self.found, found)
        self.stable = joined(self.stable, stable)
        refused: dict[int, Pick] = {}
        blamed: dict[int, Pick] = {}
        passed = start = 0
        while start < len(places) and passed < o.enough and (o.deadline.left or not start):
            # several at once share work; one at first, where there may be no time for several
            hurried = not start and o.deadline.left < busy() * HURRIED
            batch = range(start, min(start + (1 if hurried else o.enough - passed), len(places)))
            tried = [new[places[k]] for k in batch]
            self.exponentials += [exponentials[places[k]] for k in batch]
            for c in self._verify(tried, kept_of(stable, [k + 1 for k in batch])):
                passed += c.kept
                if c.kept or c.verdict.late:
                    continue
                picks = self._blamed(tried[c.index], stable.programs[start + c.index + 1], c)
                refused.update((id(pick), pick) for pick in picks)
                if c.verdict.unshown:
                    blamed.update((id(pick), pick) for pick in picks)
            start = batch.stop
        return list(refused.values()), list(blamed.values())

    def _verify(self, tried: list[Candidate], stable: Alternatives) -> tuple[Checked, ...]:
        """Verifies some candidates; the results count them from 0."""
        o = self.o
        first = len(self.search.candidates)
        self.search.candidates += tried
        programs = zip(tried, stable.programs[1:], strict=True)
        self._candidate_of.update((id(program), candidate) for candidate, program in programs)
        watch = partial(self._tell, first)
        left = o.deadline.left
        kernels = max((len(list(launches(c.graph.ops))) for c in tried), default=0)
        until = time.time() + max(0.0, min(VERIFIED * left, left - self._compiling(kernels)))
        with o.timed("verify"):
            graph, checked = verify_candidates(
                self._around(stable), o.verify, watch, o.executor, o.ledger, until
            )
        self.checked += [Checked(self.number, first + c.index, c.verdict) for c in checked]
        (mine,) = parts_of(graph)
        self.verified = joined(self.verified, mine)
        return checked

    def _tell(self, first: int, checked: Checked) -> None:
        if self.o.watch_verdict is not None:
            self.o.watch_verdict(replace(checked, part=self.number, index=first + checked.index))

    def _blamed(self, candidate: Candidate, graph: KernelGraph, checked: Checked) -> list[Pick]:
        """The kernels of a candidate because of which it was dropped: those that could not be
        shown, the first whose rounding errors are too large, or all where that is not known."""
        verdict = checked.verdict
        wrong = [graph.ops[i] for i in verdict.unshown or verdict.rough]
        picks = map(candidate.pick_of, launches(wrong or graph.ops))
        return list({id(p): p for p in picks if p is not None}.values())


def busy() -> float:
    """How many programs share a processor, at most :data:`BUSIEST`; at least 1."""
    try:
        waiting = os.getloadavg()[0]
    except OSError:  # not known here
        return 1.0
    return min(BUSIEST, max(1.0, waiting / (os.cpu_count() or 1)))
