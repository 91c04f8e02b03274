"""Cuts a program at the calls that stay with the framework, and where it is too large to search.

What lies between two such calls is a program of its own, that is searched and compiled on its own.
Ops go to the earliest part that has all their operands, so the number of parts is the depth of
external calls plus one. Views and constants go with what reads them: a part has its own of each.
What a part computes is all that leaves it: each of its outputs is the result of a kernel, once
(:mod:`mirage.transforms.exports`)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf

from mirage.semantics.positions import Lookup
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    Boundary,
    KernelGraph,
    Op,
    Source,
    Structure,
    Value,
    View,
)
from mirage.transforms.calls import calls_of
from mirage.transforms.divide import LARGEST, divide, weight
from mirage.transforms.empty import without_empty
from mirage.transforms.exports import exports_as_calls
from mirage.transforms.integers import integers_as_calls


@dataclass(frozen=True)
class Part:
    """A program between external calls. Its inputs and outputs are values of the whole program."""

    graph: KernelGraph


Step = Part | Boundary
"""Lookups are neither searched nor called: the kernels chosen in the end compute them."""


def partition(graph: KernelGraph, largest: float = inf) -> tuple[Step, ...]:
    """The parts and external calls of ``graph``, in an order in which they can run. They define the
    outputs of ``graph`` that are no inputs. Parts are divided where they are heavier than
    ``largest`` (:mod:`mirage.transforms.divide`).
    """
    called = exports_as_calls(integers_as_calls(_narrow(without_empty(graph))))
    outside = any(isinstance(op, Boundary) for op in graph.ops)
    if called is graph and not outside and graph.ops:
        computed = set(graph.outputs).difference(graph.inputs)
        whole = largest == inf or sum(map(weight, graph.ops)) <= largest
        if whole and len(computed) == len(graph.outputs) and all(v.type.size for v in graph.inputs):
            return (Part(graph),)
    return _Cutter(called, largest).steps()


def parts_to_search(graph: KernelGraph) -> tuple[Step, ...]:
    """:func:`partition` into parts that can be searched in seconds."""
    return partition(graph, LARGEST)


def _narrow(graph: KernelGraph) -> KernelGraph:
    """``graph`` with calls for ops on f64, for which no kernels are generated."""
    ops: list[Op] = []
    for op in graph.ops:
        wide = any(v.dtype is DType.F64 for v in (*op.operands, *op.results))
        ops.extend(calls_of(op) if wide and not isinstance(op, Structure) else [op])
    if len(ops) == len(graph.ops) and all(a is b for a, b in zip(ops, graph.ops, strict=True)):
        return graph
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs)


class _Cutter:
    def __init__(self, graph: KernelGraph, largest: float) -> None:
        self.graph, self.largest = graph, largest
        self.definitions: dict[Value, Op] = {v: op for op in graph.ops for v in op.results}
        self.depth: dict[Value, int] = dict.fromkeys(graph.inputs, 0)
        self.levels: dict[int, list[Op]] = {}
        self.early: set[Op] = set()  # lookups that read nothing that a part of their level computes
        in_memory = set(graph.inputs)
        for op in graph.ops:
            level = max((self.depth[v] for v in op.operands), default=0)
            self.levels.setdefault(level, []).append(op)
            if isinstance(op, Lookup) and in_memory.issuperset(op.operands):
                self.early.add(op)
            if isinstance(op, Boundary):
                in_memory.update(op.results)
            after = level + (isinstance(op, Boundary) and op not in self.early)
            self.depth.update(dict.fromkeys(op.results, after))
        called = {v for op in graph.ops if isinstance(op, Boundary) for v in op.operands}
        self.exported = called.union(graph.outputs)
        self._delay_masks()
        self.placed: set[Value] = set()  # views and constants that are in a part

    def _delay_masks(self) -> None:
        """Truth values that are made of integers go to the first level that reads them: there they
        are computed in registers, instead of stored by a part that has no other use for them."""
        level = {op: n for n, ops in self.levels.items() for op in ops}
        reads: dict[Value, int] = {}
        for op in reversed(self.graph.ops):
            at = [reads[v] for v in op.results if v in reads]
            made = not isinstance(op, Boundary | Source) and self.exported.isdisjoint(op.results)
            if made and all(v.dtype.is_integer for v in (*op.operands, *op.results)) and at:
                level[op] = max(level[op], min(at))
            for v in op.operands:
                reads[v] = min(reads.get(v, level[op]), level[op])
        self.levels = {}
        for op in self.graph.ops:
            self.levels.setdefault(level[op], []).append(op)

    def steps(self) -> tuple[Step, ...]:
        steps: list[Step] = []
        for level in sorted(self.levels):
            steps.extend(
                op for op in self.levels[level] if isinstance(op, Lookup) and op in self.early
            )
            computed = [
                op
                for op in self.levels[level]
                if not isinstance(op, Boundary | View | Source) or self._leaves(op)
            ]
            for run in divide(computed, self.definitions, self.largest):
                part = self._part(run, len(steps))
                if part.outputs:
                    steps.append(Part(part))
            steps.extend(
                op for op in self.levels[level] if isinstance(op, Boundary) and op not in self.early
            )
        return tuple(steps)

    def _leaves(self, op: Op) -> bool:
        """Whether a view of what a part computes is what leaves the part."""
        return not isinstance(op, Boundary) and op.result in self.exported

    def _part(self, computed: list[Op], number: int) -> KernelGraph:
        own: dict[Value, Value] = {}  # this part's own views and constants
        inside = {v for op in computed for v in op.results}
        ops: list[Op] = []

        def local(value: Value) -> Value:
            """The value in this part, with the views that lead to it."""
            op = self.definitions.get(value)
            if value in inside or not isinstance(op, View | Source):
                return value
            if value not in own:
                operands = tuple(map(local, op.operands))
                own[value] = value
                if value in self.placed or operands != op.operands:
                    own[value] = Value(value.type, value.name)
                    op = replace(op, operands=operands, results=(own[value],))
                self.placed.add(value)
                ops.append(op)
            return own[value]

        for op in computed:
            operands = tuple(map(local, op.operands))
            ops.append(op if operands == op.operands else replace(op, operands=operands))
        defined = {v for op in ops for v in op.results}
        read = dict.fromkeys(v for op in ops for v in op.operands if v not in defined)
        inputs = list(read)  # in the order of their use: equal parts are equal whatever they read
        wanted = self._wanted(set(computed))
        outputs = [v for v in dict.fromkeys(self.graph.outputs) if v in inside]
        outputs += [v for op in computed for v in op.results if v in wanted and v not in outputs]
        name = f"{self.graph.name}_{number}"
        return KernelGraph(name, tuple(inputs), tuple(ops), tuple(outputs))

    def _wanted(self, inside: set[Op]) -> set[Value]:
        """What other parts, calls and the caller read of this part; those that read a view read
        what it looks at.
        """
        wanted = set(self.graph.outputs)
        for op in self.graph.ops:
            if op in inside or (isinstance(op, View | Source) and not self._leaves(op)):
                continue
            for value in op.operands:
                while (source := self.definitions.get(value)) not in inside and isinstance(
                    source, View
                ):
                    value = source.operands[0]
                wanted.add(value)
        return wanted
