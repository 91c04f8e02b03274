"""The choice for a whole program, kept in the cache for the next run.

An entry has the finalists in the order of preference, the report, and measurements if any were
made. Its key is made like the keys of parts (:mod:`mirage.pipeline.parts.kept_part`), from the
whole program and all options that matter. An entry is parsed and checked when it is read. Its
kernels come from the cache of code or are compiled again, and kernels that this machine has not
checked are run before the program is returned.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mirage.cache import (
    PlainError,
    Store,
    as_plain,
    from_plain,
    key_of,
    kind_version,
    read_entry,
    shared_store,
)
from mirage.compiler.errors import CompileError
from mirage.cost import CostReport
from mirage.frontend.program import Program
from mirage.pipeline.checks.check import CHECKED, Checker, failed
from mirage.pipeline.checks.kernel_check import KernelCheck
from mirage.pipeline.compile.build import Builder
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.forms import Forms, Graphs
from mirage.pipeline.options import Matters, OptimizeOptions
from mirage.pipeline.parts.graph_record import BadRecordError, GraphRecord, graph_of, record_of
from mirage.pipeline.parts.kept_part import outbid, seconds_of_work
from mirage.pipeline.result import Finalist, LeftPart, Measurement, Optimized, OutOfTime, Report
from mirage.pipeline.verify import Checked
from mirage.search import Candidate, SearchReport, SearchResult
from mirage.semantics.alternatives import VerdictNote
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, launches
from mirage.transforms import Exponential

log = logging.getLogger("mirage.cache")

KIND = "program"
FOUND = "found before"
"""The start of a note that says that the result was found before."""


@dataclass(frozen=True)
class KeptFinalist:
    """A candidate that was compiled; see :class:`~mirage.pipeline.result.Finalist`."""

    graph: GraphRecord
    place: int
    prediction: CostReport | None
    spilled: int
    verdicts: tuple[VerdictNote, ...]
    checks: tuple[KernelCheck, ...] | None


@dataclass(frozen=True)
class KeptSearch:
    """The record of a part's search: its report, and the cost and description of each verified
    candidate."""

    report: SearchReport
    stable: bool
    candidates: tuple[tuple[CostReport, str], ...]


@dataclass(frozen=True)
class KeptProgram:
    """The entry of a program. ``budget`` are the seconds that it had; ``late`` says that they did
    not suffice."""

    reference: str
    budget: float
    late: bool
    finalists: tuple[KeptFinalist, ...]
    searches: tuple[KeptSearch, ...]
    exponentials: tuple[tuple[Exponential, ...], ...]
    checked: tuple[Checked, ...]
    notes: tuple[str, ...]
    measured: Measurement | None = None
    left: tuple[LeftPart, ...] = ()
    out_of_time: OutOfTime | None = None


def key_for(program: Program, options: OptimizeOptions) -> tuple[str, str]:
    """Return the key of a program's entry, and the program's canonical text."""
    reference = signature(program.graph)
    identity = as_plain(options.identity(Matters.SEARCH, Matters.CHOICE))
    return key_of(KIND, kind_version(KIND), identity, reference), reference


def is_kept(program: Program, options: OptimizeOptions) -> bool:
    """Return whether an earlier run has the result that :func:`mirage.optimize` would search
    for."""
    return options.reuses and _read(shared_store(), program, options) is not None


def found_before(
    program: Program,
    options: OptimizeOptions,
    again: Callable[[], Graphs],
    *,
    run: bool = True,
) -> Optimized | None:
    """Return the result of an earlier run; None if there is none, or if a larger budget may find
    more. ``again`` makes the forms that are not kept, when they are read. Without ``run``, no
    kernel is run: the checks are those of the earlier run."""
    store = shared_store()
    kept = _read(store, program, options)
    if kept is None:
        return None
    try:
        found = _Restorer(program, options, kept).optimized(again, run)
    except (BadRecordError, CompileError) as error:
        store.damaged(KIND, key_for(program, options)[0], str(error))
        return None
    if found is None:  # a kernel is wrong on this machine
        store.drop(KIND, key_for(program, options)[0])
    return found


def _read(store: Store, program: Program, options: OptimizeOptions) -> KeptProgram | None:
    """Return the entry of a program, unless the budget may find more than the entry has."""
    kept = _entry(store, program, options)
    return None if kept is None or outbid(kept.late, kept.budget, options.budget) else kept


def _entry(store: Store, program: Program, options: OptimizeOptions) -> KeptProgram | None:
    key, reference = key_for(program, options)

    def own(kept: KeptProgram) -> KeptProgram:
        if kept.reference != reference or not kept.finalists:
            raise PlainError("it is of another program")
        return kept

    return read_entry(store, KIND, key, KeptProgram, own)


def seconds_had(program: Program, options: OptimizeOptions, worked: float) -> float:
    """Return the seconds of work of an optimization in which processes could work for a share of
    the budget."""
    if worked == 1.0 or not options.use_cache:
        return options.budget
    old = _entry(shared_store(), program, options)
    return seconds_of_work(options.budget, worked, again=old is not None and old.late)


def keep(optimized: Optimized, late: bool, had: float, measured: Measurement | None = None) -> None:
    """Keep the choice, found in ``had`` seconds of work (:func:`seconds_had`); failing to keep it
    is not an error."""
    options, report = optimized.options, optimized.report
    if not options.use_cache:
        return
    key, reference = key_for(optimized.program, options)
    try:
        kept = KeptProgram(
            reference, had, late,
            tuple(map(_kept_finalist, optimized.finalists)),
            tuple(map(_kept_search, report.searches)),
            report.exponentials, report.checked,
            tuple(n for n in report.notes if not n.startswith(FOUND)), measured,
            report.left, report.out_of_time,
        )  # fmt: skip
        payload = json.dumps(as_plain(kept)).encode()
        from_plain(KeptProgram, json.loads(payload))
    except (BadRecordError, PlainError) as error:
        log.warning("the choice for a program cannot be kept: %s", error)
        return
    kernels = len(list(launches(optimized.graph.ops)))
    about = f"{optimized.graph.name or 'program'} for {options.chip}: {kernels} kernels"
    about += ", measured" if measured else ""
    about += ", out of time" if late else ""
    shared_store().put(KIND, key, payload, version=kind_version(KIND), about=about)


def keep_measured(optimized: Optimized, measured: Measurement) -> None:
    """Keep the order that measurements gave, if the measured program is kept."""
    options = optimized.options
    kept = _entry(shared_store(), optimized.program, options)
    if options.use_cache and kept is not None:
        keep(optimized, kept.late, kept.budget, measured)


def _kept_finalist(f: Finalist) -> KeptFinalist:
    return KeptFinalist(
        record_of(f.graph), f.place, f.prediction, f.spilled_bytes, f.verdicts, f.checks
    )


def _kept_search(result: SearchResult) -> KeptSearch:
    candidates = tuple((c.cost, c.description) for c in result.candidates)
    return KeptSearch(result.report, result.stable, candidates)


def _search_of(kept: KeptSearch) -> SearchResult:
    """Return the search result without its programs, which are not kept."""
    nothing = KernelGraph("", (), (), ())
    candidates = [Candidate(nothing, cost, description) for cost, description in kept.candidates]
    return SearchResult(candidates, kept.report, None, kept.stable)


class _Restorer:
    def __init__(self, program: Program, options: OptimizeOptions, kept: KeptProgram) -> None:
        self.program, self.options, self.kept = program, options, kept
        self.builder = Builder(
            program, options.chip, options.cubin, options.use_cache, kept.checked
        )

    def optimized(self, again: Callable[[], Graphs], run: bool) -> Optimized | None:
        """Return the program with the kept choice; None if one of its kernels is wrong."""
        start = time.perf_counter()
        options, kept = self.options, self.kept
        first, *others = kept.finalists
        chosen = self._finalist(first)
        if options.check_kernels and run:
            until = Deadline(CHECKED * options.budget)  # for those for which there was no time
            checker = Checker(self.program, options.chip, options.use_cache, until)
            chosen = checker.check(chosen, first.checks or ())
            if failed(chosen.checks or ()):
                return None
        report = Report(
            tuple(map(_search_of, kept.searches)), kept.exponentials, kept.checked,
            chosen.prediction, chosen.checks or (), {}, list(kept.notes), kept.measured,
            kept.left, kept.out_of_time,
        )  # fmt: skip
        self._tell(report)
        forms = Forms(
            self.program,
            {
                "reference": ("reference", self.program.graph),
                "selected": ("selected", chosen.graph),
            },
            again,
        )
        report.seconds["load"] = time.perf_counter() - start
        return Optimized(
            self.program, options, chosen.graph, chosen.steps, forms, report, (chosen,),
            lambda: tuple(self._compiling(others)),
        )  # fmt: skip

    def _tell(self, report: Report) -> None:
        found = FOUND
        if self.kept.late:
            found += (
                f", within a budget of {self.kept.budget:.3g} s that ran out: a larger one "
                "searches again"
            )
        if self.kept.measured is not None:
            found += f", the fastest as measured on {self.kept.measured.device}"
        report.notes.append(found)
        self.options.say(found)

    def _finalist(self, kept: KeptFinalist) -> Finalist:
        graph = graph_of(kept.graph, self.program.graph)
        steps = tuple(self.builder.steps(graph)) if self.options.compile else ()
        return Finalist(
            graph, steps, kept.place, kept.prediction, kept.spilled, kept.verdicts, kept.checks
        )

    def _compiling(self, others: Sequence[KeptFinalist]) -> Iterable[Finalist]:
        """Return the other finalists that still compile."""
        return filter(None, map(self._if_possible, others))

    def _if_possible(self, kept: KeptFinalist) -> Finalist | None:
        try:
            return self._finalist(kept)
        except (BadRecordError, CompileError) as error:
            log.warning("a candidate that was kept is left out: %s", error)
            return None
