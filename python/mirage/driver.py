"""The whole way, from a program to something that can be called.

optimized = optimize(program, OptimizeOptions(chip="sm_90a"))
print(optimized.describe())
out, = optimized(x, w)
"""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from mirage.cost import CostReport
from mirage.errors import MirageError
from mirage.frontend.errors import GraphTypeError, InvalidGraphError
from mirage.frontend.location import user_location
from mirage.frontend.program import Program
from mirage.passes.ugraph_io.data import Alternatives, InputNote
from mirage.search import SearchLimits, SearchResult
from mirage.semantics.ugraph import External, KernelGraph, Launch
from mirage.stages import (
    Checked,
    StageError,
    add_candidates,
    predict,
    resources_of,
    select_cheapest,
    stabilize_candidates,
    target_for,
    verify_candidates,
)
from mirage.transforms import Exponential
from mirage.transforms.partition import Part, partition
from mirage.verify import VerifyOptions

if TYPE_CHECKING:
    import torch

    from mirage.compiler import Compiled
    from mirage.frontend.kernel_graph import GraphBuilder
    from mirage.frontend.torch_import import ImportedGraph
    from mirage.runtime import Executable
    from mirage.runtime.artifact import Artifact


_MORE = 4
"""How many times more candidates are looked at where none of the first is left."""


class OptionError(MirageError, TypeError):
    """An option that there is not, or a value that it does not take."""


class NothingFoundError(MirageError):
    """No candidate survived verification, or none could be compiled; the message says why."""


@dataclass(frozen=True)
class OptimizeOptions:
    """How to optimize. Times in seconds.

    ``budget`` ends the search, ``candidates`` are verified, ``finalists`` of them compiled.
    ``seed`` makes the search repeatable; ``verify_seed`` the random tests too (by default they
    draw secret numbers). ``numerics`` compares rounding errors with the reference's. ``compile``
    False stops after the choice. ``watch`` is told what happens, in sentences."""

    chip: str = "sm_90a"
    budget: float = 60.0
    candidates: int = 6
    finalists: int = 4
    seed: int = 0
    verify_seed: int | None = None
    draws: int = 2
    numerics: bool = True
    compile: bool = True
    cubin: bool = True
    use_cache: bool = True
    watch: Callable[[str], None] | None = None

    def __post_init__(self) -> None:
        target_for(self.chip)
        for name in ("budget", "candidates", "finalists", "draws"):
            if not getattr(self, name) > 0:
                raise OptionError(f"expected a positive {name}, got {getattr(self, name)!r}")

    @staticmethod
    def of(**options: Any) -> OptimizeOptions:
        """The options with these values. Raises :class:`OptionError` for unknown names."""
        known = [f.name for f in fields(OptimizeOptions)]
        unknown = sorted(set(options) - set(known))
        if unknown:
            raise OptionError(
                f"expected options among {', '.join(known)}, got {', '.join(unknown)}"
            )
        return OptimizeOptions(**options)

    def say(self, text: str) -> None:
        """Tells the watcher."""
        if self.watch is not None:
            self.watch(text)


@dataclass(frozen=True)
class Step:
    """A part of the program: a compiled one, or a call that stays with torch."""

    graph: KernelGraph | None
    external: External | None
    compiled: Compiled | None


@dataclass(frozen=True)
class Finalist:
    """A candidate that was compiled. ``place`` counts by predicted time before that, from 0."""

    graph: KernelGraph
    steps: tuple[Step, ...]
    place: int
    prediction: CostReport | None
    spilled_bytes: int

    @property
    def predicted(self) -> float:
        """Predicted µs, with the resources that the compiler reports; infinite if none is known."""
        return math.inf if self.prediction is None else self.prediction.time


@dataclass
class Report:
    """What happened on the way."""

    searches: tuple[SearchResult, ...] = ()
    exponentials: tuple[tuple[Exponential, ...], ...] = ()
    checked: tuple[Checked, ...] = ()
    prediction: CostReport | None = None
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    notes: list[str] = field(default_factory=list[str])

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {
            "search": [r.report.to_json() for r in self.searches],
            "candidates": [
                {"part": i, "time_us": c.cost.time, "description": c.description}
                for i, r in enumerate(self.searches)
                for c in r.candidates
            ],
            "verdicts": [
                {"part": c.part, "candidate": c.index, "kept": c.kept, **c.verdict.to_json()}
                for c in self.checked
            ],
            "prediction": None if self.prediction is None else self.prediction.to_json(),
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
        }


class Optimized:
    """An optimized program: a function of torch tensors, and the account of how it came about.

    Call it with the program's inputs, one by one, as one list or as ``inputs=``; weights of an
    imported module are bound. It returns a tuple. ``mlir`` has the text of every form that the
    program went through."""

    def __init__(
        self,
        program: Program,
        options: OptimizeOptions,
        graph: KernelGraph,
        steps: tuple[Step, ...],
        mlir: Mapping[str, str],
        report: Report,
        finalists: tuple[Finalist, ...] = (),
    ) -> None:
        self.program = program
        self.options = options
        self.graph = graph
        """The chosen µGraph."""
        self.steps = steps
        self.finalists = finalists
        """The candidates that were compiled, by predicted time; the first was chosen."""
        self.mlir = mlir
        self.report = report
        self._executables: dict[int, Executable] = {}

    def __repr__(self) -> str:
        kernels = sum(isinstance(op, Launch) for op in self.graph.ops)
        return f"<optimized {self.graph.name!r} for {self.options.chip}: {kernels} kernels>"

    def describe(self) -> str:
        """The chosen µGraph in words."""
        from mirage.describe import describe

        return describe(self.graph)

    @property
    def verdicts(self) -> tuple[Checked, ...]:
        """What verification said about each candidate."""
        return self.report.checked

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The compiled parts, in order; one, unless ops stay with torch."""
        return tuple(step.compiled.artifact for step in self.steps if step.compiled is not None)

    @property
    def spilled_bytes(self) -> int:
        """Bytes of registers that spilled to memory, in all kernels (0 where no assembler ran)."""
        return sum(step.compiled.spilled_bytes for step in self.steps if step.compiled is not None)

    @property
    def artifact(self) -> Artifact:
        """The only compiled part. Raises :class:`NothingFoundError` where there is not exactly
        one.
        """
        artifacts = self.artifacts
        if len(artifacts) != 1 or len(self.steps) != 1:
            raise NothingFoundError(
                f"expected a program that is one artifact, got {len(artifacts)} of "
                f"{len(self.steps)} parts"
            )
        return artifacts[0]

    @property
    def l2_bytes(self) -> int:
        """Size of the chip's L2 cache."""
        return target_for(self.options.chip).l2_size

    def with_finalist(self, number: int) -> Optimized:
        """The same program with another of the finalists chosen."""
        from mirage.passes.ugraph_io import graph_to_text

        chosen = self.finalists[number]
        notes = {p.index: InputNote(p.name) for p in self.program.parameters}
        text = graph_to_text(
            chosen.graph, form="selected", locations=self.program.locations, notes=notes
        )
        others = (f for f in self.finalists if f is not chosen)
        report = replace(self.report, prediction=chosen.prediction)
        return Optimized(
            self.program, self.options, chosen.graph, chosen.steps,
            {**self.mlir, "selected": text}, report, (chosen, *others),
        )  # fmt: skip

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Writes the artifact to ``folder`` (whole or not at all); ``mirage.runtime.load`` reads
        it.
        """
        from mirage.runtime import write_artifact

        return Path(write_artifact(self.artifact, folder))

    def __call__(
        self,
        *tensors: torch.Tensor | Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor] | None = None,
    ) -> tuple[torch.Tensor, ...]:
        from mirage.execution import run_steps

        return run_steps(self.program, self.graph, self.steps, self._executables, tensors, inputs)


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
        verified = self._verified(self.options.candidates)
        assert verified is not None
        if select_cheapest(verified, self.target)[1]:
            self.options.say("no candidate is left: searching for more")
            found = sum(len(r.candidates) for r in self.report.searches)
            more = self._verified(_MORE * self.options.candidates, at_least=found + 1)
            verified = more or verified
        return self._choose(verified)

    def _verified(self, wanted: int, at_least: int = 0) -> KernelGraph | None:
        """The program with up to ``wanted`` verified candidates; None if fewer than ``at_least``
        are found.
        """
        o = self.options
        with self._timed("search"):
            limits = SearchLimits(budget=o.budget, candidates=wanted, seed=o.seed)
            graph, searches = add_candidates(self.program.graph, self.target, limits)
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
            graph, self.report.exponentials = stabilize_candidates(graph)
        self._text("stabilized", graph, "candidates")
        with self._timed("verify"):
            settings = VerifyOptions(seed=o.verify_seed, draws=o.draws, numerics=o.numerics)
            graph, self.report.checked = verify_candidates(graph, settings, self._watch_verdict)
        self._text("verified", graph)
        return graph

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
        start = time.perf_counter()
        try:
            yield
        finally:
            spent = time.perf_counter() - start
            self.report.seconds[what] = self.report.seconds.get(what, 0.0) + spent


__all__ = [
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
