"""The whole optimization of one program: its parts are searched and verified, the best candidates
are compiled and run, and one is chosen."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from mirage.cache import shared_store
from mirage.frontend.errors import InvalidGraphError
from mirage.frontend.program import Program
from mirage.pipeline.checks.check import Checker
from mirage.pipeline.choose import Chooser
from mirage.pipeline.compile.compile_candidates import CandidateCompiler
from mirage.pipeline.compile.left_parts import without_slow_products, without_slower_parts
from mirage.pipeline.deadline import INTERRUPTED, Deadline
from mirage.pipeline.forms import Forms, Graphs
from mirage.pipeline.kept_program import keep, seconds_had
from mirage.pipeline.lost_time import Pace
from mirage.pipeline.options import NothingFoundError, OptimizeOptions
from mirage.pipeline.parts.all_parts import Parts
from mirage.pipeline.parts.kept_part import KeptParts
from mirage.pipeline.parts.part_data import PartOptions
from mirage.pipeline.progress import Progress
from mirage.pipeline.rank import outcome
from mirage.pipeline.result import Finalist, LeftPart, Optimized, OutOfTime
from mirage.semantics.ugraph import External, KernelGraph, Launch
from mirage.verify import VerifyOptions
from mirage.verify.pieces.ledger import Ledger

COMPILE_ROUNDS = 3
"""How often the search continues without kernels that do not compile."""
T = TypeVar("T")


class OutdatedError(Exception):
    """The result of an earlier run for a part does not compile, so the part must be searched
    again."""


class Optimization:
    """One optimization, to be run once by :meth:`optimize`, :meth:`forms_alone` or
    :meth:`compile_only`."""

    def __init__(self, program: Program, options: OptimizeOptions) -> None:
        self.program = program
        self.options = options
        self.deadline = Deadline(options.budget, pace=Pace())
        self.progress = Progress(options, self.deadline)
        self.report = self.progress.report
        self.forms = Forms(program)
        self.compiler = CandidateCompiler(program, options, self.progress)
        checker = Checker(program, options.chip, options.use_cache, self.deadline)
        self.chooser = Chooser(program.graph, self.compiler, checker, self.progress)
        self.kept = KeptParts(shared_store(), options)
        self.parts = Parts(program.graph, options, self._part_options(), self.kept)
        self.progress.answered = lambda: self.parts.progress

    def optimize(self) -> Optimized:
        """Optimize the program. Raises :class:`OutdatedError` and the errors of the stages."""
        self.forms.add("reference", self.program.graph)
        with self.options.workers() as executor:
            self.compiler.executor = executor
            self.parts.solve(executor)
            verified, chosen = self._or_at_once(lambda: self._compiled(self._reported()))
        worked = self.deadline.worked
        if self.options.use_cache:
            self.parts.keep(worked)
        self._tell_what_is_left()
        optimized = self._or_at_once(lambda: self._finish(self.chooser.choose(verified, chosen)))
        if self.deadline.reason != INTERRUPTED:
            late = not self.deadline.left or any(p.late for p in self.parts.solved.values())
            had = seconds_had(self.program, self.options, worked)
            keep(optimized, late or self.compiler.late, had)
        return optimized

    def forms_alone(self) -> Graphs:
        """Return the forms that come before the choice."""
        with self.options.workers() as executor:
            self.parts.solve(executor)
        self._reported()
        return self.forms.graphs

    def compile_only(self) -> Optimized:
        """Compile kernels that were written by hand."""
        self.forms.add("selected", self.program.graph)
        for op in self.program.graph.ops:
            if not isinstance(op, Launch | External):
                raise InvalidGraphError(
                    "compile: expected customized kernels only, got "
                    f"{type(op).__name__.lower()}; use superoptimize()",
                    self.program.locations.get(op),
                )
        checked = self.chooser.right([self.compiler.finalist(self.program.graph)])
        if not checked:
            raise NothingFoundError("the kernels are wrong: " + "; ".join(self.report.notes))
        return self._finish(checked)

    def _or_at_once(self, work: Callable[[], T]) -> T:
        """Return the result of ``work``. If the user interrupts it, it is started again with no
        time left, so that the program found so far is returned; a second interrupt ends everything.
        """
        try:
            return work()
        except KeyboardInterrupt:
            if self.deadline.reason == INTERRUPTED:
                raise
            self.deadline.stop(INTERRUPTED)
            return work()

    def _part_options(self) -> PartOptions:
        o = self.options
        return PartOptions(
            target=self.compiler.target,
            limits=o.limits(),
            wanted=o.candidates,
            enough=o.finalists,
            verify=VerifyOptions(seed=o.verify_seed, draws=o.draws, numerics=o.numerics),
            deadline=self.deadline,
            ledger=Ledger(shared_store() if o.use_cache else None),
            stored=o.use_cache,
            watch_search=self.progress.watch_search,
            watch_verdict=self.progress.watch_verdict,
            say=o.say,
            timed=self.progress.timed,
            answered=self._compile_ahead,
        )

    def _compile_ahead(self) -> None:
        """Start compiling the first answers once all parts have one."""
        possible = self.compiler.executor is not None and self.options.compile
        if possible and not self.compiler.ahead:
            verified = self.parts.so_far("verified")
            if verified is not None:
                self.compiler.start(verified)

    def _reported(self) -> KernelGraph:
        """Return the program with the verified candidates of each part, after updating the report
        and the forms."""
        parts = self.parts.found
        for number, part in enumerate(self.parts.solved.values()):
            note = f"part {number} {part.what_it_is}: {part.fell_back}"
            if part.fell_back and note not in self.report.notes:
                self.progress.note(note)
        self.report.searches = tuple(p.search for p in parts)
        self.report.exponentials = tuple(e for p in parts for e in p.exponentials)
        self.report.checked = tuple(c for p in parts for c in p.checked)
        for stage in ("candidates", "stabilized"):
            self.forms.add(stage, self.parts.together(stage), "candidates")
        verified = self.parts.together("verified")()
        self.forms.add("verified", verified)
        verified, self.report.left = self._with_calls(verified)
        for text in map(str, self.report.left):
            if text not in self.report.notes:
                self.progress.note(text)
        return verified

    def _tell_what_is_left(self) -> None:
        """Report the work for which there was no time."""
        parts = self.parts.solved.values()
        late = [part for part in parts if part.late]
        if late and self.deadline.reason != INTERRUPTED:
            fell_back = sum(bool(part.fell_back) for part in parts)
            unfinished = sum(not part.fell_back for part in late)
            self.report.out_of_time = OutOfTime(
                self.options.budget, len(parts), fell_back, unfinished, self.deadline.worked
            )
            self.progress.note(str(self.report.out_of_time))

    def _with_calls(self, verified: KernelGraph) -> tuple[KernelGraph, tuple[LeftPart, ...]]:
        """Return the program with calls of PyTorch where these are predicted to be faster and the
        options allow it, and the parts that are left to them."""
        wanted, target = self.options.pytorch_where_faster, self.compiler.target
        left: tuple[LeftPart, ...] = ()
        if wanted:
            verified, left = without_slower_parts(verified, target)
        if wanted is not False:
            late = [p.verified for p in self.parts.solved.values() if p.late and p.fell_back]
            verified, products = without_slow_products(verified, late, target)
            left += products
        return verified, left

    def _compiled(self, verified: KernelGraph) -> tuple[KernelGraph, list[Finalist]]:
        """Return the verified program and its best candidates, compiled. If a candidate does not
        compile, the search continues without the kernels that cause it, and candidates that it
        finds are compiled too."""
        chosen = self.compiler.finalists(verified)
        for _ in range(COMPILE_ROUNDS):
            if not self.compiler.broken or not self.deadline.left:
                break
            kernels = self.compiler.take_broken_kernels(verified)
            self._need_current(kernels)
            if not self.parts.go_on_without(kernels):
                break
            verified = self._reported()
            chosen = self.compiler.finalists(verified)
        return verified, chosen

    def _need_current(self, broken: Mapping[int, Sequence[Launch]]) -> None:
        """Raise :class:`OutdatedError` if results of an earlier run are among the programs (by id)
        that do not compile."""
        found = (p for key in self.kept.used for p in self.parts.solved[key].verified.programs)
        if any(broken.get(id(program)) for program in found):
            self.kept.drop()
            raise OutdatedError

    def _finish(self, ranked: list[Finalist]) -> Optimized:
        best = ranked[0]
        self.forms.add("selected", best.graph)
        self.report.prediction = best.prediction
        self.report.checks = best.checks or ()
        for text in outcome(ranked):
            self.progress.note(text)
        return Optimized(
            self.program, self.options, best.graph, best.steps, self.forms, self.report,
            tuple(ranked),
        )  # fmt: skip
