"""The predicted times of a program without a search, for comparison: with a kernel for each op, and
with a kernel for each group of ops between products.

The first is what PyTorch does, the second what a compiler does that fuses elementwise ops and
reductions; products are those of a library (:mod:`mirage.cost.library_products`) in both. Calls of
PyTorch are not counted on either side.
"""

from __future__ import annotations

from mirage.cost.copy_kernels import copies_in, is_unfused, product_work, unfused_in, unfused_report
from mirage.cost.cost_report import CostReport
from mirage.cost.library_products import library_product
from mirage.cost.target import Target
from mirage.semantics.ugraph import KernelGraph, Movement, Op, Value


def op_by_op(graph: KernelGraph, target: Target) -> CostReport:
    """Predict the cost of a program each of whose ops is a kernel."""
    parts = tuple(_alone(op, target) for op in unfused_in(graph))
    return CostReport.sequence(parts, target, early=False)


def fused(graph: KernelGraph, target: Target) -> CostReport:
    """Predict the cost of a program whose ops between products are fused."""
    groups = _Grouping(graph, target).groups
    parts = tuple(_report(graph, group, target) for group in groups if group.ops)
    return CostReport.sequence(parts, target, early=False)


def _alone(op: Op, target: Target) -> CostReport:
    return library_product(op, target) if product_work(op) else unfused_report(op, target)


class _Group:
    """Ops that are one kernel. A group of a ``level`` reads results of lower levels only, so groups
    of one level may be merged. Nothing joins a ``closed`` group."""

    def __init__(self, level: int, closed: bool) -> None:
        self.level, self.closed = level, closed
        self.ops: list[Op] = []


class _Grouping:
    def __init__(self, graph: KernelGraph, target: Target) -> None:
        self.groups: list[_Group] = []
        self.of: dict[Value, _Group] = {}
        copies = copies_in(graph)
        for op in graph.ops:
            if is_unfused(op, copies):
                group = self._new(op, closed=True) if product_work(op) else self._joined(op)
                group.ops.append(op)
            elif isinstance(op, Movement):  # a view: in the group of its operand
                group = self._latest(op)
            else:  # a call of PyTorch, or a constant
                group = self._new(op, closed=True) if op.operands else None
            if group is not None:
                self.of.update(dict.fromkeys(op.results, group))

    def _read(self, op: Op) -> list[_Group]:
        return [self.of[v] for v in op.operands if v in self.of]

    def _latest(self, op: Op) -> _Group | None:
        return max(self._read(op), key=lambda g: g.level, default=None)

    def _new(self, op: Op, closed: bool) -> _Group:
        level = 1 + max((g.level for g in self._read(op)), default=0)
        self.groups.append(_Group(level, closed))
        return self.groups[-1]

    def _joined(self, op: Op) -> _Group:
        """Return the group that an op joins: those of the highest level that it reads, merged."""
        latest = self._latest(op)
        level = 0 if latest is None else latest.level
        found = [g for g in dict.fromkeys(self._read(op)) if g.level == level]
        if not found or any(g.closed for g in found):
            return self._new(op, closed=False)
        first, *others = found
        for other in others:
            first.ops += other.ops
            self.groups.remove(other)
            self.of.update({v: first for v, g in self.of.items() if g is other})
        return first


def _report(graph: KernelGraph, group: _Group, target: Target) -> CostReport:
    """Predict the cost of a group: values from outside are read once, and values that are used
    outside are written once."""
    if len(group.ops) == 1:
        return _alone(group.ops[0], target)
    inside = set(group.ops)
    made = {v for op in group.ops for v in op.results}
    read = {v for op in group.ops for v in op.operands} - made
    used = {v for op in graph.ops if op not in inside for v in op.operands} | set(graph.outputs)
    taken = float(sum(v.type.bytes for v in read))
    written = float(sum(v.type.bytes for v in made & used))
    chain, dram = target.latency + target.block_start, (taken + written) / target.dram_bytes
    return CostReport(
        time=target.launch + max(chain, dram),
        dram=dram,
        chain=chain,
        launch=target.launch,
        bytes_read=taken,
        bytes_written=written,
    )
