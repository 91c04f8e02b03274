"""A graph that another process imports: PyTorch answers the first calls at once, as it does until
there are kernels."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch

from mirage.torch.background import entries_in_memory, keep_in_mind
from mirage.torch.compiled_graph import CompiledGraph, Report, count_ops, describe
from mirage.torch.graph_import import import_graph
from mirage.torch.graph_message import GraphMessage, likenesses, message_of
from mirage.torch.kept_import import kept_import
from mirage.torch.workshop import CompileProcessError, Job, Workshop

log = logging.getLogger("mirage.torch")

COMMAND = (sys.executable, "-m", "mirage.torch.import_process")
LINGER = 20.0
"""The seconds that the process waits for another graph: it takes several to start."""


class ImportedLater:
    """The graph ``module``, called like it. Once it is imported, ``compile_graph`` gets it; both
    are done by threads that wait for other processes, and touch no GPU."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        message: GraphMessage,
        kept: bool,
        compile_graph: Callable[[CompiledGraph], None],
        workshop: Workshop,
    ) -> None:
        self.module, self.text, self.compile_graph = module, message.text, compile_graph
        self.examples = likenesses(inputs)
        self.report = Report(count_ops(module))
        self._graph: CompiledGraph | None = None
        self._import_here = False
        keep_in_mind(self.report)
        request = {"graph": message, "kept": kept}
        self.report.job = workshop.submit(Job(request, self._done, begins="is imported"))

    def __call__(self, *inputs: Any) -> Any:
        graph = self._graph
        if graph is not None:
            return graph(*inputs)
        if self._import_here:
            self._import_here = False
            self._or_stay(lambda: self._imported(CompiledGraph(
                self.module, inputs, import_graph(self.module, inputs), self.report
            )))  # fmt: skip
        return self.module.forward(*inputs)

    def _done(self, job: Job) -> None:
        """Take the import that another process has made."""
        try:
            self._or_stay(lambda: self._taken(job))
        finally:
            if self.report.job is job:
                self.report.job = None

    def _taken(self, job: Job) -> None:
        if job.entries is None:
            raise CompileProcessError(job.error or "the process that imports gave no answer")
        waiting: list[tuple[torch.Tensor, torch.device]] = []
        with entries_in_memory(job.entries):
            found = kept_import(self.text, self.module, self.examples, waiting)
        if found is None:  # it cannot be handed over
            self._import_here = True
            return
        graph = CompiledGraph(self.module, self.examples, found, self.report)
        graph.waiting = waiting
        self._imported(graph)

    def _imported(self, graph: CompiledGraph) -> None:
        self._graph = graph
        self.compile_graph(graph)

    def _or_stay(self, work: Callable[[], None]) -> None:
        """Do work; after any error the graph stays with PyTorch."""
        try:
            work()
        except Exception as error:
            reason = self.report.reason = describe(error)
            log.warning("a graph of %d ops stays with PyTorch: %s", self.report.ops, reason)
            log.debug("why:", exc_info=error)


def import_later(
    module: torch.fx.GraphModule,
    inputs: Sequence[Any],
    text: str,
    kept: bool,
    compile_graph: Callable[[CompiledGraph], None],
    workshop: Workshop | None = None,
) -> ImportedLater | None:
    """Return a graph that another process imports; None if it has to be imported here."""
    message = message_of(module, inputs, text)
    if message is None:
        return None
    shop = workshop or shared_importer()
    return ImportedLater(module, inputs, message, kept, compile_graph, shop)


_shared: list[Workshop] = []


def shared_importer() -> Workshop:
    """Return the workshop that imports this process's graphs."""
    if not _shared:
        _shared.append(Workshop(1, COMMAND, LINGER))
    return _shared[0]
