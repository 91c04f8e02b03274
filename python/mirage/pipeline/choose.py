"""The choice of the program that is returned: the fastest compiled one whose kernels are right."""

from __future__ import annotations

from collections.abc import Iterator

from mirage.compiler.errors import CompileError
from mirage.errors import MirageError
from mirage.pipeline.checks.check import CHECKED, Checker, failed
from mirage.pipeline.compile.compile_candidates import CandidateCompiler
from mirage.pipeline.compile.own_ops import kernels_of
from mirage.pipeline.options import NothingFoundError
from mirage.pipeline.progress import Progress
from mirage.pipeline.result import Finalist
from mirage.pipeline.select import compilable, ranking
from mirage.semantics.alternatives import Alternatives, replaced
from mirage.semantics.decompose import decompose
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.partition.calls import as_calls


class Chooser:
    """Runs the kernels of candidates of the program ``whole``."""

    def __init__(
        self, whole: KernelGraph, compiler: CandidateCompiler, checker: Checker, progress: Progress
    ) -> None:
        self.whole, self.compiler, self.checker = whole, compiler, checker
        self.progress, self.options = progress, compiler.options

    def choose(self, verified: KernelGraph, chosen: list[Finalist]) -> list[Finalist]:
        """Return the candidate with the least predicted time after compilation (registers, spills
        and shared memory are known then) whose kernels are right when they are run, followed by the
        other compiled candidates. If there is none, return the program's own ops or, as a last
        resort, calls of PyTorch.
        """
        compiled = bool(chosen)
        chosen = self.right(chosen)
        if not chosen:
            for graph, what in self._instead(verified, compiled):
                try:
                    chosen = self.right([self.compiler.finalist(graph)])
                except MirageError as error:
                    self.progress.note(f"the program's own ops do not compile: {error.message}")
                    continue
                if chosen:
                    left = "is right when it is run" if compiled else "could be compiled"
                    self.progress.note(f"no candidate {left}: {what}")
                    break
        if not chosen:
            notes = "; ".join(self.progress.report.notes)
            raise NothingFoundError(f"nothing can be compiled: {notes}")
        return chosen

    def right(self, ranked: list[Finalist]) -> list[Finalist]:
        """Return the finalists, starting with the first whose kernels are right when they are
        run."""
        if not self.options.check_kernels:
            return ranked
        for number, candidate in enumerate(ranked):
            with self.progress.timed("check"):
                self.checker.until = self.progress.deadline.portion(CHECKED)
                checked = self.checker.check(candidate)
            wrong = failed(checked.checks or ())
            if wrong is None:
                return [checked, *ranked[number + 1 :]]
            place = candidate.place
            self.progress.note(f"candidate {place} by predicted time is dropped: {wrong}")
        return []

    def _instead(self, verified: KernelGraph, compiled: bool) -> Iterator[tuple[KernelGraph, str]]:
        """Yield the alternatives to the candidates, in the order in which they are tried."""
        if compiled:  # kernels are wrong: parts whose kernels are right keep theirs
            yield self._right_parts(verified), "parts whose kernels are wrong are calls of PyTorch"
        own = decompose(self.whole, stable=True)
        if self.compiler.has_time_for(kernels_of(own)):
            yield own, "every op is a separate kernel"
        yield as_calls(self.whole), "every op is a call of PyTorch"

    def _right_parts(self, verified: KernelGraph) -> KernelGraph:
        """Take, for each part, the first candidate whose kernels are right, or its calls of
        PyTorch."""

        def program(op: Alternatives) -> KernelGraph:
            order = [position for _, position in ranking(op, self.compiler.target)]
            programs = (op.programs[p] for p in order[: self.options.finalists])
            return next(filter(self._is_right, programs), None) or as_calls(op.programs[0])

        graph = replaced(verified, program)
        return compilable(graph, self.compiler.target)

    def _is_right(self, program: KernelGraph) -> bool:
        """Return whether a part's program compiles and none of its kernels is wrong."""
        try:
            steps = self.compiler.build(program)
        except CompileError:
            return False
        return not any(failed(self.checker.of_step(step)) for step in steps)
