"""Indices that the reference looks rows up with name rows, wherever it is defined.

So they lie within the table, and what a candidate would do if they did not is not looked at:
counting them from the end, say, or asking whether they are inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirage.semantics.bounds.integer_ranges import Range, ranges_of
from mirage.semantics.ops.op import Elementwise, Lookup, Op, Value, View
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.substitute import rename_graph, without_dead_ops
from mirage.semantics.ugraph import KernelGraph


def looked_up_with(reference: KernelGraph) -> Mapping[int, int]:
    """The inputs, by number, that the reference looks rows up with as they are, and how many rows
    the shortest of the tables has."""
    numbers = {v: i for i, v in enumerate(reference.inputs)}
    found: dict[int, int] = {}
    for op in reference.ops:
        if isinstance(op, View) and op.operands[0] in numbers:
            numbers[op.results[0]] = numbers[op.operands[0]]
        if isinstance(op, Lookup) and op.operands and op.operands[-1] in numbers:
            i, count = numbers[op.operands[-1]], op.operands[0].shape[0]
            found[i] = min(found.get(i, count), count)
    return found


def within_tables(graph: KernelGraph, inputs: Mapping[int, int]) -> KernelGraph:
    """``graph`` without what it does where these inputs name no row."""
    if not inputs:
        return graph
    given = {graph.inputs[i]: (0.0, float(count - 1)) for i, count in inputs.items()}
    known = _Known(ranges_of(graph, given))
    for op in graph.ops:
        known.look(op)
    if not known.names:
        return graph
    kept = tuple(op for op in graph.ops if not known.names.keys() & set(op.results))
    return without_dead_ops(rename_graph(replace(graph, ops=kept), known.names))


class _Known:
    """Values of which all elements are 0, or true; ``names`` are others for the same values."""

    def __init__(self, ranges: Mapping[Value, Range]) -> None:
        self.ranges = ranges
        self.zero: set[Value] = set()
        self.true: set[Value] = set()
        self.names: dict[Value, Value] = {}

    def look(self, op: Op) -> None:
        """Adds what is known of an op's result."""
        answer = self._compared(op)
        if answer is None:
            answer = self._answer(op)
        if answer is not None:
            (self.true if answer else self.zero).update(op.results)
            return
        rest = self._rest(op)
        if rest is not None and rest.type == op.results[0].type:
            self.names[op.results[0]] = self.names.get(rest, rest)

    def _compared(self, op: Op) -> bool | None:
        """What a comparison says of numbers in their ranges."""
        if op.function not in (BinaryFn.LT, BinaryFn.LE):
            return None
        if not all(v.dtype.is_integer for v in op.operands):
            return None
        (low, high), (least, most) = (self.ranges[v] for v in op.operands)
        if op.function is BinaryFn.LT:
            return True if high < least else False if low >= most else None
        return True if high <= least else False if low > most else None

    def _answer(self, op: Op) -> bool | None:
        """False for zero everywhere, True for true everywhere."""
        some = set(op.operands)
        if op.function in (BinaryFn.MUL, BinaryFn.KEEP, BinaryFn.AND) and some & self.zero:
            return False
        if op.function is BinaryFn.AND and some <= self.true:
            return True
        if op.function is UnaryFn.NOT and some <= self.true | self.zero:
            return bool(some & self.zero)
        same = isinstance(op, View) or (isinstance(op, Elementwise) and op.identity)
        if same and op.operands and some <= self.zero:
            return False
        return True if same and op.operands and some <= self.true else None

    def _rest(self, op: Op) -> Value | None:
        """The operand that the result is, if it is one."""
        if op.function is BinaryFn.KEEP and op.operands[0] in self.true:
            return op.operands[1]
        if op.function is BinaryFn.ADD:
            rest = [v for v in op.operands if v not in self.zero]
            return rest[0] if len(rest) == 1 else None
        return None
