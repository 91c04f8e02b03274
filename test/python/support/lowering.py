"""Compiles µGraphs and runs their PTX in the emulator, with all checks, in comparison with float64.

`check_graph(graph)` does this for a µGraph, and `check_mlir(text)` for every graph of a module.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from mirage import ir
from mirage.compiler.collect import collect
from mirage.compiler.compile import CompileOptions, compile_text
from mirage.emulator.run_artifact import TOLERANCE, check_artifact
from mirage.mlir_io import graph_to_text, graphs_of, read_graph
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.sizes import at_size
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ugraph import KernelGraph, Launch, Op, Schedule, Value

_CAST = re.compile(r"(?:block|kernel)\.cast [^\n]*-> (?:tensor|!block\.tile)<[\dx]*x(f16|bf16)>")


@cache
def compile_mlir(text: str, chip: str = "sm_90a") -> Artifact:
    """Return the artifact of a kernel graph of the form ``selected``; each graph is compiled once,
    regardless of its text.

    ``MIRAGE_OPT`` names a mirage-opt to lower with instead of the bindings."""
    try:
        with ir.Context(load_on_create_dialects=()):
            printed = ir.Module.parse(text).operation.get_asm(use_local_scope=True)
    except ir.MLIRError:
        printed = text
    return _compiled(printed, chip)


@cache
def _compiled(text: str, chip: str) -> Artifact:
    if not (tool := os.environ.get("MIRAGE_OPT")):
        return compile_text(text, CompileOptions(chip, cubin=False, use_cache=False)).artifact
    passes = f"mirage-lower-block{{chip={chip}}},mirage-thread-to-ptx{{chip={chip}}}"
    command = [tool, "-", f"--pass-pipeline=builtin.module({passes})"]
    lowered = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if lowered.returncode:
        raise RuntimeError(lowered.stderr)
    with ir.Context(load_on_create_dialects=()):
        return collect(ir.Module.parse(lowered.stdout), "test", chip)


def compile_graph(graph: KernelGraph, chip: str = "sm_90a") -> Artifact:
    """Return the artifact of a µGraph."""
    return _compiled(graph_to_text(graph, form="selected"), chip)


def check_graph(
    graph: KernelGraph,
    reference: KernelGraph | None = None,
    *,
    chip: str = "sm_90a",
    tolerance: float | None = None,
    seed: int = 0,
) -> None:
    """Run the µGraph's PTX with all checks; its outputs must be those of ``reference`` (default:
    its own meaning) up to rounding."""
    artifact = compile_graph(graph, chip)
    meaning = reference or graph

    def expected(*inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(x) for x in evaluate_floats(meaning, list(inputs)))

    check_artifact(artifact, expected, tolerance=tolerance, seed=seed)


def check_mlir(
    text: str, *, chip: str = "sm_90a", meaning: str | None = None, tolerance: float | None = None
) -> int:
    """Run each kernel graph of a module as `check_graph` does; the graph of the same name in
    ``meaning`` (default: the graph itself) defines its results. Launches without a schedule get
    one. Intermediate values that are rounded to a narrower type set the tolerance of all outputs.
    Return the number of graphs."""
    with ir.Context(load_on_create_dialects=()):
        graphs = [
            (read_graph(op).graph, op.get_asm(use_local_scope=True))
            for op in graphs_of(ir.Module.parse(text).operation)
        ]
        known = {g.name: g for g, _ in graphs}
        if meaning is not None:
            given = ir.Module.parse(meaning)
            known = {g.name: g for g in (read_graph(op).graph for op in graphs_of(given.operation))}
    for graph, source in graphs:
        reference = known[graph.name]

        def expected(*inputs: np.ndarray, of: KernelGraph = reference) -> tuple[np.ndarray, ...]:
            return tuple(np.asarray(x) for x in evaluate_floats(of, list(inputs)))

        if "kernel.launch" in source and "schedule <" not in source:
            source = graph_to_text(with_schedule(graph, 4, 2), form="selected")
        allowed = tolerance
        for narrow in set(_CAST.findall(source)) if tolerance is None else ():
            allowed = max(allowed or 0.0, TOLERANCE[narrow])
        artifact = compile_mlir(source, chip)
        check_artifact(artifact, expected, tolerance=allowed)
        check_sizes(artifact, expected, tolerance=allowed)
    return len(graphs)


def check_sizes(
    artifact: Artifact,
    expected: Callable[..., tuple[np.ndarray, ...]],
    sizes: Sequence[int] = (),
    *,
    tolerance: float | None = None,
) -> None:
    """Run an artifact with a size at smaller sizes, by default at the least, an odd one and the
    second largest; ``expected`` is its meaning at the largest size. Missing rows are ones there,
    which must have no effect."""
    m = artifact.manifest
    if m.size is None:
        return
    most = m.size.at_most
    for n in sizes or sorted({1, most // 2 - 1 | 1, most - 1}):
        there = replace(artifact, manifest=at_size(m, n))

        def rows(*inputs: np.ndarray, n: int = n) -> tuple[np.ndarray, ...]:
            whole = [
                np.concatenate([x, np.ones((s.shape[0] - len(x), *x.shape[1:]))])
                if len(x) < s.shape[0]
                else x
                for x, s in zip(inputs, m.inputs, strict=True)
            ]
            return tuple(y[: len(y) // most * n] for y in expected(*whole))

        check_artifact(there, rows, tolerance=tolerance)


def with_schedule(graph: KernelGraph, warps: int, stages: int) -> KernelGraph:
    """Return the graph with another schedule for all of its launches."""
    values: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        operands = tuple(values.get(v, v) for v in op.operands)
        results = tuple(Value(v.type, v.name) for v in op.results)
        values.update(zip(op.results, results, strict=True))
        changes: dict[str, Any] = {"operands": operands, "results": results}
        if isinstance(op, Launch):
            changes["schedule"] = Schedule(warps, stages)
        ops.append(replace(op, **changes))
    outputs = tuple(values.get(v, v) for v in graph.outputs)
    return KernelGraph(graph.name, graph.inputs, tuple(ops), outputs)
