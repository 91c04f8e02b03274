"""Indices with which the reference looks up rows: they name rows wherever the reference is defined.

So they are within the table, and it is not examined what a candidate does with other indices
(whether it counts them from the end, for example, or tests whether they are inside).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from math import inf

from mirage.semantics.bounds.integer_ranges import Range, range_of, ranges_of
from mirage.semantics.ops.kinds import Elementwise, Lookup, View, is_cast
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import rename_graph, without_dead_ops
from mirage.semantics.ugraph import KernelGraph


def looked_up_with(reference: KernelGraph) -> Mapping[int, int]:
    """Return the inputs, by number, with which the reference looks up rows directly, and the number
    of rows of the shortest table."""
    return _named(reference, lambda op: {op.operands[-1]: op.operands[0].shape[0]})


def made_of_places(reference: KernelGraph) -> Mapping[int, int]:
    """Return the inputs, by number, from which the reference computes indices of rows only if they
    are below a bound: otherwise it names no row."""
    return _named(reference, lambda op: _bounds(_asked_for(reference, op), reference))


def _named(
    reference: KernelGraph, bounds: Callable[[Op], Mapping[Value, int]]
) -> Mapping[int, int]:
    """Return the least bound of each input over all lookups."""
    numbers = {v: i for i, v in enumerate(reference.inputs)}
    found: dict[int, int] = {}
    for op in reference.ops:
        if isinstance(op, View) and op.whole and op.operands[0] in numbers:
            numbers[op.results[0]] = numbers[op.operands[0]]
        if isinstance(op, Lookup) and op.names_rows:
            for v, count in bounds(op).items():
                if v in numbers:
                    found[numbers[v]] = min(found.get(numbers[v], count), count)
    return found


def _asked_for(graph: KernelGraph, lookup: Op) -> list[Value]:
    """Return the truth values that choose an index and without which it names no row."""
    named = lookup.names_rows
    assert named is not None
    index = named.index
    makers = {v: op for op in graph.ops for v in op.results}
    reached, left = set[Value](), [index]
    while left:
        v = left.pop()
        if v not in reached and v in makers:
            left += makers[v].operands
        reached.add(v)
    inside = [op for op in graph.ops if reached.intersection(op.results)]
    if not all(_is_plain(op) for op in inside):
        return []
    choices = [op.operands[0] for op in inside if op.function is BinaryFn.KEEP]
    found: list[Value] = []
    for choice in choices:
        ranges: dict[Value, Range] = {}
        for op in inside:
            xs = [
                ranges.get(v, _RANGE_OF_TRUTHS if v.dtype is DType.I1 else _ANY)
                for v in op.operands
            ]
            for v in op.results:
                ranges[v] = (0.0, 0.0) if v is choice else range_of(op, v, xs)
        low, high = ranges.get(index, _ANY)
        if named.miss(low, high):
            found.append(choice)
    return found


def _is_plain(op: Op) -> bool:
    """Return whether each element of the operands determines an element of the result, and at least
    one."""
    return isinstance(op, Elementwise) or not op.operands or (isinstance(op, View) and op.whole)


def picked_with(
    reference: KernelGraph, given: Mapping[Value, Range], kept: bool = False
) -> Mapping[int, int]:
    """Return the inputs, by number, that name an element of each row, which the reference picks by
    comparing them with all places, and the number of elements of a row. If they name none, minus
    infinity is added. ``given`` has the ranges of places. With ``kept``, inputs of a masked
    comparison are included."""
    made = _Made(reference, given)
    numbers = {v: i for i, v in enumerate(reference.inputs)}
    found: dict[int, int] = {}
    for op in reference.ops:
        for picked, mask in (op.operands, op.operands[::-1]) if op.function is BinaryFn.ADD else ():
            bias, total = made.by(mask), made.by(picked)
            if bias is None or total is None or bias.function is not UnaryFn.BIAS:
                continue
            bounds = _bounds([made.source(bias.operands[0])], reference)
            for v, count in bounds.items():
                source = made.source(v)
                choice = made.makers.get(source)
                named = source
                if kept and choice is not None and choice.function is BinaryFn.KEEP:
                    named = made.source(choice.operands[1])
                if named in numbers and made.picks(total, source, count):
                    i = numbers[named]
                    found[i] = min(found.get(i, count), count)
    return found


class _Made:
    """The ops that compute the values of a graph, regardless of shapes and types."""

    def __init__(self, graph: KernelGraph, given: Mapping[Value, Range]) -> None:
        self.makers = {v: op for op in graph.ops for v in op.results}
        self.ranges = ranges_of(graph, given)

    def source(self, x: Value) -> Value:
        """Return the value that has all elements of ``x``."""
        while (op := self.makers.get(x)) is not None and (
            (isinstance(op, View) and op.whole) or is_cast(op)
        ):
            x = op.operands[0]
        return x

    def by(self, x: Value) -> Op | None:
        """Return the op that computes the value."""
        return self.makers.get(self.source(x))

    def picks(self, total: Op, number: Value, count: int) -> bool:
        """Return whether an op sums ``count`` elements that are kept where their place equals a
        number."""
        kept = self.by(total.operands[0]) if total.function is ReduceFn.SUM else None
        if kept is None or kept.function is not BinaryFn.KEEP:
            return False
        equal = self.by(kept.operands[0])
        if equal is None or equal.function is not BinaryFn.EQ:
            return False
        sides = [self.source(v) for v in equal.operands]
        others = [v for v in sides if v is not number]
        places = (0.0, float(count - 1))
        return len(others) == 1 and self.ranges.get(others[0]) == places


_ANY: Range = (-inf, inf)
_RANGE_OF_TRUTHS: Range = (0.0, 1.0)


def _bounds(truths: Sequence[Value], graph: KernelGraph) -> Mapping[Value, int]:
    """Return the values that such truth values bound: they are at least 0 and below the returned
    number."""
    makers = {v: op for op in graph.ops for v in op.results}
    ranges = ranges_of(graph)
    least, below = set[Value](), dict[Value, int]()
    left = list(truths)
    while left:
        op = makers.get(left.pop())
        if op is not None and op.function is BinaryFn.AND:
            left += op.operands
        if op is None or op.function not in (BinaryFn.LT, BinaryFn.LE):
            continue
        x, y = op.operands
        strict = op.function is BinaryFn.LT
        if ranges[x] == (0.0, 0.0) and not strict and y.dtype.is_integer:
            least.add(y)
        if ranges[y][0] == ranges[y][1] and x.dtype.is_integer:
            below[x] = int(ranges[y][1]) + (not strict)
    return {v: n for v, n in below.items() if v in least and n > 0}


def within_tables(graph: KernelGraph, inputs: Mapping[int, int]) -> KernelGraph:
    """Return ``graph`` without the parts that matter only if these inputs name no row."""
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
    """Values all of whose elements are 0, or true; ``names`` are other values that are equal to
    them."""

    def __init__(self, ranges: Mapping[Value, Range]) -> None:
        self.ranges = ranges
        self.zero: set[Value] = set()
        self.true: set[Value] = set()
        self.names: dict[Value, Value] = {}

    def look(self, op: Op) -> None:
        """Add the known facts about an op's result."""
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
        """Return the result of a comparison of numbers, if their ranges determine it."""
        if op.function not in (BinaryFn.LT, BinaryFn.LE):
            return None
        if not all(v.dtype.is_integer for v in op.operands):
            return None
        (low, high), (least, most) = (self.ranges[v] for v in op.operands)
        if op.function is BinaryFn.LT:
            return True if high < least else False if low >= most else None
        return True if high <= least else False if low > most else None

    def _answer(self, op: Op) -> bool | None:
        """Return False for a value that is zero everywhere, and True for one that is true
        everywhere."""
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
        """Return the operand that equals the result, if there is one."""
        if op.function is BinaryFn.KEEP and op.operands[0] in self.true:
            return op.operands[1]
        if op.function is BinaryFn.ADD:
            rest = [v for v in op.operands if v not in self.zero]
            return rest[0] if len(rest) == 1 else None
        return None
