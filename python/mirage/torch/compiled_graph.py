"""One graph of TorchDynamo for inputs of fixed sizes. It is called like the graph; PyTorch answers
until its kernels are ready, then the kernels do."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from mirage.errors import MirageError
from mirage.frontend.program import Program
from mirage.runtime.dispatch.in_place_stores import same_memory
from mirage.runtime.dispatch.layouts import Arranged
from mirage.runtime.errors import InterruptedUpdateError
from mirage.torch.on_host import move
from mirage.torch.workshop import Job

if TYPE_CHECKING:
    from mirage.torch.graph_import import GraphImport

log = logging.getLogger("mirage.torch")

Compiled = Callable[..., Sequence[torch.Tensor]]
"""A compiled program: a function of the graph's inputs that returns its outputs."""

Compiler = Callable[[Program, Mapping[str, Any]], Compiled]


class StaysEager(MirageError):
    """A graph that is left to PyTorch; the message is the reason."""


class CannotImportError(StaysEager):
    """A graph that cannot be imported, not even in pieces."""


@dataclass(eq=False)
class Report:
    """The state of a graph, which changes during compilation: the number of its ``ops``; the
    ``reason`` if it remains with PyTorch; the ``calls`` of PyTorch between the compiled parts and
    their ``reasons`` (in the same order); the compiled program; and the ``job`` that compiles it,
    until that has ended."""

    ops: int
    reason: str = ""
    calls: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    compiled: Compiled | None = None
    job: Job | None = None
    sizes: str = ""
    """The sizes that it is for, if the graph has dynamic ones."""
    cut: str = ""
    """Why it is compiled in pieces, which have reports of their own."""


def count_ops(module: torch.fx.GraphModule) -> int:
    """Return the number of ops in a graph."""
    return sum(node.op.startswith("call_") for node in module.graph.nodes)


class CompiledGraph:
    """The graph ``module`` for inputs like ``inputs`` (tensors, and numbers that stand for sizes).

    It was imported as ``found``. ``program`` is the program to be compiled, or None if there is
    nothing to compute; once ``report.compiled`` is set, that is called. Graphs may share a
    ``report``, which says by itself what stays with PyTorch if none is given.
    """

    def __init__(
        self,
        module: torch.fx.GraphModule,
        inputs: Sequence[Any],
        found: GraphImport,
        report: Report | None = None,
    ) -> None:
        self.module = module
        self.arranged = Arranged(found.effects.results)
        self.single = isinstance(_output(module).args[0], torch.fx.Node)
        self.tensors = [i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor)]
        self.updates: list[int] = []
        self.targets: list[int | torch.Tensor] = []
        self.program: Program | None = None
        self.report = Report(count_ops(module)) if report is None else report
        self.waiting: list[tuple[torch.Tensor, torch.device]] = []
        """Tensors of the program that are moved to a device before its kernels are called first."""
        self._called: Compiled | None = None
        if found.program is not None and (self.arranged.computed or found.effects.written):
            self._takes(found.program)
        if found.calls:
            self.report.calls, self.report.reasons = found.calls, found.reasons

    def _takes(self, program: Program) -> None:
        given = len(self.tensors)
        self.program = program
        bound: dict[int, Any] = {p.index: p.data for p in program.parameters}
        self.updates = [self.tensors[i] for i in program.updates if i < given]
        self.targets = [self.tensors[i] if i < given else bound[i] for i in program.updates]

    def __call__(self, *inputs: Any) -> Any:
        program = self.report.compiled  # read once: it may be set meanwhile
        if program is None or not self._fits(inputs):
            return self.module.forward(*inputs)
        if program is not self._called:
            if captures():
                return self.module.forward(*inputs)  # its code cannot be loaded meanwhile
            for x, device in self.waiting:
                move(x, device)
            self.waiting = []
            self._called = program
        try:
            values = tuple(program(*(inputs[i].detach() for i in self.tensors)))
        except InterruptedUpdateError:  # PyTorch would update twice
            raise
        except Exception as error:  # nothing is written yet, so PyTorch can do it all
            log.warning("a compiled graph continues in PyTorch: %s", describe(error))
            self.report.compiled, self.report.reason = None, describe(error)
            self.report.calls = ()
            return self.module.forward(*inputs)
        count = len(self.targets)
        for target, value in zip(self.targets, values[:count], strict=True):
            x = inputs[target] if isinstance(target, int) else target
            if not same_memory(x, value):  # it was written in place
                x.detach().copy_(value)
        results = self.arranged(values[count:], inputs)
        return results[0] if self.single else results

    @property
    def is_ready(self) -> bool:
        """Whether its kernels compute the next call."""
        return self.report.compiled is not None

    def _fits(self, inputs: Sequence[Any]) -> bool:
        """Return whether the program has PyTorch's effects on inputs with this layout in memory."""
        return not (self.updates and self._overlap(inputs)) and self.arranged.fits(inputs)

    def _overlap(self, inputs: Sequence[Any]) -> bool:
        """Return whether an input that is written to shares memory with another one."""
        storages = [inputs[i].untyped_storage().data_ptr() for i in self.tensors]
        written = [inputs[i].untyped_storage().data_ptr() for i in self.updates]
        return any(storages.count(storage) > 1 for storage in written)


def captures() -> bool:
    """Return whether a CUDA graph is being captured."""
    return torch.cuda.is_available() and torch.cuda.is_current_stream_capturing()


def describe(error: BaseException) -> str:
    """Describe an error in one line; an unexpected error is described with its class."""
    known = isinstance(error, MirageError)
    whole = error.message if known else str(error)  # its place in PyTorch is not informative
    lines = [line.strip() for line in whole.splitlines() if line.strip()]
    text = lines[0] if lines else ""
    return text if known else f"{type(error).__name__}: {text}"


def _output(module: torch.fx.GraphModule) -> torch.fx.Node:
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    return output
