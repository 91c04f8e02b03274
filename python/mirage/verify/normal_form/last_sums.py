"""Removal of sums with which both programs end: a loss is a sum over rows, and two losses are equal
if their summands are equal, row by row.

This condition is sufficient but not necessary, so nothing follows if the rows differ.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import as_number
from mirage.semantics.ops.kinds import Rearrangement
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import Contraction, Elementwise, KernelGraph, Op, Value, View


@dataclass(frozen=True)
class _Sum:
    """``factor`` times the sum of all elements of a value."""

    value: Value
    factor: Fraction

    def elements(self, b: Builder) -> Value:
        """Return all summands."""
        return b.binary(BinaryFn.MUL, self.value, b.constant(self.factor))

    def rows(self, b: Builder, count: int) -> Value | None:
        """Return the summands of each of that many rows; None if there are no such rows."""
        long = [d for d, n in enumerate(self.value.shape) if n != 1]
        x = self.value
        if x.type.size != count:
            if not long or x.shape[long[0]] != count:
                return None
            x = b.reduce(ReduceFn.SUM, x, tuple(long[1:]))
        return b.binary(BinaryFn.MUL, b.reshape(x, (count,)), b.constant(self.factor))


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
                count, alike = _count(one, whole), one.value.shape == other.value.shape
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
    sizes = [n for n in found.value.shape if n != 1]
    return found.value.type.size if whole or not sizes else sizes[0]


def _summed(graph: KernelGraph, output: Value) -> _Sum | None:
    """Return the sum that an output of one element is, and the number that multiplies it."""
    makers: dict[Value, Op] = {v: op for op in graph.ops for v in op.results}
    factor, x, summed = Fraction(1), output, False
    if output.type.size != 1:
        return None
    while (op := makers.get(x)) is not None:
        if op.function is ReduceFn.SUM and isinstance(op, Contraction):
            (dims,) = op.over
            if any(n != 1 and d not in dims for d, n in enumerate(op.operands[0].shape)):
                break
            summed, x = True, op.operands[0]
        elif isinstance(op, Rearrangement) or _same(op):
            x = op.operands[0]
        elif op.function is UnaryFn.NEG:
            factor, x = -factor, op.operands[0]
        elif (scaled := _scaled(op, makers)) is not None:
            factor, x = factor * scaled[1], scaled[0]
        else:
            break
    return _Sum(x, factor) if summed else None


def _same(op: Op) -> bool:
    """Return whether only the element type changes."""
    return isinstance(op, Elementwise) and op.identity and not op.cuts


def _scaled(op: Op, makers: dict[Value, Op]) -> tuple[Value, Fraction] | None:
    """Return the operand that is multiplied or divided by a number, and the factor."""
    if op.function not in (BinaryFn.MUL, BinaryFn.DIV):
        return None
    for x, number in (op.operands, op.operands[::-1]):
        made = makers.get(number)
        while made is not None and (isinstance(made, View) or _same(made)):
            made = makers.get(made.operands[0])
        value = None if made is None or made.number is None else as_number(made.number)
        if isinstance(value, Fraction) and value and x.shape == op.results[0].shape:
            if op.function is BinaryFn.MUL:
                return x, value
            if x is op.operands[0]:
                return x, 1 / value
    return None
