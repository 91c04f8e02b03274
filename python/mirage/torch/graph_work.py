"""How a graph is processed: where it is imported, and where its kernels are found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import torch

from mirage.pipeline.options import OptimizeOptions, OptionError
from mirage.torch.background import (
    ClassLoader,
    OneClass,
    PyTorchIsFasterError,
    WholeProgram,
    compile_in,
    with_chip,
)
from mirage.torch.compiled_graph import Compiled, CompiledGraph, Compiler, describe
from mirage.torch.imported_later import Cut, ImportedLater, import_later
from mirage.torch.workshop import Workshop, shared_workshop

if TYPE_CHECKING:
    from mirage.torch.sized_graph import SizedClass

DEFAULTS: Mapping[str, Any] = {"pytorch_where_faster": True}
"""The options of :class:`mirage.OptimizeOptions` that have other defaults here: PyTorch runs
everything that is not compiled."""
BLOCKING = "blocking"
"""The option that compiles a graph before its first call is answered; without it, PyTorch answers
until the kernels are ready."""


@dataclass(frozen=True)
class GraphWork:
    """The arguments of :func:`mirage.torch.backend` that say how graphs are compiled, with the
    ``options`` of :class:`mirage.OptimizeOptions`."""

    options: Mapping[str, Any]
    blocking: bool
    compiler: Compiler | None
    class_compiler: Callable[[SizedClass, Mapping[str, Any]], Compiled] | None
    load: Compiler
    load_class: ClassLoader
    workshop: Workshop | None
    importer: Workshop | None

    @property
    def kept(self) -> bool:
        """Whether imports of earlier runs are used."""
        return OptimizeOptions.of(**self.options).reuses

    @property
    def has_classes(self) -> bool:
        """Whether there are kernels for classes of sizes."""
        return self.compiler is None or self.class_compiler is not None

    @property
    def imports_elsewhere(self) -> bool:
        """Whether another process imports graphs."""
        alone = self.workshop is not None and self.importer is None
        here = self.blocking or self.compiler is not None or self.class_compiler is not None
        return not (here or alone)

    @property
    def chosen(self) -> Mapping[str, Any]:
        """The options for this thread's device, wherever kernels are searched."""
        return with_chip(self.options) if self.imports_elsewhere else self.options

    def import_later(
        self, module: torch.fx.GraphModule, inputs: Sequence[Any], cut: Cut, text: str
    ) -> ImportedLater | None:
        """Return the graph, which another process imports; None if it must be imported now. If it
        cannot be imported as a whole, it is ``cut``."""
        if not self.imports_elsewhere:
            return None
        compiled = partial(self.compile_graph, options=self.chosen)
        return import_later(module, inputs, text, self.kept, compiled, cut, self.importer)

    def compile_graph(self, found: CompiledGraph, options: Mapping[str, Any] | None = None) -> None:
        """Compile a graph, now or later. Raises the errors that occur now."""
        if found.program is None:
            return
        chosen = self.options if options is None else options
        if self.compiler is not None:
            found.report.compiled = self.compiler(found.program, chosen)
        else:
            whole = WholeProgram(found.program, self.load)
            compile_in(self._shop, whole, found.report, chosen, blocking=self.blocking)

    def compile_class(self, found: SizedClass, options: Mapping[str, Any]) -> None:
        """Compile a graph for a class of sizes, now or later. Raises the errors that occur now."""
        if self.class_compiler is not None:
            found.report.compiled = self.class_compiler(found, options)
            return
        one = OneClass(found, self.load_class)
        try:
            compile_in(self._shop, one, found.report, options, blocking=self.blocking)
        except PyTorchIsFasterError as error:  # of this class; others may be compiled
            found.report.reason = describe(error)

    @property
    def _shop(self) -> Workshop:
        return self.workshop or shared_workshop()


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """Return the options of :class:`mirage.OptimizeOptions`, and whether calls wait for kernels.
    Raises :class:`OptionError`."""
    chosen = {**DEFAULTS, **options}
    blocking = chosen.pop(BLOCKING, False)
    if not isinstance(blocking, bool):
        raise OptionError(f"expected {BLOCKING} to be True or False, got {blocking!r}")
    try:
        OptimizeOptions.of(**chosen)
    except OptionError as error:
        known = f"expected options among {BLOCKING}, "
        message = error.message.replace("expected options among ", known)
        raise OptionError(message) from None
    return chosen, blocking
