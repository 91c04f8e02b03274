"""The order of kernels that may run at once.

Before a kernel waits for the previous one, it loads the data that already exists, and a kernel that
shares no data with the previous one runs at the same time. But a kernel is started only once the
kernel before the previous one has ended. So a small kernel (a softmax, rotary embeddings) goes
after those that stream weights and do not need its results: each of these, one directly after the
other, loads while the previous one still runs, and the small one runs together with the last of
them. On an H200, a step of DeepSeek-V2-Lite takes 1.861 ms in this order, and 1.879 with the
kernels in the order in which they were found (one run); a softmax between two projections costs as
much as it saves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirage.semantics.ops.kinds import Structure, all_ops
from mirage.semantics.ops.op import Op
from mirage.semantics.positions import index_of
from mirage.semantics.ugraph import KernelGraph, Launch, launches

STREAMED = 1 << 20
"""The bytes of inputs from which a kernel streams them."""
SMALL = STREAMED // 16
"""The most bytes of inputs that a kernel reads if it takes about as long as its start."""


def with_streams_first(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with launches in such an order; the same object if it already has one."""
    ops = list(graph.ops)
    reads = _InputBytes(graph)
    moved = False
    place = 0
    while place < len(ops):
        before = _launch_before(ops, place)
        if before is None or not _may_go_first(ops, before, place, reads):
            place += 1
            continue
        first = ops[before]
        stays, needed = _split(ops[before + 1 : place], first)
        ops[before : place + 1] = [*needed, ops[place], first, *stays]
        place = before + len(needed)  # it may move further
        moved = True
    return replace(graph, ops=tuple(ops)) if moved else graph


def _launch_before(ops: Sequence[Op], place: int) -> int | None:
    """Return the place of the launch before a launch, if only views and updates are between
    them."""
    if not isinstance(ops[place], Structure):
        return None
    for number in reversed(range(place)):
        if isinstance(ops[number], Structure):
            return number
        if not (_is_view(ops[number]) or ops[number].updates):
            return None
    return None


def _is_view(op: Op) -> bool:
    """Return whether an op runs nothing, or only joins what kernels have stored."""
    return op.renames or op.cut_at is not None or op.joined_along is not None


def _split(views: Sequence[Op], launch: Op) -> tuple[list[Op], list[Op]]:
    """Divide views and updates into those of a launch's results and others."""
    made = set(launch.results)
    own: list[Op] = []
    for op in views:
        if not made.isdisjoint(op.operands):
            made.update(op.results)
            own.append(op)
    return own, [op for op in views if op not in own]


def _may_go_first(ops: Sequence[Op], before: int, place: int, reads: _InputBytes) -> bool:
    """Return whether a launch streams inputs and may go before the small one before it."""
    first, second = ops[before], ops[place]
    if reads.of(first) > SMALL or reads.of(second) < STREAMED:
        return False
    own, others = _split(ops[before + 1 : place], first)
    if any(op.updates for op in others):
        return False  # they may store rows before the first launch reads the previous contents
    made = {v for op in (first, *own) for v in op.results}
    return made.isdisjoint(second.operands) and not _is_updated_with(ops[place + 1 :], second)


def _is_updated_with(later: Sequence[Op], launch: Op) -> bool:
    """Return whether rows that a launch computes are stored in a tensor that others may read: it
    must not store them before."""
    made = set(launch.results)
    for op in later:
        if not made.isdisjoint(op.operands):
            if op.updates:
                return True
            if _is_view(op):
                made.update(op.results)
    return False


class _InputBytes:
    """The bytes of a program's inputs that launches load, other than rows by index."""

    def __init__(self, graph: KernelGraph) -> None:
        self.inputs = set(graph.inputs)
        for op in graph.ops:
            if _is_view(op) and self.inputs.issuperset(op.operands):
                self.inputs.add(op.result)
        self.known: dict[Op, int] = {op: self._loaded(op) for op in launches(graph.ops)}

    def of(self, op: Op) -> int:
        return self.known[op]

    def _loaded(self, op: Launch) -> int:
        loads = (x for x in all_ops(op.body.ops) if index_of(x) is None)
        loaded = {v for x in loads for v in x.operands}
        pairs = zip(op.body.params, op.operands, strict=True)
        return sum(v.type.bytes for p, v in pairs if p in loaded and v in self.inputs)
