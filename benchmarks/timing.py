"""Times on a GPU: CUDA-graph replay with cold and hot L2, and plain calls.

Cold: each launch in the captured graph reads another copy of the inputs, and the copies together
are far larger than L2, so the data that a launch reads has been evicted before its turn comes
again. Hot: all launches read the same copy. The sides of a comparison take turns in every round, so
drifts of clock and temperature affect all of them.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

COLD_BYTES = 256 << 20
"""Inputs rotate over at least this much memory; L2 of an H200 has 60 MB."""

FAR_SLOWER, TURNS_OF_SLOW = 4.0, 2
"""A side that cannot be the best of a row is timed less often than the others."""

Call = Callable[[int], Any]
"""Runs one side once, on the inputs with a given number."""


@dataclass(frozen=True)
class Times:
    """Microseconds per call: medians and quartiles over rounds."""

    median: float
    low: float
    high: float
    rounds: int

    @staticmethod
    def of(samples: Sequence[float]) -> Times:
        """Return statistics of the rounds."""
        quartiles = statistics.quantiles(samples, n=4) if len(samples) > 1 else [samples[0]] * 3
        return Times(statistics.median(samples), quartiles[0], quartiles[2], len(samples))


def copies_needed(input_bytes: int) -> int:
    """Return how many copies of the inputs have :data:`COLD_BYTES`."""
    return max(2, -(-COLD_BYTES // max(input_bytes, 1)))


def launches_per_graph(copies: int) -> int:
    """Return whole rounds over the copies, enough to make the start of a graph negligible."""
    return copies * max(1, -(-32 // copies))


def capture(call: Call, order: Sequence[int]) -> torch.cuda.CUDAGraph:
    """Return a graph that runs ``call`` on the inputs in ``order``, one after the other."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for i in dict.fromkeys(order[:3]):
            call(i)
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in order:
            call(i)
    return graph


def time_graphs(
    graphs: Mapping[str, torch.cuda.CUDAGraph], launches: int, rounds: int
) -> dict[str, Times]:
    """Return the time of one call in each graph; the graphs take turns. One that takes
    :data:`FAR_SLOWER` as long as the fastest takes fewer turns (:data:`TURNS_OF_SLOW`).
    """
    samples: dict[str, list[float]] = {name: [] for name in graphs}
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))

    def turn(name: str) -> float:
        begin.record()
        graphs[name].replay()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3 / launches

    warm = {name: turn(name) for name in graphs}
    slow = {name for name in graphs if warm[name] > FAR_SLOWER * min(warm.values())}
    for number in range(-1, rounds):
        for name in graphs:
            if number < TURNS_OF_SLOW or name not in slow:
                took = turn(name)
                if number >= 0:  # the first rounds warm up
                    samples[name].append(took)
    return {name: Times.of(s) for name, s in samples.items()}


def time_plain(calls: Mapping[str, Call], rounds: int, repeats: int = 20) -> dict[str, Times]:
    """Return the time of one call from Python, host and GPU together, when calls follow each other
    directly."""
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 1):
        for name, call in calls.items():
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(repeats):
                call(0)
            torch.cuda.synchronize()
            if number >= 1:
                samples[name].append((time.perf_counter() - start) * 1e6 / repeats)
    return {name: Times.of(s) for name, s in samples.items()}
