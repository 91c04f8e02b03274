"""Removal of sums with which both programs end: a loss is a sum over rows, and two losses are equal
if their summands are equal, row by row.

A program may also end with a sum or difference of such sums, and of single numbers, which are the
same share of each summand. This condition is sufficient but not necessary, so nothing follows if
the rows differ.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial, reduce

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import as_number
from mirage.semantics.ops.kinds import Rearrangement, is_cast
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import Contraction, KernelGraph, Op, Value, View

_SIGNS: Mapping[object, int] = {BinaryFn.ADD: 1, BinaryFn.SUB: -1}


@dataclass(frozen=True)
class _Term:
    """``factor`` times the sum of all elements of a value."""

    value: Value
    factor: Fraction

    @property
    def spread(self) -> bool:
        """Whether it is a single number, which is divided among all summands."""
        return self.value.type.size == 1

    def elements(self, b: Builder, count: int) -> Value:
        """Return all summands."""
        if self.spread:
            share = b.constant(self.factor / count)
            return b.binary(BinaryFn.MUL, b.reshape(self.value, ()), share)
        return b.binary(BinaryFn.MUL, self.value, b.constant(self.factor))

    def rows(self, b: Builder, count: int) -> Value | None:
        """Return the summands of each of that many rows; None if there are no such rows."""
        if self.spread:
            return self.elements(b, count)
        long = [d for d, n in enumerate(self.value.shape) if n != 1]
        x = self.value
        if x.type.size != count:
            if x.shape[long[0]] != count:
                return None
            x = b.reduce(ReduceFn.SUM, x, tuple(long[1:]))
        return b.binary(BinaryFn.MUL, b.reshape(x, (count,)), b.constant(self.factor))


@dataclass(frozen=True)
class _Sum:
    """A sum of terms, the largest of which comes first."""

    terms: tuple[_Term, ...]

    @property
    def shapes(self) -> set[tuple[int, ...]]:
        """The shapes of the values that are summed."""
        return {t.value.shape for t in self.terms if not t.spread}

    def elements(self, b: Builder) -> Value:
        """Return all summands, if all terms have one shape."""
        plus = partial(b.binary, BinaryFn.ADD)
        count = self.terms[0].value.type.size
        return reduce(plus, (t.elements(b, count) for t in self.terms))

    def rows(self, b: Builder, count: int) -> Value | None:
        """Return the summands of each of that many rows; None if there are no such rows."""
        plus = partial(b.binary, BinaryFn.ADD)
        rows = [found for t in self.terms if (found := t.rows(b, count)) is not None]
        return reduce(plus, rows) if len(rows) == len(self.terms) else None


def without_last_sums(
    first: KernelGraph, second: KernelGraph
) -> Iterator[tuple[KernelGraph, KernelGraph]]:
    """Yield pairs of programs whose equality implies that of the given pair; they return the
    elements, or the rows, that the given programs sum."""
    pairs = [
        tuple(_summed(graph, v) for graph, v in zip((first, second), outputs, strict=True))
        for outputs in zip(first.outputs, second.outputs, strict=True)
    ]
    if not any(one is not None and other is not None for one, other in pairs):
        return
    for whole in (True, False):
        builders = Builder(), Builder()
        outputs: tuple[list[Value], list[Value]] = [], []
        for (one, other), v, w in zip(pairs, first.outputs, second.outputs, strict=True):
            rows: list[Value | None] = [None, None]
            if one is not None and other is not None:
                count, alike = (
                    _count(one, whole),
                    one.shapes == other.shapes and len(one.shapes) == 1,
                )
                rows = [
                    s.elements(b) if whole and alike else s.rows(b, count)
                    for s, b in zip((one, other), builders, strict=True)
                ]
            for place, (found, given) in enumerate(zip(rows, (v, w), strict=True)):
                outputs[place].append(given if None in rows or found is None else found)
        if outputs != (list(first.outputs), list(second.outputs)):
            one, other = (
                without_dead_ops(replace(g, ops=(*g.ops, *b.ops), outputs=tuple(o)))
                for g, b, o in zip((first, second), builders, outputs, strict=True)
            )
            yield one, other


def _count(found: _Sum, whole: bool) -> int:
    value = found.terms[0].value
    sizes = [n for n in value.shape if n != 1]
    return value.type.size if whole or not sizes else sizes[0]


def _summed(graph: KernelGraph, output: Value) -> _Sum | None:
    """Return the sum that an output of one element is."""
    if output.type.size != 1:
        return None
    makers: dict[Value, Op] = {v: op for op in graph.ops for v in op.results}
    terms = list(_terms(makers, output, Fraction(1)))
    if not any(summed for _, summed in terms):
        return None
    return _Sum(tuple(sorted((t for t, _ in terms), key=lambda t: -t.value.type.size)))


def _terms(
    makers: Mapping[Value, Op], output: Value, factor: Fraction
) -> Iterator[tuple[_Term, bool]]:
    """Yield the terms of a value, and whether they are sums."""
    x, summed = output, False
    while (op := makers.get(x)) is not None:
        if op.function is ReduceFn.SUM and isinstance(op, Contraction):
            (dims,) = op.over
            if any(n != 1 and d not in dims for d, n in enumerate(op.operands[0].shape)):
                break
            summed, x = True, op.operands[0]
        elif isinstance(op, Rearrangement) or is_cast(op):
            x = op.operands[0]
        elif op.function is UnaryFn.NEG:
            factor, x = -factor, op.operands[0]
        elif (scaled := _scaled(op, makers)) is not None:
            factor, x = factor * scaled[1], scaled[0]
        elif op.function in _SIGNS and all(v.type.size == 1 for v in op.operands):
            one, other = op.operands
            yield from _terms(makers, one, factor)
            yield from _terms(makers, other, factor * _SIGNS[op.function])
            return
        else:
            break
    yield _Term(x, factor), summed


def _scaled(op: Op, makers: Mapping[Value, Op]) -> tuple[Value, Fraction] | None:
    """Return the operand that is multiplied or divided by a number, and the factor."""
    if op.function not in (BinaryFn.MUL, BinaryFn.DIV):
        return None
    for x, number in (op.operands, op.operands[::-1]):
        made = makers.get(number)
        while made is not None and (isinstance(made, View) or is_cast(made)):
            made = makers.get(made.operands[0])
        value = None if made is None or made.number is None else as_number(made.number)
        if isinstance(value, Fraction) and value and x.shape == op.results[0].shape:
            if op.function is BinaryFn.MUL:
                return x, value
            if x is op.operands[0]:
                return x, 1 / value
    return None
