"""Kernels whose results have no op in common, read as several kernels.

A launch is a function of its operands: its store and the ops that lead to it determine a result.
Results that share no op of the block graph may therefore belong to separate launches over the same
grid. This makes their axes independent of each other: a launch that copies two factors cuts the
rows of both along one axis of its grid, and a small program that stands for a large one would have
to keep the two in step.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from mirage.semantics.ugraph import BlockGraph, KernelGraph, Launch, Op, Structure, Value, launches


def with_launches_split(graph: KernelGraph) -> KernelGraph:
    """Replace each launch of ``graph`` by one launch for each set of results that have ops in
    common."""
    split: dict[Op, tuple[Op, ...]] = {op: tuple(_split(op)) for op in launches(graph.ops)}
    ops = [new for op in graph.ops for new in split.get(op, (op,))]
    return graph if len(ops) == len(graph.ops) else replace(graph, ops=tuple(ops))


def _split(launch: Launch) -> Iterator[Launch]:
    body = launch.body
    makers = {v: number for number, op in enumerate(body.ops) for v in op.results}
    needs = [_needed(body.ops, makers, output.value) for output in body.outputs]
    groups: list[tuple[set[int], list[int]]] = []
    for place, needed in enumerate(needs):
        apart = [g for g in groups if g[0].isdisjoint(needed)]
        joined = [g for g in groups if not g[0].isdisjoint(needed)]
        places = sorted(p for _, own in joined for p in own)
        groups = [*apart, (needed.union(*(own for own, _ in joined)), [*places, place])]
    if len(groups) == 1:
        yield launch
        return
    for needed, places in sorted(groups, key=lambda g: g[1]):
        ops = tuple(op for number, op in enumerate(body.ops) if number in needed)
        read = {v for op in ops for v in _operands(op)}
        pairs = [
            (param, operand)
            for param, operand in zip(body.params, launch.operands, strict=True)
            if param in read
        ]
        outputs = tuple(body.outputs[p] for p in places)
        own = BlockGraph(tuple(p for p, _ in pairs), ops, outputs)
        results = tuple(launch.results[p] for p in places)
        yield replace(launch, operands=tuple(v for _, v in pairs), results=results, body=own)


def _needed(ops: Sequence[Op], makers: dict[Value, int], value: Value) -> set[int]:
    """Return the numbers of the ops that lead to a value."""
    found: set[int] = set()
    left = [value]
    while left:
        number = makers.get(left.pop())
        if number is not None and number not in found:
            found.add(number)
            left.extend(_operands(ops[number]))
    return found


def _operands(op: Op) -> Iterator[Value]:
    """Yield the values that an op reads, including those that ops inside of it read."""
    yield from op.operands
    if isinstance(op, Structure):
        for inner in op.inside:
            yield from _operands(inner)
        yield from op.ends
