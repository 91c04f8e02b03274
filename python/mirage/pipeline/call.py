"""Runs an optimized program on torch tensors: compiled parts and calls that stay with torch, in
order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from mirage.errors import MirageError
from mirage.frontend.program import Program
from mirage.runtime.errors import ArgumentCountError
from mirage.runtime.executable import Executable
from mirage.runtime.manifest import TORCH_NAMES
from mirage.semantics.ugraph import External, KernelGraph, Value
from mirage.transforms.calls import DTYPE

if TYPE_CHECKING:
    import torch

    from mirage.compiler import Compiled
    from mirage.pipeline.result import Step

Launcher: TypeAlias = "Callable[[int, Compiled, list[torch.Tensor]], Sequence[torch.Tensor]]"
"""Runs a compiled part, given by its number among the steps, on contiguous tensors."""


def on_gpu(executables: dict[int, Executable]) -> Launcher:
    """Launches on the GPU; ``executables`` keeps loaded parts from call to call."""

    def launch(
        number: int, compiled: Compiled, inputs: list[torch.Tensor]
    ) -> Sequence[torch.Tensor]:
        executable = executables.get(number)
        if executable is None:
            executable = executables[number] = Executable(compiled.artifact)
        return executable(inputs=inputs)

    return launch


class NotCompiledError(MirageError):
    """The program was optimized with ``compile=False``."""


def run_steps(
    program: Program,
    graph: KernelGraph,
    steps: Sequence[Step],
    launch: Launcher,
    tensors: Sequence[torch.Tensor | Sequence[torch.Tensor]],
    inputs: Sequence[torch.Tensor] | None,
) -> tuple[Any, ...]:
    """The results; ``launch`` runs a compiled part.

    Raises :class:`~mirage.runtime.errors.CallError`, :class:`~mirage.runtime.errors.NoGpuError`,
    :class:`NotCompiledError`."""
    if not steps and graph.ops:
        raise NotCompiledError("expected a compiled program, got one optimized with compile=False")
    values = dict(zip(graph.inputs, _arguments(program, tensors, inputs), strict=True))
    for number, step in enumerate(steps):
        if step.external is not None:
            values.update(
                zip(step.external.results, call_external(step.external, values), strict=True)
            )
            continue
        assert step.compiled is not None
        assert step.graph is not None
        # what a call returns may be a view
        results = launch(number, step.compiled, [values[v].contiguous() for v in step.graph.inputs])
        values.update(zip(step.graph.outputs, results, strict=True))
    return program.returned([values[v] for v in graph.outputs])


def _arguments(
    program: Program,
    tensors: Sequence[torch.Tensor | Sequence[torch.Tensor]],
    inputs: Sequence[torch.Tensor] | None,
) -> list[Any]:
    """All inputs of the graph: what the caller passes, and the module's weights (without their
    gradients).
    """
    given: Sequence[Any] = tensors
    if inputs is not None:
        if tensors:
            raise ArgumentCountError("expected tensors either by position or as inputs=, got both")
        given = inputs
    elif len(tensors) == 1 and isinstance(tensors[0], list | tuple):
        given = tensors[0]
    wanted = program.call_inputs
    if len(given) != len(wanted):
        names = ", ".join(v.name or str(i) for i, v in enumerate(wanted))
        raise ArgumentCountError(
            f"expected {len(wanted)} input tensors ({names}), got {len(given)}"
        )
    weights: dict[int, Any] = {p.index: p.data for p in program.parameters}
    passed = iter(given)
    return [
        weights[i].detach() if i in weights else next(passed)
        for i in range(len(program.graph.inputs))
    ]


def call_external(op: External, values: dict[Value, Any]) -> tuple[Any, ...]:
    """Calls the torch op that ``op`` stands for."""
    import torch

    namespace, name, *overload = op.target.split(".")
    function = getattr(
        getattr(getattr(torch.ops, namespace), name), overload[0] if overload else "default"
    )
    named = dict(op.arguments)
    operands = iter(op.operands)
    arguments: dict[str, Any] = {}
    for parameter in function._schema.arguments:
        if parameter.name not in named:
            arguments[parameter.name] = values[next(operands)]
            continue
        value: Any = named[parameter.name]
        if isinstance(value, tuple) and len(value) == 2 and value[0] == "tensors":
            which: Any = value[1] if isinstance(value[1], tuple) else (1,) * value[1]
            value = [values[next(operands)] if there else None for there in which]
        elif isinstance(value, tuple) and len(value) == 2 and value[0] == DTYPE:
            value = getattr(torch, TORCH_NAMES[value[1]])
        arguments[parameter.name] = list(value) if isinstance(value, tuple) else value
    result = function(**arguments)
    return tuple(result) if isinstance(result, tuple | list) else (result,)
