"""Elementwise ops written out in scalar functions, by running their meaning.

An elementwise op that is not a scalar function has its meaning in ``compute``, which is a program
over any arithmetic. Run in an "arithmetic" that records each function instead of computing it, it
gives the scalar functions that it consists of. So an op that consists of scalar functions needs no
rule anywhere in the verifier. An op that uses anything else (choices, arrays of its own) does not
change, and analyses that have no rule for it raise an error.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.domain import Domain, Planes
from mirage.semantics.numbers import Number
from mirage.semantics.ops.kinds import Elementwise
from mirage.semantics.ops.op import UnknownOp, Value
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn


def traced(op: Elementwise, b: Builder) -> Value | None:
    """Return the result of ``op``, written by ``b`` with scalar functions; None if its meaning does
    not consist of these alone."""
    domain = _Trace(b)
    xs = [domain.planes(v, v.shape) for v in op.operands]
    try:
        (plane,) = op.compute(domain, xs, 0, op.result.shape)
        value = domain.value(plane)
    except (UnknownOp, TypeError):  # raised by arithmetic on values that are not numbers
        return None
    return value if value.shape == op.result.shape else None


class _Trace(Domain):
    """An arithmetic on values of a program in place of numbers: each plane holds one value,
    everywhere."""

    def __init__(self, b: Builder) -> None:
        self._build = b

    def planes(self, value: Value, shape: tuple[int, ...]) -> Planes:
        """Return ``value`` in a plane of ``shape``."""
        one = np.empty((), dtype=object)
        one[()] = value
        return (np.broadcast_to(one, shape),)

    def value(self, plane: Array) -> Value:
        """Return the value that a plane holds. Raises :class:`UnknownOp`."""
        found = plane[(0,) * plane.ndim]
        if not isinstance(found, Value) or found.shape != plane.shape:
            raise UnknownOp("expected values of the program")
        return found

    def constant(self, value: Number, dtype: DType) -> Planes:
        return self.planes(self._build.constant(value, dtype), ())

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        y = self._build.unary(fn, self.value(x[0]))
        return self.planes(y, y.shape)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        y = self._build.binary(fn, self.value(a[0]), self.value(b[0]))
        return self.planes(y, y.shape)

    def cast(self, x: Planes, dtype: DType) -> Planes:
        raise UnknownOp("expected scalar functions, got a conversion")

    def select(self, keep: Array, x: Planes, fill: float, dtype: DType) -> Planes:
        raise UnknownOp("expected scalar functions, got a choice")

    def concat(self, xs: Sequence[Planes], dim: int) -> Planes:
        raise UnknownOp("expected scalar functions, got a join")

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        raise UnknownOp("expected scalar functions, got a matmul")

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        raise UnknownOp("expected scalar functions, got a reduction")
