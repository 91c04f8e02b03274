"""A graph that another process imports. Meanwhile, and until there are kernels, PyTorch answers
calls."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mirage.torch.background import entries_in_memory, keep_in_mind
from mirage.torch.compiled_graph import (
    CannotImportError,
    CompiledGraph,
    Report,
    count_ops,
    describe,
)
from mirage.torch.graph_import import import_graph
from mirage.torch.graph_message import GraphMessage, likenesses, message_of
from mirage.torch.import_once import refused
from mirage.torch.kept_import import kept_import
from mirage.torch.kept_refusals import kept_refusal
from mirage.torch.refused_apart import Found
from mirage.torch.refused_ops import Refusal
from mirage.torch.workshop import CompileProcessError, Job, Workshop

log = logging.getLogger("mirage.torch")

Cut = Callable[[Refusal, Sequence[Any]], Found | None]
"""A function that cuts a graph which cannot be imported as a whole, for inputs like these; None if
PyTorch must run all of it."""
COMMAND = (sys.executable, "-m", "mirage.torch.import_process")
LINGER = 20.0
"""The seconds that the process waits for another graph: it takes several to start."""


class ImportedLater:
    """The graph ``module``, called like it. Once it is imported, ``compile_graph`` gets it; both
    are done by threads that wait for other processes, and touch no GPU. If it cannot be imported as
    a whole, the next call ``cuts`` it."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        message: GraphMessage,
        kept: bool,
        compile_graph: Callable[[CompiledGraph], None],
        cuts: Cut,
        workshop: Workshop | None,
    ) -> None:
        self.module, self.text, self.kept = module, message.text, kept
        self.compile_graph, self.cuts = compile_graph, cuts
        self.examples = likenesses(inputs)
        self.report = Report(count_ops(module))
        self._graph: Found | None = None
        self._import_here = False
        self._refusal: Refusal | None = None
        ask(message, kept, self.report, self._taken, self._stays, workshop)

    @property
    def is_ready(self) -> bool:
        """Whether its kernels compute the next call, or that call must import or cut it."""
        waits = self._import_here or self._refusal is not None
        return waits or (self._graph is not None and self._graph.is_ready)

    def __call__(self, *inputs: Any) -> Any:
        graph = self._graph
        if graph is not None:
            return graph(*inputs)
        if self._import_here:
            self._import_here = False
            try:
                found = import_graph(self.module, inputs)
                self._imported(CompiledGraph(self.module, inputs, found, self.report))
            except Exception as error:
                self._refused_here(inputs, error)
        if self._refusal is not None:
            refusal, self._refusal = self._refusal, None
            return self._in_pieces(refusal, inputs)(*inputs)
        return self.module.forward(*inputs)

    def _refused_here(self, inputs: Sequence[Any], error: Exception) -> None:
        try:
            text = self.text if self.kept else None
            self._refusal = refused(self.module, inputs, error, import_graph, text)
        except Exception as further:
            self._stays(further)

    def _in_pieces(self, refusal: Refusal, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Return the callable for a graph that cannot be imported as a whole."""
        self._graph = self.cuts(refusal, inputs)
        if self._graph is None:
            self._stays(CannotImportError(refusal.reason))
            return self.module.forward
        self.report.cut = refusal.reason
        return self._graph

    def _taken(self) -> None:
        """Take the import that another process has made."""
        waiting: list[tuple[torch.Tensor, torch.device]] = []
        found = kept_import(self.text, self.module, self.examples, waiting)
        if found is None:
            self._refusal = kept_refusal(self.text)
            self._import_here = self._refusal is None  # it cannot be sent
            return
        graph = CompiledGraph(self.module, self.examples, found, self.report)
        graph.waiting = waiting
        self._imported(graph)

    def _imported(self, graph: CompiledGraph) -> None:
        self._graph = graph
        self.compile_graph(graph)

    def _stays(self, error: Exception) -> None:
        reason = self.report.reason = describe(error)
        log.warning("a graph of %d ops stays with PyTorch: %s", self.report.ops, reason)
        log.debug("why:", exc_info=error)


def ask(
    message: GraphMessage,
    kept: bool,
    report: Report,
    taken: Callable[[], None],
    failed: Callable[[Exception], None],
    workshop: Workshop | None = None,
) -> None:
    """Let another process import a graph. When it has answered, ``taken`` is called, with the
    import among the cache's entries if there is one; ``failed`` gets all errors, also those of
    ``taken``. Both are called by a thread that waits. The import is used again if ``kept``."""

    def done(job: Job) -> None:
        try:
            if job.entries is None:
                raise CompileProcessError(job.error or "the process that imports gave no answer")
            with entries_in_memory(job.entries):
                taken()
        except Exception as error:
            failed(error)
        finally:
            if report.job is job:
                report.job = None

    keep_in_mind(report)
    report.job = Job({"graph": message, "kept": kept}, done, begins="is imported")
    (workshop or shared_importer()).submit(report.job)


def import_later(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    text: str,
    kept: bool,
    compile_graph: Callable[[CompiledGraph], None],
    cuts: Cut,
    workshop: Workshop | None = None,
) -> ImportedLater | None:
    """Return a graph that another process imports; None if it must be imported here."""
    message = message_of(module, inputs, text)
    if message is None:
        return None
    return ImportedLater(module, inputs, message, kept, compile_graph, cuts, workshop)


_shared: list[Workshop] = []


def shared_importer() -> Workshop:
    """Return the workshop that imports this process's graphs."""
    if not _shared:
        _shared.append(Workshop(1, COMMAND, LINGER))
    return _shared[0]
