"""One graph of TorchDynamo with a number of rows that is known only at the call: a program for each
class of sizes, compiled when a size of the class first occurs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch

from mirage.frontend.program import Program, SizedProgram
from mirage.frontend.torch_import import dynamic_program, effects_of, from_torch
from mirage.frontend.torch_import.conversion.own_memory import in_own_memory
from mirage.pipeline.call import SizedLauncher, SizedRunner, on_gpu_by_size
from mirage.pipeline.size_bounds import class_of
from mirage.pipeline.size_classes import SizeClass as Found
from mirage.pipeline.sized_plan import SizedPlan
from mirage.pipeline.sized_source import SizedSource, sized_source
from mirage.runtime.dispatch.layouts import Arranged
from mirage.torch.compiled_graph import CompiledGraph, Report, count_ops
from mirage.torch.graph_import import GraphImport, Part, device_of, examples_of
from mirage.torch.graph_rows import Rows
from mirage.torch.on_host import OnHost, with_outputs

Launcher: TypeAlias = Callable[[SizedPlan], SizedLauncher]

KEPT = 1024
"""The most sizes for which the layout of results is kept."""


class ClassRunner:
    """The result for a class of sizes, as a function of the tensors of a graph. ``optimized`` is
    the program at the largest size."""

    def __init__(self, known: SizedClass, found: Found, launcher: Launcher) -> None:
        self.optimized = found.optimized
        self._run = SizedRunner(known.source.program, found.plan)
        self._launcher = launcher
        program = known.source.program
        self._held: dict[int, Any] = {p.index: p.data for p in program.parameters}
        self._count = len(program.graph.inputs)
        place, self._each = next(iter(known.rows.tensors.items()))
        self._first = known.tensors.index(place)

    def __call__(self, *tensors: torch.Tensor) -> Any:
        given, held = iter(tensors), self._held
        inputs = [held[i].detach() if i in held else next(given) for i in range(self._count)]
        size = int(tensors[self._first].shape[0]) // self._each
        return self._run(self._launcher, inputs, size, write=True)


@dataclass(eq=False)
class SizedClass:
    """A class of sizes: the program at the largest one, and its report. ``tensors`` are the inputs
    of the graph that the program takes."""

    source: SizedSource
    name: str
    report: Report
    rows: Rows
    tensors: tuple[int, ...]

    def runner(self, found: Found, launcher: Launcher = on_gpu_by_size) -> ClassRunner:
        """Return the result, ready to be called; ``launcher`` returns the function that runs its
        parts."""
        return ClassRunner(self, found, launcher)


@dataclass(eq=False)
class SizedGraph:
    """The graph ``module`` with everything except its ``rows`` as in ``inputs``. Raises the errors
    of the import, including :class:`~mirage.frontend.errors.DynamicShapeError`."""

    module: torch.fx.GraphModule
    rows: Rows
    inputs: Sequence[Any]
    compile_class: Callable[[SizedClass], None]
    _classes: dict[int, SizedClass] = field(default_factory=dict[int, SizedClass], init=False)
    _known: dict[int, CompiledGraph] = field(default_factory=dict[int, CompiledGraph], init=False)

    def __post_init__(self) -> None:
        self.stays: tuple[Any, ...] = ()
        self.tensors = tuple(i for i, x in enumerate(self.inputs) if isinstance(x, torch.Tensor))
        self.sizes = self._imported()

    def at(self, inputs: Sequence[Any]) -> CompiledGraph | None:
        """Return the graph at the size of the inputs; None if the size is too large to be compiled,
        or if its class remains with PyTorch."""
        size = self.rows.size_of(inputs)
        if size in self._known:
            found = self._known[size]
            return None if found.report.reason else found
        if not self.sizes.at_least <= size <= self.sizes.at_most:
            return None
        known = self._class(class_of(size, self.sizes.at_most))
        if known.report.reason:
            return None
        if len(self._known) >= KEPT:
            self._known.clear()
        effects = effects_of(self.module, inputs)
        imported = GraphImport(effects, known.source.program)
        found = CompiledGraph(self.module, inputs, imported, known.report)
        self._known[size] = found
        return found

    def _class(self, most: int) -> SizedClass:
        if most not in self._classes:
            source = sized_source(self.sizes, most)
            report = Report(count_ops(self.module))
            report.calls = tuple(s.op for s in self.stays)
            report.reasons = tuple(s.reason for s in self.stays)
            report.sizes = f"for {self.rows.name} up to {most}"
            found = SizedClass(source, self.rows.name, report, self.rows, self.tensors)
            self._classes[most] = found
            self.compile_class(found)
        return self._classes[most]

    def _imported(self) -> SizedProgram:
        rows, inputs = self.rows, self.inputs
        arranged = Arranged(effects_of(self.module, inputs).results)
        host = OnHost(with_outputs(self.module, arranged.computed), device_of(inputs))
        fixed = {i: x for i, x in enumerate(inputs) if not isinstance(x, torch.Tensor)}
        place, each = next(iter(rows.tensors.items()))
        first = self.tensors.index(place)

        def numbers(tensors: Sequence[torch.Tensor]) -> Mapping[int, Any]:
            size: Any = tensors[first].shape[0]
            size = size if each == 1 else size // each
            return {i: size * rows.numbers[i] if i in rows.numbers else x for i, x in fixed.items()}

        part = Part(host.module, numbers, len(inputs))

        def at(examples: Sequence[object], size: int) -> Program:
            imported = from_torch(
                part, *examples, allow_fallback=True, allow_updates=True, one_of_sizes=True
            )
            self.stays = imported.stays
            return host.on_device(in_own_memory(imported.program, arranged.own))

        size = torch.export.Dim("rows", min=max(rows.least, 1), max=rows.most)
        shapes = [
            None if i not in rows.tensors else {0: _times(rows.tensors[i], size)}
            for i in self.tensors
        ]
        reference = class_of(max(rows.size_of(inputs), rows.least + 1), rows.most)
        return dynamic_program(part, examples_of(inputs), shapes, at, reference)


def _times(each: int, size: Any) -> Any:
    return size if each == 1 else each * size
