"""The result for a part of a program, kept in the cache for the next run.

The key is made of the part's canonical text (which has shapes and types, but no names), the options
that matter for search and verification, the chip's row of the table, and the version of all code of
mirage that influences the result. An entry also has that text and counts only if it is equal. An
entry contains verified results only: the candidates that were kept and their verdicts, or the
reason why there are none. Dropped candidates are not stored.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from mirage.cache import (
    PlainError,
    Store,
    as_plain,
    from_plain,
    key_of,
    kind_version,
    read_entry,
)
from mirage.cost import CostReport
from mirage.pipeline.options import Matters, OptimizeOptions
from mirage.pipeline.parts.graph_record import BadRecordError, GraphRecord, graph_of, record_of
from mirage.pipeline.parts.part import PartSolver
from mirage.pipeline.parts.part_candidates import PartCandidates
from mirage.pipeline.parts.part_data import SolvedPart, of_own_ops, positions_among
from mirage.pipeline.verify import Checked
from mirage.search import Candidate, SearchReport, SearchResult
from mirage.semantics.alternatives import Alternatives, VerdictNote
from mirage.semantics.positions import Lookup, index_ranks
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms import Exponential
from mirage.verify import Verdict

log = logging.getLogger("mirage.cache")

KIND = "search"


@dataclass(frozen=True)
class KeptCandidate:
    """A verified candidate; ``cost`` is the search's prediction."""

    graph: GraphRecord
    note: VerdictNote
    cost: CostReport
    description: str
    verdict: Verdict
    exponentials: tuple[Exponential, ...]


@dataclass(frozen=True)
class KeptPart:
    """The entry of a part. ``budget`` are the seconds that the part had, and ``late`` says that
    they did not suffice: a larger budget may find more."""

    reference: str
    budget: float
    late: bool
    fell_back: str
    candidates: tuple[KeptCandidate, ...]
    report: SearchReport
    stable: bool


def reference_of(graph: KernelGraph, known: Mapping[int, Lookup]) -> str:
    """Return a text that is equal for parts with the same solutions: the canonical text, and the
    inputs that are positions or rows of tables."""
    positions = [(i, op.dim) for i, op in positions_among(known).items()]
    rows = sorted(index_ranks(known).items())
    return f"{signature(graph)} {positions}" + (f" {rows}" if rows else "")


class KeptParts:
    """The entries of parts for one set of options. ``used`` counts the entries that were taken."""

    def __init__(self, store: Store, options: OptimizeOptions) -> None:
        self.store = store
        self.options = options
        self.used: list[str] = []

    def key(self, reference: str) -> str:
        """Return the key of a part's entry."""
        return key_of(
            KIND, kind_version(KIND), as_plain(self.options.identity(Matters.SEARCH)), reference
        )

    def read(self, graph: KernelGraph, reference: str, budget: float) -> KeptPart | None:
        """Return the entry of a part, if a search of ``budget`` seconds is not expected to improve
        on it; otherwise None."""

        def own(kept: KeptPart) -> KeptPart:
            if kept.reference != reference:
                raise PlainError("it is of another program")
            return kept

        kept = read_entry(self.store, KIND, self.key(reference), KeptPart, own)
        return None if kept is None or outbid(kept.late, kept.budget, budget) else kept

    def solved(
        self, graph: KernelGraph, reference: str, budget: float, number: int
    ) -> SolvedPart | None:
        """Return the result of an earlier run for a part, or None; ``number`` is the part's
        number."""
        kept = self.read(graph, reference, budget)
        if kept is None:
            return None
        try:
            solved = _restored(kept, graph, number)
        except BadRecordError as error:
            self.store.damaged(KIND, self.key(reference), str(error))
            return None
        self.used.append(reference)
        return solved

    def keep(self, solver: PartSolver, reference: str, budget: float, worked: float = 1.0) -> None:
        """Keep the result of a solver that worked for a share of its ``budget`` of seconds, unless
        it was interrupted, or is put together from parts that have entries of their own."""
        solved = solver.solved()
        if solver.interrupted or (solved.fell_back and solved.in_runs):
            return
        old = self.read(solver.graph, reference, 0.0)
        if old is not None and not old.late and solver.late:
            return  # a run with more time has been here
        try:
            short = worked < 1.0 and solver.late
            if old is not None and short and old.budget > worked * budget:
                kept = replace(old, budget=max(old.budget, budget))
            else:
                again = old is not None and old.late
                of, had = solver.candidates, seconds_of_work(budget, worked, again)
                kept = KeptPart(
                    reference, had, solver.late, solved.fell_back,
                    () if solved.fell_back else tuple(_kept_candidates(of, solved.verified)),
                    solved.search.report, solved.search.stable,
                )  # fmt: skip
            payload = json.dumps(as_plain(kept)).encode()
            from_plain(KeptPart, json.loads(payload))
        except (BadRecordError, PlainError) as error:
            log.warning("the result for a part cannot be kept: %s", error)
            return
        about = f"{solver.graph.name or 'part'}: {len(kept.candidates)} verified candidates"
        about += ", out of time" if kept.late else ""
        self.store.put(KIND, self.key(reference), payload, version=kind_version(KIND), about=about)

    def drop(self) -> None:
        """Remove the entries that were taken."""
        for reference in self.used:
            self.store.drop(KIND, self.key(reference))


def seconds_of_work(budget: float, worked: float, again: bool) -> float:
    """Return the seconds that an entry states, whose search worked for a share of its ``budget``.
    One that was made ``again`` after another had been cut short states the whole budget, so that
    there is an end to it where there are never enough processors."""
    return budget if again else worked * budget


def outbid(late: bool, had: float, budget: float) -> bool:
    """Return whether ``budget`` seconds may find more than the seconds that an entry had."""
    return late and budget > had * 1.001


def _kept_candidates(of: PartCandidates, verified: Alternatives) -> Iterator[KeptCandidate]:
    for program, note in zip(verified.programs[1:], verified.verdicts or (), strict=True):
        place = of.place_of(program)
        candidate = of.search.candidates[place]
        yield KeptCandidate(
            graph=record_of(program),
            note=note,
            cost=candidate.cost,
            description=candidate.description,
            verdict=next(c.verdict for c in of.checked if c.index == place),
            exponentials=of.exponentials[place],
        )


def _restored(kept: KeptPart, graph: KernelGraph, number: int) -> SolvedPart:
    """Return the part in the form that its solver would return, without the dropped candidates."""
    reference = Alternatives(graph.inputs, graph.outputs, (graph,), None, (None,), ())
    found = SearchResult(report=kept.report, stable=kept.stable)
    if kept.fell_back:
        own = of_own_ops(graph)
        return SolvedPart(reference, reference, own, found, (), (), kept.fell_back, kept.late)
    programs = [graph_of(c.graph, graph) for c in kept.candidates]
    if not programs:
        raise BadRecordError("expected candidates, or the reason why there are none")
    costs = tuple(c.cost.time for c in kept.candidates)
    form = replace(reference, programs=(graph, *programs), costs=(None, *costs), holds=None)
    verified = replace(form, verdicts=tuple(c.note for c in kept.candidates))
    found.candidates = [
        Candidate(program, c.cost, c.description)
        for program, c in zip(programs, kept.candidates, strict=True)
    ]
    checked = tuple(Checked(number, i, c.verdict) for i, c in enumerate(kept.candidates))
    if not all(c.kept for c in checked):
        raise BadRecordError("expected candidates that were accepted")
    exponentials = tuple(c.exponentials for c in kept.candidates)
    return SolvedPart(form, form, verified, found, exponentials, checked, "", kept.late)
