"""Products with error functions that are GELUs.

``erf`` has no kernel function (:mod:`special` builds it from others), while GELU has one, and
people write GELU with ``erf`` in many ways. One identity covers all of them:

    u (1 + erf(u)) = sqrt(2) gelu(sqrt(2) u),

together with its form for ``1 - erf(u)``, in which ``-u`` replaces ``u``. So each value that is
built from an error function by sums, products and constants is written as a sum of products
(:data:`_Sum`). If two terms are left, ``c m`` and ``+-c m erf(k x)``, and ``m`` is ``r x``, then
the value is ``2 c / t r gelu(t x)`` with ``t = +-sqrt(2) k``, where ``x`` and ``r`` are values of
the program.

``k`` is read as ``sqrt(1/2)`` if both are the same number in the type of the computation, since a
kernel could not hold another. Terms with other factors stay unchanged: the difference of a GELU and
a multiple of ``x`` would lose the digits that ``x erf(x)`` has near zero. Casts to fewer digits
stay unchanged too.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, replace
from fractions import Fraction

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.numbers import as_number
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.substitute import with_operands
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, Value, View
from mirage.transforms.copies import without_repeats

Errors = Mapping[Value, tuple[Value, bool]]
"""The argument of each error function, and whether it is the complement."""

_Product = tuple[tuple[Value, int], ...]
"""Values with their powers. An error function is represented by itself, never by its complement."""
_Sum = dict[_Product, Fraction]
_MOST = 4
"""The most terms of a sum that is considered."""
_LARGEST = 16
"""The largest constant summand: a larger number may be added for the sake of rounding."""


@dataclass(frozen=True)
class _Match:
    """A value of the form ``coefficient rest argument (1 + erf(factor argument))``."""

    coefficient: Fraction
    factor: Fraction
    argument: _Product
    rest: _Product


def with_gelus(graph: KernelGraph, errors: Errors) -> KernelGraph:
    """Replace products with error functions in ``graph`` by GELUs."""
    if not errors:
        return graph
    arguments = tuple(x for x, _ in errors.values())
    once = without_repeats(replace(graph, outputs=(*graph.outputs, *arguments)))
    return _Gelus(replace(once, outputs=graph.outputs), errors).rewritten()


class _Gelus:
    def __init__(self, graph: KernelGraph, errors: Errors) -> None:
        self.graph, self.errors = graph, errors
        self.sums: dict[Value, _Sum] = {}
        self.same: dict[Value, Value] = {}
        self.build = Builder()

    def rewritten(self) -> KernelGraph:
        ops: list[Op] = []
        for op in self.graph.ops:
            operands = tuple(self.same.get(v, v) for v in op.operands)
            ops.append(with_operands(op, operands))
            if len(op.results) != 1:
                continue
            found = self._sum_of(op)
            if found is None or len(found) > _MOST:
                continue
            self.sums[op.result] = found
            start = len(self.build.ops)
            made = self._gelu(found, op.result)
            if made is not None:
                ops += self.build.ops[start:]
                self.same[op.result] = made
        outputs = tuple(self.same.get(v, v) for v in self.graph.outputs)
        return KernelGraph(self.graph.name, self.graph.inputs, tuple(ops), outputs)

    # ---- sums of products

    def _sum_of(self, op: Op) -> _Sum | None:
        """Return the sum that an op computes, unless it is an atomic value."""
        y, fn = op.result, op.function
        if y in self.errors:
            itself: _Sum = {((y, 1),): Fraction(1)}
            return {(): Fraction(1), ((y, 1),): Fraction(-1)} if self.errors[y][1] else itself
        if isinstance(number := op.number, Fraction):
            return {(): number}
        if isinstance(op, View) and self._number(op.operands[0]) is not None:
            return self.sums[op.operands[0]]
        if isinstance(op, Elementwise) and op.identity:
            x = op.operands[0]
            whole = x.dtype.is_integer or y.dtype.is_integer
            return None if whole or x.dtype.bits > y.dtype.bits else self._of(x)
        if fn is UnaryFn.NEG:
            return {m: -c for m, c in self._of(op.operands[0]).items()}
        if fn is BinaryFn.MUL:
            return self._product(op.operands[0], op.operands[1])
        if fn is BinaryFn.DIV and (number := self._number(op.operands[1])):
            return {m: c / number for m, c in self._of(op.operands[0]).items()}
        if fn in (BinaryFn.ADD, BinaryFn.SUB):
            x, y = op.operands
            return self._total(x, y, 1 if fn is BinaryFn.ADD else -1)
        return None

    def _of(self, x: Value, multiplied: bool = True) -> _Sum:
        """Return the sum of an operand; a GELU that was found is a value like others unless it is
        multiplied by a number."""
        if x in self.same and not multiplied:
            return {((self.same[x], 1),): Fraction(1)}
        return self.sums.get(x, {((x, 1),): Fraction(1)})

    def _number(self, x: Value) -> Fraction | None:
        found = self.sums.get(x, {((x, 1),): Fraction(1)})
        return found[()] if list(found) == [()] else None

    def _product(self, x: Value, y: Value) -> _Sum:
        by_number = self._number(x) is not None or self._number(y) is not None
        found: _Sum = {}
        for m, c in self._of(x, by_number).items():
            for n, d in self._of(y, by_number).items():
                powers = Counter(dict(m))
                powers.update(dict(n))
                key = _product(powers)
                found[key] = found.get(key, Fraction(0)) + c * d
        return {m: c for m, c in found.items() if c}

    def _total(self, x: Value, y: Value, sign: int) -> _Sum | None:
        """Return a sum if it contains an error function or is zero; other sums are atomic
        values."""
        if any(abs(self._number(v) or 0) > _LARGEST for v in (x, y)):
            return None
        for inside in (True, False):
            a, b = self._of(x, inside), self._of(y, inside)
            found = dict(a)
            for m, c in b.items():
                found[m] = found.get(m, Fraction(0)) + sign * c
            found = {m: c for m, c in found.items() if c}
            if inside and self._match(found) is None:
                continue
            parts = [v for m in found for v, _ in m]
            if inside or len(found) == 1 or any(v in self.errors for v in parts):
                return found
        return None

    # ---- GELUs

    def _match(self, found: _Sum) -> _Match | None:
        if len(found) != 2:
            return None
        plain, with_error = sorted(found, key=lambda m: any(v in self.errors for v, _ in m))
        powers = Counter(dict(with_error))
        errors = [v for v in powers if v in self.errors]
        if len(errors) != 1 or powers.pop(errors[0]) != 1 or powers != Counter(dict(plain)):
            return None
        argument = self._of(self.errors[errors[0]][0])
        sign = found[with_error] / found[plain]
        if abs(sign) != 1 or len(argument) != 1:
            return None
        ((x, k),) = argument.items()
        powers.subtract(dict(x))
        if not x or any(n < 0 for n in powers.values()):
            return None
        return _Match(found[plain], sign * k, x, _product(powers))

    def _gelu(self, found: _Sum, like: Value) -> Value | None:
        """Return the value of a sum, as a GELU."""
        match = self._match(found)
        if match is None:
            return None
        t = _times_root_of_two(match.factor, like.dtype)
        argument = self._scaled(self._multiplied(None, match.argument, like), t)
        value = self._multiplied(self.build.unary(UnaryFn.GELU, argument), match.rest, like)
        value = self._scaled(value, 2 * match.coefficient / t)
        return value if value.type == like.type else None

    def _multiplied(self, found: Value | None, product: _Product, like: Value) -> Value:
        """Return the product of values, each with as many digits as the result."""
        for v in (v for v, n in product for _ in range(n)):
            x = v if v.dtype is like.dtype else self.build.cast(v, like.dtype)
            found = x if found is None else self.build.binary(BinaryFn.MUL, found, x)
        assert found is not None
        return found

    def _scaled(self, x: Value, factor: Fraction) -> Value:
        if factor == 1:
            return x
        return self.build.binary(BinaryFn.MUL, x, self.build.constant(factor, x.dtype))


def _product(powers: Counter[Value]) -> _Product:
    return tuple(sorted(((v, n) for v, n in powers.items() if n), key=lambda item: id(item[0])))


def _times_root_of_two(k: Fraction, dtype: DType) -> Fraction:
    """Return ``sqrt(2) k``, which is 1 or -1 if the type cannot distinguish ``|k|`` from
    ``sqrt(1/2)``."""
    kind = np.float64 if dtype is DType.F64 else np.float32
    if kind(abs(float(k))) == kind(math.sqrt(0.5)):
        return Fraction(1 if k > 0 else -1)
    found = as_number(math.sqrt(2.0) * float(k))
    assert isinstance(found, Fraction)
    return found
