"""The order of kernels that may run at once.

A kernel loads what is there before it waits for the kernel before it, and a kernel that has nothing
in common with the one before it works beside it. So of two such kernels, the one that reads more of
the program's inputs (a projection's weights) goes first: it loads them while the kernel before it
runs, and the other one (a softmax, rotary embeddings) works beside it. The order stays where the
next kernel waits for the other one alone, since it could not work beside then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from mirage.semantics.ops.kinds import all_ops
from mirage.semantics.ops.op import Op
from mirage.semantics.ugraph import KernelGraph, Launch, Load


def with_inputs_first(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with launches in such an order; the same object if it is so already."""
    ops = list(graph.ops)
    reads = _InputBytes(graph)
    moved = False
    place = 0
    while place < len(ops):
        before = _launch_before(ops, place)
        if before is None or not _better_first(ops, before, place, reads):
            place += 1
            continue
        first = ops[before]
        stays, needed = _split(ops[before + 1 : place], first)
        ops[before : place + 1] = [*needed, ops[place], first, *stays]
        place = before + len(needed)  # it may go further
        moved = True
    return replace(graph, ops=tuple(ops)) if moved else graph


def _launch_before(ops: Sequence[Op], place: int) -> int | None:
    """Return the place of the launch before a launch, if only views are between them."""
    if not isinstance(ops[place], Launch):
        return None
    for number in reversed(range(place)):
        if isinstance(ops[number], Launch):
            return number
        if not _is_view(ops[number]):
            return None
    return None


def _is_view(op: Op) -> bool:
    return op.renames or op.cut_at is not None or op.joined_along is not None


def _split(views: Sequence[Op], launch: Op) -> tuple[list[Op], list[Op]]:
    """Divide views into those of a launch's results and others."""
    made = set(launch.results)
    own: list[Op] = []
    for op in views:
        if not made.isdisjoint(op.operands):
            made.update(op.results)
            own.append(op)
    return own, [op for op in views if op not in own]


def _better_first(ops: Sequence[Op], before: int, place: int, reads: _InputBytes) -> bool:
    """Return whether a launch should go before the one before it."""
    first, second = ops[before], ops[place]
    if reads.of(second) <= reads.of(first):
        return False
    own, _ = _split(ops[before + 1 : place], first)
    made = {v for op in (first, *own) for v in op.results}
    if not made.isdisjoint(second.operands):
        return False
    also = set(second.results)
    for op in ops[place + 1 :]:
        of_first, of_second = (not x.isdisjoint(op.operands) for x in (made, also))
        if of_second and op.updates:
            return False  # it may store its rows before the other one reads what was there
        if isinstance(op, Launch):
            return of_second or not of_first
        made.update(op.results if of_first else ())
        also.update(op.results if of_second else ())
    return True


class _InputBytes:
    """How much of a program's inputs launches load."""

    def __init__(self, graph: KernelGraph) -> None:
        self.inputs = set(graph.inputs)
        for op in graph.ops:
            if _is_view(op) and self.inputs.issuperset(op.operands):
                self.inputs.add(op.result)
        self.known: dict[Op, int] = {}

    def of(self, op: Op) -> int:
        if op not in self.known:
            assert isinstance(op, Launch)
            loaded = {x.operands[0] for x in all_ops(op.body.ops) if isinstance(x, Load)}
            pairs = zip(op.body.params, op.operands, strict=True)
            self.known[op] = sum(v.type.bytes for p, v in pairs if p in loaded and v in self.inputs)
        return self.known[op]
