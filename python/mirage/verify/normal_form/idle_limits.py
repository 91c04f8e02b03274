"""Limits by constants that no element reaches. Quantised rows are divided by their largest
magnitude, so a limit to the range of the type changes nothing: ``|x| <= max |x|``, and likewise for
lengths and sums. From this follow intervals for quotients, and for values computed from them by
functions that keep the order of numbers; a maximum or minimum with a constant outside of such an
interval is left out. A maximum with zero is left out as well if the other operand is not negative,
like ``E[x^2] - E[x]^2``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from math import inf

from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, Value
from mirage.verify.normal_form.certainty import Certain
from mirage.verify.normal_form.rounded_limits import rounding_step

_Interval = tuple[Fraction | float, Fraction | float]
_ALL: _Interval = (-inf, inf)
_DEEPEST = 12


def without_idle_limits(graph: KernelGraph) -> KernelGraph:
    """Return a program of primitive ops without the limits that no element reaches."""
    if not any(op.function in (BinaryFn.MAX, BinaryFn.MIN, UnaryFn.RELU) for op in graph.ops):
        return graph
    bounds = _Bounds({v: op for op in graph.ops for v in op.results})
    names: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        kept = bounds.only_operand(op)
        if kept is None:
            ops.append(with_operands(op, tuple(names.get(v, v) for v in op.operands)))
        else:
            names[op.result] = names.get(kept, kept)
    if not names:
        return graph
    outputs = tuple(names.get(v, v) for v in graph.outputs)
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(ops), outputs))


@dataclass
class _Product:
    """``factor * above / below``, products of values."""

    factor: Fraction = Fraction(1)
    above: list[Value] = field(default_factory=list[Value])
    below: list[Value] = field(default_factory=list[Value])


class _Bounds:
    """The intervals in which values lie, for all inputs for which they are defined."""

    def __init__(self, makers: Mapping[Value, Op]) -> None:
        self.makers = makers
        constants: dict[Value, Number] = {
            v: op.number for v, op in makers.items() if op.number is not None
        }
        self.certain = Certain(makers, constants)
        self._known: dict[Value, _Interval] = {}

    def only_operand(self, op: Op) -> Value | None:
        """Return the operand that a maximum or minimum always equals, if the other is a number."""
        if op.function is UnaryFn.RELU:
            (x,) = op.operands
            return x if x.type == op.result.type and self.certain.not_negative(x) else None
        if op.function not in (BinaryFn.MAX, BinaryFn.MIN):
            return None
        for x, other in (op.operands, op.operands[::-1]):
            number = self.certain.number(other)
            if number is None or x.type != op.result.type:
                continue
            low, high = self.of(x)
            if low >= number if op.function is BinaryFn.MAX else high <= number:
                return x
        return None

    def of(self, x: Value) -> _Interval:
        """Return the interval of a value."""
        if x not in self._known:
            self._known[x] = _ALL  # during the search for it
            self._known[x] = self._found(x)
        return self._known[x]

    def _found(self, x: Value) -> _Interval:
        number = self.certain.number(x)
        if number is not None:
            return number, number
        op = self.makers.get(x)
        if op is None:
            return _ALL
        if op.function in (BinaryFn.MAX, BinaryFn.MIN):
            of = max if op.function is BinaryFn.MAX else min
            (low, high), (least, most) = map(self.of, op.operands)
            return of(low, least), of(high, most)
        step = rounding_step(op, self.makers)
        if step is not None:
            rounded, inner = step
            low, high = self.of(inner)
            return (
                Fraction(rounded.of(low)) if isinstance(low, Fraction) else low,
                Fraction(rounded.of(high)) if isinstance(high, Fraction) else high,
            )
        size = self._magnitude(x)
        low, high = _ALL if size is None else (-size, size)
        return (max(low, Fraction(0)) if self.certain.not_negative(x) else low), high

    def _magnitude(self, x: Value) -> Fraction | None:
        """Return a bound on the magnitude of a product whose factors lie below its divisors."""
        product = _Product()
        self._factors(x, product, False)
        size, below = abs(product.factor), list(product.below)
        if len(product.above) != len(below):
            return None
        for n in product.above:
            found = ((d, self._share(n, d, 0)) for d in below)
            pair = next(((d, c) for d, c in found if c is not None), None)
            if pair is None:
                return None
            below.remove(pair[0])
            size *= pair[1]
        return size

    def _factors(self, x: Value, found: _Product, inverse: bool) -> None:
        number, op = self.certain.number(x), self.makers.get(x)
        if number is not None and number != 0:
            found.factor *= 1 / number if inverse else number
        elif op is not None and op.function in (BinaryFn.MUL, BinaryFn.DIV):
            self._factors(op.operands[0], found, inverse)
            self._factors(op.operands[1], found, inverse != (op.function is BinaryFn.DIV))
        elif op is not None and op.function is UnaryFn.RECIPROCAL:
            self._factors(op.operands[0], found, not inverse)
        elif op is not None and op.function is UnaryFn.NEG:
            found.factor = -found.factor
            self._factors(op.operands[0], found, inverse)
        else:
            (found.below if inverse else found.above).append(x)

    def _share(self, n: Value, d: Value, depth: int) -> Fraction | None:
        """Return ``c`` such that ``|n| <= c d`` wherever both meet, or None."""
        op = self.makers.get(d)
        if op is None or depth > _DEEPEST:
            return None
        if op.function is UnaryFn.SQRT:
            return Fraction(1) if self._is_square_below(n, op.operands[0], depth + 1) else None
        for x, other in self._parts(op):
            if (share := self._share(n, x, depth + 1)) is not None:
                return share / other
        (x, *_) = (*op.operands, d)
        if op.renames:
            source = self._unreshaped(d)
            same = source.shape == d.shape or source.type.size == 1
            return self._share(n, source, depth + 1) if same else None
        if op.function is UnaryFn.ABS and x is n:
            return Fraction(1)
        if op.function in (ReduceFn.MAX, ReduceFn.SUM) and len(x.shape) == len(d.shape):
            if x is n and op.function is ReduceFn.SUM and self.certain.not_negative(n):
                return Fraction(1)
            return self._share(n, x, depth + 1) if self._is_magnitude(x) else None
        return None

    def _parts(self, op: Op) -> Iterator[tuple[Value, Fraction]]:
        """Yield pairs of a value and a factor whose product is a lower bound of a value."""
        for x, other in (op.operands, op.operands[::-1]) if len(op.operands) == 2 else ():
            number = self.certain.number(other)
            if op.function is BinaryFn.MAX or (
                op.function is BinaryFn.ADD and self.certain.not_negative(other)
            ):
                yield x, Fraction(1)
            elif number is not None and number > 0 and op.function is BinaryFn.MUL:
                yield x, number
            elif number is not None and number > 0 and op.function is BinaryFn.DIV:
                yield from ((x, 1 / number),) if other is op.operands[1] else ()

    def _is_square_below(self, n: Value, d: Value, depth: int) -> bool:
        """Return whether ``n * n <= d`` wherever both meet."""
        op = self.makers.get(d)
        if op is None or depth > _DEEPEST:
            return False
        if op.function in (BinaryFn.MAX, BinaryFn.ADD):
            return any(
                number == 1 and self._is_square_below(n, x, depth + 1)
                for x, number in self._parts(op)
            )
        if op.function is ReduceFn.SUM and len(op.operands[0].shape) == len(d.shape):
            return self._is_square_below(n, op.operands[0], depth + 1)
        square = op.function is UnaryFn.SQUARE or op.function is BinaryFn.MUL
        return square and all(v is n for v in op.operands)

    def _is_magnitude(self, x: Value) -> bool:
        return (op := self.makers.get(x)) is not None and op.function is UnaryFn.ABS

    def _unreshaped(self, x: Value) -> Value:
        """Return the value of which ``x`` is a reshape."""
        while (op := self.makers.get(x)) is not None and op.renames:
            x = op.operands[0]
        return x
