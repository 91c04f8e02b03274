"""What the rewrite makes of each kind of program, compiled and executed in the emulator with scores
of magnitude 1e4.
"""

from __future__ import annotations

import numpy as np
import pytest
from lowering import compile_graph, with_schedule
from mirage.emulator.artifact import check_artifact
from mirage.semantics.evaluate import evaluate_floats
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms import stabilize
from stability_graphs import joined_attention, joined_reference, two_passes

PARTS = {
    "one kernel": (96, 1),
    "normalised": (96, 16),
    "one loop": (64, 64),
    "split": (64, 16),
}


def run(graph: KernelGraph, reference: KernelGraph, chip: str, scale: float) -> None:
    """The first input is ``scale`` times as large as the others."""
    result = stabilize(graph)
    assert not result.unstable
    safe = stabilize(reference).graph
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs]
    inputs[0] = inputs[0] * np.float32(scale)
    half = graph.inputs[0].dtype.is_half
    given = [x.astype(np.float16) if half else x for x in inputs]

    def expected(*values: np.ndarray) -> tuple[np.ndarray, ...]:
        found = tuple(np.asarray(x) for x in evaluate_floats(safe, list(values)))
        assert all(np.isfinite(x).all() for x in found)
        return found

    artifact = compile_graph(with_schedule(result.graph, 4, 2), chip)
    check_artifact(artifact, expected, inputs=given)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", PARTS)
def test_joined_attention(kind: str, chip: str) -> None:
    parts, half = PARTS[kind], DType.F16
    graph = joined_attention(kind=kind, rows=16, dim=16, parts=parts, tile=32, dtype=half)
    run(graph, joined_reference(2, 16, 16, parts, half), chip, 1e4)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("what", ["softmax", "cross entropy"])
def test_two_passes(what: str, chip: str) -> None:
    graph = two_passes(rows=4, columns=300, tiles=(128, 64), what=what)
    run(graph, graph, chip, 1e4)
