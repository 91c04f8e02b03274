"""Lower bounds on the times of kernels, before their derivations are known."""

from __future__ import annotations

from mirage.cost.features import features_of
from mirage.cost.first_bytes import HOT, after_another
from mirage.cost.kernel_time import report
from mirage.cost.overlapping_views import least_from_memory
from mirage.cost.target import Target
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.loop_nests.problem_axes import Analysis
from mirage.semantics.ugraph import launches


def combined_floor(
    analysis: Analysis, kind: FrameType, target: Target, partial: float = 0.0
) -> float:
    """Return the least predicted µs of a kernel whose grid splits a sum, including the kernel that
    adds its ``partial`` bytes (or more) of results; 0 for a type that splits no sum."""
    if kind.split is None:
        return 0.0
    t, problem = target, analysis.problem
    tensors = {problem.leaves[atom.tensor] for atom in analysis.reads_first(kind)}
    sizes = {v: problem.read_bytes(v) for v in problem.leaves if v in tensors}
    read = least_from_memory(sizes, dict(problem.cuts), sizes)
    latency = t.latency if read else HOT * t.latency
    moved = max(latency + t.block_start, (read + partial) / t.dram_bytes)
    size = partial + sum(v.type.bytes for v in problem.outputs)
    own = t.launch + 0.6 * latency + moved
    combine = t.launch + 1.6 * HOT * t.latency + after_another(t) + size / (0.5 * t.l2_bytes)
    return own + combine + time_before(analysis, t)


def time_before(analysis: Analysis, target: Target) -> float:
    """Return the predicted µs of the kernels that prepare the tensors which the problem reads."""
    kernels = launches(analysis.before)
    return sum(report(features_of(op), target).time + after_another(target) for op in kernels)
