"""Products of sums with infinite terms: ``c (-inf - m) = -inf - c m`` for a positive constant
``c``, whatever ``m`` is, and the same for the number that a mask adds.

A running maximum starts at minus infinity, and masks set scores to it. Exact arithmetic has no
signs, so a product with minus infinity is unknown there, while a sum with it is known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Op, Value, View, all_ops

_DEEPEST = 8  # sums in sums


def has_infinite_terms(graph: KernelGraph) -> bool:
    """Return whether a program may contain such a term."""
    return any(op.function is UnaryFn.BIAS or _is_infinite(op.number) for op in all_ops(graph.ops))


def infinite_term_rule(
    op: Op, makers: Mapping[Value, Op], constants: Mapping[Value, Number]
) -> Callable[[Builder], Value] | None:
    """Return how to write a product of a positive constant and a sum or difference with an infinite
    term; None for other ops. ``makers`` are the ops before this one."""
    if op.function is not BinaryFn.MUL:
        return None
    terms = _Terms(makers, constants)
    for factor, total in (op.operands, op.operands[::-1]):
        by = constants.get(terms.source(factor))
        positive = isinstance(by, Fraction) and by > 0
        if not positive or total.type != op.result.type or terms.is_infinite(total):
            continue
        if terms.has_infinite(total, 0):
            return lambda b, factor=factor, total=total: terms.times(b, factor, total)
    return None


@dataclass(frozen=True)
class _Terms:
    makers: Mapping[Value, Op]
    constants: Mapping[Value, Number]

    def source(self, x: Value) -> Value:
        """Return the value of which ``x`` is a view."""
        while isinstance(made := self.makers.get(x), View):
            x = made.operands[0]
        return x

    def is_infinite(self, x: Value) -> bool:
        """Return whether all elements are infinite or zero: positive factors change nothing."""
        made = self.makers.get(self.source(x))
        masks = made is not None and made.function is UnaryFn.BIAS
        return masks or _is_infinite(self.constants.get(self.source(x)))

    def has_infinite(self, x: Value, depth: int) -> bool:
        """Return whether a sum has an infinite term."""
        if self.is_infinite(x):
            return True
        made = self.makers.get(x)
        sums = made is not None and made.function in (BinaryFn.ADD, BinaryFn.SUB)
        if made is None or not sums or depth >= _DEEPEST:
            return False
        return any(self.has_infinite(v, depth + 1) for v in made.operands)

    def times(self, b: Builder, factor: Value, x: Value) -> Value:
        """Return the product of a positive factor and a sum that has infinite terms, or none."""
        if self.is_infinite(x):
            return x
        if not self.has_infinite(x, 0):
            return b.binary(BinaryFn.MUL, x, factor)
        made = self.makers[x]
        fn = made.function
        assert isinstance(fn, BinaryFn)
        return b.binary(fn, *(self.times(b, factor, v) for v in made.operands))


def _is_infinite(number: Number | None) -> bool:
    return number is not None and not isinstance(number, Fraction)
