"""The result of `optimize`: an optimized program, and the report on how it was found."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mirage.cost import CostReport
from mirage.cost.target import target_for
from mirage.frontend.program import Program
from mirage.pipeline.forms import Forms
from mirage.pipeline.options import NothingFoundError, OptimizeOptions
from mirage.pipeline.verify import Checked
from mirage.search import SearchResult
from mirage.semantics.alternatives import VerdictNote
from mirage.semantics.ugraph import External, KernelGraph, launches
from mirage.transforms import Exponential

if TYPE_CHECKING:
    import torch

    from mirage.compiler import Compiled
    from mirage.pipeline.call import Runner
    from mirage.pipeline.checks.kernel_check import KernelCheck
    from mirage.runtime import Executable
    from mirage.runtime.serialization.artifact import Artifact


@dataclass(frozen=True)
class Step:
    """A step of the program: a compiled part, or a call that stays with torch."""

    graph: KernelGraph | None
    external: External | None
    compiled: Compiled | None


@dataclass(frozen=True)
class Finalist:
    """A candidate that was compiled. ``place`` counts by predicted time before that, from 0.
    ``verdicts`` has the verdict on each part; it is empty if kernels were chosen by hand.
    ``checks`` are the checks of its kernels; None if they were not run."""

    graph: KernelGraph
    steps: tuple[Step, ...]
    place: int
    prediction: CostReport | None
    spilled_bytes: int
    verdicts: tuple[VerdictNote, ...] = ()
    checks: tuple[KernelCheck, ...] | None = None

    @property
    def predicted(self) -> float:
        """The predicted µs, with the resources that the compiler reports; infinite if not known."""
        return math.inf if self.prediction is None else self.prediction.time


@dataclass(frozen=True)
class Measurement:
    """Times in µs of the finalists, by their places, on a ``device``."""

    device: str
    microseconds: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class LeftPart:
    """A part that is left to PyTorch, which occurs at a number of ``places``: its number among the
    different parts, and the predicted µs of its ``kernels`` and of PyTorch's ``calls``. If only
    some ``products`` of it are left, the times are theirs."""

    number: int
    places: int
    kernels: float
    calls: float
    products: int = 0

    def __str__(self) -> str:
        if self.products:
            many = self.products > 1
            return (
                f"{self.products} product{'s' * many} of part {self.number}, for which the time "
                f"ran out, stay{'s' * (not many)} with PyTorch, whose calls are predicted to "
                f"take {self.calls:.3g} µs, kernels of single ops {self.kernels:.3g} µs"
            )
        return (
            f"part {self.number} stays with PyTorch, whose calls are predicted to take "
            f"{self.calls:.3g} µs, its kernels {self.kernels:.3g} µs"
        )


@dataclass(frozen=True)
class OutOfTime:
    """The work that was left when a ``budget`` of seconds was used up: of the different ``parts``,
    ``fell_back`` is the number of those that have no result of a search of all of their ops, and
    ``unfinished`` the number of others that were not finished. If other programs left no processor
    for some of the time, ``worked`` is the share that was not lost (:class:`Pace`)."""

    budget: float
    parts: int
    fell_back: int
    unfinished: int
    worked: float = 1.0

    def __str__(self) -> str:
        without = (
            f", {1.0 - self.worked:.0%} of it without a processor, which other programs used"
            if self.worked < 1.0
            else ""
        )
        return (
            f"the budget of {self.budget:.3g} s ran out{without}: of {self.parts} different parts, "
            f"{self.fell_back} are put together from smaller parts or keep their own ops, and "
            f"{self.unfinished} may have faster kernels than those found so far; a larger budget "
            "(--budget, or the option budget) finds more"
        )


@dataclass
class Report:
    """The report on an optimization."""

    searches: tuple[SearchResult, ...] = ()
    exponentials: tuple[tuple[Exponential, ...], ...] = ()
    checked: tuple[Checked, ...] = ()
    prediction: CostReport | None = None
    checks: tuple[KernelCheck, ...] = ()
    seconds: dict[str, float] = field(default_factory=dict[str, float])
    notes: list[str] = field(default_factory=list[str])
    measured: Measurement | None = None
    left: tuple[LeftPart, ...] = ()
    """The parts that are left to PyTorch; the prediction does not count their calls."""
    out_of_time: OutOfTime | None = None
    """The work that was left when the time ran out; None if it sufficed."""

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
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
            "checks": [c.to_json() for c in self.checks],
            "seconds": dict(self.seconds),
            "notes": list(self.notes),
            "measured": None if self.measured is None else asdict(self.measured),
            "left": [asdict(part) for part in self.left],
            "out_of_time": None if self.out_of_time is None else asdict(self.out_of_time),
        }


class Optimized:
    """An optimized program: a function of torch tensors, with a report on how it was found.

    Call it with the program's inputs, one by one, as one list or as ``inputs=``; weights of an
    imported module are bound. It returns a tuple. Inputs that the program updates
    (``Program.updates``) may be written in place; the first results are their new values in any
    case. ``mlir`` has the text of every form that the program went through."""

    def __init__(
        self,
        program: Program,
        options: OptimizeOptions,
        graph: KernelGraph,
        steps: tuple[Step, ...],
        mlir: Forms,
        report: Report,
        finalists: tuple[Finalist, ...] = (),
        others: Callable[[], tuple[Finalist, ...]] | None = None,
    ) -> None:
        self.program = program
        self.options = options
        self.graph = graph
        """The chosen µGraph."""
        self.steps = steps
        self._finalists, self._others = finalists, others
        self.mlir = mlir
        self.report = report
        self._executables: dict[int, Executable] = {}
        self._runner: Runner | None = None

    def __repr__(self) -> str:
        return f"<optimized {self.graph.name!r} for {self.options.chip}: {self.kernels} kernels>"

    @property
    def kernels(self) -> int:
        """The number of kernels that a call launches; if nothing is compiled, that of the chosen
        kernels plus those of single ops."""
        if any(step.compiled is not None for step in self.steps):
            return sum(len(artifact.manifest.kernels) for artifact in self.artifacts)
        return len(list(launches(self.graph.ops)))

    def describe(self) -> str:
        """Describe the chosen µGraph in words."""
        from mirage.semantics.describe import describe

        return describe(self.graph)

    @property
    def finalists(self) -> tuple[Finalist, ...]:
        """The compiled candidates, by predicted time; the first was chosen. Those of an earlier run
        are loaded on demand."""
        if self._others is not None:
            others, self._others = self._others, None
            self._finalists = (*self._finalists, *others())
        return self._finalists

    @property
    def place(self) -> int | None:
        """The place of the candidate that was chosen, in the order of predicted times."""
        return self._finalists[0].place if self._finalists else None

    @property
    def verdicts(self) -> tuple[Checked, ...]:
        """The verdict on each candidate."""
        return self.report.checked

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The compiled parts, in order; one, unless ops stay with torch."""
        return tuple(step.compiled.artifact for step in self.steps if step.compiled is not None)

    @property
    def spilled_bytes(self) -> int:
        """The bytes of registers that spilled to memory, in all kernels (0 if no assembler ran)."""
        return sum(step.compiled.spilled_bytes for step in self.steps if step.compiled is not None)

    @property
    def is_one_artifact(self) -> bool:
        """Whether the program is one compiled part, with nothing besides its kernels."""
        part = self.steps[0].graph if len(self.steps) == 1 else None
        whole = self.program.graph
        same = part is not None and [v.type for v in (*part.inputs, *part.outputs)] == [
            v.type for v in (*whole.inputs, *whole.outputs)
        ]
        program = self.program
        plain = program.results is None and not program.updates and not program.carriers
        return len(self.artifacts) == 1 and same and plain

    @property
    def artifact(self) -> Artifact:
        """The only compiled part. Raises :class:`NothingFoundError` if there is not exactly one."""
        artifacts = self.artifacts
        if not self.is_one_artifact:
            raise NothingFoundError(
                f"expected a program that is one artifact, got {len(artifacts)} of "
                f"{len(self.steps)} parts (inputs that are not read, results other than tensors, "
                "views and calls of PyTorch are not in artifacts)"
            )
        return artifacts[0]

    @property
    def l2_bytes(self) -> int:
        """The size of the chip's L2 cache in bytes."""
        return target_for(self.options.chip).l2_size

    def with_finalist(self, number: int, checked: Finalist | None = None) -> Optimized:
        """Return the same program with another of the finalists chosen; ``checked`` is that
        finalist with its checks."""
        others = (f for f in self.finalists if f is not self.finalists[number])
        chosen = checked or self.finalists[number]
        report = replace(self.report, prediction=chosen.prediction, checks=chosen.checks or ())
        return Optimized(
            self.program, self.options, chosen.graph, chosen.steps,
            self.mlir.having("selected", chosen.graph), report, (chosen, *others),
        )  # fmt: skip

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Writes the program to ``folder`` (whole or not at all); ``mirage.runtime.load`` reads it.
        A program that is more than one compiled part is written as a model is
        (:func:`mirage.export`), with the tensors that it holds.

        Raises :class:`~mirage.pipeline.whole_model.IncompleteModelError`.
        """
        from mirage.pipeline.whole_model import model_of, plain_interface
        from mirage.runtime import write_artifact
        from mirage.runtime.models.model_artifact import write_model

        if self.is_one_artifact:
            return write_artifact(self.artifact, folder)
        return write_model(model_of(self, plain_interface(self), "safetensors", {}), folder)

    def __call__(
        self,
        *tensors: torch.Tensor | Sequence[torch.Tensor],
        inputs: Sequence[torch.Tensor] | None = None,
    ) -> tuple[Any, ...]:
        """Run the program on tensors on a GPU and return its results. Without a GPU that torch
        sees, kernels run in the emulator, which is exact and slow."""
        import torch

        from mirage.pipeline.call import Runner, in_emulator, loaded, on_gpu

        emulated = not torch.cuda.is_available()
        if self._runner is None:
            self._runner = Runner(self.program, self.graph, self.steps)
            if self._runner.steps.plan.writes and not emulated:
                # errors of loading occur before any update
                self._executables = loaded(self._runner.parts)
        launch = in_emulator if emulated else on_gpu(self._executables)
        return self._runner(launch, tensors, inputs, write=True)
