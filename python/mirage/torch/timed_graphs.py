"""The graphs of a model under ``torch.compile``, with the candidates that are the fastest on this
machine's GPU."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from mirage.frontend.program import Program
from mirage.pipeline import measure
from mirage.pipeline.measure import NothingToMeasureError, Timer, fastest
from mirage.pipeline.result import Optimized
from mirage.torch.background import load_program
from mirage.torch.compiled_graph import Compiled
from mirage.torch.explanation import Explanation, explain

SECONDS = 60.0


def tune(
    model: Any,
    *inputs: Any,
    seconds: float = SECONDS,
    options: dict[str, Any] | None = None,
    timer: Timer | None = None,
    load: Callable[[Program, Mapping[str, Any]], Any] = load_program,
    devices: Sequence[str] = ("cuda",),
    **named: Any,
) -> Explanation:
    """Run a model once under ``torch.compile``, time the best candidates of each of its graphs, and
    keep the choice in the cache: a later start takes the fastest at once.

    The arguments are those of :func:`mirage.torch.explain`; ``seconds`` are for timing, after the
    search; each graph gets half of the remaining seconds. Classes of dynamic sizes are not timed.
    Raises :class:`~mirage.runtime.errors.NoGpuError`.
    """
    if timer is None:
        measure.need_gpu("tuning")
    end = time.monotonic() + seconds

    def timed(program: Program, chosen: Mapping[str, Any]) -> Compiled:
        begun = time.monotonic()
        found: Any = load(program, chosen)
        nonlocal end
        end += time.monotonic() - begun
        return _Timed(found, lambda: (end - time.monotonic()) / 2, timer)

    return explain(model, *inputs, options=options, devices=devices, load=timed, **named)


class _Timed:
    """A program whose candidates are timed in its first call, on the inputs of that call."""

    def __init__(self, found: Optimized, seconds: Callable[[], float], timer: Timer | None) -> None:
        self.optimized, self._seconds, self._timer = found, seconds, timer
        self._is_timed = False

    def __call__(self, *inputs: torch.Tensor) -> Any:
        if not self._is_timed:
            self._is_timed = True
            try:
                measured = fastest(
                    self.optimized, *inputs, seconds=max(0.0, self._seconds()), timer=self._timer
                )
                self.optimized = measured.optimized
            except NothingToMeasureError as error:
                self.optimized.report.notes.append(error.message)
        return self.optimized(*inputs)
