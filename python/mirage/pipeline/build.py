"""A chosen µGraph compiled: what lies between calls of the framework becomes artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirage.cost.predict import predict
from mirage.cost.target import target_for
from mirage.frontend.program import Program
from mirage.pipeline.result import Step
from mirage.pipeline.verify import Checked
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.calls import calls_of
from mirage.transforms.lookups import fused
from mirage.transforms.partition import Part, partition

if TYPE_CHECKING:
    from mirage.compiler import Compiled


@dataclass(frozen=True)
class Builder:
    """How the kernels of a program are compiled. ``checked`` is the evidence that stays with the
    artifacts."""

    program: Program
    chip: str
    cubin: bool = True
    use_cache: bool = True
    checked: Sequence[Checked] = ()

    def steps(self, selected: KernelGraph) -> Iterator[Step]:
        """The parts of ``selected`` in the order in which they run, each compiled, and the calls
        between them. Raises :class:`mirage.compiler.CompileError`."""
        for step in partition(fused(selected)):
            if isinstance(step, Part):
                yield Step(step.graph, None, self._compile(step))
                continue
            for call in calls_of(step):
                yield Step(None, call, None)

    def _compile(self, part: Part) -> Compiled:
        from mirage import ir
        from mirage.compiler import CompileOptions, Names, compile_module
        from mirage.mlir_io import write_graph

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
            prediction = predict(part.graph, target_for(self.chip))
            return compile_module(
                module,
                CompileOptions(chip=self.chip, cubin=self.cubin, use_cache=self.use_cache),
                names=names,
                evidence={"verdicts": [c.verdict.to_json() for c in self.checked if c.kept]},
                prediction={} if prediction is None else prediction.to_json(),
            )
