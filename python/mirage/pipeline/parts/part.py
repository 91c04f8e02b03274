"""From a part of a program to candidates that are verified.

A part of a program that is large for its time is begun with a first answer: the best of a few plans
is verified while other parts are begun, and while the search for better ones goes on.

Search and verification take turns: a kernel that cannot be shown to be right is refused, and the
search goes on without it. So what cannot be shown for one kernel costs that kernel only. Where
nothing is left, the part's own ops remain, each a kernel of its own; they are what is to be
computed, so there is nothing to verify.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property, partial

from mirage.cost.predict import predict
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.parts.apart import Awaited, Request
from mirage.pipeline.parts.blame import distinct, refused_kernels
from mirage.pipeline.parts.part_data import PartOptions, SolvedPart, of_own_ops
from mirage.pipeline.parts.seconds import SEARCHED, VERIFIED, busy, compiling
from mirage.pipeline.search import Planners, search_part, side_by_side
from mirage.pipeline.select import ranking
from mirage.pipeline.shortlist import shortlist
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.pipeline.verify import Checked, judged, verify_candidates
from mirage.search import (
    Candidate,
    Pick,
    Planner,
    SearchLimits,
    SearchResult,
    StopReason,
)
from mirage.semantics.alternatives import (
    Alternatives,
    joined,
    kept_of,
    parts_of,
)
from mirage.semantics.ops.op import Contraction
from mirage.semantics.positions import Iota
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Launch, launches
from mirage.transforms import Exponential
from mirage.transforms.steps.skip_steps import skip_steps

ROUNDS = 6
"""Times that the search goes on without kernels that could not be shown to be right."""
LEAST = 0.05
"""Seconds of search, however late it is."""
FIRST_PLANS = 8
"""Sets of stored intermediates that are looked at for a first answer."""
FIRST_CANDIDATES = 3
"""Candidates that are written down then."""
FIRST_SEARCHED = 0.6
"""The share of the time left that the search for a first answer may take."""
ONE_FIRST = 12.0
"""With fewer seconds left (on a machine that does nothing else) the cheapest candidate is verified
before others."""
INTERRUPTED = "interrupted"


@dataclass(frozen=True)
class _First:
    """A first answer: the number of its candidate among those of the search, the candidate, what is
    verified, and the verdict to come."""

    place: int
    tried: list[Candidate]
    stable: Alternatives
    awaited: Awaited


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
        self._planners: Planners = {}
        self._first: _First | None = None
        self._result: SearchResult | None = None  # of a search for better answers
        self._refused_first: tuple[list[Pick], list[Pick]] = [], []
        self.took = 0.0
        """Seconds that the verification of the first answer took."""
        self._out_of_time = self._left_out = False
        self._candidate_of: dict[int, Candidate] = {}  # by the id of what was verified

    def begin(self, share: float, seconds: float, executor: Executor | None) -> None:
        """Finds a first answer soon, the best of a few plans, by workers of ``executor``, and has
        it verified until the deadline, within so many ``seconds``. The search may take that
        ``share`` of what it is given for all parts."""
        o = self.o
        few = min(o.limits.plans, FIRST_PLANS), min(o.limits.candidates, FIRST_CANDIDATES)
        limits = replace(o.limits, plans=few[0], candidates=few[1])
        try:
            result = self._searched(limits, FIRST_SEARCHED * share * o.deadline.left, executor)
            self._hand_over(result, seconds)
        except KeyboardInterrupt:
            o.deadline.stop(INTERRUPTED)

    def better(self, share: float, seconds: float) -> None:
        """The same with the best of all plans, if it promises more."""
        o = self.o
        try:
            self._result = self._searched(o.limits, SEARCHED * share * o.deadline.left, o.executor)
            if self._refused_first[0] and o.deadline.left:
                self._result = self._without(*self._refused_first)
            if self._promises_more(self._result):
                self._hand_over(self._result, seconds)
        except KeyboardInterrupt:
            o.deadline.stop(INTERRUPTED)

    def _hand_over(self, result: SearchResult, seconds: float) -> None:
        """Has the cheapest new candidate verified by a worker."""
        o = self.o
        new, stable, exponentials = self._shortlisted(result, 1)
        if new:
            self.exponentials += exponentials
            first, until = self._entered(new, stable), time.time() + o.deadline.left
            request = Request(
                stable, dict(self.known), o.verify, dict(o.ledger), o.stored, until, seconds
            )
            self._first = _First(first, new, stable, Awaited(request, o.executor))

    @property
    def under_way(self) -> bool:
        """Whether a worker verifies the first answer, or the verdict was not looked at."""
        return self._first is not None and self._first.awaited.under_way

    @property
    def answered(self) -> bool:
        """Whether there is a verified candidate."""
        return self.verified is not None and len(self.verified.programs) > 1

    def await_first(self) -> None:
        """Waits for the verdict on the first answer."""
        try:
            self._judge_first()
        except KeyboardInterrupt:
            self.o.deadline.stop(INTERRUPTED)

    def within(self, deadline: Deadline) -> None:
        """Gives it another deadline."""
        self.o = replace(self.o, deadline=deadline)

    def run(self) -> SolvedPart:
        """The part with its candidates; at least its own ops."""
        try:
            self._search_and_verify()
        except KeyboardInterrupt:
            self.o.deadline.stop(INTERRUPTED)
        self._out_of_time = self._left_out or not self.o.deadline.left
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
                result = self._planner.again(picks.values(), self._searching(), sizes=True)
            if self._promises_more(result):
                self._rounds(result)
        except KeyboardInterrupt:
            self.o.deadline.stop(INTERRUPTED)
        self._out_of_time |= not self.o.deadline.left
        return True

    def solved(self) -> SolvedPart:
        """What was found so far."""
        fell_back = ""
        if not self.answered:
            fell_back = self.o.deadline.reason or self._why()
        elif self.late and self._own_time < self._best():
            fell_back = "they are predicted to be faster than what was found in time"
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
        return compiling(self.o.portion, kernels, len(ops) - kernels)

    def compiling_about(self) -> float:
        """The same before it is known what is verified."""
        kernels = self._products
        if self._first is not None:
            kernels = len(list(launches(self._first.tried[0].graph.ops)))
        own = len(of_own_ops(self.graph).programs[1].ops)
        return compiling(self.o.portion, kernels, own)

    @property
    def time(self) -> float:
        """Predicted µs of what was found so far: the longer, the more there may be to gain."""
        ranked = ranking(self.solved().verified, self.o.target)
        return ranked[0][0] if ranked else 0.0

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
        return SEARCHED * max(0.0, self.o.deadline.left - compiling(self.o.portion, self._products))

    @property
    def _products(self) -> int:
        return sum(isinstance(op, Contraction) for op in self.graph.ops)

    def _search_and_verify(self) -> None:
        o = self.o
        result = self._result
        if not o.deadline.left or o.deadline.left < self.took:
            self._judge_first()
            self._left_out = True  # what comes now takes as long as the first answer did
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
        if o.deadline.left and self._promises_more(result):
            self._rounds(result)

    def _searched(
        self, limits: SearchLimits, seconds: float, executor: Executor | None
    ) -> SearchResult:
        o = self.o
        limits = replace(limits, budget=max(LEAST, min(limits.budget, seconds)))
        with o.timed("search"):
            self._planner, result = search_part(
                self.graph, o.target, limits, executor, o.watch_search, self._planners
            )
        self.search.report = result.report
        return result

    def _without(self, refused: Sequence[Pick], blamed: Sequence[Pick]) -> SearchResult:
        assert self._planner is not None
        self.o.say(f"search: goes on without {len(refused)} kernels that could not be verified")
        with self.o.timed("search"):
            return self._planner.again(refused, self._searching(), blamed)

    def _rounds(self, result: SearchResult) -> None:
        for number in range(ROUNDS):
            refused, blamed = self._round(result)
            if not refused or not self.o.deadline.left or number == ROUNDS - 1:
                return
            result = self._without(refused, blamed)
            if not self._promises_more(result):
                return

    def _judge_first(self) -> None:
        """Keeps what was found out about the first answer."""
        first, self._first = self._first, None
        self._refused_first = [], []
        if first is None:
            return
        with self.o.timed("verify"):
            verdicts, pieces, self.took = first.awaited.result()
        for piece, shown in pieces:
            self.o.ledger.add(piece, shown)
        mine, checked = judged(first.stable, verdicts, 0, partial(self._tell, first.place))
        self._judged(first.place, mine, checked)
        self._refused_first = refused_kernels(first.tried, first.stable, checked)

    def _promises_more(self, result: SearchResult) -> bool:
        """Whether something new is predicted to be faster than all that is verified."""
        new = [c.cost.time for c in result.candidates if signature(c.graph) not in self.seen]
        return bool(new) and min(new) < self._best()

    @cached_property
    def _own_time(self) -> float:
        """Predicted µs of the part's own ops; infinite where that is not known."""
        cost = predict(of_own_ops(self.graph).programs[1], self.o.target)
        return float("inf") if cost is None else cost.time

    def _best(self) -> float:
        programs = () if self.verified is None else self.verified.programs[1:]
        costs = (predict(p, self.o.target) for p in programs)
        return min((c.time for c in costs if c is not None), default=float("inf"))

    def _round(self, result: SearchResult) -> tuple[list[Pick], list[Pick]]:
        """Verifies what is new of the candidates, the cheapest first, until enough are through;
        gives the kernels of those that were dropped, as far as they are to blame, and those of them
        that are known to be."""
        o = self.o
        new, stable, exponentials = self._shortlisted(result, o.wanted)
        refused: list[Pick] = []
        blamed: list[Pick] = []
        passed = start = 0
        while start < len(new) and passed < o.enough and (o.deadline.left or not start):
            # several at once share work; one at first, where there may be no time for several
            hurried = not start and o.deadline.left < busy() * ONE_FIRST
            batch = range(start, min(start + (1 if hurried else o.enough - passed), len(new)))
            tried = [new[k] for k in batch]
            self.exponentials += [exponentials[k] for k in batch]
            some = kept_of(stable, [k + 1 for k in batch])
            checked = self._verify(tried, some)
            passed += sum(c.kept for c in checked)
            for all_, found in zip((refused, blamed), refused_kernels(tried, some, checked)):
                all_ += found
            start = batch.stop
        return distinct(refused), distinct(blamed)

    def _shortlisted(
        self, result: SearchResult, count: int
    ) -> tuple[list[Candidate], Alternatives, list[tuple[Exponential, ...]]]:
        """The ``count`` candidates that are new and most worth verifying, safe from overflow, with
        their exponentials."""
        o = self.o
        new = [c for c in result.candidates if signature(c.graph) not in self.seen]
        found = side_by_side(self.graph, replace(result, candidates=new))
        with o.timed("stabilize"):
            graph, exponentials = stabilize_candidates(self._around(found))
            graph = skip_steps(graph)
            graph, kept = shortlist(graph, o.target, count, exponentials)
        places = kept[0] if kept else ()
        seen = new
        if count < o.wanted:  # others may be looked at later
            seen, found = [new[k] for k in places], kept_of(found, [k + 1 for k in places])
        self.seen.update(signature(c.graph) for c in seen)
        (stable,) = parts_of(graph)
        self.found = joined(self.found, found)
        self.stable = joined(self.stable, stable)
        return [new[k] for k in places], stable, [exponentials[k] for k in places]

    def _entered(self, tried: list[Candidate], stable: Alternatives) -> int:
        """Enters candidates that are verified now; gives the number of the first."""
        first = len(self.search.candidates)
        self.search.candidates += tried
        programs = zip(tried, stable.programs[1:], strict=True)
        self._candidate_of.update((id(program), candidate) for candidate, program in programs)
        return first

    def _verify(self, tried: list[Candidate], stable: Alternatives) -> Sequence[Checked]:
        """Verifies some candidates; the results count them from 0."""
        o = self.o
        first = self._entered(tried, stable)
        left = o.deadline.left
        kernels = max((len(list(launches(c.graph.ops))) for c in tried), default=0)
        until = time.time() + max(0.0, min(VERIFIED * left, left - compiling(o.portion, kernels)))
        watch = partial(self._tell, first)
        with o.timed("verify"):
            graph, checked = verify_candidates(
                self._around(stable), o.verify, watch, o.executor, o.ledger, until
            )
        (mine,) = parts_of(graph)
        self._judged(first, mine, checked)
        return checked

    def _judged(self, first: int, kept: Alternatives, checked: Sequence[Checked]) -> None:
        """Keeps what was said about candidates of which the first has that number."""
        self.checked += [Checked(self.number, first + c.index, c.verdict) for c in checked]
        self.verified = joined(self.verified, kept)

    def _tell(self, first: int, checked: Checked) -> None:
        if self.o.watch_verdict is not None:
            self.o.watch_verdict(replace(checked, part=self.number, index=first + checked.index))
