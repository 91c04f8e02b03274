"""From a part of a program to verified candidates.

A part that is large for its time starts with a first answer: the best of a few plans is verified
while other parts are started, and while the search for better plans continues.

Search and verification alternate: a kernel that cannot be shown to be right is refused, and the
search continues without it. So a failed proof of one kernel costs only that kernel. If nothing is
left, the part's own ops remain, each as a separate kernel; they are the specification itself, so
there is nothing to verify.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial

from mirage.pipeline.deadline import FOR_COMPILATION, INTERRUPTED, Deadline
from mirage.pipeline.parts.apart import Awaited, Request
from mirage.pipeline.parts.blame import distinct, refused_kernels
from mirage.pipeline.parts.part_candidates import PartCandidates, Shortlisted
from mirage.pipeline.parts.part_data import PartOptions, SolvedPart, positions_among
from mirage.pipeline.parts.seconds import SEARCHED, VERIFIED, busy, compiling
from mirage.pipeline.search import Planners, search_part
from mirage.pipeline.select import ranking
from mirage.pipeline.verify import Checked, judged, verify_candidates
from mirage.search import Pick, Planner, SearchLimits, SearchResult, StopReason
from mirage.semantics.alternatives import parts_of
from mirage.semantics.ops.kinds import Contraction
from mirage.semantics.positions import Lookup
from mirage.semantics.ugraph import KernelGraph, Launch, launches

ROUNDS = 6
"""How often the search continues without kernels that could not be shown to be right."""
LEAST = 0.05
"""The least seconds for a search, however little time is left."""
FIRST_CANDIDATES = 3
"""The candidates that are written for a first answer."""
FIRST_SEARCHED = 0.6
"""The share of the time left that the search for a first answer may take."""
ONE_FIRST = 12.0
"""With fewer seconds left than this (on an otherwise idle machine), the cheapest candidate is
verified before the others."""


@dataclass(frozen=True)
class _First:
    """A first answer: the number of its candidate, the candidates being verified, and the pending
    verdict."""

    place: int
    given: Shortlisted
    awaited: Awaited


class PartSolver:
    """Finds candidates of a program without external calls, and verifies them."""

    def __init__(
        self,
        graph: KernelGraph,
        number: int,
        options: PartOptions,
        known: Mapping[int, Lookup] = {},
    ) -> None:
        self.graph, self.number, self.o = graph, number, options
        self.candidates = PartCandidates(graph, number, options, known)
        self._planner: Planner | None = None
        self._planners: Planners = {}
        self._first: _First | None = None
        self._result: SearchResult | None = None  # seconds of a search for better answers
        self._refused_first: tuple[list[Pick], list[Pick]] = [], []
        self.took = 0.0
        """Seconds that the verification of the first answer took."""
        self._out_of_time = self._left_out = False
        self.left_alone = False
        """Whether there was no time for this part at all."""

    def begin(self, share: float, seconds: float, executor: Executor | None) -> None:
        """Find a first answer quickly, the best of a few plans, with the workers of ``executor``,
        and start verifying it before the deadline and within ``seconds``. The search may take a
        ``share`` of the time that all parts have."""
        o = self.o
        few = min(o.limits.plans, o.first_plans), min(o.limits.candidates, FIRST_CANDIDATES)
        limits = replace(o.limits, plans=few[0], candidates=few[1])
        try:
            result = self._searched(limits, FIRST_SEARCHED * share * o.deadline.left, executor)
            self._hand_over(result, seconds)
        except KeyboardInterrupt:
            o.deadline.stop(INTERRUPTED)

    def better(self, share: float, seconds: float) -> None:
        """Find the best of all plans and start verifying it, if it promises more than the first
        answer."""
        o = self.o
        try:
            self._result = self._searched(o.limits, SEARCHED * share * o.deadline.left, o.executor)
            if self._refused_first[0] and o.deadline.left:
                self._result = self._without(*self._refused_first)
            if self.candidates.promises_more(self._result):
                self._hand_over(self._result, seconds)
        except KeyboardInterrupt:
            o.deadline.stop(INTERRUPTED)

    def leave(self) -> None:
        """Give up the part for lack of time."""
        self.left_alone = self._out_of_time = True

    def take_up(self) -> None:
        """Solve the part after all, since there is time."""
        self.left_alone = self._out_of_time = False

    def _hand_over(self, result: SearchResult, seconds: float) -> None:
        """Start verifying the cheapest new candidate in a worker."""
        o = self.o
        given = self.candidates.shortlisted(result, 1)
        if given.tried:
            known, until = positions_among(self.candidates.known), time.time() + o.deadline.left
            request = Request(
                given.stable, known, o.verify, dict(o.ledger), o.stored, until, seconds
            )
            place = self.candidates.enter(given)
            self._first = _First(place, given, Awaited(request, o.executor))

    @property
    def under_way(self) -> bool:
        """Whether a worker is verifying the first answer, or its verdict has not been processed."""
        return self._first is not None and self._first.awaited.under_way

    @property
    def answered(self) -> bool:
        """Whether there is a verified candidate."""
        return self.candidates.answered

    def await_first(self) -> None:
        """Wait for the verdict on the first answer."""
        try:
            self._judge_first()
        except KeyboardInterrupt:
            self.o.deadline.stop(INTERRUPTED)

    def within(self, deadline: Deadline) -> None:
        """Set another deadline."""
        self.o = replace(self.o, deadline=deadline)

    def run(self) -> SolvedPart:
        """Return the part with its candidates; at least its own ops."""
        try:
            self._search_and_verify()
        except KeyboardInterrupt:
            self.o.deadline.stop(INTERRUPTED)
        self._out_of_time = self._left_out or not self.o.deadline.left
        return self.solved()

    def go_on_without(self, broken: Mapping[int, Sequence[Launch]], deadline: Deadline) -> bool:
        """Drop candidates with kernels that do not compile (given by the id of the verified
        program), and find others without these kernels and similar ones. Return whether anything
        has changed."""
        self.o = replace(self.o, deadline=deadline)
        if self.candidates.take_apart(broken):
            return True
        picks = [] if self._planner is None else self.candidates.drop(broken)
        if self._planner is None or not picks:
            return False
        self.o.say(f"search: continues without {len(picks)} kernels that do not compile")
        try:
            with self.o.timed("search"):
                result = self._planner.again(picks, self._searching(), sizes=True)
            if self.candidates.promises_more(result):
                self._rounds(result)
        except KeyboardInterrupt:
            self.o.deadline.stop(INTERRUPTED)
        self._out_of_time |= not self.o.deadline.left
        return True

    def solved(self) -> SolvedPart:
        """Return the result so far."""
        fell_back = ""
        if not self.answered:
            left = FOR_COMPILATION if self.left_alone else ""
            fell_back = self.o.deadline.reason or left or self.candidates.why_none()
        elif (self.late or self.candidates.in_runs) and self.candidates.slower_than_without:
            fell_back = "these are predicted to be faster than the results found in time"
        solved = self.candidates.solved(fell_back, self.late)
        unsearched = not self.answered and (self.left_alone or bool(self.o.deadline.reason))
        report = solved.search.report
        if (self.late or unsearched) and report.stop is StopReason.EXHAUSTED:
            report = replace(report, stop=StopReason.BUDGET)
            return replace(solved, search=replace(solved.search, report=report))
        return solved

    @property
    def late(self) -> bool:
        """Whether the time ran out before all work was done, so that more time may find more."""
        out = self.candidates.search.report.stop is StopReason.BUDGET
        return out or self._out_of_time or any(c.verdict.late for c in self.candidates.checked)

    def compiling(self) -> float:
        """Estimate the seconds that compiling the cheapest program found takes."""
        verified = self.solved().verified
        order = ranking(verified, self.o.target)
        ops = verified.programs[order[0][1] if order else 0].ops
        kernels = len(list(launches(ops)))
        return compiling(self.o.deadline, self.o.portion, kernels, len(ops) - kernels)

    def compiling_about(self) -> float:
        """Estimate the seconds of compilation before it is known which candidates are verified."""
        kernels = self._products
        if self._first is not None:
            kernels = len(list(launches(self._first.given.tried[0].graph.ops)))
        without = self.candidates.without.programs[1].ops
        own = len(list(launches(without)))
        return compiling(self.o.deadline, self.o.portion, max(kernels, own), len(without) - own)

    @property
    def time(self) -> float:
        """The predicted µs of the best program so far; the longer it is, the more there may be to
        gain."""
        ranked = ranking(self.solved().verified, self.o.target)
        return ranked[0][0] if ranked else 0.0

    @property
    def interrupted(self) -> bool:
        """Whether the user has interrupted it."""
        return self.o.deadline.reason == INTERRUPTED

    # ---- rounds

    def _searching(self) -> float:
        """Return the seconds that the search may take now, with time left to verify and compile its
        results."""
        return SEARCHED * max(
            0.0, self.o.deadline.left - compiling(self.o.deadline, self.o.portion, self._products)
        )

    @property
    def _products(self) -> int:
        return sum(isinstance(op, Contraction) for op in self.graph.ops)

    def _search_and_verify(self) -> None:
        o = self.o
        result = self._result
        if not o.deadline.left or o.deadline.left < self.took:
            self._judge_first()
            self._left_out = True  # the next answer takes as long as the first one
            return
        if result is None:
            result = self._searched(o.limits, self._searching(), o.executor)
            o.say(f"search: {len(result.candidates)} candidates, stopped: {result.report.reason}")
        if self._first is not None:
            self._judge_first()
            o.answered()
        refused, blamed = self._refused_first
        if refused and o.deadline.left:
            result = self._without(refused, blamed)
        if o.deadline.left and self.candidates.promises_more(result):
            self._rounds(result)

    def _searched(
        self, limits: SearchLimits, seconds: float, executor: Executor | None
    ) -> SearchResult:
        o = self.o
        limits = replace(limits, budget=max(LEAST, min(limits.budget, seconds)))
        with o.timed("search"):
            self._planner, result = search_part(
                self.graph, o.target, limits, executor, o.watch_search, self._planners,
                self.candidates.known,
            )  # fmt: skip
        self.candidates.search.report = result.report
        return result

    def _without(self, refused: Sequence[Pick], blamed: Sequence[Pick]) -> SearchResult:
        assert self._planner is not None
        self.o.say(f"search: continues without {len(refused)} kernels that could not be verified")
        with self.o.timed("search"):
            return self._planner.again(refused, self._searching(), blamed)

    def _rounds(self, result: SearchResult) -> None:
        for number in range(ROUNDS):
            refused, blamed = self._round(result)
            if not refused or not self.o.deadline.left or number == ROUNDS - 1:
                return
            result = self._without(refused, blamed)
            if not self.candidates.promises_more(result):
                return

    def _judge_first(self) -> None:
        """Process the verdict on the first answer."""
        first, self._first = self._first, None
        self._refused_first = [], []
        if first is None:
            return
        with self.o.timed("verify"):
            verdicts, pieces, self.took = first.awaited.result()
        for piece, shown in pieces:
            self.o.ledger.add(piece, shown)
        tell = partial(self.candidates.tell, first.place)
        mine, checked = judged(first.given.stable, verdicts, 0, tell)
        self.candidates.judged(first.place, mine, checked)
        self._refused_first = refused_kernels(first.given.tried, first.given.stable, checked)

    def _round(self, result: SearchResult) -> tuple[list[Pick], list[Pick]]:
        """Verify the new candidates, the cheapest first, until enough have passed. Return the
        kernels that may have caused candidates to be dropped, and those of them that are known to
        be the cause."""
        o = self.o
        new = self.candidates.shortlisted(result, o.wanted)
        count = len(new.tried)
        refused: list[Pick] = []
        blamed: list[Pick] = []
        passed = start = 0
        while start < count and passed < o.enough and (o.deadline.left or not start):
            # several at once share work; one at first, where there may be no time for several
            hurried = not start and o.deadline.left < busy(o.deadline) * ONE_FIRST
            batch = range(start, min(start + (1 if hurried else o.enough - passed), count))
            some = new.only(batch)
            checked = self._verify(some)
            passed += sum(c.kept for c in checked)
            for all_, found in zip(
                (refused, blamed), refused_kernels(some.tried, some.stable, checked)
            ):
                all_ += found
            start = batch.stop
        return distinct(refused), distinct(blamed)

    def _verify(self, some: Shortlisted) -> Sequence[Checked]:
        """Verify some candidates; the results count them from 0."""
        o = self.o
        first = self.candidates.enter(some)
        left = o.deadline.left
        kernels = max((len(list(launches(c.graph.ops))) for c in some.tried), default=0)
        until = time.time() + max(
            0.0, min(VERIFIED * left, left - compiling(o.deadline, o.portion, kernels))
        )
        watch = partial(self.candidates.tell, first)
        with o.timed("verify"):
            graph, checked = verify_candidates(
                self.candidates.around(some.stable), o.verify, watch, o.executor, o.ledger, until
            )
        (mine,) = parts_of(graph)
        self.candidates.judged(first, mine, checked)
        return checked
