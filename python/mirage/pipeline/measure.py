"""A choice among compiled candidates by measuring them on the GPU of this machine."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mirage.errors import MirageError
from mirage.pipeline.call import on_gpu, run_steps
from mirage.pipeline.checks.check import Checker, failed
from mirage.pipeline.kept_program import keep_measured
from mirage.pipeline.result import Measurement
from mirage.runtime.errors import NoGpuError

if TYPE_CHECKING:
    import torch

    from mirage.pipeline.result import Optimized

REPEATS = 32
"""The least number of calls in one CUDA graph."""


class NothingToMeasureError(MirageError):
    """The program was optimized with ``compile=False``, or it consists only of calls of torch."""


@dataclass(frozen=True)
class Measured:
    """The times of the candidates in µs: the median over rounds of CUDA-graph replay, each call on
    inputs that are not in the L2 cache.
    """

    optimized: Optimized
    """The program with the fastest candidate whose kernels are right."""
    microseconds: tuple[float, ...]
    """The times, in the order of ``Optimized.finalists`` of the measured program."""


def fastest(optimized: Optimized, *tensors: torch.Tensor, rounds: int = 15) -> Measured:
    """Time every finalist on inputs like ``tensors`` and choose the fastest.

    Raises :class:`~mirage.runtime.errors.NoGpuError`, :class:`NothingToMeasureError` and
    :class:`~mirage.runtime.errors.CallError` if the tensors do not match the program's inputs.
    """
    import torch

    if not torch.cuda.is_available():
        raise NoGpuError("measuring candidates needs a GPU that torch can use, found none")
    finalists = optimized.finalists
    if not finalists or any(not f.steps or any(s.external for s in f.steps) for f in finalists):
        raise NothingToMeasureError("expected compiled kernels alone, found other steps or none")
    sets = _copies(tensors, 4 * optimized.l2_bytes)
    graphs: list[Any] = []
    for finalist in finalists:
        executables: dict[int, Any] = {}

        def call(inputs: Sequence[Any], f: Any = finalist, e: Any = executables) -> None:
            run_steps(optimized.program, f.graph, f.steps, on_gpu(e), inputs, None)

        graphs.append(_capture(call, sets))
    samples: list[list[float]] = [[] for _ in graphs]
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    calls = len(sets) * -(-REPEATS // len(sets))
    for number in range(rounds + 2):
        for graph, times in zip(graphs, samples, strict=True):
            begin.record()
            graph.replay()
            end.record()
            end.synchronize()
            if number >= 2:  # the first rounds warm up
                times.append(begin.elapsed_time(end) * 1e3 / calls)
    medians = tuple(map(statistics.median, samples))
    order = sorted(range(len(medians)), key=medians.__getitem__)
    best = _fastest_right(optimized, order)
    places = (f.place for f in finalists)
    times = tuple(zip(places, medians, strict=True))
    best.report.measured = Measurement(torch.cuda.get_device_name(), times)
    keep_measured(best, best.report.measured)
    return Measured(best, medians)


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
