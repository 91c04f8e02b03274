"""Bounds from below for kernels, before it is known how they compute."""

from __future__ import annotations

from mirage.cost.kernel_time import HOT
from mirage.cost.target import Target
from mirage.search.kernel.frames import FrameType
from mirage.search.kernel.launches import time_before
from mirage.search.kernel.problem_axes import Analysis


def combined_floor(
    analysis: Analysis, kind: FrameType, target: Target, partial: float = 0.0
) -> float:
    """Predicted µs that a kernel takes at least whose grid splits a sum, with the one that adds up
    what it stores, ``partial`` bytes at least; 0 for a type that splits none."""
    if kind.split is None:
        return 0.0
    t, problem = target, analysis.problem
    tensors = {problem.leaves[atom.tensor] for atom in analysis.reads_first(kind)}
    read = sum(v.type.bytes for v in tensors if v not in problem.hot)
    latency = t.latency if read else HOT * t.latency
    moved = max(latency + t.block_start, (read + partial) / t.dram_bytes)
    size = partial + sum(v.type.bytes for v in problem.outputs)
    own = t.launch + 0.6 * latency + moved
    combine = t.launch + 1.6 * HOT * t.latency + t.combine + size / (0.5 * t.l2_bytes)
    return own + combine + time_before(analysis, t)
