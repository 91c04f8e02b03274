"""Properties that values have for all inputs: which numbers they are, that they are finite,
positive or not negative, and which truth values are true.

Inputs are real numbers, and all ops are assumed to be defined; nothing is said where one is not.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from mirage.semantics.numbers import Number, as_number
from mirage.semantics.ops.kinds import Contraction, Elementwise
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, DType, RealDomain, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Movement, Op, Source, Structure, Value, View
from mirage.verify.normal_form.moments import is_variance

_DEEPEST = 8
_NEVER_NEGATIVE = (UnaryFn.ABS, UnaryFn.EXP, UnaryFn.SQRT, UnaryFn.RSQRT, UnaryFn.SQUARE,
                   UnaryFn.SIGMOID, UnaryFn.RELU)  # fmt: skip
_KEEP_THE_SIGN = (BinaryFn.ADD, BinaryFn.MUL, BinaryFn.DIV, BinaryFn.MIN, BinaryFn.POW,
                  UnaryFn.RECIPROCAL)  # fmt: skip

_STAY_POSITIVE = (BinaryFn.MUL, BinaryFn.DIV, BinaryFn.MIN, UnaryFn.RECIPROCAL, UnaryFn.SQRT,
                  UnaryFn.RSQRT)  # fmt: skip


def _same_elements(op: Op) -> bool:
    """Return whether the result has only elements of the operand."""
    return op.identity if isinstance(op, Elementwise) else isinstance(op, View)


def _is_total(op: Op) -> bool:
    """Return whether the op is defined for all numbers."""
    fn = op.function
    if isinstance(fn, UnaryFn):
        return UNARY[fn].domain is RealDomain.ALL
    return not isinstance(fn, BinaryFn) or BINARY[fn].total


def _may_overflow(op: Op) -> bool:
    """Return whether the op's result may exceed the range of f16; programs test for this. Results
    in all other types are taken to stay in range for inputs in range."""
    if _same_elements(op) or isinstance(op, Source | Structure):
        given = {v.dtype for v in op.operands}
    else:
        given = set[DType]()
    return op.number is None and any(
        v.dtype is DType.F16 and DType.F16 not in given for v in op.results
    )


class Certain:
    """Properties of values, derived from the ops that compute them."""

    def __init__(self, makers: Mapping[Value, Op], constants: Mapping[Value, Number]) -> None:
        self.makers, self.constants = makers, constants

    def number(self, x: Value) -> Fraction | None:
        """Return the finite number that all elements equal, or None."""
        op = self.makers.get(x)
        while op is not None and op.number is None and isinstance(op, View):
            x = op.operands[0]
            op = self.makers.get(x)
        number = as_number(self.constants[x]) if x in self.constants else None
        return number if isinstance(number, Fraction) else None

    def is_certain(self, x: Value, depth: int = 0) -> bool | None:
        """Return True or False if a truth value is the same everywhere, provided that no number is
        infinite; otherwise None."""
        op = self.makers.get(x)
        if op is None or depth >= _DEEPEST:
            return None
        fn, operands = op.function, op.operands
        if fn in (BinaryFn.EQ, BinaryFn.NE):
            if operands[0] is operands[1]:
                return fn is BinaryFn.EQ
            for value, number in (operands, operands[::-1]):
                if self._is_infinite(number) and self.is_finite(value):
                    return fn is BinaryFn.NE
                if self.number(number) == 0 and self.is_positive(value):
                    return fn is BinaryFn.NE
        if fn in (BinaryFn.LT, BinaryFn.LE):
            return self._is_ordered(op)
        inner = [self.is_certain(v, depth + 1) for v in operands]
        if fn is UnaryFn.NOT:
            return None if inner[0] is None else not inner[0]
        if fn in (BinaryFn.AND, BinaryFn.OR):
            decides = fn is BinaryFn.OR
            if decides in inner:
                return decides
            return None if None in inner else not decides
        return None

    def _is_ordered(self, op: Op) -> bool | None:
        """Answer a comparison with zero."""
        x, y = op.operands
        less = op.function is BinaryFn.LT
        if self.number(x) == 0 and self.is_finite(y):
            return True if (self._positive(y, 0) if less else self.not_negative(y)) else None
        if self.number(y) == 0 and self.is_finite(x):
            return False if (self.not_negative(x) if less else self._positive(x, 0)) else None
        return None

    def _is_infinite(self, x: Value) -> bool:
        return x in self.constants and not isinstance(as_number(self.constants[x]), Fraction)

    def is_finite(self, x: Value, total: bool = False) -> bool:
        """Return whether no element is infinite, provided that the inputs are numbers and all ops
        are defined; with ``total``, all ops must be defined for any numbers."""
        seen: set[Value] = set()
        left = [x]
        while left:
            value = left.pop()
            if value in seen:
                continue
            seen.add(value)
            op = self.makers.get(value)
            if op is None:
                continue  # an input
            if self._is_infinite(value) or op.function is UnaryFn.BIAS or _may_overflow(op):
                return False
            if total and not _is_total(op) and not self._is_defined(op):
                return False
            plain = op.function is not None or op.number is not None
            moved = isinstance(op, Movement) or (isinstance(op, Source) and bool(op.operands))
            moved = moved or _same_elements(op)
            if isinstance(op, Structure):
                left += op.ends
            elif not plain and not moved and not isinstance(op, Contraction):
                return False
            left += op.operands
        return True

    def _is_defined(self, op: Op) -> bool:
        """Return whether the arguments of an op are certainly in its domain."""
        fn, x = op.function, op.operands
        if fn in (UnaryFn.LOG, UnaryFn.RSQRT, UnaryFn.RECIPROCAL):
            return self._positive(x[0], 0)
        if fn is UnaryFn.SQRT:
            return self.not_negative(x[0])
        return fn is BinaryFn.DIV and self._positive(x[1], 0)

    def not_negative(self, x: Value, depth: int = 0) -> bool:
        """Return whether no element can be negative."""
        if (number := self.number(x)) is not None:
            return number >= 0
        op = self.makers.get(x)
        if op is None or depth >= _DEEPEST:
            return False
        fn, operands = op.function, op.operands
        if fn in _NEVER_NEGATIVE or (fn is BinaryFn.MUL and operands[0] is operands[1]):
            return True
        if is_variance(op, self.makers, self.number):
            return True
        if fn is BinaryFn.POW and (power := self.number(operands[1])) is not None:
            return power.denominator == 2 or (power.denominator == 1 and power.numerator % 2 == 0)
        each = (self.not_negative(v, depth + 1) for v in operands)
        if fn is BinaryFn.MAX:
            return any(each)
        summed = fn in (ReduceFn.SUM, ReduceFn.MAX)
        return (
            bool(operands) and (_same_elements(op) or summed or fn in _KEEP_THE_SIGN) and all(each)
        )

    def is_positive(self, x: Value) -> bool:
        """Return whether all elements are certainly positive. An exponential of minus infinity is
        not, so the values that ``x`` is computed from must not be infinite."""
        return self.is_finite(x) and self._positive(x, 0)

    def _positive(self, x: Value, depth: int) -> bool:
        if (number := self.number(x)) is not None:
            return number > 0
        op = self.makers.get(x)
        if op is None or depth >= _DEEPEST:
            return False
        fn, operands = op.function, op.operands
        if fn in (UnaryFn.EXP, UnaryFn.SIGMOID):
            return True
        each = [self._positive(v, depth + 1) for v in operands]
        if fn is BinaryFn.ADD:
            return any(each) and all(self.not_negative(v) for v in operands)
        if fn is BinaryFn.POW:
            return each[0]
        if fn is BinaryFn.MAX:
            return any(each)
        kept = _same_elements(op) or fn in (ReduceFn.SUM, ReduceFn.MAX) or fn in _STAY_POSITIVE
        return bool(each) and kept and all(each)
