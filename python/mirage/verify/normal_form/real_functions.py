"""Functions of real numbers in a normal form: maxima as magnitudes, logarithms and roots of
products.

``max(x, y) = (x + y + |x - y|) / 2`` applies to two values, not to a row. In ``log(x y) = log(x) +
log(y)``, ``log(x)`` stands for the logarithm of the magnitude; this holds wherever the left side is
defined. ``sqrt(x y) = sqrt(x) sqrt(y)`` applies if one of the two is certainly not negative, and
``sqrt(max(x, y)) = max(sqrt(x), sqrt(y))`` if neither is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction

from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, Value, all_ops
from mirage.verify.arithmetic.roots_by_signs import exact_root
from mirage.verify.normal_form.certainty import Certain

Rule = Callable[[Builder], Value]

_DEEPEST = 8
_FUNCTIONS = (
    UnaryFn.ABS, UnaryFn.RELU, UnaryFn.SQRT, UnaryFn.RSQRT, UnaryFn.LOG, UnaryFn.LOG1P, UnaryFn.SIN,
    UnaryFn.COS, BinaryFn.MAX, BinaryFn.MIN, BinaryFn.POW, BinaryFn.KEEP,
)  # fmt: skip


def has_real_functions(*graphs: KernelGraph) -> bool:
    """Return whether a program has one of these functions."""
    ops = (op for graph in graphs for op in all_ops(decompose(graph).ops))
    return any(op.function in _FUNCTIONS for op in ops)


def real_rule(op: Op, makers: Mapping[Value, Op], constants: Mapping[Value, Number]) -> Rule | None:
    """Return how to write an op; None for ops that do not change. ``makers`` are the ops before
    this one, as they were written."""
    known = _Known(makers, constants)
    if op.function in (BinaryFn.MAX, BinaryFn.MIN):
        return known.extremum(op)
    if op.function is BinaryFn.ADD:
        return known.chosen(op)
    if op.function is BinaryFn.KEEP:
        certain = known.is_certain(op.operands[0])
        x = op.operands[1]
        if certain is not None and x.shape == op.result.shape and known.is_finite(x):
            return lambda b: b.binary(BinaryFn.MUL, x, b.constant(1.0 if certain else 0.0))
        if certain is False and known.is_finite(op.operands[0]):
            return lambda b: b.broadcast(b.constant(0.0, op.result.dtype), op.result.shape)
        return known.kept(op) or known.multiplied(op)
    if op.function is UnaryFn.RELU:
        (x,) = op.operands
        return lambda b: _half(b, b.binary(BinaryFn.ADD, x, b.unary(UnaryFn.ABS, x)))
    if op.function is UnaryFn.LOG:
        parts = known.parts_of_logarithm(op.operands[0], 0)
        return None if parts is None else lambda b: parts(b)
    if op.function is UnaryFn.SQRT:
        return known.root(op.operands[0], 0)
    if op.function is UnaryFn.RSQRT:
        root = known.root(op.operands[0], 0)
        return None if root is None else lambda b: b.unary(UnaryFn.RECIPROCAL, root(b))
    if op.function is BinaryFn.POW:
        x, y = op.operands
        return known.power(x, known.number(y)) or known.exponential(op)
    if op.function is UnaryFn.EXP:
        return known.power_by_logarithm(op)
    return None


def _half(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.MUL, x, b.constant(0.5))


def _extremum(b: Builder, x: Value, y: Value, highest: bool) -> Value:
    fn = BinaryFn.ADD if highest else BinaryFn.SUB
    distance = b.unary(UnaryFn.ABS, b.binary(BinaryFn.SUB, x, y))
    return _half(b, b.binary(fn, b.binary(BinaryFn.ADD, x, y), distance))


def _product(b: Builder, x: Value, highest: bool, factor: Value | None, turned: bool) -> Value:
    """Write the part of ``x`` above (or below) zero times a factor."""
    part = _extremum(b, x, b.constant(0.0), highest)
    if factor is not None:
        part = b.binary(BinaryFn.MUL, part, factor)
    return b.binary(BinaryFn.MUL, part, b.constant(-1.0 if turned else 1.0))


def _between(b: Builder, x: Value, low: Value, high: Value) -> Value:
    below, above = (b.unary(UnaryFn.ABS, b.binary(BinaryFn.SUB, x, v)) for v in (low, high))
    ends = b.binary(BinaryFn.ADD, low, high)
    return _half(b, b.binary(BinaryFn.ADD, ends, b.binary(BinaryFn.SUB, below, above)))


class _Known(Certain):
    """The rules for single ops, given the known facts about the ops before them."""

    def extremum(self, op: Op) -> Rule | None:
        """Write a maximum or minimum of two values."""
        x, y = op.operands
        if any(v.dtype is DType.I1 for v in (x, y)):
            return None
        for v in (x, y):
            if v in self.constants and self.number(v) is None:
                return None  # infinite
        highest = op.function is BinaryFn.MAX
        return self._clamped(op) or (lambda b: _extremum(b, x, y, highest))

    def _clamped(self, op: Op) -> Rule | None:
        """Write ``x`` clamped between numbers ``l <= h`` as ``(l + h + |x - l| - |x - h|) / 2``;
        the order of the maximum and the minimum does not matter."""
        other = BinaryFn.MIN if op.function is BinaryFn.MAX else BinaryFn.MAX
        for inner, outer in (op.operands, op.operands[::-1]):
            made = self.makers.get(inner)
            if made is None or made.function is not other:
                continue
            for x, bound in (made.operands, made.operands[::-1]):
                low, high = (bound, outer) if other is BinaryFn.MAX else (outer, bound)
                ends = self.number(low), self.number(high)
                if ends[0] is not None and ends[1] is not None and ends[0] <= ends[1]:
                    return lambda b, x=x, low=low, high=high: _between(b, x, low, high)
        return None

    # ---- choices ---------------------------------------------------------------------------------

    def chosen(self, op: Op) -> Rule | None:
        """Write "``x`` where it is larger than ``y``, otherwise ``y``" and similar choices as a
        maximum or minimum."""
        first, second = (self._part(v) for v in op.operands)
        if first is None or second is None:
            return None
        (p, x), (q, y) = first, second
        if x.dtype.is_integer or y.dtype.is_integer:
            return None
        if self._opposite(p, q) or self._opposite(q, p):
            larger = self._compared(p, x, y)
            if larger is not None:
                # a maximum first: the rules for roots look for it
                return lambda b: b.binary(BinaryFn.MAX if larger else BinaryFn.MIN, x, y)
        return None

    def _part(self, v: Value) -> tuple[Value, Value] | None:
        """Return a truth value and the value where it is true, if the value is zero elsewhere: a
        chosen number is a product with the truth value."""
        op = self.makers.get(v)
        if op is None or op.function not in (BinaryFn.KEEP, BinaryFn.MUL):
            return None
        if op.function is BinaryFn.KEEP:
            return op.operands[0], op.operands[1]
        for truth, x in (op.operands, op.operands[::-1]):
            cast = self.makers.get(truth)
            if self.number(x) is None or not isinstance(cast, Elementwise) or not cast.identity:
                continue
            if cast.operands[0].dtype is DType.I1:
                return cast.operands[0], x
        return None

    def kept(self, op: Op) -> Rule | None:
        """Write "``c x`` where ``x`` is positive (or negative), else zero" as a maximum with zero,
        times ``c``. ``c`` must be finite, as its product with zero must be zero."""
        p, x = op.operands
        if x.dtype.is_integer or op.result.shape != x.shape:
            return None
        sources: list[tuple[Value, Value | None]] = [(x, None)]
        made = self.makers.get(x)
        negative = made is not None and made.function is UnaryFn.NEG
        if made is not None and negative:
            sources.append((made.operands[0], None))
        elif made is not None and made.function is BinaryFn.MUL:
            sources += [
                (value, factor)
                for value, factor in (made.operands, made.operands[::-1])
                if value.shape == x.shape and self.is_finite(factor, total=True)
            ]
        for source, factor in sources:
            larger = self._compared(p, source, None)
            if larger is not None:
                turned = negative and source is not x
                return lambda b: _product(b, source, larger, factor, turned)
        return None

    def multiplied(self, op: Op) -> Rule | None:
        """Write a masked value as a product with the mask, if the value is defined for all
        inputs."""
        p, x = op.operands
        truth = p.dtype is DType.I1 and not x.dtype.is_integer
        if not truth or not self.is_finite(x, total=True):
            return None
        return lambda b: b.binary(BinaryFn.MUL, b.cast(p, x.dtype), x)

    def _opposite(self, p: Value, q: Value) -> bool:
        op = self.makers.get(q)
        return op is not None and op.function is UnaryFn.NOT and op.operands[0] is p

    def _compared(self, p: Value, x: Value, y: Value | None) -> bool | None:
        """Return whether ``p`` says that ``x`` is the larger (True) or the smaller (False) of ``x``
        and ``y``, or None; without ``y``, zero takes its place."""
        op, turned = self.makers.get(p), False
        while op is not None and op.function is UnaryFn.NOT:
            op, turned = self.makers.get(op.operands[0]), not turned
        if op is None or op.function not in (BinaryFn.LT, BinaryFn.LE):
            return None
        for (first, second), larger in ((op.operands, False), (op.operands[::-1], True)):
            if self._is(first, x) and (
                self.number(second) == 0 if y is None else self._is(second, y)
            ):
                return larger != turned
        return None

    def _is(self, x: Value, y: Value) -> bool:
        number = self.number(x)
        return x is y or (number is not None and number == self.number(y))

    # ---- logarithms ------------------------------------------------------------------------------

    def parts_of_logarithm(self, x: Value, depth: int) -> Rule | None:
        """Return how to write the logarithm of ``x``, if ``x`` is made of other values."""
        op = self.makers.get(x)
        if op is None or depth >= _DEEPEST:
            return None
        fn, operands = op.function, op.operands
        if fn is UnaryFn.EXP:
            return None  # symbolic arithmetic takes it out
        if fn in (BinaryFn.MUL, BinaryFn.DIV):
            combine = BinaryFn.ADD if fn is BinaryFn.MUL else BinaryFn.SUB
            first, second = (self._logarithm(v, depth + 1) for v in operands)
            return lambda b: b.binary(combine, first(b), second(b))
        factors: dict[UnaryFn, float | Fraction] = {
            UnaryFn.RECIPROCAL: -1.0,
            UnaryFn.SQRT: 0.5,
            UnaryFn.RSQRT: -0.5,
            UnaryFn.SQUARE: 2.0,
            UnaryFn.ABS: 1.0,
        }
        factor = factors.get(fn) if isinstance(fn, UnaryFn) else None
        if fn is BinaryFn.POW and (number := self.number(operands[1])) is not None:
            factor = number
        if factor is None:
            return None
        inner = self._logarithm(operands[0], depth + 1)
        return lambda b: b.binary(BinaryFn.MUL, inner(b), b.constant(factor))

    def _logarithm(self, x: Value, depth: int) -> Rule:
        found = self.parts_of_logarithm(x, depth)
        return found or (lambda b: b.unary(UnaryFn.LOG, x))

    # ---- roots -----------------------------------------------------------------------------------

    def root(self, x: Value, depth: int) -> Rule | None:
        """Return how to write the root of ``x``, if ``x`` is made of other values."""
        op = self.makers.get(x)
        if op is None or depth >= _DEEPEST:
            return None
        fn, increasing = op.function, op.function in (BinaryFn.MAX, BinaryFn.MIN)
        if fn in (BinaryFn.ADD, BinaryFn.SUB):
            return self._root_of_difference(op)
        if not isinstance(fn, BinaryFn) or not (increasing or fn in (BinaryFn.MUL, BinaryFn.DIV)):
            return None
        known = map(self.not_negative, op.operands)
        if not (all(known) if increasing else any(known)):
            return None
        first, second = (self._root(v, depth + 1) for v in op.operands)
        return lambda b: b.binary(fn, first(b), second(b))

    def _root_of_difference(self, op: Op) -> Rule | None:
        """Write ``sqrt(z^2 - c^2)`` with a number ``c`` as ``sqrt(z - c) sqrt(z + c)``, if ``z`` is
        not negative."""
        x, y = op.operands
        number, z = self.number(y), self._squared(x)
        if number is None or z is None or not self.not_negative(z):
            return None
        number = number if op.function is BinaryFn.SUB else -number
        c = exact_root(number)
        if not c:
            return None

        def written(b: Builder) -> Value:
            ends = (b.binary(BinaryFn.ADD, z, b.constant(n, z.dtype)) for n in (-c, c))
            first, second = (b.unary(UnaryFn.SQRT, end) for end in ends)
            return b.binary(BinaryFn.MUL, first, second)

        return written

    def _squared(self, x: Value) -> Value | None:
        """Return the value whose square is ``x``, if it is written as a square."""
        op = self.makers.get(x)
        if op is None:
            return None
        if op.function is UnaryFn.SQUARE or (
            op.function is BinaryFn.MUL and op.operands[0] is op.operands[1]
        ):
            return op.operands[0]
        square = op.function is BinaryFn.POW and self.number(op.operands[1]) == 2
        return op.operands[0] if square else None

    def _root(self, x: Value, depth: int) -> Rule:
        found = self.root(x, depth)
        return found or (lambda b: b.unary(UnaryFn.SQRT, x))

    def power_by_logarithm(self, op: Op) -> Rule | None:
        """Write ``e^(c log(x))`` as ``x^c`` if this consists of roots: ``x`` is positive wherever
        its logarithm is defined."""
        x, factor = op.operands[0], Fraction(1)
        while (made := self.makers.get(x)) is not None:
            if made.function is UnaryFn.LOG:
                same = made.operands[0].shape == op.result.shape
                return self.power(made.operands[0], factor) if same else None
            if made.function not in (BinaryFn.MUL, BinaryFn.DIV):
                break
            number = self.number(made.operands[1])
            if made.function is BinaryFn.MUL and number is None:
                x, number = made.operands[1], self.number(made.operands[0])
            else:
                x = made.operands[0]
            if not number:
                break
            factor = factor * number if made.function is BinaryFn.MUL else factor / number
        return None

    def power(self, x: Value, exponent: Fraction | None) -> Rule | None:
        """Write ``x^(n + m / 2^k)`` with roots of roots: ``x^(3/2)`` as ``sqrt(x) x``, ``x^(1/4)``
        as ``sqrt(sqrt(x))``."""
        if exponent is None or abs(exponent) > _DEEPEST or exponent.denominator not in (2, 4, 8):
            return None

        def written(b: Builder) -> Value:
            root, size, found = x, abs(exponent), None
            whole = int(size)
            part = size - whole
            while part:
                # the first root sees how x is computed
                root = self._root(x, 0)(b) if root is x else b.unary(UnaryFn.SQRT, root)
                part *= 2
                if part >= 1:
                    part -= 1
                    found = root if found is None else b.binary(BinaryFn.MUL, found, root)
            assert found is not None
            for _ in range(whole):
                found = b.binary(BinaryFn.MUL, found, x)
            return found if exponent > 0 else b.unary(UnaryFn.RECIPROCAL, found)

        return written

    def exponential(self, op: Op) -> Rule | None:
        """Write ``x^y`` of a positive ``x`` as ``e^(y log(x))``, unless ``y`` is a whole number."""
        x, y = op.operands
        exponent = self.number(y)
        whole = exponent is not None and exponent.denominator == 1
        if whole or x.dtype is DType.I1 or not self.is_positive(x):
            return None
        return lambda b: b.unary(UnaryFn.EXP, b.binary(BinaryFn.MUL, y, b.unary(UnaryFn.LOG, x)))
