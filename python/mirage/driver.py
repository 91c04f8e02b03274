"""The whole way, from a program to something that can be called.

optimized = optimize(program, OptimizeOptions(chip="sm_90a"))
print(optimized.describe())
out, = optimized(x, w)
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from mirage.frontend.errors import GraphTypeError, InvalidGraphError
from mirage.frontend.location import user_location
from mirage.frontend.program import Program
from mirage.optimize_options import NothingFoundError, OptimizeOptions, OptionError
from mirage.optimized import Finalist, Optimized, Report, Step
from mirage.passes.ugraph_io.data import Alternatives, InputNote
from mirage.search import SearchResult
from mirage.semantics.ugraph import External, KernelGraph, Launch
from mirage.stages import (
    Checked,
    StageError,
    add_candidates,
    predict,
    resources_of,
    select_cheapest,
    shortlist,
    stabilize_candidates,
    target_for,
    verify_candidates,
)
from mirage.transforms import Exponential
from mirage.transforms.partition import Part, partition
from mirage.verify import VerifyOptions

if TYPE_CHECKING:
    from mirage.compiler import Compiled
    from mirage.frontend.kernel_graph import GraphBuilder
    from mirage.frontend.torch_import import ImportedGraph


_SPARE = 3
"""How many times as many candidates are found as are verified: the cheapest are known once they are
stable."""
_MORE = 4
"""How many times more candidates are looked at where none of the first is left."""


Source: TypeAlias = "Program | KernelGraph | GraphBuilder | ImportedGraph"
"""What can be optimized: a built or imported graph, or one as data."""


def optimize(program: Source, options: OptimizeOptions | None = None) -> Optimized:
    """Searches for faster equivalent programs, verifies each, takes the cheapest and compiles it.

    Raises :class:`NothingFoundError` where no candidate is left, and the errors of the stages.
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
        self.report = Report()
        self.mlir: dict[str, str] = {}

    def optimize(self) -> Optimized:
        self._text("reference", self.program.graph)
        with self.options.workers() as executor:
            verified = self._verified(self.options.candidates, executor)
            assert verified is not None
            if select_cheapest(verified, self.target)[1]:
                self.options.say("no candidate is left: searching for more")
                found = sum(len(r.candidates) for r in self.report.searches)
                wanted = _MORE * self.options.candidates
                verified = self._verified(wanted, executor, at_least=found + 1) or verified
        return self._choose(verified)

    def _verified(
        self, wanted: int, executor: Executor | None, at_least: int = 0
    ) -> KernelGraph | None:
        """The program with up to ``wanted`` verified candidates; None if fewer than ``at_least``
        are found.
        """
        o = self.options
        with self._timed("search"):
            limits = o.limits(_SPARE * wanted)
            graph, searches = add_candidates(
                self.program.graph, self.target, limits, executor, self._watch_search
            )
        if sum(len(r.candidates) for r in searches) < at_least:
            return None
        self.report.searches = searches
        for result in searches:
            stop = result.report.stop.value
            o.say(f"search: {len(result.candidates)} candidates, stopped: {stop}")
            if not result.candidates:
                why = "; ".join(result.report.notes) or stop
                raise NothingFoundError(f"the search found no candidate: {why}")
        self._text("candidates", graph)
        with self._timed("stabilize"):
            graph, exponentials = stabilize_candidates(graph)
            graph, kept = shortlist(graph, exponentials, self.target, wanted)
            self._keep(kept, exponentials)
        self._text("stabilized", graph, "candidates")
        with self._timed("verify"):
            settings = VerifyOptions(seed=o.verify_seed, draws=o.draws, numerics=o.numerics)
            graph, self.report.checked = verify_candidates(
                graph, settings, self._watch_verdict, executor
            )
        self._text("verified", graph)
        return graph

    def _keep(
        self,
        kept: Sequence[Sequence[int]],
        exponentials: Sequence[tuple[Exponential, ...]],
    ) -> None:
        """The report counts the candidates that went on."""
        first = 0
        searches: list[SearchResult] = []
        stayed: list[tuple[Exponential, ...]] = []
        for places, result in zip(kept, self.report.searches, strict=True):
            searches.append(replace(result, candidates=[result.candidates[p] for p in places]))
            stayed.extend(exponentials[first + p] for p in places)
            first += len(result.candidates)
        self.report.searches, self.report.exponentials = tuple(searches), tuple(stayed)

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
        and shared memory are known then. The others that were compiled stay with it.
        """
        from mirage.compiler import CompileError

        failure: CompileError | None = None
        finalists: list[Finalist] = []
        most = max(
            (len(op.programs) - 1 for op in verified.ops if isinstance(op, Alternatives)), default=1
        )
        for place in range(max(1, most)):
            if len(finalists) == self.options.finalists or (finalists and not self.options.compile):
                break
            selected, without = select_cheapest(verified, self.target, place)
            if without:
                break
            try:
                with self._timed("compile"):
                    finalists.append(self._finalist(selected, place))
            except CompileError as error:
                failure = failure or error
                self._note(f"candidate {place} by predicted time does not compile: {error.message}")
        if finalists:
            return self._finish(sorted(finalists, key=lambda f: (f.predicted, f.place)))
        if failure is not None:
            raise failure
        raise NothingFoundError(
            f"no candidate that {self.options.chip} can run passed verification\n{self._losses()}"
        )

    def _finalist(self, selected: KernelGraph, place: int) -> Finalist:
        steps = tuple(self._steps(selected)) if self.options.compile else ()
        compiled = [step.compiled for step in steps if step.compiled is not None]
        resources = [r for c in compiled for r in resources_of(c.artifact.manifest)]
        launches = sum(isinstance(op, Launch) for op in selected.ops)
        cost = predict(selected, self.target, resources if len(resources) == launches else ())
        spilled = sum(c.spilled_bytes for c in compiled)
        if spilled:
            self._note(f"candidate {place} by predicted time spills {spilled} bytes of registers")
        return Finalist(selected, steps, place, cost, spilled)

    def _note(self, text: str) -> None:
        self.report.notes.append(text)
        self.options.say(text)

    def _losses(self) -> str:
        """Why candidates were dropped, one paragraph each."""
        lines: list[str] = []
        for number, c in enumerate(self.report.checked):
            lines.append(f"candidate {c.index}: {c.verdict}")
            lines.extend(f"  {e}" for e in self.report.exponentials[number] if not e.stable)
        return "\n".join(lines)

    def _finish(self, finalists: list[Finalist]) -> Optimized:
        best = finalists[0]
        self._text("selected", best.graph)
        self.report.prediction = best.prediction
        if best.place and len(finalists) > 1:
            self._note(
                f"candidate {best.place} by predicted time is the fastest once compiled "
                f"({best.predicted:.2f} us predicted)"
            )
        return Optimized(
            self.program, self.options, best.graph, best.steps, dict(self.mlir), self.report,
            tuple(finalists),
        )  # fmt: skip

    def compile_only(self) -> Optimized:
        """For kernels written by hand."""
        self._text("selected", self.program.graph)
        for op in self.program.graph.ops:
            if not isinstance(op, Launch | External):
                raise InvalidGraphError(
                    "compile: expected customized kernels only, got "
                    f"{type(op).__name__.lower()}; use superoptimize()",
                    self.program.locations.get(op),
                )
        with self._timed("compile"):
            return self._finish([self._finalist(self.program.graph, 0)])

    def _steps(self, selected: KernelGraph) -> Iterator[Step]:
        for step in partition(selected):
            if isinstance(step, External):
                yield Step(None, step, None)
            else:
                yield Step(step.graph, None, self._compile(step))

    def _compile(self, part: Part) -> Compiled:
        from mirage import ir
        from mirage.compiler import CompileOptions, Names, compile_module
        from mirage.passes.ugraph_io import write_graph

        o = self.options
        weights = {self.program.graph.inputs[p.index]: p.name for p in self.program.parameters}
        parameters = {i: weights[v] for i, v in enumerate(part.graph.inputs) if v in weights}
        names = Names(
            inputs=tuple(v.name or f"x{i}" for i, v in enumerate(part.graph.inputs)),
            outputs=tuple(v.name or f"y{i}" for i, v in enumerate(part.graph.outputs)),
            parameters=parameters,
        )
        with ir.Context():
            module = ir.Module.create(ir.Location.unknown())
            with ir.InsertionPoint(module.body):
                write_graph(part.graph, form="selected")
            evidence = {"verdicts": [c.verdict.to_json() for c in self.report.checked if c.kept]}
            prediction = predict(part.graph, self.target)
            return compile_module(
                module,
                CompileOptions(chip=o.chip, cubin=o.cubin, use_cache=o.use_cache),
                names=names,
                evidence=evidence,
                prediction={} if prediction is None else prediction.to_json(),
            )

    def _text(self, stage: str, graph: KernelGraph, form: str | None = None) -> None:
        from mirage.passes.ugraph_io import graph_to_text

        notes = {p.index: InputNote(p.name) for p in self.program.parameters}
        self.mlir[stage] = graph_to_text(
            graph, form=form or stage, locations=self.program.locations, notes=notes
        )

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
