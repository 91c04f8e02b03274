"""Lower bounds on the times of kernels, before their derivations are known."""

from __future__ import annotations

from mirage.cost.kernel_time import HOT
from mirage.cost.target import Target
from mirage.search.kernel.frames import FrameType
from mirage.search.kernel.launches import time_before
from mirage.search.kernel.problem_axes import Analysis


def combined_floor(
    analysis: Analysis, kind: FrameType, target: Target, partial: float = 0.0
) -> float:
    """Return the least predicted µs of a kernel whose grid splits a sum, including the kernel that
    adds its ``partial`` bytes (or more) of results; 0 for a type that splits no sum."""
    if kind.split is None:
        return 0.0
    t, problem = target, analysis.problem
    tensors = {problem.leaves[atom.tensor] for atom in analysis.reads_first(kind)}
    read = sum(problem.read_bytes(v) for v in tensors)
    latency = t.latency if read else HOT * t.latency
    moved = max(latency + t.block_start, (read + partial) / t.dram_bytes)
    size = partial + sum(v.type.bytes for v in problem.outputs)
    own = t.launch + 0.6 * latency + moved
    combine = t.launch + 1.6 * HOT * t.latency + t.combine + size / (0.5 * t.l2_bytes)
    return own + combine + time_before(analysis, t)
