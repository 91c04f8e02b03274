"""Programs that are wrong on purpose: single faults of the kinds that a search or a code generator
makes.

A mutant is a graph with one op changed. It is structurally valid
(:func:`mirage.semantics.check.check_graph`) and has the original's signature. The caller must find
out whether it computes another function, since some faults change nothing (swapped operands of an
addition, or a mask that has no effect).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import zip_longest

from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.ugraph import (
    Accumulator,
    BlockGraph,
    KernelGraph,
    Launch,
    Loop,
    Op,
    Output,
    Value,
    all_ops,
)

from faults.fault import Fault, NotApplicable, Scope, type_of
from faults.indices import index_faults
from faults.positions import position_faults
from faults.programs import faults_of
from faults.roundings import rounding_faults


@dataclass(frozen=True)
class Mutant:
    """A graph with one fault. ``values`` maps the original's values to those that replace them,
    except for those that are the same. ``wrong`` are the positions of the ops with the fault or, if
    an op was removed, of those that read its result."""

    kind: str
    description: str
    graph: KernelGraph
    values: Mapping[Value, Value]
    wrong: tuple[int, ...]


Faults = Callable[[KernelGraph, random.Random], Iterable[Fault]]
"""A function that yields the faults that a graph may have."""


def every_fault(graph: KernelGraph, rng: random.Random) -> Iterator[Fault]:
    """Yield faults of structure, of rounding and of positions."""
    yield from faults_of(graph, rng)
    yield from rounding_faults(graph, rng)
    yield from position_faults(graph, rng)
    yield from index_faults(graph)


_OF_PLACES = ("wrong axis", "off-by-one map", "mask off by one", "wrong steps")


def misplaced(graph: KernelGraph, rng: random.Random) -> Iterator[Fault]:
    """Yield faults of positions, and those faults of structure that read from a wrong place."""
    yield from position_faults(graph, rng)
    yield from index_faults(graph)
    yield from (f for f in faults_of(graph, rng) if f.kind in _OF_PLACES)


def mutants(
    graph: KernelGraph, rng: random.Random, count: int, faults: Faults = faults_of
) -> Iterator[Mutant]:
    """Return at most ``count`` random mutants; the same one may occur twice."""
    tries = 0
    produced = 0
    while produced < count and tries < 60 * count:
        tries += 1
        mutant = _mutate(graph, rng, faults)
        if mutant is not None:
            produced += 1
            yield mutant


def numbered(
    graph: KernelGraph, name: str, first: int, count: int, faults: Faults
) -> Iterator[Mutant]:
    """Yield the mutants with these numbers: first each fault alone, with the kinds in turn and
    otherwise in an order that ``name`` chooses, and then two or three faults at once. Other numbers
    are other choices."""
    order = _in_turns(faults(graph, random.Random(name)), random.Random(name))
    for fault in order[first : first + count]:
        mutant = _applied(graph, fault)
        if mutant is not None:
            yield mutant
    for number in range(max(first, len(order)), first + count):
        mutant = _several(graph, random.Random(f"{name} {number}"), faults)
        if mutant is not None:
            yield mutant


def _in_turns(faults: Iterable[Fault], rng: random.Random) -> list[Fault]:
    """Order faults so that kinds take turns, and frequent ops do not crowd out rare faults."""
    kinds: dict[str, list[Fault]] = {}
    for fault in faults:
        kinds.setdefault(fault.kind, []).append(fault)
    for some in kinds.values():
        rng.shuffle(some)
    order = sorted(kinds)
    rng.shuffle(order)
    rounds = zip_longest(*(kinds[kind] for kind in order))
    return [fault for some in rounds for fault in some if fault is not None]


def _several(graph: KernelGraph, rng: random.Random, faults: Faults) -> Mutant | None:
    """Return two faults, or sometimes three."""
    found = _mutate(graph, rng, faults)
    for _ in range(rng.choice((1, 1, 2))):
        again = None if found is None else _mutate(found.graph, rng, faults)
        if found is not None and again is not None:
            what = f"{found.description}; {again.kind}: {again.description}"
            found = Mutant(found.kind, what, again.graph, {}, ())
    return found


def _mutate(graph: KernelGraph, rng: random.Random, some: Faults) -> Mutant | None:
    faults = list(some(graph, rng))
    if not faults:
        return None
    # Kinds first, so that frequent ops do not crowd out rare faults.
    kind = rng.choice(sorted({f.kind for f in faults}))
    return _applied(graph, rng.choice([f for f in faults if f.kind == kind]))


def _applied(graph: KernelGraph, fault: Fault) -> Mutant | None:
    """Return ``graph`` with a fault; None if it does not fit."""
    rebuilder = _Rebuilder(fault)
    try:
        result = rebuilder.graph(graph)
        check_graph(result)
    except (NotApplicable, InvalidGraph, ShapeError):
        return None
    if [v.type for v in result.outputs] != [v.type for v in graph.outputs]:
        return None
    wrong = _faulty(graph, result, fault, rebuilder.names)
    return Mutant(fault.kind, fault.description, result, rebuilder.names, wrong)


def _faulty(
    graph: KernelGraph, mutant: KernelGraph, fault: Fault, names: Mapping[Value, Value]
) -> tuple[int, ...]:
    def holds_fault(op: Op) -> bool:
        inner = (op.body, *all_ops(op.body.ops)) if isinstance(op, Launch) else ()
        return any(fault.at(x) is not None for x in (op, *inner))

    intact = {names[v] for op in graph.ops if not holds_fault(op) for v in op.results}
    places = tuple(i for i, op in enumerate(mutant.ops) if intact.isdisjoint(op.results))
    if places:
        return places
    gone = {v for op in graph.ops if holds_fault(op) for v in op.results}
    readers = (op for op in graph.ops if not gone.isdisjoint(op.operands))
    written = {names[v] for op in readers for v in op.results}
    return tuple(i for i, op in enumerate(mutant.ops) if not written.isdisjoint(op.results))


class _Rebuilder:
    """Copies a graph with one change and infers all types again."""

    def __init__(self, fault: Fault) -> None:
        self.fault = fault
        self.names: dict[Value, Value] = {}

    def now(self, value: Value) -> Value:
        return self.names.get(value, value)

    def graph(self, graph: KernelGraph) -> KernelGraph:
        ops = self.ops(graph.ops, list(graph.inputs), in_block=False)
        return KernelGraph(
            graph.name + "_mutant", graph.inputs, ops, tuple(map(self.now, graph.outputs))
        )

    def ops(self, ops: tuple[Op, ...], visible: list[Value], *, in_block: bool) -> tuple[Op, ...]:
        result: list[Op] = []
        for op in ops:
            builder = Builder(in_block)
            operands = tuple(map(self.now, op.operands))
            change = self.fault.at(op)
            if change is not None:
                scope = Scope(op, operands, builder, list(visible), self.now)
                changed = change(scope)
                if isinstance(changed, Value):
                    result.extend(builder.ops)
                    self.names[op.result] = changed
                    visible.append(changed)
                    continue
                assert isinstance(changed, Op)
                result.extend(builder.ops)
                new = self.copy(changed, changed.operands, in_block, visible)
            else:
                new = self.copy(op, operands, in_block, visible)
            result.append(new)
            for old, v in zip(op.results, new.results, strict=True):
                self.names[old] = v
            visible.extend(new.results)
        return tuple(result)

    def copy(self, op: Op, operands: tuple[Value, ...], in_block: bool, visible: list[Value]) -> Op:
        """Return ``op`` (possibly changed), reading ``operands``, with new results."""
        if isinstance(op, Launch):
            return self.launch(op, operands)
        if isinstance(op, Loop):
            body = self.ops(op.body, list(visible), in_block=True)
            accumulators = tuple(
                Accumulator(
                    a.fn, self.now(a.value), None if a.rescale is None else self.now(a.rescale)
                )
                for a in op.accumulators
            )
            results = tuple(Value(a.value.type) for a in accumulators)
            return replace(op, body=body, accumulators=accumulators, results=results)
        new = replace(op, operands=operands)
        return replace(new, results=(Value(type_of(new, in_block)),))

    def launch(self, op: Launch, operands: tuple[Value, ...]) -> Launch:
        body = op.body
        ops = self.ops(body.ops, [], in_block=True)
        outputs = tuple(Output(self.now(o.value), o.map) for o in body.outputs)
        new = BlockGraph(body.params, ops, outputs)
        change = self.fault.at(body)
        if change is not None:
            changed = change(Scope(op, operands, Builder(True), [], self.now))
            assert isinstance(changed, BlockGraph)
            new = BlockGraph(
                body.params, ops, tuple(Output(self.now(o.value), o.map) for o in changed.outputs)
            )
        return replace(
            op, operands=operands, results=tuple(Value(v.type) for v in op.results), body=new
        )
