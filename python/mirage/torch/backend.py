"""``torch.compile(backend="mirage")``: graphs that import are searched, verified and compiled; the
rest stays eager.

TorchDynamo hands over one graph after the other. Inside a graph, ops that mirage does not know stay
calls of PyTorch between the compiled parts. A whole graph stays with PyTorch, with the reason in
the log ``mirage.torch``, where it needs gradients, does not run on a GPU, or where nothing in it
can be compiled. Until a graph's kernels are found, verified and compiled, in another process,
PyTorch answers (:mod:`mirage.torch.background`). A graph with dynamic sizes is compiled for each
set of sizes that it is called with, up to a number of them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mirage.pipeline.options import OptimizeOptions, OptionError
from mirage.torch.background import compile_in, load_program
from mirage.torch.compiled_graph import (
    CompiledGraph,
    Compiler,
    Report,
    StaysEager,
    count_ops,
    describe,
)
from mirage.torch.workshop import Workshop, shared_workshop

log = logging.getLogger("mirage.torch")

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
"""The modes of ``torch.compile``: accepted, and all the same. How long to search is the option
``budget``; CUDA graphs are not captured here, a caller may capture what is compiled."""
BLOCKING = "blocking"
"""The option with which a graph is compiled before its first call is answered; without it PyTorch
answers until its kernels are there."""
MOST_SIZES = 16
"""Sets of sizes that a graph is compiled for; further ones stay eager."""


def backend(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
    compiler: Compiler | None = None,
    load: Compiler = load_program,
    workshop: Workshop | None = None,
    devices: Sequence[str] = ("cuda",),
    watch: Callable[[Report], None] = lambda report: None,
) -> Callable[..., Any]:
    """The backend as TorchDynamo calls it; ``options`` and ``mode`` are those given to
    ``torch.compile``. ``watch`` is told what becomes of the graph.

    Programs are optimized by the processes of ``workshop``, and what they find is made ready with
    ``load``; a ``compiler`` does both at once, in this process.

    Raises :class:`mirage.pipeline.options.OptionError` for unknown options and modes. Whatever else
    goes wrong, the graph stays with PyTorch.
    """
    chosen, blocking = split_options(options or {})
    if mode not in (None, *MODES):
        raise OptionError(f"expected a mode among {', '.join(MODES)}, got {mode!r}")

    def compile_graph(found: CompiledGraph) -> None:
        if found.program is None:
            return
        if compiler is not None:
            found.report.compiled = compiler(found.program, chosen)
        else:
            shop = workshop or shared_workshop()
            compile_in(shop, found, chosen, load, blocking=blocking)

    graph = _Graph(module, compile_graph, devices, watch)
    if any(map(_is_dynamic, example_inputs)):
        return graph.for_sizes
    return graph.compiled(example_inputs) or module.forward


def split_options(options: Mapping[str, Any]) -> tuple[dict[str, Any], bool]:
    """The options of :class:`mirage.OptimizeOptions`, and whether calls wait for kernels. Raises
    :class:`OptionError`."""
    chosen = dict(options)
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


class _Graph:
    """A graph of TorchDynamo, and what is compiled of it."""

    def __init__(
        self,
        module: torch.fx.GraphModule,
        compile_graph: Callable[[CompiledGraph], None],
        devices: Sequence[str],
        watch: Callable[[Report], None],
    ) -> None:
        self.module, self.compile_graph = module, compile_graph
        self.devices, self.watch = devices, watch
        self._found: dict[object, CompiledGraph | None] = {}
        self._lock = threading.Lock()

    def compiled(self, inputs: Sequence[Any]) -> CompiledGraph | None:
        """The graph for inputs like these; None if it stays with PyTorch."""
        try:
            check_inputs(inputs, self.devices)
            found = CompiledGraph(self.module, inputs)
            self.compile_graph(found)
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
