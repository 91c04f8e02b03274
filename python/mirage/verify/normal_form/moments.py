"""Differences of moments that are not negative: ``sum y^2 / n - (sum y / n)^2``, by the inequality
of Cauchy and Schwarz."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from mirage.semantics.ops.kinds import is_cast
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Contraction, Op, Value

Numbers = Callable[[Value], Fraction | None]


def is_variance(op: Op, makers: Mapping[Value, Op], number: Numbers) -> bool:
    """Return whether ``op`` is ``a sum y^2 - (b sum y)^2`` of ``n`` elements, ``a >= n b^2``;
    ``number`` returns the number that a value is known to equal."""
    if op.function is not BinaryFn.SUB or len({v.shape for v in op.operands}) != 1:
        return False
    first, second = (_Total.of(v, makers, number) for v in op.operands)
    mean = None if second is None else _root(second.value, makers)
    if first is None or second is None or mean is None:
        return False
    total, other = _summed(first.value, makers), _Total.of(mean, makers, number)
    sum_of_all = None if other is None else _summed(other.value, makers)
    if total is None or other is None or sum_of_all is None or not _alike(total, sum_of_all):
        return False
    square = _root(_unviewed(total.operands[0], makers), makers)
    if square is None or _unviewed(square, makers) is not _unviewed(sum_of_all.operands[0], makers):
        return False
    count = total.operands[0].type.size // max(total.results[0].type.size, 1)
    return first.factor >= second.factor * other.factor**2 * count >= 0


def _alike(one: Contraction, other: Contraction) -> bool:
    """Return whether two sums are of the same places of their operands."""
    return one.over == other.over and one.operands[0].shape == other.operands[0].shape


class _Total:
    """A value times a number."""

    def __init__(self, factor: Fraction, value: Value) -> None:
        self.factor, self.value = factor, value

    @classmethod
    def of(cls, x: Value, makers: Mapping[Value, Op], number: Numbers) -> _Total | None:
        """Return the value without the numbers by which it is multiplied or divided, and without
        changes of its type and shape; None if it is repeated."""
        factor = Fraction(1)
        while True:
            x = _unviewed(x, makers)
            op = makers.get(x)
            if op is None or op.function not in (BinaryFn.MUL, BinaryFn.DIV):
                return cls(factor, x)
            left, right = map(number, op.operands)
            if right is not None and (right or op.function is BinaryFn.MUL):
                factor = factor * right if op.function is BinaryFn.MUL else factor / right
                of = op.operands[0]
            elif left is not None and op.function is BinaryFn.MUL:
                factor, of = factor * left, op.operands[1]
            else:
                return cls(factor, x)
            if of.type.size != x.type.size:  # the number repeats it
                return None
            x = of


def _unviewed(x: Value, makers: Mapping[Value, Op]) -> Value:
    """Return the value from which ``x`` is made and which has the same elements in the same
    order."""
    while (op := makers.get(x)) is not None and (op.renames or is_cast(op)):
        x = op.operands[0]
    return x


def _root(x: Value, makers: Mapping[Value, Op]) -> Value | None:
    """Return the value whose square ``x`` is."""
    op = makers.get(x)
    if op is not None and op.function is UnaryFn.SQUARE:
        return op.operands[0]
    squared = op is not None and op.function is BinaryFn.MUL
    return op.operands[0] if op and squared and op.operands[0] is op.operands[1] else None


def _summed(x: Value, makers: Mapping[Value, Op]) -> Contraction | None:
    op = makers.get(x)
    if not isinstance(op, Contraction) or op.function is not ReduceFn.SUM:
        return None
    return op if len(op.operands) == 1 else None
