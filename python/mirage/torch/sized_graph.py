"""One graph of TorchDynamo with a number of rows that is known only at the call: a program for each
class of sizes, compiled when a size of the class first occurs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from mirage.frontend.torch_import import effects_of
from mirage.pipeline.call import SizedLauncher, SizedRunner, on_gpu_by_size
from mirage.pipeline.size_bounds import class_of, least_of
from mirage.pipeline.size_classes import SizeClass as Found
from mirage.pipeline.sized_plan import SizedPlan
from mirage.pipeline.sized_source import SizedSource, sized_source
from mirage.torch.compiled_graph import CompiledGraph, Report, count_ops, describe
from mirage.torch.graph_import import GraphImport, device_of
from mirage.torch.graph_message import message_of
from mirage.torch.graph_rows import Rows
from mirage.torch.imported_later import ask
from mirage.torch.kept_import import text_of
from mirage.torch.kept_sizes import keep_sizes, kept_sizes
from mirage.torch.sized_import import SizedImport, at_size, import_sized, sized_text

if TYPE_CHECKING:
    from mirage.torch.graph_work import GraphWork

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
class _Class:
    """The state of a class: an ``error`` if it cannot be compiled."""

    report: Report
    found: SizedClass | None = None
    error: Exception | None = None
    import_here: bool = False
    waiting: list[tuple[torch.Tensor, torch.device]] = field(
        default_factory=list[tuple[torch.Tensor, torch.device]]
    )
    """Tensors of the program that are moved to a device before its kernels are called first."""


@dataclass(eq=False)
class SizedGraph:
    """The graph ``module`` with everything except its ``rows`` as in ``inputs``, compiled as
    ``work`` says. ``watch`` is called with reports."""

    module: torch.fx.GraphModule
    rows: Rows
    inputs: Sequence[Any]
    work: GraphWork
    watch: Callable[[Report], None]
    _classes: dict[int, _Class] = field(default_factory=dict[int, _Class], init=False)
    _known: dict[int, CompiledGraph] = field(default_factory=dict[int, CompiledGraph], init=False)
    _all: SizedImport | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.tensors = tuple(i for i, x in enumerate(self.inputs) if isinstance(x, torch.Tensor))
        self.inputs = at_size(self.rows, self.inputs, self.rows.size_of(self.inputs))
        self.options = self.work.chosen  # now: another thread may have another device

    def at(self, inputs: Sequence[Any]) -> Callable[..., Any] | None:
        """Return the callable for the size of the inputs; None if the size is too large to be
        compiled, or if its class remains with PyTorch. Raises the errors of the import, including
        :class:`~mirage.frontend.errors.DynamicShapeError`."""
        size = self.rows.size_of(inputs)
        if not self.rows.least <= size <= self.rows.most:
            return None
        known = self._class(size)
        if known.error is not None:
            raise known.error
        if known.report.reason:
            return None
        if known.found is None:
            return self.module.forward
        if size not in self._known:
            if len(self._known) >= KEPT:
                self._known.clear()
            imported = GraphImport(effects_of(self.module, inputs), known.found.source.program)
            graph = CompiledGraph(self.module, inputs, imported, known.report)
            graph.waiting = list(known.waiting)
            self._known[size] = graph
        return self._known[size]

    def _class(self, size: int) -> _Class:
        most = class_of(max(size, self.rows.least + 1), self.rows.most)
        if most not in self._classes:
            report = Report(count_ops(self.module), sizes=f"for {self.rows.name} up to {most}")
            self._classes[most] = _Class(report)
            self._begin(self._classes[most], most)
            self.watch(report)
        elif self._classes[most].import_here:
            self._classes[most].import_here = False
            self._take(self._classes[most], self._imported_here(), most)
        return self._classes[most]

    def _begin(self, known: _Class, most: int) -> None:
        """Import a class, or let another process do so."""
        stated = at_size(self.rows, self.inputs, most)
        text = text_of(lambda: sized_text(self.module, self.rows, stated))

        def kept() -> SizedImport | None:
            made: list[torch.Tensor] = []
            found = None
            if text is not None:
                found = kept_sizes(text, self.module, self.rows, stated, most, made)
            known.waiting = [(x, device_of(stated)) for x in made]
            return found

        def taken() -> None:
            found = kept()
            if found is None:  # it cannot be sent
                known.import_here = True
            else:
                self._take(known, found, most)

        def failed(error: Exception) -> None:
            known.error, known.report.reason = error, describe(error)

        found = kept() if self.work.kept else None
        if found is None and text is not None and self.work.imports_elsewhere:
            message = message_of(self.module, stated, text, self.rows)
            if message is not None:
                ask(message, self.work.kept, known.report, taken, failed, self.work.importer)
                return
        if found is None:
            found = self._imported_here()
            if self.work.kept and text is not None:
                keep_sizes(text, self.module, found, most)
        self._take(known, found, most)

    def _take(self, known: _Class, found: SizedImport, most: int) -> None:
        """Compile a class that is imported."""
        known.report.calls, known.report.reasons = found.calls, found.reasons
        smallest = class_of(self.rows.least + 1, self.rows.most)
        least = min(self.rows.least, least_of(most)) if most == smallest else None
        source = sized_source(found.sizes, most, least)
        sized = SizedClass(source, self.rows.name, known.report, self.rows, self.tensors)
        self.work.compile_class(sized, self.options)
        known.found = sized

    def _imported_here(self) -> SizedImport:
        """Return the import for all classes."""
        if self._all is None:
            self._all = import_sized(self.module, self.rows, self.inputs)
        return self._all
