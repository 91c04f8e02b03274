"""Optimizes one layer of the gallery, and later executes it without a GPU and compares it with
PyTorch.

Compiled kernels run in the emulator (at small widths). At real widths, for which emulation takes
too long, the chosen µGraphs run in the interpreter with every op rounded to its type. Errors are
those of whole outputs against the module in float64.
"""

from __future__ import annotations

import mmap
import pickle
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from gallery import Case, Width
from gallery.case import Layer
from gallery.running import Runner, compare, emulated, interpreted
from mirage import from_torch
from mirage.cost.copy_kernels import unfused_in
from mirage.errors import MirageError
from mirage.frontend.program import Program
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Optimized, Step
from mirage.semantics.ugraph import KernelGraph, Launch
from usage import Memory

Row = dict[str, Any]
RUNNERS: dict[Width, tuple[str, Runner]] = {
    "small": ("emulator", emulated),
    "real": ("interpreter", interpreted),
}
"""The functions that execute the layers of a width."""
CHARACTERS = 240
"""The most characters of a reason."""


@dataclass(frozen=True)
class Found:
    """The part of an optimized layer that is needed to execute it. Its program is imported again,
    so that its tensors need not be kept."""

    program: Program
    graph: KernelGraph
    steps: tuple[Step, ...]


def measure(
    case: Case, width: Width, options: OptimizeOptions, kept: Path, process: int | None = None
) -> Row:
    """The optimization of one layer; ``error`` says where and why it ended early. The result is
    kept for :func:`execute`. Memory is that of a ``process`` (this one) and all below it; the
    layer's weights take none."""
    start = time.perf_counter()
    layer = without_weights(case.build(width))
    row: Row = {"case": case.name, "width": width, "dtype": str(case.dtype).removeprefix("torch.")}
    at = time.perf_counter()
    try:
        imported = from_torch(layer.module, *layer.inputs, allow_fallback=case.fallback)
    except MirageError as error:
        return {**row, "error": f"import: {_line(error)}"}
    row |= {"ops": len(imported.graph.ops), "import_s": time.perf_counter() - at}
    clock = Clock(options.show)
    try:
        with Memory(process) as memory:
            optimized = optimize(imported.program, replace(options, progress=clock.show))
    except MirageError as error:
        return {**row, "error": f"{clock.stage}: {_line(error)}", **clock.spent()}
    row |= {**clock.spent(), **account(optimized), "peak_mib": memory.most}
    row["before_mib"] = memory.before
    kept.parent.mkdir(parents=True, exist_ok=True)
    kept.write_bytes(pickle.dumps((optimized.graph, optimized.steps)))
    row["all_s"] = time.perf_counter() - start
    return row


def without_weights(layer: Layer) -> Layer:
    """Return the layer with weights that have never been written: the system gives them no memory.
    The values of weights do not affect the optimization; buffers hold constants, and keep them."""
    for parameter in layer.module.parameters():
        parameter.data = mapped(parameter.data)
    return layer


def mapped(x: torch.Tensor) -> torch.Tensor:
    """Return a tensor like ``x`` in new memory that was never touched (PyTorch's allocator may
    reuse freed memory)."""
    if not x.numel():
        return x
    pages = mmap.mmap(-1, x.numel() * x.element_size())
    return torch.frombuffer(pages, dtype=x.dtype, count=x.numel()).view(x.shape)


class Clock:
    """Measures the time of each stage, from the driver's reports of progress."""

    STAGES = ("search", "verify", "compile", "check")

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say = say
        self.stage = "search"
        self.seconds: Counter[str] = Counter()
        self.start = self.at = time.perf_counter()

    def show(self, text: str) -> None:
        """A driver's ``progress``."""
        self._tick()
        stage = text.partition(":")[0]
        self.stage = stage if stage in self.STAGES else self.stage
        self.say(text)

    def spent(self) -> Row:
        """Seconds of each stage so far, and in all."""
        self._tick()
        return {f"{k}_s": v for k, v in self.seconds.items()} | {"total_s": self.at - self.start}

    def _tick(self) -> None:
        now = time.perf_counter()
        self.seconds[self.stage] += now - self.at
        self.at = now


def account(optimized: Optimized) -> Row:
    """Return the driver's report. Ops other than launches count if they become kernels: views and
    slices that are addresses cost nothing."""
    report = optimized.report
    stays = Counter(s.external.target for s in optimized.steps if s.external is not None)
    return {
        "stop": [r.report.stop.value for r in report.searches if r.candidates],
        "kernels": sum(isinstance(op, Launch) for op in optimized.graph.ops),
        "own_ops": sum(1 for _ in unfused_in(optimized.graph)),
        "predicted_us": None if report.prediction is None else report.prediction.time,
        "verdicts": dict(Counter(c.verdict.kind.value for c in optimized.verdicts)),
        "kept": sum(c.kept for c in optimized.verdicts),
        "parts": len(report.searches),
        "fell_back": [note[:CHARACTERS] for note in report.notes if "own ops" in note],
        "dropped": _reasons(optimized),
        "stays": dict(stays),
        "notes": [note[:CHARACTERS] for note in report.notes[:4]],
    }


def _reasons(optimized: Optimized) -> dict[str, int]:
    """Return why candidates were dropped."""
    reasons: Counter[str] = Counter()
    for checked in optimized.verdicts:
        if not checked.kept:
            verdict = checked.verdict
            doubts = [e for e in verdict.evidence if e.holds is not True]
            text = f"{doubts[-1].name}: {doubts[-1].text}" if doubts else verdict.kind.value
            reasons[str(verdict.witness or text)[:CHARACTERS]] += 1
    return dict(reasons.most_common(3))


def execute(case: Case, width: Width, kept: Path) -> Row:
    """Return the errors of the kept result and of PyTorch against float64."""
    at = time.perf_counter()
    layer = case.build(width)
    imported = from_torch(layer.module, *layer.inputs, allow_fallback=case.fallback)
    graph, steps = pickle.loads(kept.read_bytes())
    by, run = RUNNERS[width]
    try:
        result = compare(Found(imported.program, graph, steps), layer, run)
    except MirageError as error:
        return {"error": f"execute: {_line(error)}"}
    return {
        "by": by,
        "error_ours": [result.ours.l2, result.ours.max],
        "error_torch": [result.torch.l2, result.torch.max],
        "right": result.right,
        "execute_s": time.perf_counter() - at,
    }


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {str(error).splitlines()[0]}"[:CHARACTERS]
