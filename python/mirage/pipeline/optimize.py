"""The whole way, from a program to something that can be called.

optimized = optimize(program, OptimizeOptions(chip="h200"))
print(optimized.describe())
out, = optimized(x, w)
"""

from __future__ import annotations

import time
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from math import inf
from typing import TYPE_CHECKING, TypeAlias

from mirage.compiler.cache import cache_folder
from mirage.cost.predict import predict
from mirage.cost.target import target_for
from mirage.errors import MirageError
from mirage.frontend.errors import GraphTypeError, InvalidGraphError
from mirage.frontend.location import user_location
from mirage.frontend.program import Program
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.errors import StageError
from mirage.pipeline.forms import Forms
from mirage.pipeline.options import NothingFoundError, OptimizeOptions, OptionError
from mirage.pipeline.part import PartOptions, SolvedPart, solve_part
from mirage.pipeline.rank import resources_of
from mirage.pipeline.result import Finalist, Optimized, Report, Step
from mirage.pipeline.select import select_cheapest
from mirage.pipeline.verify import Checked
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.decompose import decompose
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import External, KernelGraph, Launch, Op
from mirage.transforms.calls import as_calls
from mirage.transforms.partition import Part, partition, parts_to_search
from mirage.verify import VerifyOptions
from mirage.verify.ledger import Ledger

if TYPE_CHECKING:
    from mirage.compiler import Compiled
    from mirage.frontend.kernel_graph import GraphBuilder
    from mirage.frontend.torch_import import ImportedGraph


_SPARE = 3
"""How many times as many candidates are found as are verified: the cheapest are known once they are
stable."""


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
                limits=o.limits(_SPARE * o.candidates),
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
        finalists = self._finalists(verified)
        if not finalists:
            whole = self.program.graph
            for graph, what in (
                (decompose(whole, stable=True), "every op is a kernel of its own"),
                (as_calls(whole), "every op is a call of PyTorch"),
            ):
                try:
                    finalists = [self._finalist(graph, 0)]
                except MirageError as error:
                    self._note(f"the program's own ops do not compile: {error.message}")
                    continue
                self._note(f"no candidate could be compiled: {what}")
                break
        if not finalists:
            raise NothingFoundError("nothing can be compiled: " + "; ".join(self.report.notes))
        return self._finish(sorted(finalists, key=lambda f: (f.predicted, f.place)))

    def _finalists(self, verified: KernelGraph) -> list[Finalist]:
        from mirage.compiler import CompileError

        finalists: list[Finalist] = []
        most = max(
            (len(op.programs) - 1 for op in verified.ops if isinstance(op, Alternatives)), default=1
        )
        for place in range(max(1, most)):
            enough = len(finalists) == self.options.finalists or not self.deadline.left
            if finalists and (enough or not self.options.compile):
                break
            selected, without = select_cheapest(verified, self.target, place)
            if without:
                break
            try:
                with self._timed("compile"):
                    finalists.append(self._finalist(selected, place))
            except CompileError as error:
                self._note(f"candidate {place} by predicted time does not compile: {error.message}")
        return finalists

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

    def _finish(self, finalists: list[Finalist]) -> Optimized:
        best = finalists[0]
        self.forms.add("selected", best.graph)
        self.report.prediction = best.prediction
        if best.place and len(finalists) > 1:
            self._note(
                f"candidate {best.place} by predicted time is the fastest once compiled "
                f"({best.predicted:.2f} us predicted)"
            )
        return Optimized(
            self.program, self.options, best.graph, best.steps, self.forms, self.report,
            tuple(finalists),
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
        from mirage.mlir_io import write_graph

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
