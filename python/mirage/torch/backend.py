"""``torch.compile(backend="mirage")``: graphs that import are searched, verified and compiled; the
rest stays eager.

TorchDynamo hands over one graph after the other. Inside a graph, ops that mirage does not know stay
calls of PyTorch between the compiled parts. A whole graph stays with PyTorch, with the reason in
the log ``mirage.torch``, where it needs gradients, does not run on a GPU, or where nothing in it
can be compiled. A graph with dynamic sizes is compiled for each set of sizes that it is called
with, up to a number of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mirage.frontend.program import Program
from mirage.torch.compiled_graph import (
    Compiled,
    CompiledGraph,
    Compiler,
    Report,
    StaysEager,
    count_ops,
    describe,
)

log = logging.getLogger("mirage.torch")

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""The modes of ``torch.compile``: accepted, and all the same. How long to search is the option
``budget``; CUDA graphs are not captured here, a caller may capture what is compiled."""
MOST_SIZES = 16
"""Sets of sizes that a graph is compiled for; further ones stay eager."""


def compile_program(program: Program, options: Mapping[str, Any]) -> Compiled:
    """Optimizes a program for the current device, with ``options`` of
    :class:`mirage.OptimizeOptions`.
    """
    from mirage.pipeline.optimize import optimize
    from mirage.pipeline.options import OptimizeOptions

    chosen = dict(options)
    chosen.setdefault("chip", current_chip())
    return optimize(program, OptimizeOptions.of(**chosen))


def current_chip() -> str:
    """The card that torch's current device is, by its name in the table of chips.

    Raises :class:`mirage.cost.UnknownTargetError` where the table has no row for the device.
    """
    from mirage.cost import target_of_device

    return target_of_device(torch.cuda.get_device_capability(), torch.cuda.get_device_name()).name


def backend(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    compiler: Compiler = compile_program,
    devices: Sequence[str] = ("cuda",),
    watch: Callable[[Report], None] = lambda report: None,
) -> Callable[..., Any]:
    """The backend as TorchDynamo calls it; ``options`` and ``mode`` are those given to
    ``torch.compile``. ``watch`` is told what becomes of the graph.

    Raises :class:`mirage.pipeline.options.OptionError` for unknown options and modes. Whatever else
    goes wrong, the graph stays with PyTorch.
    """
    from mirage.pipeline.options import OptimizeOptions, OptionError

    OptimizeOptions.of(**(options or {}))
    if mode not in (None, *MODES):
        raise OptionError(f"expected a mode among {', '.join(MODES)}, got {mode!r}")
    graph = _Graph(module, options or {}, compiler, devices, watch)
    if any(map(_is_dynamic, example_inputs)):
        return graph.for_sizes
    return graph.compiled(example_inputs) or module.forward


class _Graph:
    """A graph of TorchDynamo, and what is compiled of it."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        options: Mapping[str, Any],
        compiler: Compiler,
        devices: Sequence[str],
        watch: Callable[[Report], None],
    ) -> None:
        self.module, self.options = module, options
        self.compiler, self.devices, self.watch = compiler, devices, watch
        self._found: dict[object, CompiledGraph | None] = {}
        self._lock = threading.Lock()

    def compiled(self, inputs: Sequence[Any]) -> CompiledGraph | None:
        """The graph for inputs like these; None if it stays with PyTorch."""
        try:
            check_inputs(inputs, self.devices)
            found = CompiledGraph(self.module, inputs, self.options, self.compiler)
        except Exception as error:
            reason = describe(error)
            count = count_ops(self.module)
            log.warning("a graph of %d ops stays with PyTorch: %s", count, reason)
            log.debug("why:", exc_info=error)
            self.watch(Report(count, reason))
            return None
        self.watch(found.report)
        return found

    def for_sizes(self, *inputs: Any) -> Any:
        """Calls the graph that is compiled for inputs of these sizes."""
        key = tuple(
            (tuple(x.shape), x.stride()) if isinstance(x, torch.Tensor) else x for x in inputs
        )
        with self._lock:
            if key not in self._found and len(self._found) < MOST_SIZES:
                self._found[key] = self.compiled(inputs)
                if len(self._found) == MOST_SIZES:
                    log.warning("a graph has run at %d sizes; others stay eager", MOST_SIZES)
            found = self._found.get(key)
        return self.module.forward(*inputs) if found is None else found(*inputs)


def _is_dynamic(x: Any) -> bool:
    """Whether an input is, or has, a size that is not known yet."""
    if isinstance(x, torch.Tensor):
        return any(isinstance(n, torch.SymInt) for n in (*x.shape, *x.stride()))
    return isinstance(x, torch.SymInt | int)


def check_inputs(inputs: Sequence[Any], devices: Sequence[str] = ("cuda",)) -> None:
    """Raises :class:`StaysEager` where a graph with these inputs cannot be compiled."""
    for i, x in enumerate(inputs):
        if isinstance(x, int):
            continue
        if not isinstance(x, torch.Tensor):
            raise StaysEager(f"input {i} is not a tensor but {x!r}")
        if x.device.type not in devices:
            raise StaysEager(f"input {i} is on {x.device}, expected {' or '.join(devices)}")
        if x.requires_grad and torch.is_grad_enabled():
            raise StaysEager(
                f"input {i} requires a gradient; use torch.no_grad() or inference_mode()"
            )
        if torch.is_autocast_enabled(x.device.type):
            raise StaysEager(f"autocast is on for {x.device.type}; convert the model instead")


def register() -> None:
    """Makes ``backend="mirage"`` known to ``torch.compile``; imports of :mod:`mirage.torch` do."""
    import torch._dynamo

    if "mirage" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(backend, name="mirage")
