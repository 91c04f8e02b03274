"""Programs as one CUDA graph: the launches of a call are recorded once and replayed.

step = model.captured(ids, position, keys, values)
for position in ...:
    logits = step(ids, position, keys, values)

A graph replays the same launches on the same memory, so a captured program has buffers for its
arguments. A call copies an argument into its buffer unless it is that buffer (a caller who writes
to ``step.inputs`` and calls ``step.replay()`` avoids all copies). Its results are the same tensors
at each call, and the next call overwrites them. Tensors that the program writes to, such as caches,
have no buffers: the graph uses the memory that was passed when the program was captured, and each
call must pass the same. Tensors of the state are also read at their original addresses.

Capturing runs the program once on copies of the tensors that it would write to, so nothing is
changed. Sizes, arguments other than tensors, and the device are those of the capture. PyTorch calls
that wait for the GPU (for the number of true elements, or a number on the host) cannot be captured;
PyTorch's random numbers can.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from mirage.runtime.dispatch.plan import Call, Plan
from mirage.runtime.dispatch.torch_calls import overload_of
from mirage.runtime.errors import CallError, CaptureError, NoGpuError
from mirage.runtime.launching.launch_tensors import given_tensors

if TYPE_CHECKING:
    import torch

    from mirage.runtime.launching.executable import Executable
    from mirage.runtime.models.model import Model

Recorded: TypeAlias = "tuple[Callable[[], None], Any]"
"""The replay function and the results, in memory that each replay overwrites."""


class Recorder(Protocol):
    """Records ``run`` on a device, after ``prepare`` has run there once."""

    def __call__(
        self, prepare: Callable[[], Any], run: Callable[[], Any], device: torch.device
    ) -> Recorded: ...


def cuda_graph(
    prepare: Callable[[], Any], run: Callable[[], Any], device: torch.device
) -> Recorded:
    """Return a recorder. Raises :class:`CaptureError` if the driver refuses something, and
    :class:`NoGpuError`."""
    import torch

    if device.type != "cuda":
        raise NoGpuError(
            f"cannot capture a CUDA graph on {device}: load the program on a GPU, or call it as it "
            "is"
        )
    with torch.cuda.device(device):
        aside = torch.cuda.Stream(device)
        aside.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(aside):
            prepare()
        torch.cuda.current_stream(device).wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph):
                results = run()
        except RuntimeError as error:
            raise _why_not(error) from error
    return graph.replay, results


def _why_not(error: RuntimeError) -> CallError:
    """Return the error to report for a failed capture: the first one, which caused the others."""
    first: BaseException = error
    while isinstance(before := first.__cause__ or first.__context__, RuntimeError):
        first = before
    if isinstance(first, CallError):
        return first
    return CaptureError(
        "the program cannot be captured in a CUDA graph, call it directly: "
        f"{str(first).partition(chr(10))[0]}"
    )


class _Captured:
    """A captured function. ``tensors`` are those of the capture, with their names; those at the
    places ``written`` are written to, and are the caller's own memory."""

    def __init__(
        self, tensors: Sequence[torch.Tensor], names: Sequence[str], written: Sequence[int]
    ) -> None:
        self._names = names
        self._written = frozenset(written)
        self.inputs = tuple(
            x if number in self._written else _buffer(x) for number, x in enumerate(tensors)
        )
        """The memory that replays read."""
        self._places = [x.data_ptr() for x in self.inputs]

    def _record(self, run: Callable[..., Any], device: torch.device, recorder: Recorder) -> None:
        self._replay, self.results = recorder(
            lambda: run(write=False), lambda: run(write=True), device
        )

    def replay(self) -> Any:
        """Run the graph and return the results for the contents of ``inputs``."""
        self._replay()
        return self.results

    def _given(self, tensors: Sequence[torch.Tensor]) -> Any:
        for number, (x, place) in enumerate(zip(tensors, self._places)):
            if x.data_ptr() == place:
                continue
            if number in self._written:
                raise CaptureError(
                    f"{self._names[number]}: expected the tensor that the program was captured "
                    "with, as it writes to it, got another one; pass that one, or capture the "
                    "program again"
                )
            self.inputs[number].copy_(x)
        return self.replay()


class CapturedModel(_Captured):
    """A model in a CUDA graph, made by :meth:`mirage.runtime.Model.captured`. ``inputs`` are the
    tensors among the arguments, in order."""

    def __init__(
        self,
        model: Model,
        args: Sequence[Any],
        named: Mapping[str, Any],
        recorder: Recorder = cuda_graph,
    ) -> None:
        m = model.manifest
        memories = model.memories(args, named)
        check_capturable(m.plan)
        count = len(m.inputs)
        names = [spec.name for spec in m.inputs]
        super().__init__(memories[:count], names, [n for n in m.plan.updates if n < count])
        self.model = model
        held = memories[count:]

        def run(*, write: bool) -> Any:
            return model.run([*self.inputs, *held], write=write)

        self._record(run, model.device, recorder)

    def __call__(self, *args: Any, **named: Any) -> Any:
        """Return the module's results, in memory that the next call overwrites. Raises
        :class:`~mirage.runtime.errors.CallError`."""
        memories = self.model.memories(args, named)
        return self._given(memories[: len(self.inputs)])


class CapturedProgram(_Captured):
    """An artifact in a CUDA graph, made by :meth:`mirage.runtime.Executable.captured`."""

    def __init__(
        self,
        program: Executable,
        inputs: Sequence[torch.Tensor],
        recorder: Recorder = cuda_graph,
    ) -> None:
        import torch

        m = program.manifest
        given = given_tensors(tuple(inputs), None)
        _, number = program.checked(given)
        super().__init__(given, [spec.name for spec in m.inputs], m.updates)
        self.program = program

        def run(*, write: bool) -> Any:
            mine = [
                x.clone() if number in self._written and not write else x
                for number, x in enumerate(self.inputs)
            ]
            return program(inputs=mine)

        self._record(run, torch.device("cuda", number), recorder)

    def __call__(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Return the outputs, in memory that the next call overwrites. Raises
        :class:`~mirage.runtime.errors.CallError`."""
        given = given_tensors(tuple(inputs), None)
        self.program.checked(given)
        return self._given(given)


def check_capturable(plan: Plan) -> None:
    """Raise :class:`CaptureError` if the plan has a call that waits for the GPU."""
    import torch

    waits = (torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape)
    for number, step in enumerate(plan.steps):
        if isinstance(step, Call) and any(t in overload_of(step.op).tags for t in waits):
            raise CaptureError(
                f"step {number} of the program, {step.op}, stays with PyTorch and waits for the "
                "GPU, as the size of its result depends on what its operands hold; a CUDA graph "
                "cannot have it: call the program directly"
            )


def _buffer(x: torch.Tensor) -> torch.Tensor:
    """Return new memory with the elements of a tensor."""
    import torch

    made = torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device=x.device)
    return made.copy_(x)
