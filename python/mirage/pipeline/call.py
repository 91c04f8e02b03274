"""Runs an optimized program on torch tensors: compiled parts and calls that stay with torch, in
order.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

from mirage.errors import MirageError
from mirage.frontend.program import Program
from mirage.pipeline.make_plan import plan_of
from mirage.runtime.dispatch.carriers import carried, name_of, seen_as
from mirage.runtime.errors import ArgumentCountError, ArgumentTypeError
from mirage.runtime.launching.executable import Executable
from mirage.runtime.launching.run_plan import Steps
from mirage.semantics.ugraph import KernelGraph, Value

if TYPE_CHECKING:
    import torch

    from mirage.compiler import Compiled
    from mirage.pipeline.result import Step
    from mirage.pipeline.sized_plan import SizedPlan

Launcher: TypeAlias = "Callable[[int, Compiled, list[torch.Tensor], bool], Sequence[torch.Tensor]]"
"""A function that runs a compiled part, given by its number, on contiguous tensors; the last
argument says that the kernels of another part have been launched just before."""


def on_gpu(executables: dict[int, Executable]) -> Launcher:
    """Return a launcher that runs parts on the GPU; ``executables`` keeps loaded parts from call to
    call."""

    def launch(
        number: int, compiled: Compiled, inputs: list[torch.Tensor], follows: bool
    ) -> Sequence[torch.Tensor]:
        executable = executables.get(number)
        if executable is None:
            executable = executables[number] = Executable(compiled.artifact)
        return executable(inputs=inputs, follows=follows)

    return launch


def in_emulator(
    number: int, compiled: Compiled, inputs: list[torch.Tensor], follows: bool
) -> Sequence[torch.Tensor]:
    """Execute a part on the CPU: exactly, with all checks, and slowly."""
    from mirage.emulator.tensors import run_on_tensors

    del number, follows
    return run_on_tensors(compiled.artifact, inputs)


def loaded(parts: Sequence[Compiled]) -> dict[int, Executable]:
    """Return the parts, loaded onto torch's current device. Raises the errors of
    :meth:`~mirage.runtime.Executable.prepare`."""
    import torch

    executables = {number: Executable(part.artifact) for number, part in enumerate(parts)}
    for executable in executables.values():
        executable.prepare(torch.cuda.current_device() if torch.cuda.is_available() else 0)
    return executables


class NotCompiledError(MirageError):
    """The program was optimized with ``compile=False``, so it cannot be called."""


class Runner:
    """Runs an optimized program on tensors; everything that calls need is looked up once."""

    def __init__(self, program: Program, graph: KernelGraph, steps: Sequence[Step]) -> None:
        """Raises :class:`NotCompiledError`."""
        if not steps and graph.ops:
            raise NotCompiledError(
                "expected a compiled program, got one optimized with compile=False"
            )
        self.program = program
        self.parts = [step.compiled for step in steps if step.compiled is not None]
        self.steps = Steps(plan_of(graph, steps, program.updates))

    def __call__(
        self,
        launch: Launcher,
        tensors: Sequence[torch.Tensor | Sequence[torch.Tensor]],
        inputs: Sequence[torch.Tensor] | None,
        *,
        write: bool = False,
    ) -> tuple[Any, ...]:
        """Run the program and return its results; ``launch`` runs a compiled part. With ``write``,
        inputs that the program updates may be written in place.

        Raises :class:`~mirage.runtime.errors.CallError`, :class:`~mirage.runtime.errors.NoGpuError`
        """
        program = self.program
        arguments = _arguments(program, tensors, inputs)
        try:
            outputs = self.steps(
                arguments,
                lambda part, given, follows: launch(part, self.parts[part], given, follows),
                write=write,
            )
        except AttributeError:  # checked only then, since calls must be fast
            _need_tensors(program, arguments)
            raise
        return program.returned(outputs, seen_as)


SizedLauncher: TypeAlias = "Callable[[int, int, list[torch.Tensor]], Sequence[torch.Tensor]]"
"""A function that runs a compiled part of a size class, given by its number, at a size, on
contiguous tensors."""
KEPT_SIZES = 1024
"""The most sizes whose steps are kept."""


def on_gpu_by_size(plan: SizedPlan) -> SizedLauncher:
    """Return a launcher for a class of sizes that runs on the GPU."""
    from mirage.runtime.launching.by_size import SizedExecutable, SizeTable

    parts: list[Executable | SizedExecutable] = []
    for artifact in plan.artifacts:
        if artifact.manifest.size is None:
            parts.append(Executable(artifact))
        else:
            parts.append(SizedExecutable(SizeTable([artifact], 1, plan.most)))
    return lambda number, size, inputs: parts[number](inputs=inputs)


def sized_emulator(plan: SizedPlan) -> SizedLauncher:
    """Executes the parts of a class of sizes on the CPU."""
    from mirage.emulator.tensors import run_on_tensors
    from mirage.runtime.serialization.sizes import at_size

    def launch(number: int, size: int, inputs: list[torch.Tensor]) -> Sequence[torch.Tensor]:
        artifact = plan.artifacts[number]
        if artifact.manifest.size is not None:
            artifact = replace(artifact, manifest=at_size(artifact.manifest, size))
        return run_on_tensors(artifact, inputs)

    return launch


class SizedRunner:
    """Runs the result for a class of sizes on tensors; everything that calls need is looked up once
    for each size."""

    def __init__(self, program: Program, plan: SizedPlan) -> None:
        self.program, self.plan = program, plan
        self._steps: dict[int, Steps] = {}
        self._launch: SizedLauncher | None = None

    def __call__(
        self,
        launcher: Callable[[SizedPlan], SizedLauncher],
        inputs: Sequence[Any],
        size: int,
        *,
        write: bool = False,
    ) -> tuple[Any, ...]:
        """Return the results for all inputs of the graph at a size of the class; see
        :class:`Runner`."""
        steps = self._steps.get(size)
        if steps is None:
            if len(self._steps) >= KEPT_SIZES:
                self._steps.clear()
            steps = self._steps[size] = Steps(self.plan.at(size))
        if self._launch is None:
            self._launch = launcher(self.plan)
        launch = self._launch
        outputs = steps(inputs, lambda part, given, _: launch(part, size, given), write=write)
        return self.program.returned(outputs)


def run_steps(
    program: Program,
    graph: KernelGraph,
    steps: Sequence[Step],
    launch: Launcher,
    tensors: Sequence[torch.Tensor | Sequence[torch.Tensor]],
    inputs: Sequence[torch.Tensor] | None,
) -> tuple[Any, ...]:
    """Run steps once, as a :class:`Runner` does; no input is written to."""
    return Runner(program, graph, steps)(launch, tensors, inputs)


def _arguments(
    program: Program,
    tensors: Sequence[torch.Tensor | Sequence[torch.Tensor]],
    inputs: Sequence[torch.Tensor] | None,
) -> list[Any]:
    """Return all inputs of the graph: the caller's tensors and the module's weights (without their
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
    found = [
        weights[i].detach() if i in weights else next(passed)
        for i in range(len(program.graph.inputs))
    ]
    for place, dtype in program.carriers.items():
        if place not in weights:  # those have carriers already
            found[place] = _carried(found[place], dtype, program.graph.inputs[place])
    return found


def _need_tensors(program: Program, arguments: Sequence[Any]) -> None:
    """Raise :class:`ArgumentTypeError` if an argument is not a tensor."""
    import torch

    for value, x in zip(program.graph.inputs, arguments, strict=True):
        if not isinstance(x, torch.Tensor):
            what = value.name or "an input"
            raise ArgumentTypeError(f"{what}: expected a torch.Tensor, got {type(x).__name__}")


def _carried(x: Any, dtype: str, value: Value) -> Any:
    """Return the tensor that carries an input of a type that kernels do not have."""
    if name_of(x) != dtype:
        what = value.name or "an input"
        raise ArgumentTypeError(f"{what}: expected a tensor of {dtype}, got {name_of(x)}")
    return carried(x)
