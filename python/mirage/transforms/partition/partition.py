"""Cuts a program at the calls that remain in the framework, and where it is too large to search.

The ops between two such calls form a program that is searched and compiled on its own. The number
of parts is the depth of external calls plus one. Ops go to the part that first needs their results,
so that few tensors are passed on and equal layers become equal parts. Views, constants and
functions of positions alone go with their readers, and so do truth values that later parts read:
each part has its own copy. A part exports computed values only: each of its outputs is the result
of a kernel, once (:mod:`mirage.transforms.partition.exports`). A tensor that is compared with
itself ends a part too (:mod:`mirage.transforms.partition.compared`), and so does an index that is
checked (:mod:`mirage.transforms.partition.checked_indices`)."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Set
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf

from mirage.semantics.positions import Lookup
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import (
    Boundary,
    Elementwise,
    KernelGraph,
    Op,
    Source,
    Structure,
    Value,
    View,
)
from mirage.transforms.partition.bounding_integers import bounding_integers
from mirage.transforms.partition.calls import calls_of
from mirage.transforms.partition.checked_indices import checked_indices
from mirage.transforms.partition.compared import compared_with_itself
from mirage.transforms.partition.divide import LARGEST, divide, weight
from mirage.transforms.partition.empty import without_empty
from mirage.transforms.partition.exact_integers import integers_as_calls
from mirage.transforms.partition.exports import exports_as_calls
from mirage.transforms.partition.row_parts import with_row_parts
from mirage.transforms.partition.summed_joins import summed_joins
from mirage.transforms.partition.whole_floats import integers_as_floats


@dataclass(frozen=True)
class Part:
    """A program between external calls. Its inputs and outputs are values of the whole program."""

    graph: KernelGraph


Step = Part | Boundary
"""A step of a partition. Lookups are neither searched nor called: the chosen kernels compute
them."""


def partition(graph: KernelGraph, largest: float = inf) -> tuple[Step, ...]:
    """Return the parts and external calls of ``graph``, in an order in which they can run. They
    define the outputs of ``graph`` other than inputs. Parts that are heavier than ``largest`` are
    divided (:mod:`mirage.transforms.partition.divide`).
    """
    called = exports_as_calls(
        integers_as_calls(integers_as_floats(with_row_parts(_narrow(without_empty(graph)))))
    )
    outside = any(isinstance(op, Boundary) for op in graph.ops)
    ends = compared_with_itself(called) | checked_indices(called) | bounding_integers(called)
    if called is graph and not outside and graph.ops and not ends:
        computed = set(graph.outputs).difference(graph.inputs)
        whole = largest == inf or sum(map(weight, graph.ops)) <= largest
        if whole and len(computed) == len(graph.outputs) and all(v.type.size for v in graph.inputs):
            return (Part(graph),)
    return _Cutter(called, largest, ends).steps()


def parts_to_search(graph: KernelGraph) -> tuple[Step, ...]:
    """Partition into parts that can be searched in seconds; see :func:`partition`."""
    return partition(graph, LARGEST)


def _narrow(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with calls in place of ops on f64, for which no kernels are generated."""
    ops: list[Op] = []
    for op in graph.ops:
        wide = any(v.dtype is DType.F64 for v in (*op.operands, *op.results))
        ops.extend(calls_of(op) if wide and not isinstance(op, Structure) else [op])
    if len(ops) == len(graph.ops) and all(a is b for a, b in zip(ops, graph.ops, strict=True)):
        return graph
    return KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs)


def carried(graph: KernelGraph) -> frozenset[Op]:
    """Return the ops that go with their readers: views, constants, and functions of positions
    alone."""
    found: set[Op] = set()
    positions: set[Value] = set()
    for op in graph.ops:
        alone = positions.issuperset(op.operands)
        if isinstance(op, View | Source) or (isinstance(op, Elementwise) and alone):
            found.add(op)
        elif not isinstance(op, Lookup):
            continue
        if alone:
            positions.update(op.results)
    return frozenset(found)


class _Cutter:
    def __init__(self, graph: KernelGraph, largest: float, handed_over: Set[Value]) -> None:
        """``handed_over`` are values that are passed from one part to another."""
        self.graph, self.largest = graph, largest
        self.definitions: dict[Value, Op] = {v: op for op in graph.ops for v in op.results}
        self.depth: dict[Value, int] = dict.fromkeys(graph.inputs, 0)
        self.levels: dict[int, list[Op]] = {}
        self.early: set[Op] = set()  # lookups that read nothing that a part of their level computes
        self.carried = set(carried(graph))
        in_memory = set(graph.inputs)
        ends: set[Op] = set()  # ops whose results are read in later levels only
        for op in graph.ops:
            level = max((self.depth[v] for v in op.operands), default=0)
            self.levels.setdefault(level, []).append(op)
            if isinstance(op, Lookup) and in_memory.issuperset(op.operands):
                self.early.add(op)
            if isinstance(op, Boundary):
                in_memory.update(op.results)
            if isinstance(op, Boundary) or not handed_over.isdisjoint(op.results):
                ends.update([op] if op not in self.early else [])
            self.depth.update(dict.fromkeys(op.results, level + (op in ends)))
        self._go_later(ends)
        self.carried |= self._read_later(ends)
        called = {v for op in graph.ops if isinstance(op, Boundary) for v in op.operands}
        self.exported = called.union(graph.outputs)
        self.placed: set[Value] = set()  # carried values that are in a part

    def _latest(self, own: Mapping[Op, int], ends: Container[Op]) -> dict[Op, int]:
        """Return the last level of each op, such that no earlier op reads its result. An op that
        reads the same floats as a call stays before the call if it was: the call may store into
        them, and would have to copy them first."""
        calls: dict[Value, list[tuple[int, Op]]] = {}
        for v, op in self._given_to_calls():
            calls.setdefault(v, []).append((own[op], op))
        last = max(self.levels, default=0)
        read: dict[Value, int] = {}  # the first level that reads a value
        found: dict[Op, int] = {}
        for op in reversed(self.graph.ops):
            level = own[op]
            if not isinstance(op, Lookup):
                after = min((read[v] - (op in ends) for v in op.results if v in read), default=last)
                beside = (x for v in op.operands for x in calls.get(self._root(v), ()))
                level = min(
                    [max(level, after), *(n for n, x in beside if n >= level and x is not op)]
                )
            found[op] = level
            for v in op.operands:
                read[v] = min(read.get(v, last), level)
        return found

    def _given_to_calls(self) -> Iterator[tuple[Value, Op]]:
        """Yield floats in memory that calls read, and may store into, with the calls."""
        for op in self.graph.ops:
            if not isinstance(op, Boundary) or op.only_reads:
                continue
            for v in map(self._root, op.operands):
                given = v not in self.definitions or isinstance(self.definitions[v], Boundary)
                if given and not v.dtype.is_integer:
                    yield v, op

    def _go_later(self, ends: Container[Op]) -> None:
        """Move ops that read no result of a part to their last possible level, and let the rest
        follow their operands, so that products of one tensor stay together."""
        own = {op: level for level, ops in self.levels.items() for op in ops}
        latest = self._latest(own, ends)
        self.levels = {}
        after: dict[Value, int] = {}  # the first level that may read a value
        made: set[Value] = set()  # by parts
        for op in self.graph.ops:
            level = max([own[op], *(after.get(v, 0) for v in op.operands)])
            reads = not made.isdisjoint(op.operands)
            if not reads and op not in self.carried:
                level = latest[op]
            if reads or not (isinstance(op, Boundary) or op in self.carried):
                made.update(op.results)
            self.levels.setdefault(level, []).append(op)
            after.update(dict.fromkeys(op.results, level + (op in ends)))

    def _root(self, value: Value) -> Value:
        while isinstance(op := self.definitions.get(value), View):
            value = op.operands[0]
        return value

    def steps(self) -> tuple[Step, ...]:
        steps: list[Step] = []
        for level in sorted(self.levels):
            steps.extend(
                op for op in self.levels[level] if isinstance(op, Lookup) and op in self.early
            )
            computed = [
                op
                for op in self.levels[level]
                if not isinstance(op, Boundary) and (op not in self.carried or self._leaves(op))
            ]
            for run in self._runs(computed, level):
                part = self._part(run, len(steps))
                if part.outputs:
                    steps.append(Part(part))
            steps.extend(
                op for op in self.levels[level] if isinstance(op, Boundary) and op not in self.early
            )
        return tuple(steps)

    def _runs(self, computed: list[Op], level: int) -> list[list[Op]]:
        """Return the computation of a level, in parts."""
        if not computed:
            return []
        if self.largest == inf or sum(map(weight, computed)) <= self.largest:
            return [computed]
        elsewhere = (op for n, ops in self.levels.items() if n != level for op in ops)
        stored = {v for op in elsewhere for v in op.operands}.union(self.graph.outputs)
        return divide(computed, self.definitions, self.largest, stored)

    def _read_later(self, ends: Container[Op]) -> set[Op]:
        """Return the functions that give truth values, or other integers, to later levels: those
        compute them again, which takes less time than to write and read them. The same holds for
        functions that give nothing to their own level and read little that is not in memory, and
        for joins over which later products sum."""
        found: set[Op] = set()
        read: dict[Value, tuple[int, int]] = {}  # the levels that read a value: the first, the last
        own = {op: level for level, ops in self.levels.items() for op in ops}
        outputs = set(self.graph.outputs)
        given = {v for v, _ in self._given_to_calls()}
        summed = summed_joins(self.graph)
        for op in reversed(self.graph.ops):
            levels = [n for v in op.results for n in read.get(v, ())]
            first, last = min(levels, default=0), max(levels, default=0)
            integers = all(v.dtype.is_integer for v in op.results)
            later = (
                first > own[op]
                and outputs.isdisjoint(op.results)
                and given.isdisjoint(map(self._root, op.operands))
                and self._reads_little(op)
            )
            moved = isinstance(op, Elementwise) and last > own[op] and (integers or later)
            if op not in ends and (moved or (op in summed and first > own[op])):
                found.add(op)
            elif not isinstance(op, View):
                first = last = own[op]
            for v in op.operands:
                known = read.get(v, (first, last))
                read[v] = min(known[0], first), max(known[1], last)
        return found

    def _reads_little(self, op: Op) -> bool:
        """Return whether the operands of a function, other than inputs and results of calls, take
        fewer bytes than its result."""
        made = 0
        for v in op.operands:
            root = self.definitions.get(self._root(v))
            if root is not None and not isinstance(root, Boundary | Source):
                made += v.type.bytes
        return made < sum(v.type.bytes for v in op.results)

    def _leaves(self, op: Op) -> bool:
        """Return whether a view of a computed value leaves the part."""
        return not isinstance(op, Boundary) and op.result in self.exported

    def _part(self, computed: list[Op], number: int) -> KernelGraph:
        own: dict[Value, Value] = {}  # this part's own copies of the carried ops
        inside = {v for op in computed for v in op.results}
        ops: list[Op] = []

        def local(value: Value) -> Value:
            """Return the value in this part, with the views that lead to it."""
            op = self.definitions.get(value)
            if value in inside or op is None or op not in self.carried:
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
        mine = set(computed)
        returned = (v for v in self.graph.outputs if v in inside)
        made = (v for op in computed for v in op.results)
        read = (v for v in made if not mine.issuperset(self._readers.get(v, ())))
        outputs = dict.fromkeys((*returned, *read))
        name = f"{self.graph.name}_{number}"
        return KernelGraph(name, tuple(inputs), tuple(ops), tuple(outputs))

    @cached_property
    def _readers(self) -> dict[Value, list[Op]]:
        """The calls and the ops of parts that read each value; readers of a carried op count
        as readers of its operands.
        """
        found: dict[Value, list[Op]] = {}
        for op in self.graph.ops:
            if isinstance(op, Boundary):
                for v in op.operands:  # unchanged: a view that leaves the part is computed
                    found.setdefault(v, []).append(op)
                continue
            if op in self.carried and not self._leaves(op):
                continue
            pending = list(op.operands)
            while pending:
                value = pending.pop()
                source = self.definitions.get(value)
                if source is None or source not in self.carried:
                    found.setdefault(value, []).append(op)
                else:  # also if that one is a view that leaves a part
                    pending.extend(source.operands)
        return found
