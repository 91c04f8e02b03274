"""Ops between kernels: which are kernels of their own, and what they cost."""

from __future__ import annotations

from collections.abc import Container
from math import prod

from mirage.cost.model import CostReport
from mirage.cost.target import Target
from mirage.semantics.region import contiguous_start
from mirage.semantics.ugraph import (
    Broadcast,
    Concat,
    Constant,
    Contraction,
    External,
    KernelGraph,
    Launch,
    Op,
    Reshape,
    Slice,
    Value,
)

ALIGNMENT = 16
"""Bytes that kernels copy at a time: a block that does not start at a multiple is copied."""


def is_address(op: Op) -> bool:
    """Whether an op is a slice that compiles to an address (unless it is an output)."""
    if not isinstance(op, Slice):
        return False
    start = contiguous_start(op.operands[0].shape, op.result.shape, op.offsets)
    return start is not None and start * op.result.dtype.bytes % ALIGNMENT == 0


def is_copy(op: Op, outputs: Container[Value]) -> bool:
    """Whether an op is a kernel that copies."""
    if isinstance(op, Concat):
        return True
    return isinstance(op, Slice) and (op.result in outputs or not is_address(op))


def copied_bytes(graph: KernelGraph) -> int:
    """Bytes that slices and joins copy."""
    return sum(op.result.type.bytes for op in graph.ops if is_copy(op, graph.outputs))


def is_unfused(op: Op, outputs: Container[Value]) -> bool:
    """Whether an op of a kernel graph, no launch, becomes a kernel of its own."""
    if isinstance(op, Constant | Launch | External | Reshape | Broadcast):
        return False
    return is_copy(op, outputs) if isinstance(op, Slice | Concat) else True


def unfused_report(op: Op, target: Target) -> CostReport:
    """The predicted cost of a kernel for one op: its operands read once (of a slice or join what
    it keeps), its results written once, and its products as fast as all multiprocessors can."""
    written = float(sum(v.type.bytes for v in op.results))
    read = float(sum(v.type.bytes for v in op.operands))
    if isinstance(op, Slice | Concat):
        read = written
    chain, dram = target.latency + target.block_start, (read + written) / target.dram_bytes
    compute = _multiplying(op, target)
    return CostReport(
        time=target.launch + max(chain, dram, compute),
        dram=dram,
        compute=compute,
        chain=chain,
        launch=target.launch,
        bytes_read=read,
        bytes_written=written,
    )


def _multiplying(op: Op, target: Target) -> float:
    """µs of the products that an op adds up."""
    if not isinstance(op, Contraction) or not op.sums or len(op.operands) < 2:
        return 0.0
    first = op.operands[0]
    flops = 2.0 * op.result.type.size * prod(first.shape[d] for d in op.over[0])
    half = max(target.mma_half, target.mma_group)
    return flops / (target.sms * (half if first.dtype.bytes == 2 else target.mma_f32))
