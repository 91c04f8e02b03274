"""Running maxima of rows that a mask may empty. An online softmax with masks subtracts ``s =
where(m == -inf, 0, m)`` in place of the maximum ``m``, so that a row without visible elements so
far gives zeros. ``s`` is a finite number everywhere, and any other would work too, since it
cancels. But ``m`` also occurs where sums are rescaled: ``exp(m - t) v`` with the next such number
``t``. If ``v`` is zero wherever ``m`` is minus infinity, this is ``exp(s - t) v``: where ``m`` is
finite, ``s`` is ``m``, and elsewhere both are zero, since ``t`` is finite.

That ``v`` is zero there is derived from its ops: an exponential of a score minus a finite number
is zero where the maximum of the row is minus infinity, and so are sums of these over the row, and
products with them. The leading dimensions select a row; nothing is derived across rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from mirage.semantics.numbers import nearest
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import Contraction, KernelGraph, Op, Value, View
from mirage.verify.normal_form.certainty import Certain
from mirage.verify.normal_form.empty_rows import EmptyRows, is_identity, same_rank

_Makers = Mapping[Value, Op]


def guarded(op: Op, makers: _Makers) -> Value | None:
    """Return the value that an op keeps unless it is infinite; None for other ops."""
    if op.function is not BinaryFn.KEEP or op.results[0].dtype.is_integer:
        return None
    mask, kept = op.operands
    asked = makers.get(mask)
    if asked is None:
        return None
    if asked.function is UnaryFn.NOT:
        compared = makers.get(asked.operands[0])
        if compared is None or compared.function is not BinaryFn.EQ:
            return None
        for x, end in (compared.operands, compared.operands[::-1]):
            size, number = makers.get(x), _number(end, makers)
            of_size = size is not None and size.function is UnaryFn.ABS
            if number == -math.inf and x is kept:
                return kept
            if number == math.inf and size is not None and of_size and size.operands == (kept,):
                return kept
    if asked.function is BinaryFn.LT and asked.operands[1] is kept:
        return kept if _number(asked.operands[0], makers) == -math.inf else None
    return None


def _number(x: Value, makers: _Makers) -> float | None:
    op = makers.get(x)
    while op is not None and op.number is None and isinstance(op, View):
        op = makers.get(op.operands[0])
    return None if op is None or op.number is None else nearest(op.number)


def with_finite_maxima(graph: KernelGraph) -> KernelGraph:
    """Return a program (in primitive ops) that rescales only by the finite numbers, where this
    makes no difference."""
    while (changed := _with_one_less(graph)) is not None:
        graph = changed
    return graph


def finite_numbers(graph: KernelGraph) -> set[Value]:
    """Return the values that replace a number by zero where it is infinite."""
    return _Guards(graph).finite


def _with_one_less(graph: KernelGraph) -> KernelGraph | None:
    """Change one factor. Facts about the program are derived again afterwards, since each of two
    factors might be zero only because of the other one."""
    known = _Guards(graph)
    for op in graph.ops:
        if (found := known.rescaling(op)) is None:
            continue
        difference, maximum = found
        new: list[Op] = []
        shift = known.moved(difference.operands[0], maximum, new)
        changed = replace(
            difference,
            operands=(shift, difference.operands[1]),
            results=(Value(difference.result.type),),
        )
        factor = with_operands(op, (changed.result,))
        at = graph.ops.index(op)
        ops = (*graph.ops[:at], *new, changed, factor, *graph.ops[at + 1 :])
        return replace(graph, ops=ops)
    return None


class _Guards:
    """The maxima of a program that are replaced by a finite number where they are infinite."""

    def __init__(self, graph: KernelGraph) -> None:
        self.graph = graph
        self.makers = {v: op for op in graph.ops for v in op.results}
        numbers = {v: op.number for v, op in self.makers.items() if op.number is not None}
        self.certain = Certain(self.makers, numbers)
        kept = ((op, guarded(op, self.makers)) for op in graph.ops)
        self.finite = set[Value]()
        self.shifts: dict[Value, Value] = {}
        for op, m in kept:
            if m is not None:
                self.shifts.setdefault(m, op.result)
                self.finite.add(op.result)
        for op in graph.ops:  # the same in other shapes, and plus zero
            summed = op.function is BinaryFn.ADD and any(map(self.is_zero, op.operands))
            same = summed or isinstance(op, View) or is_identity(op)
            if same and any(v in self.finite for v in op.operands):
                self.finite.update(op.results)

    def is_zero(self, x: Value) -> bool:
        return self.certain.number(x) == 0

    def rescaling(self, op: Op) -> tuple[Op, Value] | None:
        """If an op is ``exp(m - t)`` with a guarded ``m`` and a finite ``t``, and only multiplies
        values that are zero where ``m`` is minus infinity, return the difference and ``m``."""
        if op.function is not UnaryFn.EXP:
            return None
        difference = self.makers.get(op.operands[0])
        if difference is None or difference.function is not BinaryFn.SUB:
            return None
        x, shift = difference.operands
        if shift not in self.finite or len(x.shape) != len(op.result.shape):
            return None
        for m in self._before(op):
            found = _Maximum.of(m, self)
            if found is not None and x in found.rows.carried({m}):
                zero = found.rows.zeros(set(), found.below, self.finite)
                multiplies = self._only_multiplies(op.result, found.rows, zero)
                return (difference, m) if multiplies else None
        return None

    def _before(self, op: Op) -> list[Value]:
        """Return the maxima whose finite numbers are computed before an op."""
        known = {v for each in self.graph.ops[: self.graph.ops.index(op)] for v in each.results}
        return [m for m, shift in self.shifts.items() if shift in known]

    def _only_multiplies(self, x: Value, rows: EmptyRows, zero: Set[Value]) -> bool:
        for op in self.graph.ops:
            if x not in op.operands:
                continue
            if rows.carries(op):
                if not self._only_multiplies(op.result, rows, zero):
                    return False
                continue
            product = op.function is BinaryFn.MUL and same_rank(op, x)
            others = [v for v in op.operands if v is not x]
            if not product or not rows.is_beside(op.result):
                return False
            if not any(rows.is_zero(v, op, zero) for v in others):
                return False
        return x not in self.graph.outputs

    def moved(self, x: Value, m: Value, ops: list[Op]) -> Value:
        """Write the finite number in place of ``m``, moved as ``x`` is."""
        if x is m:
            return self.shifts[m]
        op = self.makers[x]
        operand = self.moved(op.operands[0], m, ops)
        ops.append(replace(op, operands=(operand,), results=(Value(op.result.type),)))
        return ops[-1].result


@dataclass(frozen=True)
class _Maximum:
    """A maximum of rows: the values ``below`` it are minus infinity wherever it is."""

    rows: EmptyRows
    below: Set[Value]

    @classmethod
    def of(cls, m: Value, guards: _Guards) -> _Maximum | None:
        lead = _lead(m, guards.makers)
        if not lead:
            return None
        rows = EmptyRows(guards.graph, lead, guards.certain)
        below, pending = {m}, [m]
        while pending:
            op = guards.makers.get(pending.pop())
            if op is None or not _is_maximum(op, rows):
                continue
            for x in op.operands:
                if _number(x, guards.makers) != -math.inf:
                    below.add(x)
                    pending.append(x)
        return cls(rows, below) if all(map(rows.is_beside, below)) else None


def _is_maximum(op: Op, rows: EmptyRows) -> bool:
    """Return whether all elements of a row of the operands are among those of which the result's
    elements are the maxima."""
    if isinstance(op, Contraction):
        (x, *_) = op.operands
        return op.function is ReduceFn.MAX and op.over == ((len(x.shape) - 1,),)
    if op.function is BinaryFn.MAX:
        return all(not x.shape or same_rank(op, x) for x in op.operands)
    return rows.carries(op) and (not isinstance(op, View) or op.whole)


def _lead(m: Value, makers: _Makers) -> tuple[int, ...]:
    """Return the leading dimensions of the rows of which ``m`` is a maximum; an empty tuple if it
    is not one."""
    pending, seen = [m], set[Value]()
    while pending:
        x = pending.pop()
        op = makers.get(x)
        if op is None or x in seen:
            continue
        seen.add(x)
        if isinstance(op, Contraction):
            return op.operands[0].shape[:-1] if op.function is ReduceFn.MAX else ()
        if op.function is BinaryFn.MAX or isinstance(op, View) or is_identity(op):
            pending += op.operands
    return ()
