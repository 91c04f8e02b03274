"""Means over the elements that a mask keeps, which may be none. Let ``c`` be the number of kept
elements. ``where(c > 0, s / c, 0)`` is ``s / max(c, 1)`` if the sum ``s`` is zero where nothing is
kept; whether anything is kept may also be tested on the mask (``any``). ``where(c > 0, c, 1)`` and
``c + (c == 0)`` are ``max(c, 1)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import rewritten
from mirage.semantics.ugraph import Contraction, KernelGraph, Op, Structure, Value, View
from mirage.verify.normal_form.certainty import Certain
from mirage.verify.normal_form.empty_rows import EmptyRows, is_identity
from mirage.verify.normal_form.predicates import truth_of

_Rule = Callable[[Builder, Op], Value]


def with_counts_from_one(graph: KernelGraph, *, total: bool) -> KernelGraph:
    """Return a program (in primitive ops) that divides by counts of at least one; the same object
    if it has no such means. If a sum is not defined although nothing is kept, neither is the
    result; with ``total``, such means are not changed."""
    for find in (_Counts.limit, _Counts.mean):
        while (found := _first(_Counts(graph, strict=total), find)) is not None:
            graph = rewritten(graph, found)
    return graph


def _first(
    counts: _Counts, find: Callable[[_Counts, Op], _Rule | None]
) -> Mapping[Op, _Rule] | None:
    rules = ((op, find(counts, op)) for op in counts.graph.ops)
    return next(({op: rule} for op, rule in rules if rule is not None), None)


def _at_least_one(b: Builder, count: Value, like: Value) -> Value:
    return b.cast(b.binary(BinaryFn.MAX, count, b.constant(1, count.dtype)), like.dtype)


class _Counts:
    """The counts of a program, and the values computed with them."""

    def __init__(self, graph: KernelGraph, strict: bool) -> None:
        self.graph, self.strict = graph, strict
        self.makers = {v: op for op in graph.ops for v in op.results}
        numbers = {v: op.number for v, op in self.makers.items() if op.number is not None}
        self.certain = Certain(self.makers, numbers)
        self.keys = _keys(graph)

    def source(self, x: Value) -> Value:
        """Return the value of which ``x`` is a conversion to another type."""
        while (op := self.makers.get(x)) is not None and is_identity(op):
            x = op.operands[0]
        return x

    def total(self, x: Value) -> Contraction | None:
        """Return the op that counts true elements over the last dimensions, if ``x`` is its result
        in another type or shape; None if ``x`` is not a count."""
        while (op := self.makers.get(x)) is not None and (isinstance(op, View) or is_identity(op)):
            if op.result.type.size != op.operands[0].type.size:
                return None
            x = op.operands[0]
        if not isinstance(op, Contraction) or op.function is not ReduceFn.SUM:
            return None
        mask, dims = op.operands[0], op.over[0]
        last = dims == tuple(range(len(mask.shape) - len(dims), len(mask.shape)))
        return op if last and self.source(mask).dtype is DType.I1 else None

    def asked(self, p: Value) -> tuple[Value, bool] | None:
        """Return a count, and whether ``p`` says that it is positive (or that it is zero)."""
        op = self.makers.get(self.source(p))
        if op is None:
            return None
        if op.function is UnaryFn.NOT:
            inner = self.asked(op.operands[0])
            return None if inner is None else (inner[0], not inner[1])
        for count, zero in (op.operands, op.operands[::-1]) if len(op.operands) == 2 else ():
            if self.certain.number(zero) != 0 or self.total(count) is None:
                continue
            if op.function in (BinaryFn.EQ, BinaryFn.NE):
                return count, op.function is BinaryFn.NE
            if op.function is BinaryFn.LT and zero is op.operands[0]:
                return count, True
            if op.function is BinaryFn.LE and zero is op.operands[1]:
                return count, False
        return None

    def same(self, x: Value, y: Value) -> bool:
        return x.shape == y.shape and self.keys[x] == self.keys[y]

    def limit(self, op: Op) -> _Rule | None:
        """Write "the count, or one where it is zero" as a maximum."""
        if op.function is not BinaryFn.ADD:
            return None
        for counted, other in (op.operands, op.operands[::-1]):
            asked = self.asked(other)
            if asked is None or asked[1] or counted.shape != op.result.shape:
                continue
            kept = self.makers.get(counted)
            if kept is not None and kept.function is BinaryFn.KEEP:
                seen = self.asked(kept.operands[0])
                if seen is None or not seen[1] or not self.same(seen[0], asked[0]):
                    continue
                counted = kept.operands[1]
            if self.same(counted, asked[0]):
                return lambda b, new, c=counted: _at_least_one(b, c, new.result)
        return None

    def mean(self, op: Op) -> _Rule | None:
        """Write a mean that is kept only if its count is positive, without the choice."""
        if op.function is not BinaryFn.KEEP:
            return None
        asked, quotient = self.asked(op.operands[0]), self.makers.get(op.operands[1])
        if asked is None or not asked[1] or quotient is None:
            return None
        if quotient.function is not BinaryFn.DIV or quotient.result.shape != op.result.shape:
            return None
        total, divisor = quotient.operands
        count = self._count(divisor)
        if count is None or not self.same(count, asked[0]) or not self._vanishes(total, count):
            return None
        if count is not divisor:  # at least one already
            return lambda b, new: new.operands[1]
        return lambda b, new: b.binary(BinaryFn.DIV, total, _at_least_one(b, count, divisor))

    def _count(self, divisor: Value) -> Value | None:
        """Return the count that is a divisor, or whose maximum with one is the divisor."""
        if self.total(divisor) is not None:
            return divisor
        limit = self.makers.get(self.source(divisor))
        if limit is None or limit.function is not BinaryFn.MAX:
            return None
        for count, one in (limit.operands, limit.operands[::-1]):
            if self.certain.number(one) == 1 and self.total(count) is not None:
                return count
        return None

    def _vanishes(self, x: Value, count: Value) -> bool:
        """Return whether ``x`` is zero where the count is."""
        total = self.total(count)
        assert total is not None
        (given,) = total.operands
        rows = EmptyRows(
            self.graph, given.shape[: len(given.shape) - len(total.over[0])], self.certain
        )
        if self.strict and not self.certain.is_finite(x, total=True):
            return False
        if count not in rows.carried({total.result}) or not rows.is_beside(x):
            return False
        if rows.lead and len(count.shape) != len(x.shape):
            return False
        mask = truth_of(given, self.makers)
        values = [*self.graph.inputs, *(v for op in self.graph.ops for v in op.results)]
        alike = {v for v in values if v.shape == given.shape and v.dtype is DType.I1}
        return x in rows.zeros({v for v in alike if truth_of(v, self.makers) == mask})


def _keys(graph: KernelGraph) -> dict[Value, int]:
    """Number the values so that values that are computed in the same way, in any types, have the
    same number."""
    numbers: dict[object, int] = {}
    found = {v: numbers.setdefault(v, len(numbers)) for v in graph.inputs}
    for op in graph.ops:
        if is_identity(op):
            found[op.result] = found[op.operands[0]]
            continue
        own = tuple(
            repr(getattr(op, f.name)) for f in fields(op) if f.name not in ("operands", "results")
        )
        operands = tuple(found[v] for v in op.operands)
        for i, v in enumerate(op.results):
            key = object() if isinstance(op, Structure) else (type(op), own, operands, i, v.shape)
            found[v] = numbers.setdefault(key, len(numbers))
    return found
