"""Comparisons of sums with integers of any size, solved for these integers.

Kernels compare any integer with one that is known to be small, but they add nothing to it: a sum of
an integer of unknown size is a call of PyTorch, and the ops that read its result belong to another
part of the program. But ``p - w < j`` is the same as ``p < j + w``, and ``p // c <= j`` the same as
``p < c (j + 1)``. So known terms and divisors move to the other side, as long as that side remains
small. Both ends of a window of keys before a position that is an input are then comparisons of that
input, which bound the steps of a loop.

Integers of 64 bits are taken for numbers here: a sum that leaves its type, and wraps around in
PyTorch, is larger (or less) than every number with which it is compared. Sums of narrower types,
whose ends a program may reach, do not change.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from mirage.semantics.bounds.integer_ranges import Range, range_of
from mirage.semantics.builder import Builder
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.positions import MAX_POSITIONS
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import Elementwise, KernelGraph, View

_COMPARISONS = (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE)
_SOLVED = (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.FLOOR_DIV)


def with_moved_terms(graph: KernelGraph, ranges: Mapping[Value, Range]) -> KernelGraph:
    """Return ``graph`` with comparisons solved for integers of unknown size; the same object if
    there are none."""
    solver, moved = _Solver(graph, ranges), False
    for op in graph.ops:
        if solver.solved(op) is None:
            solver.build.ops.append(op)
        else:
            solver.build.define(op.result)
            moved = True
    return without_dead_ops(replace(graph, ops=tuple(solver.build.ops))) if moved else graph


@dataclass(frozen=True)
class _Comparison:
    """``large fn small``, or ``small fn large`` if ``swapped``; only the range of ``small`` is
    known."""

    fn: BinaryFn
    large: Value
    small: Value
    swapped: bool


class _Solver:
    def __init__(self, graph: KernelGraph, ranges: Mapping[Value, Range]) -> None:
        self.ranges = dict(ranges)
        self.made = {v: op for op in graph.ops for v in op.results}
        self.build = Builder()

    def solved(self, op: Op) -> Value | None:
        """Return a comparison's truth value, solved as far as possible and computed last; None for
        other ops, and for those that are solved."""
        if op.function not in _COMPARISONS or any(v.dtype is not DType.I64 for v in op.operands):
            return None
        assert isinstance(op.function, BinaryFn)
        known = [self._is_small(v) for v in op.operands]
        if known[0] == known[1]:
            return None
        large, small = op.operands if known[1] else op.operands[::-1]
        return self._of_sum(_Comparison(op.function, large, small, known[0]))

    def _written(self, c: _Comparison) -> Value:
        if (found := self._of_sum(c)) is not None:
            return found
        return self.build.binary(c.fn, *((c.small, c.large) if c.swapped else (c.large, c.small)))

    def _of_sum(self, c: _Comparison) -> Value | None:
        """Return the comparison of the value from which ``large`` is computed; None if there is
        none."""
        found = self._computed(c.large)
        if found is None:
            return None
        op, views = found
        x, y = (self._lifted(v, op, views) for v in op.operands)
        if op.function is BinaryFn.FLOOR_DIV:
            return self._of_quotient(c, x, self.ranges[op.operands[1]])
        if not self._is_small(op.operands[1]):
            if op.function is BinaryFn.ADD:
                return self._moved(c, BinaryFn.SUB, y, x)
            small = self._combined(BinaryFn.SUB, x, c.small)  # x - y < small: x - small < y
            return small and self._written(_Comparison(c.fn, y, small, not c.swapped))
        inverse = BinaryFn.SUB if op.function is BinaryFn.ADD else BinaryFn.ADD
        return self._moved(c, inverse, x, y)

    def _moved(self, c: _Comparison, fn: BinaryFn, large: Value, term: Value) -> Value | None:
        small = self._combined(fn, c.small, term)
        return small and self._written(replace(c, large=large, small=small))

    def _of_quotient(self, c: _Comparison, x: Value, divisor: Range) -> Value | None:
        """``q = x // c`` is at least ``n`` exactly if ``x`` is at least ``c n``."""
        (by, most) = divisor
        if by != most or by < 1:
            return None
        number = self._number(by, c.small)
        least = self._combined(BinaryFn.MUL, c.small, number)
        if least is None:
            return None
        # the least number with a larger quotient
        after = self._combined(BinaryFn.ADD, least, number)
        if after is None:
            return None
        at_least = _Comparison(BinaryFn.LE, x, least, True)
        below = _Comparison(BinaryFn.LT, x, after, False)
        if c.fn is BinaryFn.LT:
            least_larger = replace(at_least, small=after)
            return self._written(least_larger if c.swapped else replace(below, small=least))
        if c.fn is BinaryFn.LE:
            return self._written(at_least if c.swapped else below)
        same = self.build.binary(BinaryFn.AND, self._written(at_least), self._written(below))
        return same if c.fn is BinaryFn.EQ else self.build.unary(UnaryFn.NOT, same)

    def _computed(self, value: Value) -> tuple[Op, list[Op]] | None:
        """Return the sum or quotient of which ``value`` is a view, and the views, the last one
        first."""
        views: list[Op] = []
        op = self.made.get(value)
        while op is not None and (isinstance(op, View) or _changes_type(op)):
            views.append(op)
            op = self.made.get(op.operands[0])
        if op is None or op.function not in _SOLVED or op.result.dtype is not DType.I64:
            return None
        small = [self._is_small(v) for v in op.operands]
        divided = op.function is BinaryFn.FLOOR_DIV
        return (op, views) if sum(small) == 1 and (small[1] or not divided) else None

    def _lifted(self, v: Value, op: Op, views: list[Op]) -> Value:
        """Return an operand of ``op`` in the shape that its result has after the views."""
        low, high = self.ranges[v]
        if low == high:
            return self._number(low, v)
        if v.shape == op.result.shape:
            x = v
        else:
            x = self._known(self.build.broadcast(v, op.result.shape), v)
        for view in reversed(views):
            result = Value(TensorType(view.result.shape, view.result.dtype))
            self.build.ops.append(replace(view, operands=(x,), results=(result,)))
            x = self._known(result, v)
        return x

    def _number(self, number: float, like: Value) -> Value:
        found = self.build.constant(int(number), like.dtype)
        self.ranges[found] = (number, number)
        return found

    def _known(self, value: Value, like: Value) -> Value:
        """Record the last op's result, which has the range of another value."""
        self.ranges[value], self.made[value] = self.ranges[like], self.build.ops[-1]
        return value

    def _combined(self, fn: BinaryFn, a: Value, b: Value) -> Value | None:
        """Return a function of two small integers if it is certainly small, too."""
        found = self.build.binary(fn, a, b)
        op = self.build.ops[-1]
        self.ranges[found] = range_of(op, found, [self.ranges[a], self.ranges[b]])
        return found if self._is_small(found) else None

    def _is_small(self, value: Value) -> bool:
        low, high = self.ranges[value]
        return max(abs(low), abs(high)) < MAX_POSITIONS


def _changes_type(op: Op) -> bool:
    return isinstance(op, Elementwise) and op.identity and op.operands[0].dtype.is_integer
