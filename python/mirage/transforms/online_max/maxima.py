"""The maxima of shifts as values of the new block graph, and the factors that convert values to
them."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Loop, Value
from mirage.transforms.online_max.padding import LOW
from mirage.transforms.shifts.shifts import Align, Shift

FLOOR = LOW
"""Smallest maximum of scores that are never far from 0: far below any of them, and finite, so that
``FLOOR - FLOOR`` is 0."""
LOWEST = -float(np.finfo(np.float32).max)
"""Smallest maximum of scores that may be any numbers. The lowering computes the difference of such
a score and its maximum exactly (``CoarseFunctions.cpp`` finds them by this number)."""


class Maxima:
    """The maxima of shifts. ``home`` returns the builder for a loop or for the block."""

    def __init__(self, home: Callable[[Loop | None], Builder]) -> None:
        self.home = home
        self.arguments: dict[Shift, Value] = {}  # the former argument of each shift
        self.shifted: dict[Shift, Value] = {}  # the present one, which is the maximum
        self._local: dict[Shift, Value] = {}  # the maximum over this step only
        self._rescales: dict[tuple[Shift, Fraction, Align, int], Value] = {}
        self._factors: dict[tuple[Shift, Value, Fraction], Value] = {}

    def take(
        self, shift: Shift, argument: Value, b: Builder, *, floor: float | None = None
    ) -> None:
        """Take the maximum of a shift over ``argument``, which has the shift's shape, and of
        ``floor``."""
        self.arguments[shift] = argument
        maximum = argument
        if shift.reduced:
            maximum = b.reduce(ReduceFn.MAX, maximum, shift.reduced)
        if floor is not None:
            maximum = b.binary(BinaryFn.MAX, maximum, b.constant(floor, wide(maximum.dtype)))
        self._local[shift] = maximum
        if shift.running:
            maximum = b.running_max(maximum)
            identity: Align = tuple(range(len(shift.shape)))
            self._rescales[(shift, Fraction(1), identity, len(shift.shape))] = maximum
        self.shifted[shift] = maximum

    def merge(self, shift: Shift) -> None:
        """Take the maximum of a merged shift, once all of its parts have theirs."""
        if shift in self.shifted:
            return
        b = self.home(shift.loop)
        parts = [arrange(b, self.shifted[s], align) for s, align in shift.leaves.items()]
        largest = parts[0]
        for part in parts[1:]:
            largest = b.binary(BinaryFn.MAX, largest, part)
        self.take(shift, largest, b)

    def part_factor(self, shift: Shift, part: Shift, power: Fraction) -> Value:
        """Return the factor that converts values that carry a part of a merged shift to the
        whole."""
        b = self.home(shift.loop)
        align = shift.dims_of(part)
        before = self.shifted[part]
        key = (shift, before, power)
        if key not in self._factors:
            self._factors[key] = self.difference(shift, arrange(b, before, align), power, b)
        return self._factors[key]

    def factor(self, shift: Shift, power: Fraction, b: Builder) -> Value:
        """Return the factor that converts values that carry ``arguments[shift]`` to
        ``shifted[shift]``."""
        before = self.arguments[shift]
        key = (shift, before, power)
        if key not in self._factors:
            self._factors[key] = self.difference(shift, before, power, b)
        return self._factors[key]

    def difference(self, shift: Shift, before: Value, power: Fraction, b: Builder) -> Value:
        """Return ``exp(power * (before - m))``."""
        difference = b.binary(BinaryFn.SUB, before, self.shifted[shift])
        return b.unary(UnaryFn.EXP, scaled(b, difference, power))

    def rescale(self, shift: Shift, power: Fraction, align: Align, b: Builder) -> Value:
        """Return the running maximum of ``power * m``, which is ``power`` times that of ``m``, in
        the layout of a value.
        """
        size = shift.result_shape
        kept: Align = tuple(a if a is not None and size[a] > 1 else None for a in align)
        natural = len(kept) == len(size) and all(
            a == d for d, a in enumerate(kept) if size[d] > 1 or a is not None
        )
        key = (shift, power, tuple(range(len(size))) if natural else kept, len(align))
        if key not in self._rescales:
            local = arrange(b, self._local[shift], kept)
            self._rescales[key] = b.running_max(scaled(b, local, power))
        return self._rescales[key]


def scaled(b: Builder, x: Value, power: Fraction) -> Value:
    """Return ``power * x``."""
    if power == 1:
        return x
    return b.binary(BinaryFn.MUL, x, b.constant(power, wide(x.dtype)))


def arrange(b: Builder, x: Value, align: Align) -> Value:
    """Return ``x``, whose dimensions are a shift's, with its dimension ``align[d]`` at dimension
    ``d``."""
    order = [a for a in align if a is not None and x.shape[a] > 1]
    assert set(order) == {d for d, n in enumerate(x.shape) if n > 1}, (
        "a value lost a dimension of its shift"
    )
    shape = tuple(1 if a is None else x.shape[a] for a in align)
    if order != sorted(order):
        rest = [d for d in range(len(x.shape)) if d not in order]
        x = b.transpose(x, (*rest, *order))
    return x if x.shape == shape else b.reshape(x, shape)


def wide(dtype: DType) -> DType:
    """Return the type in which a block computes with a value."""
    return DType.F64 if dtype is DType.F64 else DType.F32
