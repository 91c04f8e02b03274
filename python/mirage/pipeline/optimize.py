"""The whole way, from a program to something that can be called.

optimized = optimize(program, OptimizeOptions(chip="h200"))
print(optimized.describe())
out, = optimized(x, w)
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from mirage.compiler.cache import cache_folder
from mirage.cost.target import target_for
from mirage.errors import MirageError
from mirage.frontend.errors import GraphTypeError, InvalidGraphError
from mirage.frontend.location import user_location
from mirage.frontend.program import Program
from mirage.pipeline.build import Builder
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.errors import StageError
from mirage.pipeline.forms import Forms
from mirage.pipeline.options import NothingFoundError, OptimizeOptions, OptionError
from mirage.pipeline.part import PartOptions, SolvedPart, solve_part
from mirage.pipeline.rank import finalist, finalists, outcome
from mirage.pipeline.result import Finalist, Optimized, Report, Step
from mirage.pipeline.verify import Checked
from mirage.semantics.decompose import decompose
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import External, KernelGraph, Launch, Op
from mirage.transforms.calls import as_calls
from mirage.transforms.partition import parts_to_search
from mirage.verify import VerifyOptions
from mirage.verify.ledger import Ledger

if TYPE_CHECKING:
    from mirage.frontend.kernel_graph import GraphBuilder
    from mirage.frontend.torch_import import ImportedGraph


Source: TypeAlias = "Program | KernelGraph | GraphBuilder | ImportedGraph"
"""What can be optimized: a built or imported graph, or one as data."""


def optimize(program: Source, options: OptimizeOptions | None = None) -> Optimized:
    """Searches for faster equivalent programs, verifies each, takes the cheapest and compiles it.

    Where no candidate of a part is left, the part keeps its own ops, and the report says why.
    Raises the errors of the stages, and :class:`NothingFoundError` where not even those can be
    taken.
    """
    return _Run(_as_program(program), options or OptimizeOptions()).optimize()


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


class _Run:
    def __init__(self, program: Program, options: OptimizeOptions) -> None:
        self.program = program
        self.options = options
        self.target = target_for(options.chip)
        self.deadline = Deadline(options.budget)
        self.report = Report()
        self.forms = Forms(program)

    def optimize(self) -> Optimized:
        self.forms.add("reference", self.program.graph)
        return self._choose(self._verified())

    def _verified(self) -> KernelGraph:
        """The program with the verified candidates of each part."""
        o = self.options
        ledger = Ledger(cache_folder() / "verdicts" if o.use_cache else None)
        steps = parts_to_search(self.program.graph)
        different = {signature(s.graph) for s in steps if not isinstance(s, External)}
        known: dict[str, SolvedPart] = {}
        solved: dict[int, SolvedPart] = {}
        with o.workers() as executor:
            options = PartOptions(
                target=self.target,
                limits=o.limits(),
                wanted=o.candidates,
                verify=VerifyOptions(seed=o.verify_seed, draws=o.draws, numerics=o.numerics),
                deadline=self.deadline,
                ledger=ledger,
                executor=executor,
                watch_search=self._watch_search,
                watch_verdict=self._watch_verdict,
                say=o.say,
                timed=self._timed,
            )
            for place, step in enumerate(steps):
                if isinstance(step, External):
                    continue
                key = signature(step.graph)
                if key in known:
                    solved[place] = known[key].applied_to(step.graph)
                    continue
                left = len(different.difference(known))
                portion = replace(options, deadline=self.deadline.portion(1.0 / left))
                solved[place] = known[key] = solve_part(step.graph, len(known), portion)
        for number, part in enumerate(known.values()):
            if part.fell_back:
                self._note(f"part {number} keeps its own ops: {part.fell_back}")
        parts = known.values()
        self.report.searches = tuple(p.search for p in parts)
        self.report.exponentials = tuple(e for p in parts for e in p.exponentials)
        self.report.checked = tuple(c for p in parts for c in p.checked)
        whole = self.program.graph
        graph = whole
        for stage, form in (("candidates",) * 2, ("stabilized", "candidates"), ("verified",) * 2):
            ops: list[Op] = []
            for place, step in enumerate(steps):
                ops.append(step if isinstance(step, External) else getattr(solved[place], stage))
            graph = KernelGraph(whole.name, whole.inputs, tuple(ops), whole.outputs)
            self.forms.add(stage, graph, form)
        return graph

    def _watch_search(self, best: float, kernels: int) -> None:
        plan = "" if best == inf else f", best so far {best:.1f} us"
        self.options.show(f"search: {kernels} kernels solved{plan}")

    def _watch_verdict(self, checked: Checked) -> None:
        verdict = str(checked.verdict).splitlines()[0]
        dropped = "" if checked.kept else ", dropped"
        if checked.verdict.equivalent and not checked.verdict.accepted:
            dropped += " for its rounding errors"
        self.options.say(f"verify: candidate {checked.index}: {verdict}{dropped}")

    def _choose(self, verified: KernelGraph) -> Optimized:
        """The candidate that is predicted to be the fastest once it is compiled: registers, spills
        and shared memory are known then. The others that were compiled stay with it. Where none
        compiles, the program's own ops, or at last calls of PyTorch, remain.
        """
        chosen = self._finalists(verified)
        if not chosen:
            whole = self.program.graph
            for graph, what in (
                (decompose(whole, stable=True), "every op is a kernel of its own"),
                (as_calls(whole), "every op is a call of PyTorch"),
            ):
                try:
                    chosen = [self._finalist(graph)]
                except MirageError as error:
                    self._note(f"the program's own ops do not compile: {error.message}")
                    continue
                self._note(f"no candidate could be compiled: {what}")
                break
        if not chosen:
            raise NothingFoundError("nothing can be compiled: " + "; ".join(self.report.notes))
        return self._finish(chosen)

    def _finalists(self, verified: KernelGraph) -> list[Finalist]:
        return finalists(
            verified,
            self.target,
            self.options.finalists if self.options.compile else 1,
            self._build,
            self._note,
            lambda: self.deadline.left > 0.0,
        )

    def _finalist(self, graph: KernelGraph) -> Finalist:
        return finalist(graph, 0, self.target, self._build(graph), self._note)

    def _build(self, selected: KernelGraph) -> tuple[Step, ...]:
        o = self.options
        if not o.compile:
            return ()
        builder = Builder(self.program, o.chip, o.cubin, o.use_cache, self.report.checked)
        with self._timed("compile"):
            return tuple(builder.steps(selected))

    def _note(self, text: str) -> None:
        self.report.notes.append(text)
        self.options.say(text)

    def _finish(self, ranked: list[Finalist]) -> Optimized:
        best = ranked[0]
        self.forms.add("selected", best.graph)
        self.report.prediction = best.prediction
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
        return self._finish([self._finalist(self.program.graph)])

    @contextmanager
    def _timed(self, what: str) -> Generator[None]:
        self.options.show(what)
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
    "optimize",
]
