"""The results of ``torch.compile(backend="mirage")`` for a model, graph by graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from mirage.cost.fused_ops import fused, op_by_op
from mirage.cost.target import target_for
from mirage.frontend.errors import GraphTypeError
from mirage.frontend.location import user_location
from mirage.frontend.torch_import import given_arguments
from mirage.pipeline.result import Optimized
from mirage.torch.background import load_program, reports
from mirage.torch.compiled_graph import Compiler, Report
from mirage.torch.graph_compiler import backend
from mirage.torch.graph_work import BLOCKING


@dataclass(frozen=True)
class Explanation:
    """The graphs of a model, in the order in which TorchDynamo compiled them, with their state when
    the explanation is printed."""

    graphs: tuple[Report, ...]
    breaks: tuple[str, ...] = ()
    """The code that TorchDynamo left to Python between the graphs, and the reasons."""

    def __str__(self) -> str:
        lines: list[str] = []
        if not self.graphs:
            lines.append("no graph reached the backend: PyTorch runs the model unchanged")
        for number, graph in enumerate(self.graphs):
            sizes = f", {graph.sizes}" if graph.sizes else ""
            lines.append(f"graph {number}: {_count(graph.ops, 'op')}{sizes}, {_what(graph)}")
            why = dict.fromkeys(zip(graph.calls, graph.reasons, strict=True))
            lines += [f"  {_short(call)}: {reason}" for call, reason in why]
        lines += [f"between graphs: {why}" for why in self.breaks]
        return "\n".join(lines)


def explain(
    model: Any = None,
    *inputs: Any,
    options: dict[str, Any] | None = None,
    compiler: Compiler | None = None,
    load: Compiler = load_program,
    devices: Sequence[str] = ("cuda",),
    **named: Any,
) -> Explanation:
    """Run a model once under ``torch.compile`` and report what was compiled, which calls remained
    with PyTorch, and why. Raises :class:`~mirage.frontend.errors.GraphTypeError` for an object that
    is not a model.

    ``inputs`` and ``named`` are the model's arguments (a single dictionary by the names of its
    parameters stands for named ones), and ``options`` those of the backend (it
    waits for kernels unless ``blocking`` is False). TorchDynamo's state for other models does not
    change. In addition to the predicted time of the kernels, the report has that of the same
    program without a search, by the same cost model: with a kernel for each op, like PyTorch (which
    has single kernels for some ops that are several here), and with all ops between products fused,
    like the default backend of ``torch.compile``.

    Without a model, report on the graphs that this process has passed to compile processes so far,
    and on their progress."""
    if model is None:
        return Explanation(reports())
    if isinstance(model, type):
        raise GraphTypeError(
            f"explain: expected a module or a function, got the class {model.__name__}; pass an "
            "object of it",
            user_location(),
        )
    if not callable(model):
        raise GraphTypeError(
            f"explain: expected a module or a function, got {type(model).__name__}",
            user_location(),
        )
    inputs, named = given_arguments(model, inputs, named)
    graphs: list[Report] = []
    chosen = partial(
        backend,
        options={BLOCKING: True, **(options or {})},
        compiler=compiler,
        load=load,
        devices=devices,
        watch=graphs.append,
    )
    from torch._dynamo.utils import counters

    before = dict(counters["graph_break"])
    with torch.no_grad():
        torch.compile(_Once(model), backend=chosen)(*inputs, **named)
    breaks = [why for why, n in counters["graph_break"].items() if n > before.get(why, 0)]
    return Explanation(tuple(graphs), tuple(map(_break, breaks)))


def _break(reason: str) -> str:
    """Return TorchDynamo's description of a break in one line."""
    what, *rest = (line.strip() for line in reason.splitlines())
    why = next((x.partition(":")[2].strip() for x in rest if x.startswith("Explanation:")), "")
    return f"{what}: {why}" if why else what


class _Once(torch.nn.Module):
    """A new wrapper of a model, for which TorchDynamo has no earlier compilations."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.model = model

    def forward(self, *inputs: Any, **named: Any) -> Any:
        return self.model(*inputs, **named)


def _times(optimized: Optimized) -> str:
    """Describe the predicted time of the kernels, that of the same program without a search, and
    the measurements; empty if nothing was predicted for the kernels."""
    report = optimized.report
    if report.prediction is None:
        return ""
    graph, target = optimized.program.graph, target_for(optimized.options.chip)
    own = report.prediction.time + sum(p.places * p.calls for p in report.left)
    alone = op_by_op(graph, target).time
    together = fused(graph, target).time
    text = f", {own:.3g} µs predicted (each op a kernel: {alone:.3g}, fused ops: {together:.3g})"
    if own >= min(alone, together):
        other = "PyTorch" if own >= alone else "torch.compile"
        text += f", not expected to be faster than {other}"
    if report.left:
        many = sum(p.places for p in report.left)
        text += f", {_count(many, 'part')} left to PyTorch, which is predicted to be faster"
    if late := report.out_of_time:
        text += (
            f", out of time for {late.fell_back + late.unfinished} of {late.parts} parts (a budget "
            f"above {late.budget:.3g} s may find faster kernels)"
        )
    if report.measured is not None:
        for place, number in report.measured.microseconds:
            if place == optimized.place:
                text += f", {number:.3g} µs measured on {report.measured.device}"
    return text


def _short(call: str) -> str:
    return call.removeprefix("aten.")


def _count(n: int, what: str) -> str:
    return f"{n} {what}{'s' * (n != 1)}"


def _what(graph: Report) -> str:
    if graph.reason:
        return f"stays with PyTorch: {graph.reason}"
    if graph.cut:
        return f"is compiled in pieces: {graph.cut}"
    job = graph.job
    if job is not None:
        return f"PyTorch answers, being compiled for {job.seconds:.0f} s ({job.doing})"
    text = "compiled"
    optimized = getattr(graph.compiled, "optimized", graph.compiled)  # at the largest size
    if isinstance(optimized, Optimized):
        text = _count(optimized.kernels, "kernel")
        text += _times(optimized)
    if graph.calls:
        names = Counter(map(_short, graph.calls))
        calls = ", ".join(name if n == 1 else f"{name} ({n})" for name, n in names.items())
        text += f"; calls of PyTorch: {calls}"
    return text
