"""A choice among compiled candidates by measuring them on the GPU of this machine."""

from __future__ import annotations

import math
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from mirage.errors import MirageError
from mirage.pipeline.call import Runner, on_gpu
from mirage.pipeline.checks.check import Checker, failed
from mirage.pipeline.kept_program import keep_measured
from mirage.pipeline.result import Measurement
from mirage.runtime.errors import NoGpuError

if TYPE_CHECKING:
    import torch

    from mirage.frontend.program import Program
    from mirage.pipeline.result import Optimized

REPEATS = 32
"""The least number of calls in one CUDA graph."""
WARM_UP = 2
"""Rounds that are not counted."""
ROUNDS = 15

Call: TypeAlias = "Callable[[Sequence[Any]], object]"
"""A candidate, as a function of its inputs."""
Timer: TypeAlias = "Callable[[Sequence[Call], Sequence[Sequence[Any]]], Iterator[Sequence[float]]]"
"""A function that times candidates on sets of inputs: each round yields the µs of each."""


class NothingToMeasureError(MirageError):
    """The program was optimized with ``compile=False``, or has no kernels, or a call of PyTorch in
    it cannot be captured."""


@dataclass(frozen=True)
class Measured:
    """The times of the candidates in µs: the median over rounds of CUDA-graph replay, each call on
    inputs that are not in the L2 cache.
    """

    optimized: Optimized
    """The program with the fastest candidate whose kernels are right."""
    microseconds: tuple[float, ...]
    """The times, in the order of ``Optimized.finalists`` of the measured program."""


def fastest(
    optimized: Optimized,
    *tensors: torch.Tensor,
    rounds: int = ROUNDS,
    seconds: float = math.inf,
    timer: Timer | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Measured:
    """Time every finalist on inputs like ``tensors``, with the calls of PyTorch in it,
    and choose the fastest. After this many ``seconds`` no further round begins, but there is at
    least one.

    Raises :class:`~mirage.runtime.errors.NoGpuError`, :class:`NothingToMeasureError` and
    :class:`~mirage.runtime.errors.CallError` if the tensors do not match the program's inputs.
    """
    import torch

    if timer is None:
        need_gpu("measuring candidates")
    end = clock() + seconds
    finalists = optimized.finalists
    if not finalists or any(all(s.compiled is None for s in f.steps) for f in finalists):
        raise NothingToMeasureError("expected compiled kernels, found none")
    sets = _copies(tensors, 4 * optimized.l2_bytes)
    program = _on_device_of(tensors, optimized.program)
    calls = [_call(Runner(program, f.graph, f.steps)) for f in finalists]
    samples: list[list[float]] = [[] for _ in calls]
    for number, times in enumerate((timer or replays)(calls, sets)):
        for known, spent in zip(samples, times, strict=True):
            known += [spent] if number >= WARM_UP else []
        if number + 1 >= WARM_UP + rounds or (number >= WARM_UP and clock() > end):
            break
    medians = tuple(map(statistics.median, samples))
    order = sorted(range(len(medians)), key=medians.__getitem__)
    best = _fastest_right(optimized, order)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    times = tuple(zip((f.place for f in finalists), medians, strict=True))
    best.report.measured = Measurement(device, times)
    keep_measured(best, best.report.measured)
    return Measured(best, medians)


def need_gpu(what: str) -> None:
    """Raise :class:`~mirage.runtime.errors.NoGpuError` if there is no GPU for ``what``."""
    import torch

    if not torch.cuda.is_available():
        raise NoGpuError(f"{what} needs a GPU that torch can use, found none")


def replays(calls: Sequence[Call], sets: Sequence[Sequence[Any]]) -> Iterator[list[float]]:
    """Time candidates by replaying CUDA graphs, one after the other in each round. Raises
    :class:`NothingToMeasureError` if one cannot be captured."""
    import torch

    try:
        graphs = [_capture(call, sets) for call in calls]
    except RuntimeError as error:
        why = str(error).partition("\n")[0]
        raise NothingToMeasureError(f"the program cannot be captured: {why}") from None
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    count = len(sets) * -(-REPEATS // len(sets))
    while True:
        times: list[float] = []
        for graph in graphs:
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(begin.elapsed_time(end) * 1e3 / count)
        yield times


def _call(run: Runner) -> Call:
    launch = on_gpu({})
    return lambda inputs: run(launch, inputs, None)


def _on_device_of(tensors: Sequence[torch.Tensor], program: Program) -> Program:
    """Return the program with the tensors that it holds on the device of its inputs."""
    if not tensors:
        return program
    device = tensors[0].device
    there: Any = [(p, p.data) for p in program.parameters]
    parameters = tuple(replace(p, data=x.to(device)) for p, x in there)
    return replace(program, parameters=parameters)


def _fastest_right(optimized: Optimized, order: Sequence[int]) -> Optimized:
    """Return the program with the first of the finalists whose kernels are right when they are
    run."""
    options = optimized.options
    checker = Checker(optimized.program, options.chip, options.use_cache)
    for number in order if options.check_kernels else ():
        finalist = optimized.finalists[number]
        checked = finalist if finalist.checks is not None else checker.check(finalist)
        if not failed(checked.checks or ()):
            return optimized.with_finalist(number, checked)
    return optimized.with_finalist(order[0])


def _copies(tensors: Sequence[Any], size: int) -> list[tuple[Any, ...]]:
    """Return copies of the inputs that are together larger than ``size`` bytes."""
    own = max(1, sum(x.numel() * x.element_size() for x in tensors))
    return [tuple(x.clone() for x in tensors) for _ in range(max(2, -(-size // own)))]


def _capture(call: Any, sets: Sequence[Sequence[Any]]) -> Any:
    import torch

    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        call(sets[0])
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(-(-REPEATS // len(sets))):
            for inputs in sets:
                call(inputs)
    return graph
