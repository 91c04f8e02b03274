"""Compiles µGraphs and runs their PTX in the emulator against float64."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
from mirage import ir
from mirage.compiler.collect import collect
from mirage.compiler.compile import CompileOptions, compile_text
from mirage.emulator.artifact import check_artifact
from mirage.passes.ugraph_io import graph_to_text
from mirage.runtime.artifact import Artifact
from mirage.semantics.evaluate import evaluate_floats
from mirage.semantics.ugraph import KernelGraph, Launch, Op, Schedule, Value


@cache
def compile_mlir(text: str, chip: str = "sm_90a") -> Artifact:
    """The artifact of a kernel graph in form ``selected``.

    ``MIRAGE_OPT`` names a mirage-opt to lower with instead of the bindings.
    """
    if not (tool := os.environ.get("MIRAGE_OPT")):
        return compile_text(text, CompileOptions(chip, cubin=False, use_cache=False)).artifact
    passes = f"mirage-lower-block{{chip={chip}}},mirage-thread-to-ptx{{chip={chip}}}"
    command = [tool, "-", f"--pass-pipeline=builtin.module({passes})"]
    lowered = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if lowered.returncode:
        raise RuntimeError(lowered.stderr)
    with ir.Context():
        return collect(ir.Module.parse(lowered.stdout), "test", chip)


def compile_graph(graph: KernelGraph, chip: str = "sm_90a") -> Artifact:
    """The artifact of a µGraph."""
    return compile_mlir(graph_to_text(graph, form="selected"), chip)


def check_graph(
    graph: KernelGraph,
    reference: KernelGraph | None = None,
    *,
    chip: str = "sm_90a",
    tolerance: float | None = None,
    seed: int = 0,
) -> None:
    """Runs the µGraph's PTX with all checks; its outputs must be those of ``reference`` (default:
    its own meaning) up to rounding.
    """
    artifact = compile_graph(graph, chip)
    meaning = reference or graph

    def expected(*inputs: np.ndarray) -> tuple[np.ndarray, ...]:
        return tuple(np.asarray(x) for x in evaluate_floats(meaning, list(inputs)))

    check_artifact(artifact, expected, tolerance=tolerance, seed=seed)


def with_schedule(graph: KernelGraph, warps: int, stages: int) -> KernelGraph:
    """The graph with another schedule for all of its launches."""
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
