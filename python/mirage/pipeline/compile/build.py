"""A chosen µGraph, compiled: the parts between calls of the framework become artifacts.

If there are several parts, their code contains no names of the program, so that equal parts are
compiled once and share it; only the description of their inputs and outputs differs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from mirage.compiler.errors import CompileError
from mirage.cost import CostReport
from mirage.cost.predict import predict
from mirage.cost.target import target_for
from mirage.frontend.program import Program
from mirage.pipeline.compile.broken import broken_in
from mirage.pipeline.compile.stored_rows import stored_by_kernels
from mirage.pipeline.result import Step
from mirage.pipeline.verify import Checked
from mirage.runtime.serialization.index_steps import inputs_of, with_inputs
from mirage.runtime.serialization.manifest import IndexBound, Manifest
from mirage.semantics.index_bounds import index_bounds
from mirage.semantics.row_updates import results_of
from mirage.semantics.signature import signature
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import External, KernelGraph, Value, values_in
from mirage.transforms.lookups import fused
from mirage.transforms.partition.calls import calls_of
from mirage.transforms.partition.partition import Part, partition
from mirage.transforms.partition.repeated_ops import without_repeated_ops
from mirage.transforms.streams_first import with_streams_first

if TYPE_CHECKING:
    from mirage.compiler import Compiled, CompileOptions, Names
    from mirage.pipeline.compile.ahead import Ahead


@dataclass(frozen=True)
class Builder:
    """The compilation of a program's kernels. ``checked`` is the evidence that artifacts contain;
    ``ahead`` has the modules that workers compile."""

    program: Program
    chip: str
    cubin: bool = True
    use_cache: bool = True
    checked: Sequence[Checked] = ()
    ahead: Ahead | None = None
    made: dict[str, Compiled | CompileError] = field(
        default_factory=dict[str, "Compiled | CompileError"]
    )
    """The result of each compilation or its error, by the module's text."""
    predicted: dict[str, CostReport | None] = field(default_factory=dict[str, "CostReport | None"])
    written: dict[str, str] = field(default_factory=dict[str, str])
    """The texts of parts, by their signatures: equal parts are written once."""

    def steps(self, selected: KernelGraph) -> Iterator[Step]:
        """Yield the parts of ``selected`` in the order in which they run, each compiled, and the
        calls between them. Raises :class:`mirage.compiler.CompileError`."""
        pieces = self._pieces(selected)
        alone = _count(pieces) == 1
        for piece in pieces:
            if isinstance(piece, KernelGraph):
                yield Step(piece, None, self._compile(piece, alone))
            else:
                yield Step(None, piece, None)

    def start(self, selected: KernelGraph) -> None:
        """Start compiling the same parts in a worker, so that they are ready when they are
        needed."""
        pieces = self._pieces(selected)
        alone = _count(pieces) == 1
        for piece in pieces:
            if isinstance(piece, KernelGraph) and self.ahead is not None:
                text, names = self._written(piece, alone)
                self.ahead.start(text, self._options(alone), names)

    def _pieces(self, selected: KernelGraph) -> list[External | KernelGraph]:
        """Return the parts of a program and the calls between them, in the order in which they
        run."""
        found: list[External | KernelGraph] = []
        graph = without_repeated_ops(fused(selected))
        for step in partition(graph):
            # the kernels between calls, which may belong to several parts
            if isinstance(step, Part):
                found.append(with_streams_first(step.graph))
            else:
                found.extend(calls_of(step))
        return stored_by_kernels(graph, found, self.program.updates)

    def _compile(self, part: KernelGraph, alone: bool) -> Compiled:
        text, names = self._written(part, alone)
        if text not in self.made:
            try:
                self.made[text] = self._made(text, names, alone)
            except CompileError as error:
                self.made[text] = error
        compiled = self.made[text]
        if isinstance(compiled, CompileError):
            raise broken_in(part, compiled)
        return self._told(part, compiled, text)

    def _told(self, part: KernelGraph, compiled: Compiled, text: str) -> Compiled:
        """Return the compiled part, with the known facts about it in its manifest."""
        if text not in self.predicted:
            self.predicted[text] = predict(part, target_for(self.chip))
        prediction = self.predicted[text]
        manifest = replace(
            _named(compiled.artifact.manifest, self._names(part)),
            evidence={"verdicts": [c.verdict.to_json() for c in self.checked if c.kept]},
            prediction={} if prediction is None else prediction.to_json(),
            bounds=self._bounds(part),
        )
        return replace(compiled, artifact=replace(compiled.artifact, manifest=manifest))

    def _bounds(self, part: KernelGraph) -> tuple[IndexBound, ...]:
        """Return the bounds of the inputs that a part's kernels use as indices, and of those whose
        limits the program knows."""
        graph = self.program.graph
        places = {v: i for i, v in enumerate(part.inputs)}
        found = {IndexBound(*bound) for bound in index_bounds(part)}
        for limit in self.program.limits:
            read = inputs_of(limit.steps) or (limit.input,)
            numbers = {i: places.get(graph.inputs[i], -1) for i in read}
            if min(numbers.values()) >= 0:
                found.add(
                    IndexBound(
                        numbers[limit.input],
                        limit.below,
                        limit.from_end,
                        limit.ignored,
                        with_inputs(limit.steps, numbers),
                        limit.each,
                    )
                )
        return tuple(sorted(found, key=lambda b: (b.input, b.below, b.from_end, str(b))))

    def _made(self, text: str, names: Names, alone: bool) -> Compiled:
        from mirage.compiler import compile_text

        compiled = None if self.ahead is None else self.ahead.take(text, names)
        return compiled or compile_text(text, self._options(alone), names=names)

    def _options(self, alone: bool) -> CompileOptions:
        from mirage.compiler import CompileOptions

        return CompileOptions(self.chip, self.cubin, self.use_cache, follows=not alone)

    def _written(self, part: KernelGraph, alone: bool) -> tuple[str, Names]:
        """Return a part as text, and the names of its inputs and outputs; these are the program's
        names if the part is the whole program (``alone``)."""
        from mirage.compiler import Names
        from mirage.mlir_io import graph_to_text

        if alone:
            return graph_to_text(part, form="selected"), self._names(part)
        inputs, outputs = (
            tuple(f"{kind}{i}" for i in range(len(values)))
            for kind, values in (("x", part.inputs), ("y", results_of(part)))
        )
        key = signature(part)
        if key not in self.written:
            graph = nameless(part)
            digest = hashlib.sha256(graph_to_text(graph, form="selected").encode()).hexdigest()
            graph = replace(graph, name=f"part_{digest[:12]}")
            self.written[key] = graph_to_text(graph, form="selected")
        return self.written[key], Names(inputs, outputs)

    def _names(self, part: KernelGraph) -> Names:
        from mirage.compiler import Names

        weights = {self.program.graph.inputs[p.index]: p.name for p in self.program.parameters}
        return Names(
            inputs=tuple(v.name or f"x{i}" for i, v in enumerate(part.inputs)),
            outputs=tuple(v.name or f"y{i}" for i, v in enumerate(results_of(part))),
            parameters={i: weights[v] for i, v in enumerate(part.inputs) if v in weights},
        )


def _count(pieces: Sequence[object]) -> int:
    return sum(isinstance(piece, KernelGraph) for piece in pieces)


def nameless(graph: KernelGraph) -> KernelGraph:
    """Return the graph with unnamed values."""
    values = (*graph.inputs, *values_in(graph.ops))
    renamed = rename_graph(graph, {v: Value(v.type) for v in values if v.name})
    return replace(renamed, name="part")


def _named(manifest: Manifest, names: Names) -> Manifest:
    """Return the manifest with the program's names of inputs and outputs."""
    inputs = tuple(
        replace(spec, name=name, parameter=names.parameters.get(i))
        for i, (spec, name) in enumerate(zip(manifest.inputs, names.inputs, strict=True))
    )
    outputs = zip(manifest.outputs, names.outputs, strict=True)
    return replace(
        manifest, inputs=inputs, outputs=tuple(replace(spec, name=name) for spec, name in outputs)
    )
