"""Executes an optimized layer without a GPU and compares it with PyTorch.

Compiled kernels run in the emulator. If emulation would take too long, the chosen µGraphs run in
the interpreter with every op rounded to its type.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from mirage.emulator.run_artifact import run_artifact
from mirage.frontend.program import Program
from mirage.pipeline.result import Step
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, Value
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map_only
from torch_programs.external_calls import call_external

from gallery.case import Layer

Array = np.ndarray[Any, Any]
Runner = Callable[[Step, list[Array]], Sequence[Array]]
_TYPES = {
    DType.F16: torch.float16,
    DType.BF16: torch.bfloat16,
    DType.F32: torch.float32,
    DType.F64: torch.float64,
}
HALVES = {torch.float16, torch.bfloat16}
_FACTOR = 2.0
"""How many times PyTorch's error is allowed."""
_ROUNDING = {
    torch.float16: 2.0**-11,
    torch.bfloat16: 2.0**-8,
    torch.float32: 2.0**-22,
    torch.float64: 2.0**-50,
}
"""The largest error of rounding the output alone, relative to its largest element."""


class Executable(Protocol):
    """The executable part of an optimized program."""

    @property
    def program(self) -> Program: ...
    @property
    def graph(self) -> KernelGraph: ...
    @property
    def steps(self) -> tuple[Step, ...]: ...


@dataclass(frozen=True)
class Error:
    """``l2``: norm of the difference over the norm of the exact result; ``max``: largest difference
    over the largest value. The worst of several outputs; infinite for NaN.
    """

    l2: float
    max: float

    @staticmethod
    def of(got: Sequence[Tensor], exact: Sequence[Tensor]) -> Error:
        """Return the errors of all outputs."""
        if not all(torch.isfinite(x).all() for x in got):
            return Error(float("inf"), float("inf"))
        pairs = [(x.double() - y, y) for x, y in zip(got, exact, strict=True)]
        return Error(
            max(float(d.norm() / y.norm()) for d, y in pairs),
            max(float(d.abs().max() / y.abs().max()) for d, y in pairs),
        )


@dataclass(frozen=True)
class Comparison:
    """Return the errors of the optimized program and of PyTorch on the CPU against float64."""

    ours: Error
    torch: Error
    rounding: float

    @property
    def right(self) -> bool:
        """Return whether the error is at most twice PyTorch's, or that of rounding the output (for
        the largest error, which fluctuates more, four times).
        """
        return self.ours.l2 <= _FACTOR * max(self.torch.l2, self.rounding / 2) and (
            self.ours.max <= 2.0 * _FACTOR * max(self.torch.max, self.rounding)
        )


class WideConvolutions(TorchDispatchMode):
    """Compute convolutions of half types in f32 and round once, like GPUs: PyTorch's own take
    minutes on a CPU."""

    def __torch_dispatch__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        given = (args, kwargs or {})
        halves = {x.dtype for x in tree_leaves(given) if isinstance(x, Tensor)} & HALVES
        if func is not torch.ops.aten.convolution.default or not halves:
            return func(*args, **given[1])
        (dtype,) = halves
        wide_args, wide = tree_map_only(Tensor, lambda x: x.float(), given)
        return func(*wide_args, **wide).to(dtype)


def compare(optimized: Executable, layer: Layer, run: Runner) -> Comparison:
    """Runs the layer and its optimized program on the layer's inputs."""
    with WideConvolutions():
        ours = run_on_cpu(optimized, layer.inputs, run)
        theirs = call(layer.module, layer.inputs)
    exact = call(copy.deepcopy(layer.module).double(), [x.double() for x in layer.inputs])
    rounding = max(_ROUNDING[x.dtype] for x in ours)
    return Comparison(Error.of(ours, exact), Error.of(theirs, exact), rounding)


def call(module: nn.Module, inputs: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the results of a module as a tuple."""
    with torch.no_grad():
        results = module(*inputs)
    return (results,) if isinstance(results, Tensor) else tuple(results)


def run_on_cpu(optimized: Executable, inputs: Sequence[Tensor], run: Runner) -> tuple[Tensor, ...]:
    """Return the program's outputs: ``run`` executes compiled parts, and PyTorch the calls that
    stay with it."""
    program, graph = optimized.program, optimized.graph
    weights = {p.index: p.data for p in program.parameters}
    passed = iter(inputs)
    values: dict[Value, Tensor] = {
        v: weights[i].detach() if i in weights else next(passed) for i, v in enumerate(graph.inputs)
    }
    with torch.no_grad():
        for step in optimized.steps:
            if step.external is not None:
                results = call_external(step.external, values)
                values.update(zip(step.external.results, results, strict=True))
                continue
            assert step.graph is not None
            outputs = run(step, [values[v].double().numpy() for v in step.graph.inputs])
            for v, y in zip(step.graph.outputs, outputs, strict=True):
                values[v] = torch.from_numpy(y.astype(np.float64)).to(_TYPES[v.dtype])
    return tuple(values[v] for v in graph.outputs)


def emulated(step: Step, inputs: list[Array]) -> Sequence[Array]:
    """Run a compiled part in the emulator, with all checks."""
    assert step.compiled is not None
    return run_artifact(step.compiled.artifact, inputs, stats=False).outputs


def interpreted(step: Step, inputs: list[Array]) -> Sequence[Array]:
    """Run the µGraph of a part in the interpreter."""
    assert step.graph is not None
    return evaluate_floats(step.graph, inputs, TypedFloat())
