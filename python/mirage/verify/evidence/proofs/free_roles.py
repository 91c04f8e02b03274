"""Inputs that are read in several roles, replaced by one input for each role.

The positions along a sequence number both queries and keys: programs read one tensor along the rows
of scores and along their columns. If two programs are equal for any two tensors there, they are
equal for one tensor in both places. With one tensor, rows and columns have the same indices, so the
cuts of both meet, and no row is independent of the others; with an input for each role they are
separate.

The *role* of a reading is the relation of its dimensions to all others, in both programs. The
assignment of roles to readings is a guess, and soundness does not depend on it: for any choice of
inputs, the programs are the given ones once all inputs that replace one input hold the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from mirage.semantics.ugraph import (
    KernelGraph,
    Launch,
    Op,
    Source,
    Structure,
    Value,
    all_ops,
    launches,
)
from mirage.verify.compression.index_relations import Irregular, Slots
from mirage.verify.verdict import Evidence, HoldsFor

Reading = tuple[Op, int]
"""An op between kernels and the number of its operand, or a load in a kernel and 0."""
Role = tuple[Hashable, ...]


@dataclass(frozen=True)
class Roles:
    """Two programs with an input for each role, and the number of inputs that replace each
    input."""

    first: KernelGraph
    second: KernelGraph
    counts: tuple[int, ...]

    @property
    def evidence(self) -> Evidence:
        """The statement that was shown, in words."""
        several = [f"input {i} as {n}" for i, n in enumerate(self.counts) if n > 1]
        text = f"for separate inputs in each role: {', '.join(several)}"
        return Evidence("inputs in several roles", True, text)

    def as_one(self, holds_for: HoldsFor | None) -> HoldsFor | None:
        """Translate the sizes back to the original programs: the sizes of an input are equal in all
        of its roles."""
        if holds_for is None:
            return None
        left, inputs = list(holds_for.inputs), list[tuple[str, ...]]()
        for count in self.counts:
            own, left = left[:count], left[count:]
            if len(set(map(len, own))) > 1:
                return None
            sizes = (dict.fromkeys(texts) for texts in zip(*own, strict=True))
            inputs.append(tuple(" = ".join(texts) for texts in sizes))
        return replace(holds_for, inputs=tuple(inputs))


def with_free_roles(first: KernelGraph, second: KernelGraph) -> Roles | None:
    """Give both programs an input for each role of an input. Return None if no input has several
    roles in both programs."""
    graphs, counts = (first, second), list[int]()
    for _ in first.inputs:
        apart = _apart(graphs, sum(counts))
        counts.append(1 if apart is None else len(apart[0].inputs) - len(graphs[0].inputs) + 1)
        graphs = apart or graphs
    return Roles(*graphs, tuple(counts)) if max(counts, default=1) > 1 else None


def _apart(
    graphs: tuple[KernelGraph, KernelGraph], place: int
) -> tuple[KernelGraph, KernelGraph] | None:
    """Replace the input at ``place`` by one input for each role, in both programs."""
    readings: list[list[Reading]] = []
    for graph in graphs:
        own = _readings(graph, graph.inputs[place])
        if own is None or len(own) < 2:
            return None
        readings.append(own)
    every = [
        _with_inputs(graph, place, {r: _copy(graph.inputs[place]) for r in own})
        for graph, own in zip(graphs, readings, strict=True)
    ]
    roles = _roles(every, place, [len(own) for own in readings])
    if roles is None or set(roles[0]) != set(roles[1]) or len(set(roles[0])) < 2:
        return None
    result: list[KernelGraph] = []
    for graph, own, of in zip(graphs, readings, roles, strict=True):
        inputs = {role: _copy(graph.inputs[place]) for role in dict.fromkeys(roles[0])}
        chosen = {reading: inputs[role] for reading, role in zip(own, of, strict=True)}
        result.append(_with_inputs(graph, place, chosen, tuple(inputs.values())))
    return result[0], result[1]


def _copy(value: Value) -> Value:
    return Value(value.type, value.name)


def _readings(graph: KernelGraph, value: Value) -> list[Reading] | None:
    """Return the places where a program reads an input; None if anything other than ops and loads
    reads it."""
    if value in graph.outputs:
        return None
    kernels = dict.fromkeys(launches(graph.ops))
    outside = (op for op in graph.ops if op not in kernels)
    found = [(op, k) for op in outside for k, v in enumerate(op.operands) if v is value]
    for kernel in kernels:
        operands = zip(kernel.body.params, kernel.operands, strict=True)
        params = {p for p, v in operands if v is value}
        for inner in all_ops(kernel.body.ops):
            if params.intersection(inner.operands):
                if not isinstance(inner, Source) or len(inner.operands) != 1:
                    return None
                found.append((inner, 0))
    return found


def _with_inputs(
    graph: KernelGraph,
    place: int,
    chosen: Mapping[Reading, Value],
    inputs: Sequence[Value] | None = None,
) -> KernelGraph:
    """Replace the input at ``place`` by ``inputs``; ``chosen`` says which of them each reading
    gets."""
    whole = graph.inputs[place]
    given = tuple(chosen.values()) if inputs is None else tuple(inputs)
    kernels: dict[Op, Launch] = {op: op for op in launches(graph.ops)}
    ops: list[Op] = []
    for op in graph.ops:
        if whole not in op.operands:
            ops.append(op)
        elif kernel := kernels.get(op):
            ops.append(_launch(kernel, whole, chosen, given))
        else:
            read = (chosen.get((op, k), v) for k, v in enumerate(op.operands))
            ops.append(replace(op, operands=tuple(read)))
    own = (*graph.inputs[:place], *given, *graph.inputs[place + 1 :])
    return replace(graph, inputs=own, ops=tuple(ops))


def _launch(
    op: Launch, whole: Value, chosen: Mapping[Reading, Value], given: Sequence[Value]
) -> Launch:
    """Give a kernel an operand for each of the inputs that replace ``whole``."""
    kept = [(p, v) for p, v in zip(op.body.params, op.operands, strict=True) if v is not whole]
    own = {value: _copy(value) for value in given}

    def reread(inner: Op) -> Op:
        value = chosen.get((inner, 0))
        return inner if value is None else replace(inner, operands=(own[value],))

    body = replace(
        op.body,
        params=(*(p for p, _ in kept), *own.values()),
        ops=_each(op.body.ops, reread),
    )
    return replace(op, operands=(*(v for _, v in kept), *own), body=body)


def _each(ops: Sequence[Op], change: Callable[[Op], Op]) -> tuple[Op, ...]:
    """Change ops one by one, including those in loops."""
    return tuple(
        op.rebuilt(_each(op.inside, change), lambda v: v)
        if isinstance(op, Structure)
        else change(op)
        for op in ops
    )


def _roles(
    graphs: Sequence[KernelGraph], place: int, counts: Sequence[int]
) -> list[list[Role]] | None:
    """Return the role of each reading, where each reading is a separate input, from ``place``
    on."""
    slots = Slots()
    try:
        for graph in graphs:
            slots.add(graph)
        for a, b in _shared(graphs, place, counts):
            slots.same_shape(a, b)
    except Irregular:
        return None
    related = slots.union  # from here on a relation says more than which indices are the same
    for tiling in slots.tilings:
        for part in tiling.parts if tiling.whole is not None else ():
            related.join(part, tiling.whole)
    for left, right in slots.joins:
        for slot in (*left, *right):
            related.join(slot, left[0] if left else slot)
    for cut in slots.cuts:
        related.join(cut.whole, cut.part)

    def role(value: Value) -> Role:
        return tuple(related.find(slots.slot(value, d)) for d in range(len(value.shape)))

    return [
        [role(v) for v in graph.inputs[place : place + count]]
        for graph, count in zip(graphs, counts, strict=True)
    ]


def _shared(
    graphs: Sequence[KernelGraph], place: int, counts: Sequence[int]
) -> Iterator[tuple[Value, Value]]:
    """Yield the values that both programs share: the other inputs and the outputs."""
    one, other = graphs
    yield from zip(one.inputs[:place], other.inputs[:place], strict=True)
    yield from zip(one.inputs[place + counts[0] :], other.inputs[place + counts[1] :], strict=True)
    yield from zip(one.outputs, other.outputs, strict=True)
