"""Programs of positions, lengths and indices at small sizes, executed in the emulator."""

from __future__ import annotations

import mirage as mi
import numpy as np
import pytest
from mirage.emulator.run_artifact import run_artifact
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.workloads import Workload
from mirage.workloads.expert_layers import grouped_experts, routed_experts
from mirage.workloads.position_programs import (
    alibi_prompt,
    decode_lengths,
    embedding_norm,
    masked_prompt,
    prefix,
    target_loss,
    window,
)
from thorough import some_of

OPTIONS = mi.OptimizeOptions(chip="h200", candidates=2, verify_seed=1, jobs=1, cubin=False)
SMALL = [
    masked_prompt("window", 4, 2, 256, 64, window(100)),
    masked_prompt("prefix", 4, 2, 192, 64, prefix(70)),
    alibi_prompt("alibi", 2, 1, 192, 64),
    decode_lengths("ragged", 3, 8, 2, 64, 384),
    decode_lengths("paged", 3, 8, 2, 64, 384, 16),
    embedding_norm("embedding", 5, 50, 256),
    target_loss("targets", 5, 1000),
    routed_experts("routed", 16, 4, 2, 64, 128),
    grouped_experts("grouped", 24, 4, 2, 64, 128, 16),
]


@pytest.mark.parametrize("workload", some_of(SMALL, 12), ids=lambda w: w.name)
def test_kernels_compute_what_the_program_says(workload: Workload) -> None:
    graph, inputs = workload.graph(), workload.numpy_inputs(seed=3)
    found = mi.optimize(graph, OPTIONS)
    assert all(step.external is None for step in found.steps)
    exact = evaluate_floats(graph, inputs)
    rounded = evaluate_floats(graph, inputs, TypedFloat())
    got = run_artifact(found.artifact, inputs).outputs
    for ours, theirs, wanted in zip(got, rounded, exact, strict=True):
        size = float(np.linalg.norm(wanted))
        allowed = max(2 * float(np.linalg.norm(theirs - wanted)), 1e-6 * size)
        assert float(np.linalg.norm(ours - wanted)) <= allowed
