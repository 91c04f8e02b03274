"""The result at the largest size of a class, as a plan for all of its sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, cast

from mirage.compiler.errors import CompileError
from mirage.cost import target_for
from mirage.errors import MirageError
from mirage.pipeline.checks.emulated_check import emulated, kernel_ops
from mirage.pipeline.checks.kernel_check import KernelCheck, Outcome
from mirage.pipeline.compile.build import nameless
from mirage.pipeline.make_plan import in_place, plan_of_pieces
from mirage.pipeline.result import Optimized, Step
from mirage.pipeline.size_costs import Compared
from mirage.pipeline.sized_source import CallBySize, SizedSource
from mirage.runtime.dispatch.plan import Call, Launch, Plan, plan_at
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.positions import Lookup
from mirage.semantics.ugraph import External, KernelGraph, TensorType, Value
from mirage.transforms.partition.calls import calls_of
from mirage.transforms.partition.partition import Part, partition
from mirage.verify.independent_rows import why_rows_depend
from mirage.verify.other_rows import computed_from

if TYPE_CHECKING:
    from mirage.compiler import Compiled
    from mirage.runtime.serialization.artifact import Artifact
    from mirage.runtime.serialization.manifest import TensorSpec


class NotForAllSizesError(MirageError):
    """The result at the largest size of a class does not serve its other sizes."""


@dataclass(frozen=True)
class SizedPlan:
    """A plan whose calls have :class:`~mirage.runtime.dispatch.plan.Rows` among their arguments,
    and the artifacts of its launches; an artifact takes the size if ``manifest.size`` is not None.
    ``types`` are the types of its tensors at the size ``most``, and ``rows`` are the tensors that
    have rows."""

    plan: Plan
    artifacts: tuple[Artifact, ...]
    parts: tuple[tuple[int, ...], ...]
    """For each launch, the operands that have rows."""
    most: int
    types: tuple[TensorType, ...]
    rows: frozenset[int]

    def at(self, size: int) -> Plan:
        """Return the plan at one size, with stores made in place."""
        plan = plan_at(self.plan, size)
        if not plan.updates:
            return plan
        types = [
            TensorType((t.shape[0] // self.most * size, *t.shape[1:]), t.dtype) if i in self.rows
            else t
            for i, t in enumerate(self.types)
        ]  # fmt: skip
        return in_place(plan, types)


def sized_plan(
    optimized: Optimized, source: SizedSource, *, check: bool
) -> tuple[SizedPlan, tuple[KernelCheck, ...]]:
    """Return the plan of the result for ``source``, and the checks of its kernels (with ``check``).
    Raises :class:`NotForAllSizesError`."""
    _check_rows(optimized.graph, source)
    pieces = [s.external if s.graph is None else s.graph for s in optimized.steps]
    found = planned(optimized.graph, [p for p in pieces if p is not None], source)
    compile_part = _Compile(optimized, source)
    parts = [step for step in optimized.steps if step.graph is not None]
    artifacts: list[Artifact] = []
    checks: list[KernelCheck] = []
    for step, inputs in zip(parts, found.parts, strict=True):
        graph, artifact = compile_part(step, inputs)
        artifacts.append(artifact)
        if inputs and check:
            checks += _executed(graph, artifact)
    return replace(found, artifacts=tuple(artifacts)), tuple(checks)


def planned(
    graph: KernelGraph, pieces: Sequence[External | KernelGraph], source: SizedSource
) -> SizedPlan:
    """Return the plan of a graph that is cut into ``pieces``, none of which is compiled. Raises
    :class:`NotForAllSizesError`."""
    rows = _Rows(source, graph)
    plan = plan_of_pieces(graph, pieces)
    steps: list[Call | Launch] = []
    parts: list[tuple[int, ...]] = []
    for piece, step in zip(pieces, plan.steps, strict=True):
        if isinstance(step, Call):
            call = cast(External, piece)
            step = _with_rows(step, call, rows.call(call))
        else:
            assert isinstance(piece, KernelGraph)
            parts.append(rows.part(piece))
        steps.append(step)
    if source.outputs != tuple(i for i, v in enumerate(graph.outputs) if v in rows.found):
        raise NotForAllSizesError("results have rows that depend on no row of the inputs")
    plan = replace(plan, steps=tuple(steps), updates=source.program.updates)
    return SizedPlan(plan, (), tuple(parts), source.most, rows.types(), rows.numbers())


def _check_rows(graph: KernelGraph, source: SizedSource) -> None:
    """Check that the chosen kernels treat all rows in the same way. Lookups are tensors that they
    load: without rows they are the same for all rows, and calls do the exact arithmetic."""
    graph = loaded(graph)
    rows = _Rows(source, graph)
    for piece in partition(graph):
        if isinstance(piece, Part):
            inputs = rows.part(piece.graph)
            why = why_rows_depend(piece.graph, inputs, source.most) if inputs else None
            if why is not None:
                raise NotForAllSizesError(why)
        elif any(v in rows.found for v in piece.operands) or not isinstance(piece, Lookup):
            for call in calls_of(piece):
                rows.call(call)


class _Rows:
    """Follows the steps of a program and records which values have rows."""

    def __init__(self, source: SizedSource, graph: KernelGraph) -> None:
        self.source = source
        self.all: dict[Value, None] = dict.fromkeys(graph.inputs)
        self.found: set[Value] = {graph.inputs[i] for i in source.inputs}

    def part(self, graph: KernelGraph) -> tuple[int, ...]:
        """Return the inputs of a part that have rows."""
        inputs = tuple(i for i, v in enumerate(graph.inputs) if v in self.found)
        from_them = computed_from(graph, inputs) if inputs else set[Value]()
        self.all.update(dict.fromkeys(graph.outputs))
        self.found.update(v for v in graph.outputs if v in from_them)
        return inputs

    def call(self, op: External) -> CallBySize:
        """Return a call in the form that holds at all sizes. Raises
        :class:`NotForAllSizesError`."""
        known = self.source.call(op)
        given = tuple(v in self.found for v in op.operands)
        if known is None or known.operands != given:
            short = op.target.removeprefix("aten.")
            raise NotForAllSizesError(f"it is not known what the call of {short} is at other sizes")
        self.all.update(dict.fromkeys(op.results))
        self.found.update(v for v, has in zip(op.results, known.results, strict=True) if has)
        return known

    def types(self) -> tuple[TensorType, ...]:
        """The types of all tensors, by their numbers in the plan."""
        return tuple(v.type for v in self.all)

    def numbers(self) -> frozenset[int]:
        """The numbers of the tensors that have rows."""
        return frozenset(i for i, v in enumerate(self.all) if v in self.found)


def _with_rows(call: Call, op: External, known: CallBySize) -> Call:
    """Return a call of the plan with the arguments that hold at all sizes."""
    differing = {
        name: value
        for (name, value), (_, own) in zip(known.arguments, op.arguments, strict=True)
        if value != own
    }
    arguments = tuple((name, differing.get(name, value)) for name, value in call.arguments)
    return replace(call, arguments=arguments)  # type: ignore[arg-type]


class _Compile:
    """Compiles parts so that they take the size; equal parts are compiled once."""

    def __init__(self, optimized: Optimized, source: SizedSource) -> None:
        self.optimized, self.source = optimized, source
        self.made: dict[str, Compiled] = {}

    def __call__(self, step: Step, inputs: Sequence[int]) -> tuple[KernelGraph, Artifact]:
        """Return the part and its artifact. Raises :class:`NotForAllSizesError`."""
        from mirage.compiler import CompileOptions, Names, compile_text
        from mirage.mlir_io import graph_to_text

        assert step.graph is not None
        assert step.compiled is not None
        known = step.compiled.artifact.manifest
        if not inputs:
            return step.graph, step.compiled.artifact
        o = self.optimized.options
        compared = compared_at(self.source, o.chip)
        whole = replace(compared, inputs=tuple(inputs)).restaged(step.graph)
        graph = nameless(whole)
        text = graph_to_text(graph, form="selected", dynamic=(self.source.most, inputs))
        if text not in self.made:
            try:
                self.made[text] = compile_text(
                    text,
                    CompileOptions(chip=o.chip, cubin=o.cubin, use_cache=o.use_cache),
                    names=Names(
                        tuple(f"x{i}" for i in range(len(graph.inputs))),
                        tuple(f"y{i}" for i in range(len(graph.outputs))),
                    ),
                )
            except CompileError as error:
                raise NotForAllSizesError(error.message.splitlines()[-1]) from None
        artifact = self.made[text].artifact
        size = artifact.manifest.size
        from_rows = computed_from(step.graph, inputs)
        outputs = tuple(i for i, v in enumerate(step.graph.outputs) if v in from_rows)
        if size is None or size.inputs != tuple(inputs) or size.outputs != outputs:
            raise NotForAllSizesError("its kernels take other tensors for such that have rows")
        own = artifact.manifest
        manifest = replace(
            own,
            name=known.name,
            inputs=_named(own.inputs, known.inputs),
            outputs=_named(own.outputs, known.outputs),
            evidence=known.evidence,
            prediction=known.prediction,
        )
        return whole, replace(artifact, manifest=manifest)


def compared_at(source: SizedSource, chip: str) -> Compared:
    """Return the object that compares graphs by their predicted times at the sizes of a class."""
    return Compared(source.inputs, source.least, source.most, target_for(chip))


def _named(specs: Sequence[TensorSpec], names: Sequence[TensorSpec]) -> tuple[TensorSpec, ...]:
    return tuple(
        replace(spec, name=other.name, parameter=other.parameter)
        for spec, other in zip(specs, names, strict=True)
    )


def _executed(graph: KernelGraph, artifact: Artifact) -> Iterator[KernelCheck]:
    """Yield the checks of a part's kernels, which are executed. Raises
    :class:`NotForAllSizesError`."""
    for op, kernel in zip(kernel_ops(graph), artifact.manifest.kernels, strict=True):
        check = emulated(op, kernel, artifact)
        if check.outcome is Outcome.FAILED:
            raise NotForAllSizesError(f"a kernel is wrong: {check.text}")
        yield check
