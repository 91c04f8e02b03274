"""The demo's checks distinguish correct programs from wrong ones."""

from __future__ import annotations

import numpy as np
from mirage.cli import checks
from mirage.cli.programs import of_workload
from mirage.frontend.kernel_graph import new_kernel_graph
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph
from mirage.workloads.attention import plain_attention
from mirage.workloads.linear import rms_matmul


def test_interpreted_programs() -> None:
    loaded = of_workload(rms_matmul("small", 4, 64, 32, gain=True))
    optimized = optimize(loaded.program, OptimizeOptions(compile=False, candidates=1))
    result = checks.interpret(loaded, optimized.graph)
    assert result["ok"]
    assert 0 < result["error"] <= result["allowed"]


def ignores_gain() -> KernelGraph:
    """A program that takes a gain but does not use it."""
    graph = new_kernel_graph("ignores_gain")
    x = graph.new_input((4, 64), DType.F16)
    gain = graph.new_input((64,), DType.F16)
    w = graph.new_input((64, 32), DType.F16)
    graph.mark_output((graph.rms_norm(x, eps=1e-6) + graph.mul(gain, 0.0)) @ w)
    return graph.build()


def test_a_wrong_program_is_told() -> None:
    loaded = of_workload(rms_matmul("small", 4, 64, 32, gain=True))
    result = checks.interpret(loaded, ignores_gain())
    assert not result["ok"]
    assert result["error"] > 10 * result["allowed"]


def test_attention_with_its_maxima() -> None:
    loaded = of_workload(plain_attention("small", "", 1, 8, 16, 100))
    optimized = optimize(loaded.program, OptimizeOptions(compile=False, candidates=3))
    assert checks.interpret(loaded, optimized.graph)["ok"]


def test_not_a_number_is_wrong() -> None:
    assert checks.relative_error(np.array([1.0, np.nan]), np.ones(2)) == float("inf")
    assert checks.relative_error(np.array([1.0, np.inf]), np.ones(2)) == float("inf")
    assert checks.relative_error(np.zeros(2), np.zeros(2)) == 0.0
