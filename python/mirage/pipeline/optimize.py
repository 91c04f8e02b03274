"""The whole way, from a program to something that can be called.

optimized = optimize(program, OptimizeOptions(chip="h200"))
print(optimized.describe())
out, = optimized(x, w)
"""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from mirage.cache import shared_store
from mirage.compiler.errors import CompileError
from mirage.cost.target import target_for
from mirage.errors import MirageError
from mirage.frontend.errors import GraphTypeError, InvalidGraphError
from mirage.frontend.location import user_location
from mirage.frontend.program import Program, SizedProgram
from mirage.pipeline.by_size import OptimizedSizes, solve_classes
from mirage.pipeline.checks.check import CHECKED, Checker, failed
from mirage.pipeline.compile.ahead import Ahead
from mirage.pipeline.compile.broken import BrokenKernelsError, broken_kernels
from mirage.pipeline.compile.build import Builder
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.errors import StageError
from mirage.pipeline.forms import Forms, Graphs
from mirage.pipeline.kept_program import found_before, keep
from mirage.pipeline.options import NothingFoundError, OptimizeOptions, OptionError
from mirage.pipeline.parts.all_parts import Parts
from mirage.pipeline.parts.kept_part import KeptParts
from mirage.pipeline.parts.part import INTERRUPTED
from mirage.pipeline.parts.part_data import PartOptions
from mirage.pipeline.rank import finalist, finalists, outcome, verdicts_at
from mirage.pipeline.result import Finalist, Optimized, Report, Step
from mirage.pipeline.select import ranking, select_cheapest
from mirage.pipeline.verify import Checked
from mirage.semantics.alternatives import Alternatives, parts_of, replaced
from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import External, KernelGraph, Launch, launches
from mirage.transforms.lookups import fused
from mirage.transforms.partition.calls import as_calls
from mirage.verify import VerifyOptions
from mirage.verify.pieces.ledger import Ledger

if TYPE_CHECKING:
    from mirage.frontend.kernel_graph import GraphBuilder
    from mirage.frontend.torch_import import ImportedGraph


COMPILE_ROUNDS = 3
"""Times that the search goes on without kernels that do not compile."""
ANOTHER = 1.5
"""Times as long as the slowest candidate took to compile that must be left for one more."""
T = TypeVar("T")
Source: TypeAlias = "Program | KernelGraph | GraphBuilder | ImportedGraph"
"""What can be optimized: a built or imported graph, or one as data."""


def optimize(program: Source, options: OptimizeOptions | None = None) -> Optimized:
    """Searches for faster equivalent programs, verifies each, takes the cheapest and compiles it.

    Where no candidate of a part is left, the part keeps its own ops, and the report says why.
    Raises the errors of the stages, and :class:`NothingFoundError` where not even those can be
    taken.
    """
    program, options = _as_program(program), options or OptimizeOptions()
    if options.reuses:
        found = load_found(program, options)
        if found is not None:
            return found
    try:
        return _Run(program, options).optimize()
    except _OutdatedError:
        return _Run(program, replace(options, fresh=True)).optimize()


def optimize_sizes(sizes: SizedProgram, options: OptimizeOptions | None = None) -> OptimizedSizes:
    """The same for a program with a dynamic size, for all of them
    (:mod:`mirage.pipeline.by_size`)."""
    return solve_classes(sizes, options or OptimizeOptions(), optimize)


def load_found(program: Program, options: OptimizeOptions, *, run: bool = True) -> Optimized | None:
    """What an earlier run has found for a program, without any search; None where there is nothing.
    Without ``run`` no kernel is run to check it."""
    return found_before(program, options, lambda: _Run(program, options).forms_alone(), run=run)


def compile_graph(program: Source, options: OptimizeOptions | None = None) -> Optimized:
    """Compiles a program whose kernels are chosen already (written by hand): no search, nothing to
    verify against.
    """
    return _Run(_as_program(program), options or OptimizeOptions()).compile_only()


def _as_program(source: Source) -> Program:
    if isinstance(source, Program):
        return source
    if isinstance(source, KernelGraph):
        return Program(source)
    program = getattr(source, "program", None)  # of a builder a method, of an import an attribute
    found = program() if callable(program) else program
    if not isinstance(found, Program):
        raise GraphTypeError(
            "optimize: expected a graph (import a module with mirage.from_torch first), got "
            f"{type(source).__name__}",
            user_location(),
        )
    return found


class _OutdatedError(Exception):
    """What an earlier run has found for a part does not compile: it is to be searched again."""


class _Run:
    def __init__(self, program: Program, options: OptimizeOptions) -> None:
        self.program = program
        self.options = options
        self.target = target_for(options.chip)
        self.deadline = Deadline(options.budget)
        self.report = Report()
        self.forms = Forms(program)
        self.checker = Checker(program, options.chip, options.use_cache, self.deadline)
        # what does not compile: by its place, by predicted time, the kernels known to be why
        self.broken: dict[int, frozenset[str]] = {}
        self.longest = 0.0  # seconds that compiling a candidate took
        self.late = False  # whether candidates were not compiled for lack of time
        self.executor: Executor | None = None
        self.ahead: Ahead | None = None
        self.first: Finalist | None = None  # the first answers, not compiled
        self.kept = KeptParts(shared_store(), options)
        self.parts = Parts(program.graph, options, self._part_options(), self.kept)

    def optimize(self) -> Optimized:
        self.forms.add("reference", self.program.graph)
        o = self.options
        with o.workers() as self.executor:
            self.parts.solve(self.executor)
            verified, chosen = self._or_at_once(lambda: self._compiled(self._reported()))
        if o.use_cache:
            self.parts.keep()
        optimized = self._or_at_once(lambda: self._choose(verified, chosen))
        if self.deadline.reason != INTERRUPTED:
            late = not self.deadline.left or any(p.late for p in self.parts.solved.values())
            keep(optimized, late or self.late)
        return optimized

    def _or_at_once(self, work: Callable[[], T]) -> T:
        """What ``work`` gives. Where the user ends it, it is begun again with no time left, so that
        what was found by then is handed out; who ends it once more ends everything."""
        try:
            return work()
        except KeyboardInterrupt:
            if self.deadline.reason == INTERRUPTED:
                raise
            self.deadline.stop(INTERRUPTED)
            return work()

    def forms_alone(self) -> Graphs:
        """The forms that come before the choice."""
        with self.options.workers() as executor:
            self.parts.solve(executor)
        self._reported()
        return self.forms.graphs

    def _part_options(self) -> PartOptions:
        o = self.options
        return PartOptions(
            target=self.target,
            limits=o.limits(),
            wanted=o.candidates,
            enough=o.finalists,
            verify=VerifyOptions(seed=o.verify_seed, draws=o.draws, numerics=o.numerics),
            deadline=self.deadline,
            ledger=Ledger(shared_store() if o.use_cache else None),
            stored=o.use_cache,
            watch_search=self._watch_search,
            watch_verdict=self._watch_verdict,
            say=o.say,
            timed=self._timed,
            answered=self._compile_ahead,
        )

    def _reported(self) -> KernelGraph:
        """The program with the verified candidates of each part, once the report and the forms have
        what was found."""
        parts = self.parts.solved.values()
        for number, part in enumerate(parts):
            note = f"part {number} keeps its own ops: {part.fell_back}"
            if part.fell_back and note not in self.report.notes:
                self._note(note)
        self.report.searches = tuple(p.search for p in parts)
        self.report.exponentials = tuple(e for p in parts for e in p.exponentials)
        self.report.checked = tuple(c for p in parts for c in p.checked)
        for stage in ("candidates", "stabilized"):
            self.forms.add(stage, self.parts.together(stage), "candidates")
        verified = self.parts.together("verified")()
        self.forms.add("verified", verified)
        return verified

    def _compile_ahead(self) -> None:
        """Has the first answers compiled by a worker, once there are some for all parts, so that
        there is a compiled program whatever comes."""
        if self.executor is None or self.ahead is not None or not self.options.compile:
            return
        verified = self.parts.so_far("verified")
        if verified is None:
            return
        selected, without = select_cheapest(verified, self.target)
        if without:
            return
        self.ahead = Ahead(self.executor)
        verdicts = tuple(verdicts_at(verified, self.target, 0))
        self.first = Finalist(selected, (), 0, None, 0, verdicts)
        self._builder().start(selected)

    def _first_compiled(self) -> list[Finalist]:
        """The first answers, where they were compiled by now, and can be."""
        first = self.first
        if first is None or self.ahead is None or not self.ahead.done:
            return []
        self.longest = max(self.longest, self.ahead.seconds)
        try:
            compiled = self._finalist(first.graph)
        except CompileError:
            return []
        return [replace(compiled, verdicts=first.verdicts)]

    def _compiled(self, verified: KernelGraph) -> tuple[KernelGraph, list[Finalist]]:
        """What is verified in the end, and the best candidates, compiled. What does not compile
        costs the kernels because of which it does not: the search goes on without them, and
        candidates that it finds are compiled too."""
        chosen = self._finalists(verified)
        for _ in range(COMPILE_ROUNDS):
            if not self.broken or not self.deadline.left:
                break
            kernels, self.broken = self._broken_kernels(verified), {}
            self._need_current(kernels)
            if not self.parts.go_on_without(kernels):
                break
            verified = self._reported()
            chosen = self._finalists(verified)
        return verified, chosen

    def _need_current(self, broken: Mapping[int, Sequence[Launch]]) -> None:
        """Raises :class:`_OutdatedError` where what an earlier run has found is among what does not
        compile (by the id of the program)."""
        found = (p for key in self.kept.used for p in self.parts.solved[key].verified.programs)
        if any(broken.get(id(program)) for program in found):
            self.kept.drop()
            raise _OutdatedError

    def _broken_kernels(self, verified: KernelGraph) -> dict[int, list[Launch]]:
        """Of candidates that did not compile, by id, the kernels that do not."""
        found: dict[int, list[Launch]] = {}
        for place, named in self.broken.items():
            programs: list[KernelGraph] = []
            for op in parts_of(verified):
                order = [position for _, position in ranking(op, self.target)]
                programs.append(op.programs[order[min(place, len(order) - 1)]])
            own = [(id(p), launch) for p in programs for launch in launches(p.ops)]
            selected, _ = select_cheapest(verified, self.target, place)
            numbers = broken_kernels(list(launches(selected.ops)), named, self._compiles)
            for number in sorted(numbers):
                program, launch = own[number]
                found.setdefault(program, []).append(launch)
        return found

    def _compiles(self, program: KernelGraph) -> bool:
        try:
            self._build(program)
        except CompileError:
            return False
        return True

    def _note_broken(self, place: int, error: CompileError) -> None:
        keys = error.keys if isinstance(error, BrokenKernelsError) else frozenset[str]()
        self.broken[place] = keys

    def _watch_search(self, best: float, kernels: int) -> None:
        plan = "" if best == inf else f", best so far {best:.1f} us"
        self._show("search", f"{kernels} kernels solved{plan}")

    def _show(self, phase: str, detail: str = "") -> None:
        """Says what is under way: the phase, how many parts have an answer, the time left."""
        said = (detail, self.parts.progress, f"{self.deadline.left:.0f} s left")
        self.options.show(f"{phase}: {', '.join(filter(None, said))}")

    def _watch_verdict(self, checked: Checked) -> None:
        verdict = str(checked.verdict).splitlines()[0]
        dropped = "" if checked.kept else ", dropped"
        if checked.verdict.equivalent and not checked.verdict.accepted:
            undefined = checked.verdict.defined is False
            dropped += " for where it is undefined" if undefined else " for its rounding errors"
        self.options.say(f"verify: candidate {checked.index}: {verdict}{dropped}")

    def _choose(self, verified: KernelGraph, chosen: list[Finalist]) -> Optimized:
        """The candidate that is predicted to be the fastest once it is compiled (registers, spills
        and shared memory are known then) and whose kernels are right when they are run. The others
        that were compiled stay with it. Where there is none, the program's own ops, or at last
        calls of PyTorch, remain.
        """
        compiled = bool(chosen)
        chosen = self._right(chosen)
        if not chosen:
            for graph, what in self._instead(verified, compiled):
                try:
                    chosen = self._right([self._finalist(graph)])
                except MirageError as error:
                    self._note(f"the program's own ops do not compile: {error.message}")
                    continue
                if chosen:
                    left = "is right when it is run" if compiled else "could be compiled"
                    self._note(f"no candidate {left}: {what}")
                    break
        if not chosen:
            raise NothingFoundError("nothing can be compiled: " + "; ".join(self.report.notes))
        return self._finish(chosen)

    def _instead(self, verified: KernelGraph, compiled: bool) -> Iterator[tuple[KernelGraph, str]]:
        """What remains where no candidate does, in the order in which it is tried."""
        if compiled:  # kernels are wrong: parts whose kernels are right keep them
            yield self._right_parts(verified), "parts whose kernels are wrong are calls of PyTorch"
        whole = self.program.graph
        yield decompose(whole, stable=True), "every op is a kernel of its own"
        yield as_calls(whole), "every op is a call of PyTorch"

    def _right_parts(self, verified: KernelGraph) -> KernelGraph:
        """Of each part the first candidate whose kernels are right, or its calls of PyTorch."""

        def program(op: Alternatives) -> KernelGraph:
            order = [position for _, position in ranking(op, self.target)]
            programs = (op.programs[p] for p in order[: self.options.finalists])
            return next(filter(self._is_right, programs), None) or as_calls(op.programs[0])

        return fused(replaced(verified, program))

    def _is_right(self, program: KernelGraph) -> bool:
        """Whether a part's program compiles, and none of its kernels is wrong."""
        try:
            steps = self._build(program)
        except CompileError:
            return False
        return not any(failed(self.checker.of_step(step)) for step in steps)

    def _right(self, ranked: list[Finalist]) -> list[Finalist]:
        """The finalists from the first on whose kernels are right when they are run."""
        if not self.options.check_kernels:
            return ranked
        for number, candidate in enumerate(ranked):
            with self._timed("check"):
                self.checker.until = self.deadline.portion(CHECKED)
                checked = self.checker.check(candidate)
            wrong = failed(checked.checks or ())
            if wrong is None:
                return [checked, *ranked[number + 1 :]]
            self._note(f"candidate {candidate.place} by predicted time is dropped: {wrong}")
        return []

    def _finalists(self, verified: KernelGraph) -> list[Finalist]:
        return finalists(
            verified,
            self.target,
            self.options.finalists if self.options.compile else 1,
            self._build,
            self._note,
            self._goes_on,
            self._note_broken,
            self._first_compiled(),
        )

    def _goes_on(self) -> bool:
        """Whether there is time to compile one more candidate."""
        enough = self.deadline.left > ANOTHER * self.longest
        self.late |= not enough
        return enough

    def _finalist(self, graph: KernelGraph) -> Finalist:
        return finalist(graph, 0, self.target, self._build(graph), self._note)

    def _build(self, selected: KernelGraph) -> tuple[Step, ...]:
        o = self.options
        if not o.compile:
            return ()
        start = time.perf_counter()
        try:
            with self._timed("compile"):
                return tuple(self._builder().steps(selected))
        finally:
            self.longest = max(self.longest, time.perf_counter() - start)

    def _builder(self) -> Builder:
        o = self.options
        return Builder(self.program, o.chip, o.cubin, o.use_cache, self.report.checked, self.ahead)

    def _note(self, text: str) -> None:
        self.report.notes.append(text)
        self.options.say(text)

    def _finish(self, ranked: list[Finalist]) -> Optimized:
        best = ranked[0]
        self.forms.add("selected", best.graph)
        self.report.prediction = best.prediction
        self.report.checks = best.checks or ()
        for text in outcome(ranked):
            self._note(text)
        return Optimized(
            self.program, self.options, best.graph, best.steps, self.forms, self.report,
            tuple(ranked),
        )  # fmt: skip

    def compile_only(self) -> Optimized:
        """For kernels written by hand."""
        self.forms.add("selected", self.program.graph)
        for op in self.program.graph.ops:
            if not isinstance(op, Launch | External):
                raise InvalidGraphError(
                    "compile: expected customized kernels only, got "
                    f"{type(op).__name__.lower()}; use superoptimize()",
                    self.program.locations.get(op),
                )
        chosen = self._finalist(self.program.graph)
        checked = self._right([chosen])
        if not checked:
            raise NothingFoundError("the kernels are wrong: " + "; ".join(self.report.notes))
        return self._finish(checked)

    @contextmanager
    def _timed(self, what: str) -> Generator[None]:
        self._show(what)
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.report.seconds[what] = self.report.seconds.get(what, 0.0) + spent


__all__ = [
    "Finalist",
    "NothingFoundError",
    "OptimizeOptions",
    "Optimized",
    "OptionError",
    "Report",
    "StageError",
    "Step",
    "compile_graph",
    "load_found",
    "optimize",
    "optimize_sizes",
]
