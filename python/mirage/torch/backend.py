"""``torch.compile(backend="mirage")``: graphs that import are searched, verified and compiled; the
rest stays eager.

TorchDynamo hands over one graph after the other. Inside a graph, ops that mirage does not know stay
calls of PyTorch between the compiled parts. A whole graph stays with PyTorch, with the reason in
the log ``mirage.torch``, where it has dynamic shapes, needs gradients, does not run on a GPU, or
where nothing in it can be compiled.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mirage.errors import MirageError
from mirage.frontend.program import Program

log = logging.getLogger("mirage.torch")

Compiled = Callable[..., Sequence[torch.Tensor]]
"""A compiled program: takes the graph's inputs, returns its outputs."""

Compiler = Callable[[Program, Mapping[str, Any]], Compiled]


class StaysEager(MirageError):
    """A graph that is left to PyTorch; the message is the reason."""


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
    compiler: Compiler = compile_program,
    devices: Sequence[str] = ("cuda",),
) -> Callable[..., Any]:
    """The backend as TorchDynamo calls it; ``options`` are those given to ``torch.compile``."""
    try:
        return _compile(module, example_inputs, options or {}, compiler, devices)
    except MirageError as e:
        log.warning("a graph of %d ops stays with PyTorch: %s", _size(module), e)
        return module.forward


def _size(module: torch.fx.GraphModule) -> int:
    return sum(node.op.startswith("call_") for node in module.graph.nodes)


def _compile(
    module: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    options: Mapping[str, Any],
    compiler: Compiler,
    devices: Sequence[str],
) -> Callable[..., Any]:
    from mirage.frontend.torch_import import from_torch

    check_inputs(example_inputs, devices)
    # The captured inputs may be fake tensors; shapes and types are all that the import reads.
    examples = [
        torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cpu").zero_()
        for x in example_inputs
    ]
    imported = from_torch(module, *examples, allow_fallback=True)
    program = compiler(imported.program, options)
    single = _returns_one(module)

    def call(*inputs: torch.Tensor) -> Any:
        results = tuple(program(*(x.detach().contiguous() for x in inputs)))
        return results[0] if single else results

    return call


def check_inputs(inputs: Sequence[Any], devices: Sequence[str] = ("cuda",)) -> None:
    """Raises :class:`StaysEager` where a graph with these inputs cannot be compiled."""
    for i, x in enumerate(inputs):
        if not isinstance(x, torch.Tensor):
            raise StaysEager(f"input {i} is not a tensor but {x!r} (a dynamic shape or a number)")
        if any(isinstance(n, torch.SymInt) for n in x.shape):
            raise StaysEager(f"input {i} has the dynamic shape {tuple(x.shape)}")
        if x.device.type not in devices:
            raise StaysEager(f"input {i} is on {x.device}, expected {' or '.join(devices)}")
        if x.requires_grad and torch.is_grad_enabled():
            raise StaysEager(
                f"input {i} requires a gradient; use torch.no_grad() or inference_mode()"
            )


def _returns_one(module: torch.fx.GraphModule) -> bool:
    (output,) = (node for node in module.graph.nodes if node.op == "output")
    return isinstance(output.args[0], torch.fx.Node)


def register() -> None:
    """Makes ``backend="mirage"`` known to ``torch.compile``; imports of :mod:`mirage.torch` do."""
    import torch._dynamo

    if "mirage" not in torch._dynamo.list_backends(exclude_tags=()):
        torch._dynamo.register_backend(backend, name="mirage")
