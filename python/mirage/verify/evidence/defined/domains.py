"""An arithmetic in float64 that also tracks the possible signs of each value, for any inputs, and
whether it is known to be defined (:mod:`mirage.verify.evidence.defined.evidence_of_definedness`
says why)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from mirage.semantics.domain import Domain, Float64, Planes
from mirage.semantics.numbers import Number, nearest
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.evidence.defined.signs import (
    ANY,
    LEAST,
    NEG,
    POS,
    ZERO,
    coded,
    has,
    of_binary,
    of_number,
    of_power,
    of_product,
    of_reduction,
    of_unary,
)
from mirage.verify.evidence.defined.step_functions import BINARY_STEPS, UNARY_STEPS

_SURE = 2.0**-20
"""A computed number of at least this magnitude is not 0: it is far above rounding errors."""
_SAME = 1e-11
"""Relative difference below which two arguments count as the same."""
_LIMITED = 2.0**-20
"""The relative change of the number of a limited value, by which it differs from those of other
values."""


@dataclass
class Owed:
    """The arguments of the reference's operations, by the condition of the operation; sorted once
    they are complete."""

    nonzero: list[Array] = field(default_factory=list[Array])
    root: list[Array] = field(default_factory=list[Array])

    def note(self, values: Array, forbidden: int) -> None:
        """Record arguments of an operation that must have none of the ``forbidden`` signs."""
        kept = np.unique(np.abs(values[np.isfinite(values) & (values != 0)]))
        if forbidden & ZERO:
            self.nonzero.append(kept)
        if forbidden & NEG:
            self.root.append(np.unique(values[np.isfinite(values) & (values != 0)]))

    def add(self, other: Owed) -> None:
        """Also record the arguments that another object has."""
        self.nonzero += other.nonzero
        self.root += other.root

    def sets(self, factors: Sequence[float]) -> tuple[Array, Array]:
        """Magnitudes that are not zero, with their squares and roots, and values that are not
        negative where the reference is defined, with their signs here; all of them also times
        positive ``factors``."""
        none = np.zeros(0)
        nonzero, root = np.concatenate([none, *self.nonzero]), np.concatenate([none, *self.root])
        nonzero = np.concatenate([nonzero, nonzero**2, np.sqrt(nonzero)])
        both = [
            np.unique(np.concatenate([x * f for f in (1.0, *factors)])) for x in (nonzero, root)
        ]
        return both[0], both[1]


class Defined(Domain):
    """float64 with further planes. For each value they say which signs are possible for any inputs,
    whether it is undefined for some inputs as far as is known, whether it depends on real inputs
    other than through comparisons, and whether it depends on inputs that may hold anything.

    A value may be undefined if an argument may have a forbidden sign and is not among the ``known``
    arguments of the reference. Without ``known``, the arguments are recorded instead; those that
    are ``certain`` to be valid because of their signs are also recorded separately. A value that
    does not depend on inputs has the sign of its number. With ``factors``, each factor of a product
    that is one of the reference's arguments is known not to be zero, or not to be negative. With
    ``smooth``, comparisons of free values are functions of real numbers."""

    def __init__(
        self,
        known: tuple[Array, Array] | None = None,
        *,
        factors: bool = False,
        smooth: bool = False,
    ) -> None:
        self.floats = Float64()
        self.known = known
        self.factors, self.smooth = factors, smooth
        self.owed, self.certain = Owed(), Owed()
        self.by_sign = self.by_reference = 0
        self._constants: dict[int, Array] = {}

    def constant(self, value: Number, dtype: DType) -> Planes:
        (number,) = self.floats.constant(value, dtype)
        self._constants[id(number)] = number
        no = np.zeros((), bool)
        return number, of_number(nearest(value)), no, no, no

    def input(self, values: Array, dtype: DType, *, fixed: bool) -> Planes:
        """Make an input that may hold anything, or one that holds just these values."""
        signs = np.full(values.shape, ZERO | POS if dtype is DType.I1 else ANY, np.uint8)
        if fixed:
            signs = coded(values < 0, values == 0, values > 0)
        real = np.full(values.shape, not fixed and (self.smooth or not dtype.is_integer))
        free = np.full(values.shape, not fixed)
        return values, signs, np.zeros(values.shape, bool), real, free

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        (value,) = self.floats.unary(fn, x[:1], dtype)
        if self.smooth and fn in UNARY_STEPS and x[4].any():
            value = np.where(x[4], UNARY_STEPS[fn](x[0]), value)
        bad = x[2]
        if fn in _UNARY_OWES:
            bad = bad | self._unsettled(x, _UNARY_OWES[fn])
        if fn is UnaryFn.LOG1P:
            more = self.binary(BinaryFn.ADD, x, self.constant(1.0, dtype), dtype)
            bad = bad | self._unsettled(more, _UNARY_OWES[UnaryFn.LOG])
        real = x[3] & (self.smooth or fn not in UNARY_STEPS)
        return self._whole(value, of_unary(fn, x[1]), bad, real, x[4])

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        (value,) = self.floats.binary(fn, a[:1], b[:1], dtype)
        free = a[4] | b[4]
        if self.smooth and fn in BINARY_STEPS and free.any():
            decides = a[4] if fn is BinaryFn.KEEP else free
            value = np.where(decides, BINARY_STEPS[fn](a[0], b[0]), value)
        if self._is_limited(fn, a, b):
            value = value * (1.0 + _LIMITED)
        bad = a[2] | b[2]
        if fn in (BinaryFn.DIV, BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER):
            bad = bad | self._unsettled(b, ZERO)
        if self.factors and fn in (BinaryFn.MUL, BinaryFn.DIV):
            a, b = self._as_argument(a), self._as_argument(b)
        if fn is BinaryFn.MUL and a[0] is b[0]:  # a comparison of a value with itself
            signs = of_unary(UnaryFn.SQUARE, a[1])
        else:
            signs = of_binary(fn, a[1], b[1])
        if fn is BinaryFn.POW:
            base, exponent = np.broadcast_arrays(a[0], b[0])
            whole = exponent == np.floor(exponent)
            fixed = self._is_constant(b[0])
            if not fixed or not whole.all():
                at_zero = fixed and bool((exponent > 0).all())
                bad = bad | self._unsettled(a, NEG if at_zero else NEG | ZERO)
            elif (exponent < 0).any():
                bad = bad | self._unsettled(a, ZERO)
            signs = of_power(np.broadcast_to(a[1], base.shape), exponent) if fixed else signs
        real = a[3] | b[3]
        if fn in BINARY_STEPS and not self.smooth:
            real = b[3] if fn is BinaryFn.KEEP else real & (fn is BinaryFn.REMAINDER)
        return self._whole(value, signs, bad, real, free)

    def _is_limited(self, fn: BinaryFn, a: Planes, b: Planes) -> bool:
        """Return whether a maximum is positive, or a minimum negative, because of a constant. The
        sign is known then, and that of the other operand, which has the same value wherever it is
        beyond the constant, is not."""
        signs = {BinaryFn.MAX: 1.0, BinaryFn.MIN: -1.0}
        return fn in signs and any(
            self._is_constant(x[0]) and bool((signs[fn] * x[0] > 0).all()) for x in (a, b)
        )

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes | None:
        floor = UNARY_STEPS[UnaryFn.FLOOR]
        cut = self.floats.cut(x[:1], given, dtype)
        assert cut is not None
        value = np.where(x[4] & self.smooth, floor(x[0]), cut[0])
        signs = np.full_like(x[1], ANY | LEAST)
        return self._whole(value, signs, x[2], x[3] & self.smooth, x[4])

    def _as_argument(self, x: Planes) -> Planes:
        """Mark a value as nonzero, or as not negative, if it is such an argument of the
        reference."""
        if self.known is None or not has(x[1], ZERO | NEG).any():
            return x
        signs = x[1]
        for sign, sought, known in (
            (ZERO, np.abs(x[0]), self.known[0]),
            (NEG, *x[:1], self.known[1]),
        ):
            settled = self._is_owed(x, sought, known) & (signs != sign)
            signs = np.where(settled, signs & ~np.uint8(sign), signs).astype(np.uint8)
        return (x[0], signs, *x[2:])

    def _is_owed(self, x: Planes, sought: Array, known: Array) -> Array:
        """Return where the value ``sought`` is among the ``known`` ones and is not a whole number
        that depends on comparisons only: such numbers coincide by chance."""
        values = x[0]
        counts = (~x[3] | self.smooth) & (values == np.floor(values)) & (np.abs(values) >= 1.0)
        return np.asarray(_among(sought, known) & ~counts)

    def _is_constant(self, x: Array) -> bool:
        """Return whether ``x`` is a constant of the program, possibly in another shape."""
        while isinstance(x.base, np.ndarray):
            x = x.base
        return id(x) in self._constants

    @staticmethod
    def _whole(value: Array, signs: Array, *others: Array) -> Planes:
        """Return all planes in the shape of the value. A value that is the same for all inputs has
        the sign of its number, unless it may consist of rounding errors only."""
        free = others[-1]
        if not free.all():
            sure = ~free & np.isfinite(value) & (np.abs(value) >= _SURE)
            signs = np.where(sure, coded(value < 0, value == 0, value > 0), signs)
        return (value, *(np.broadcast_to(p, value.shape) for p in (signs, *others)))

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        (value,) = self.floats.matmul(a[:1], b[:1], dtype)
        bad, real, free = (
            np.asarray(a[i].any(axis=-1, keepdims=True) | b[i].any(axis=-2, keepdims=True))
            for i in (2, 3, 4)
        )
        return self._whole(value, of_product(a[1], b[1]), bad, real, free)

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        (value,) = self.floats.reduce(fn, x[:1], dims, dtype)
        bad, real, free = (np.asarray(x[i].any(axis=dims, keepdims=True)) for i in (2, 3, 4))
        return self._whole(value, of_reduction(fn, x[1], dims), bad, real, free)

    def rescale(self, x: Planes, before: Planes, now: Planes, dtype: DType) -> Planes:
        (value,) = self.floats.rescale(x[:1], before[:1], now[:1], dtype)
        # the factor is an exponential of a finite number, unless maxima are minus infinity
        vanishes = has(before[1], 8) & ~has(now[1], 8)
        signs = np.where(vanishes, x[1] | ZERO, x[1]).astype(np.uint8)
        bad, real, free = (x[i] | before[i] | now[i] for i in (2, 3, 4))
        return self._whole(value, signs, bad, real, free)

    def rows(self, table: Planes, places: Planes) -> Planes | None:
        rows = table[0].shape[0]
        inside = (places[0] >= 0) & (places[0] < rows)
        at = np.where(inside, places[0], 0).astype(np.int64)
        bad, free = (places[i].reshape(at.shape + (1,) * (table[0].ndim - 1)) for i in (2, 4))
        values, signs = table[0][at], table[1][at]
        if free.any():  # it may be any row
            either = np.bitwise_or.reduce(table[1], axis=0)
            signs = np.where(free, np.broadcast_to(either, signs.shape), signs)
            bad = bad | (free & table[2].any(axis=0))
        bad = bad | table[2][at] | ~inside.reshape(free.shape)
        return self._whole(values, signs.astype(np.uint8), bad, table[3][at], free | table[4][at])

    def equal(self, a: Planes, b: Planes) -> Array:
        """Return where two values are the same; undefined values differ in other planes."""
        same = (a[0] == b[0]) | (np.isnan(a[0]) & np.isnan(b[0]))
        return np.asarray(same & (a[1] == b[1]) & (a[2] == b[2]))

    def _unsettled(self, x: Planes, forbidden: int) -> Array:
        """Return where an argument may have a forbidden sign and is not known from the
        reference."""
        values, signs = x[0], x[1]
        doubtful = has(signs, forbidden)
        if self.known is None:
            self.owed.note(values, forbidden)
            self.certain.note(values[np.broadcast_to(~doubtful, values.shape)], forbidden)
            return np.zeros(values.shape, bool)
        self.by_sign += not doubtful.all()
        if not doubtful.any():
            return doubtful
        nonzero, root = self.known
        settled = np.ones(values.shape, bool)
        if forbidden & ZERO:
            settled &= ~has(signs, ZERO) | self._is_owed(x, np.abs(values), nonzero)
        if forbidden & NEG:
            settled &= ~has(signs, NEG) | self._is_owed(x, values, root)
        self.by_reference += bool((doubtful & settled).any())
        return doubtful & ~settled


_UNARY_OWES = {
    UnaryFn.RECIPROCAL: ZERO,
    UnaryFn.SQRT: NEG,
    UnaryFn.RSQRT: NEG | ZERO,
    UnaryFn.LOG: NEG | ZERO,
}


def _among(values: Array, known: Array) -> Array:
    """Return which values are as near to one of the sorted ``known`` as rounding errors allow."""
    if not known.size:
        return np.zeros(values.shape, bool)
    at = np.clip(np.searchsorted(known, values), 1, known.size - 1) if known.size > 1 else 0
    near = np.minimum(
        np.abs(values - known[at]), np.abs(values - known[np.maximum(np.asarray(at) - 1, 0)])
    )
    return np.asarray(near <= _SAME * np.abs(values))
