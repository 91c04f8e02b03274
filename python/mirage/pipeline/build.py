"""A chosen µGraph compiled: what lies between calls of the framework becomes artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from mirage.compiler.errors import CompileError
from mirage.cost.predict import predict
from mirage.cost.target import target_for
from mirage.frontend.program import Program
from mirage.pipeline.broken import broken_in
from mirage.pipeline.result import Step
from mirage.pipeline.verify import Checked
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.calls import calls_of
from mirage.transforms.lookups import fused
from mirage.transforms.partition import Part, partition

if TYPE_CHECKING:
    from mirage.compiler import Compiled, CompileOptions, Names
    from mirage.pipeline.ahead import Ahead


@dataclass(frozen=True)
class Builder:
    """How the kernels of a program are compiled. ``checked`` is the evidence that stays with the
    artifacts; ``ahead`` has what workers compile."""

    program: Program
    chip: str
    cubin: bool = True
    use_cache: bool = True
    checked: Sequence[Checked] = ()
    ahead: Ahead | None = None

    def steps(self, selected: KernelGraph) -> Iterator[Step]:
        """The parts of ``selected`` in the order in which they run, each compiled, and the calls
        between them. Raises :class:`mirage.compiler.CompileError`."""
        for step in partition(fused(selected)):
            if isinstance(step, Part):
                yield Step(step.graph, None, self._compile(step))
                continue
            for call in calls_of(step):
                yield Step(None, call, None)

    def start(self, selected: KernelGraph) -> None:
        """Has the same compiled by a worker, so that it is there when it is asked for."""
        for step in partition(fused(selected)):
            if isinstance(step, Part) and self.ahead is not None:
                text, names = self._written(step)
                self.ahead.start(text, self._options, names)

    def _compile(self, part: Part) -> Compiled:
        from mirage.compiler import compile_text

        text, names = self._written(part)
        try:
            compiled = None if self.ahead is None else self.ahead.take(text, names)
            if compiled is None:
                compiled = compile_text(text, self._options, names=names)
        except CompileError as error:
            raise broken_in(part.graph, error) from None
        prediction = predict(part.graph, target_for(self.chip))
        manifest = replace(
            compiled.artifact.manifest,
            evidence={"verdicts": [c.verdict.to_json() for c in self.checked if c.kept]},
            prediction={} if prediction is None else prediction.to_json(),
        )
        return replace(compiled, artifact=replace(compiled.artifact, manifest=manifest))

    @property
    def _options(self) -> CompileOptions:
        from mirage.compiler import CompileOptions

        return CompileOptions(chip=self.chip, cubin=self.cubin, use_cache=self.use_cache)

    def _written(self, part: Part) -> tuple[str, Names]:
        """A part as text, and the names of what goes in and comes out."""
        from mirage.compiler import Names
        from mirage.mlir_io import graph_to_text

        weights = {self.program.graph.inputs[p.index]: p.name for p in self.program.parameters}
        parameters = {i: weights[v] for i, v in enumerate(part.graph.inputs) if v in weights}
        names = Names(
            inputs=tuple(v.name or f"x{i}" for i, v in enumerate(part.graph.inputs)),
            outputs=tuple(v.name or f"y{i}" for i, v in enumerate(part.graph.outputs)),
            parameters=parameters,
        )
        return graph_to_text(part.graph, form="selected"), names
