"""The candidates of a part of a program: found, made safe from overflow, and verified."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from mirage.cost.predict import predict
from mirage.pipeline.parts.part_data import PartOptions, SolvedPart, of_own_ops, with_positions
from mirage.pipeline.search import side_by_side
from mirage.pipeline.shortlist import shortlist
from mirage.pipeline.skip_steps import skip_steps_of_candidates
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.pipeline.verify import Checked
from mirage.search import Candidate, Pick, SearchResult
from mirage.semantics.alternatives import Alternatives, joined, kept_of, parts_of
from mirage.semantics.positions import Lookup
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Launch
from mirage.transforms import Exponential


@dataclass(frozen=True)
class Shortlisted:
    """Candidates to be verified: in the form that the search wrote, in the form that is safe from
    overflow, and the exponentials of each."""

    tried: list[Candidate]
    stable: Alternatives
    exponentials: list[tuple[Exponential, ...]]

    def only(self, places: Sequence[int]) -> Shortlisted:
        """Return a selection of the candidates."""
        return Shortlisted(
            [self.tried[k] for k in places],
            kept_of(self.stable, [k + 1 for k in places]),
            [self.exponentials[k] for k in places],
        )


class PartCandidates:
    """The candidates of a part. ``known`` are inputs of the part that are positions or rows of
    tables. Candidates are numbered when their verification starts."""

    def __init__(
        self, graph: KernelGraph, number: int, options: PartOptions, known: Mapping[int, Lookup]
    ) -> None:
        self.graph, self.number, self.known = graph, number, known
        self.target, self.wanted, self.timed = options.target, options.wanted, options.timed
        self.watch_verdict = options.watch_verdict
        self.found: Alternatives | None = None
        self.stable: Alternatives | None = None
        self.verified: Alternatives | None = None
        self.search = SearchResult()
        self.exponentials: list[tuple[Exponential, ...]] = []
        self.checked: list[Checked] = []
        self._seen: set[str] = set()
        self._passed_over: set[str] = set()  # candidates that seemed less worth verifying
        self._candidate_of: dict[int, Candidate] = {}  # by the id of the verified program
        self._in_runs: Alternatives | None = None

    @property
    def answered(self) -> bool:
        """Whether there is a verified candidate."""
        return self.verified is not None and len(self.verified.programs) > 1

    def shortlisted(self, result: SearchResult, count: int) -> Shortlisted:
        """Return the ``count`` new candidates that are most worth verifying."""
        new = [c for c in result.candidates if self._is_new(c)]
        found = side_by_side(self.graph, replace(result, candidates=new))
        with self.timed("stabilize"):
            graph, exponentials = stabilize_candidates(self.around(found))
            graph = skip_steps_of_candidates(graph)
            graph, kept = shortlist(graph, self.target, count, exponentials)
        places = kept[0] if kept else ()
        self._seen.update(signature(new[k].graph) for k in places)
        if count < self.wanted:  # others may be examined later
            found = kept_of(found, [k + 1 for k in places])
        else:
            self._passed_over.update(signature(c.graph) for c in new)
        (stable,) = parts_of(graph)
        self.found = joined(self.found, found)
        self.stable = joined(self.stable, stable)
        return Shortlisted([new[k] for k in places], stable, [exponentials[k] for k in places])

    def enter(self, some: Shortlisted) -> int:
        """Number the candidates whose verification starts now; return the number of the first."""
        first = len(self.search.candidates)
        self.search.candidates += some.tried
        self.exponentials += some.exponentials
        programs = zip(some.tried, some.stable.programs[1:], strict=True)
        self._candidate_of.update((id(program), candidate) for candidate, program in programs)
        return first

    def judged(self, first: int, kept: Alternatives, checked: Sequence[Checked]) -> None:
        """Record the verdicts on candidates; ``first`` is the number of the first one."""
        self.checked += [Checked(self.number, first + c.index, c.verdict) for c in checked]
        self.verified = joined(self.verified, kept)

    def tell(self, first: int, checked: Checked) -> None:
        """Report the verdict on a candidate."""
        if self.watch_verdict is not None:
            self.watch_verdict(replace(checked, part=self.number, index=first + checked.index))

    def around(self, op: Alternatives) -> KernelGraph:
        """Return a program of alternatives together with the positions that they read."""
        return with_positions(KernelGraph("part", op.operands, (op,), op.results), self.known)

    def drop(self, broken: Mapping[int, Sequence[Launch]]) -> list[Pick]:
        """Drop verified candidates with kernels that do not compile, given by the id of the
        program. Return the picks of the search that led to these kernels."""
        picks: dict[int, Pick] = {}
        for program, kernels in broken.items():
            candidate = self._candidate_of.get(program)
            if candidate is not None:
                found = map(candidate.pick_of, kernels)
                picks.update((id(pick), pick) for pick in found if pick is not None)
        if self.verified is None or not picks:
            return []

        def has(program: KernelGraph) -> bool:
            return any(id(p) in picks for p in self._candidate_of[id(program)].picks.values())

        programs = self.verified.programs
        self.verified = kept_of(
            self.verified, [k for k in range(1, len(programs)) if not has(programs[k])]
        )
        return list(picks.values())

    def place_of(self, program: KernelGraph) -> int:
        """Return the number of a verified program."""
        candidate = self._candidate_of[id(program)]
        places = enumerate(self.search.candidates)
        return next(i for i, c in places if c is candidate)

    def promises_more(self, result: SearchResult) -> bool:
        """Return whether a new candidate is predicted to be faster than all verified ones."""
        new = [c.cost.time for c in result.candidates if self._is_new(c)]
        return bool(new) and min(new) < self._best()

    def _is_new(self, candidate: Candidate) -> bool:
        """Return whether a candidate is still to be examined: it was neither verified nor passed
        over for one that was verified and holds."""
        own = signature(candidate.graph)
        return own not in self._seen and not (self.answered and own in self._passed_over)

    @property
    def slower_than_without(self) -> bool:
        """Whether the part without candidates is predicted to be faster than all verified ones."""
        return self.time_without < self._best()

    @property
    def in_runs(self) -> bool:
        """Whether the part would be put together from smaller ones."""
        return self._in_runs is not None

    def put_together(self, in_runs: Alternatives) -> None:
        """Give the part the answers for its runs, as its only candidate, to be used instead of its
        own ops."""
        self._in_runs = in_runs
        vars(self).pop("time_without", None)

    def take_apart(self, broken: Container[int]) -> bool:
        """Return to the part's own ops if a program from which it is assembled is among the
        ``broken`` ones, given by their ids. Return whether this is the case."""
        if self._in_runs is None or id(self._in_runs.programs[1]) not in broken:
            return False
        self._in_runs = None
        vars(self).pop("time_without", None)
        return True

    @property
    def without(self) -> Alternatives:
        """The part without candidates: its runs if these have answers, or its own ops."""
        return self._in_runs or self._own_ops

    @cached_property
    def _own_ops(self) -> Alternatives:
        return of_own_ops(self.graph)

    @cached_property
    def time_without(self) -> float:
        """The predicted µs of :attr:`without`; infinite if not known."""
        cost = predict(self.without.programs[1], self.target)
        return float("inf") if cost is None else cost.time

    def _best(self) -> float:
        programs = () if self.verified is None else self.verified.programs[1:]
        costs = (predict(p, self.target) for p in programs)
        return min((c.time for c in costs if c is not None), default=float("inf"))

    def why_none(self) -> str:
        """Say why no candidate is left."""
        if not self.checked:
            return "; ".join(("the search found no candidate", *self.search.report.notes))
        verdict = self.checked[0].verdict
        if verdict.witness is not None:
            reason = str(verdict.witness)
        else:
            against = [e for e in verdict.evidence if e.holds is not True]
            reason = "; ".join(f"{e.name}: {e.text}" for e in against)
        return f"no candidate passed verification; the first: {verdict.kind.value}: {reason}"

    def solved(self, fell_back: str, late: bool) -> SolvedPart:
        """Return the part in each form; ``fell_back`` is the reason if it has no candidates."""
        own = fell_back or self.verified is None
        verified = self.without if own or self.verified is None else self.verified
        reference = Alternatives(
            self.graph.inputs, self.graph.outputs, (self.graph,), None, (None,), ()
        )
        return SolvedPart(
            self.found or reference, self.stable or reference, verified, self.search,
            tuple(self.exponentials), tuple(self.checked), fell_back, late, self.in_runs,
        )  # fmt: skip
