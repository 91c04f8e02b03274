"""The kinds of arithmetic in which a µGraph can be evaluated.

The evaluator (:mod:`mirage.semantics.evaluation.evaluate`) walks a graph once and leaves the
arithmetic to a :class:`Domain`. A value is a tuple of *planes*, NumPy arrays of one shape: one
plane for floating point, two for a pair of residues. Moving elements about (slicing, transposing,
joining) is the same in every domain and lives in the base class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from math import prod

import numpy as np

from mirage.semantics.half import rounded_to_half, rounded_to_tf32
from mirage.semantics.numbers import Number, count_of, nearest
from mirage.semantics.scalar import (
    BINARY,
    REDUCE,
    ROUNDING_TO,
    UNARY,
    Array,
    BinaryFn,
    DType,
    ReduceFn,
    UnaryFn,
)

Planes = tuple[Array, ...]
"""One value in a domain. A domain may drop trailing planes where they are no longer known."""


def shape_of(x: Planes) -> tuple[int, ...]:
    """Return the shape of a value."""
    return x[0].shape


def map_planes(function: Callable[[Array], Array], x: Planes) -> Planes:
    """Apply ``function`` to each plane."""
    if len(x) == 1:  # the same value in floats
        return (function(x[0]),)
    return tuple(function(plane) for plane in x)


def pad_rank(x: Planes, lead: int, rank: int) -> Planes:
    """Insert dimensions of size 1 after the first ``lead`` dimensions of ``x``, until ``rank``
    others follow.
    """
    shape = x[0].shape
    missing = rank - (len(shape) - lead)
    if missing == 0:
        return x
    padded = shape[:lead] + (1,) * missing + shape[lead:]
    return tuple(p.reshape(padded) for p in x)


def as_integers(x: Planes) -> Planes:
    """Return known whole numbers as integers of 64 bits; residues do not change."""
    if len(x) != 1 or x[0].dtype.kind != "f":
        return x
    return (x[0].astype(np.int64),)


def in_type_of(x: Array, number: Array) -> Array:
    """Return a number in the type of ``x``; if that is an integer type, minus infinity becomes the
    least integer."""
    if x.dtype.kind != "i":
        return number
    least = np.isneginf(number)
    return np.where(least, np.iinfo(x.dtype).min, np.where(least, 0, number).astype(x.dtype))


_F32, _F64 = np.dtype(np.float32), np.dtype(np.float64)


class Domain(ABC):
    """Arithmetic on tuples of planes. ``dtype`` is always the element type of the op's result.
    Overflow and NaN are not errors: evaluators ignore NumPy's warnings.
    """

    @abstractmethod
    def constant(self, value: Number, dtype: DType) -> Planes:
        """Make a rank-0 value; ``-inf`` is allowed if the domain has a least element."""

    def as_tf32(self, x: Planes) -> Planes:
        """Round f32 numbers to TF32; in exact arithmetic they do not change."""
        return x

    @abstractmethod
    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        """Apply a unary function to each element."""

    @abstractmethod
    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        """Apply a binary function to each pair of elements, with NumPy broadcasting."""

    @abstractmethod
    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        """Multiply matrices as ``np.matmul`` does: the last dimension is contracted with the last
        but one, and leading dimensions broadcast.
        """

    @abstractmethod
    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        """Reduce over ``dims``, which keep size 1."""

    def cast(self, x: Planes, dtype: DType) -> Planes:
        """Convert the element type; the identity on exact numbers."""
        return x

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes | None:
        """Convert from type ``given`` to an integer type that may not represent the numbers; None
        if the domain does not know which numbers ``x`` has."""
        return None

    def unknown(self, name: str, x: Planes) -> Planes | None:
        """Apply the function of that name, of which nothing is known except that equal arguments
        give equal results; None if the domain has no such functions."""
        return None

    def rows(self, table: Planes, places: Planes) -> Planes | None:
        """Return the rows of a table at places, for places that are not NumPy numbers. None means
        that the evaluator should look the rows up itself."""
        return None

    def rescale(self, x: Planes, before: Planes, now: Planes, dtype: DType) -> Planes:
        """Multiply ``x`` by ``exp(before - now)``, which moves an accumulator from one running
        maximum to the next.

        Where both maxima are minus infinity (nothing seen yet), the factor is 1.
        """
        factor = self.unary(UnaryFn.EXP, self.binary(BinaryFn.SUB, before, now, dtype), dtype)
        return self.binary(BinaryFn.MUL, x, factor, dtype)

    def equal(self, a: Planes, b: Planes) -> Array:
        """Compare elementwise all planes that both have, with broadcasting."""
        with np.errstate(invalid="ignore"):
            result = a[0] == b[0]
            for x, y in zip(a[1:], b[1:], strict=False):
                result = result & (x == y)
        return np.asarray(result, dtype=bool)

    def select(self, keep: Array, x: Planes, fill: float, dtype: DType) -> Planes:
        """Return ``x`` where ``keep`` holds, and ``fill`` elsewhere."""
        fills = self.constant(fill, dtype)
        return tuple(np.where(keep, p, in_type_of(p, f)) for p, f in zip(x, fills, strict=False))

    def concat(self, xs: Sequence[Planes], dim: int) -> Planes:
        """Concatenate values along ``dim``; planes that not all of them have are dropped."""
        return tuple(np.concatenate(planes, axis=dim) for planes in zip(*xs, strict=False))


def _cut(x: Array, given: DType, dtype: DType) -> Planes:
    """Convert as PyTorch does: truncate towards zero, and wrap around at the ends of a narrower
    integer type. PyTorch does not define the result for fractions that are out of range; here they
    keep their integral part."""
    if not given.is_integer:
        return (np.trunc(np.asarray(x, np.float64)),)
    half = 2.0 ** (8 * dtype.bytes - 1)
    wide = np.asarray(x, np.float64)
    with np.errstate(invalid="ignore"):
        around = (wide + half) % (2 * half) - half
    return (np.where((-half <= wide) & (wide < half), wide, around),)


class Float64(Domain):
    """Ordinary arithmetic in float64, types ignored: the yardstick for rounding errors."""

    def constant(self, value: Number, dtype: DType) -> Planes:
        return (np.asarray(nearest(value)),)

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        return (UNARY[fn].evaluate(x[0]),)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        return (BINARY[fn].evaluate(a[0], b[0]),)

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        return (np.matmul(a[0], b[0]),)

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        return (np.asarray(REDUCE[fn](x[0], axis=dims, keepdims=True)),)

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes | None:
        return _cut(x[0], given, dtype)

    def rescale(self, x: Planes, before: Planes, now: Planes, dtype: DType) -> Planes:
        difference = np.where(before[0] == now[0], 0.0, before[0] - now[0])
        return (x[0] * np.exp(difference),)


_CARRIER = {d: _F64 if d is DType.F64 or d.is_integer else _F32 for d in DType}
"""The type in which numbers of each type are computed, except for exact integers."""
_WHOLE = (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.MAX, BinaryFn.MIN)
"""The functions that have a meaning for integers of any size."""


def _are_integers(dtype: DType, *xs: Planes) -> bool:
    """Return whether all of the numbers are exact integers, so that functions of them are, too."""
    return dtype.is_number and all(x[0].dtype == np.int64 for x in xs)


class TypedFloat(Domain):
    """Predicts what a GPU computes: every op is evaluated in f32 (f64 for f64 results) and rounded
    to its result's type.

    Matmuls and sums accumulate in f32, as tensor cores and PyTorch do for half types.
    """

    def _round(self, x: Array, dtype: DType) -> Planes:
        x = np.asarray(x)
        if _are_integers(dtype, (x,)):
            return (x,)
        if dtype is DType.F16 and x.dtype == _F32:
            return (rounded_to_half(x),)
        if dtype.is_eight_bits:
            x = UNARY[ROUNDING_TO[dtype]].evaluate(x)
        elif dtype.is_half:
            x = x.astype(dtype.numpy)
        return (x.astype(_CARRIER[dtype], copy=False),)

    def _in(self, x: Planes, dtype: DType) -> Array:
        carrier = _CARRIER[dtype]
        return x[0] if x[0].dtype is carrier else x[0].astype(carrier, copy=False)

    def constant(self, value: Number, dtype: DType) -> Planes:
        # Scalars stay f32 (f64): PyTorch and our kernels keep them in the type of the computation,
        # not of the tensor.
        return (np.asarray(nearest(value), dtype=_CARRIER[dtype]),)

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        return self._round(UNARY[fn].evaluate(self._in(x, dtype)), dtype)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn in _WHOLE and _are_integers(dtype, a, b):
            return (np.asarray(BINARY[fn].evaluate(a[0], b[0])),)
        x, y = self._in(a, dtype), self._in(b, dtype)
        if fn is BinaryFn.MUL and y.size == 1 and y.dtype == _F32 and (n := count_of(y.item())):
            return self._round(x / _F32.type(n), dtype)
        return self._round(BINARY[fn].evaluate(x, y), dtype)

    def as_tf32(self, x: Planes) -> Planes:
        return (rounded_to_tf32(self._in(x, DType.F32)),)

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        return self._round(np.matmul(self._in(a, dtype), self._in(b, dtype)), dtype)

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        given = x[0] if _are_integers(dtype, x) else self._in(x, dtype)
        if fn is ReduceFn.SUM:
            return self._round(_summed(given, dims), dtype)
        return self._round(np.asarray(REDUCE[fn](given, axis=dims, keepdims=True)), dtype)

    def cast(self, x: Planes, dtype: DType) -> Planes:
        return self._round(x[0], dtype)

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes | None:
        return _cut(x[0], given, dtype)

    def rescale(self, x: Planes, before: Planes, now: Planes, dtype: DType) -> Planes:
        b, n = self._in(before, dtype), self._in(now, dtype)
        return self._round(
            self._in(x, dtype) * np.exp(np.where(b == n, np.zeros_like(b), b - n)), dtype
        )


def _summed(x: Array, dims: tuple[int, ...]) -> Array:
    """Sum over ``dims``, kept as dimensions of size 1. NumPy's order of additions depends on the
    memory layout, which is not part of a program: a transposed array would have several times the
    error. So the elements are laid out contiguously first."""
    kept = [d for d in range(x.ndim) if d not in dims]
    rows = np.ascontiguousarray(x.transpose(*kept, *dims))
    terms = prod(x.shape[d] for d in dims)
    shape = [1 if d in dims else n for d, n in enumerate(x.shape)]
    return np.asarray(rows.reshape(*(x.shape[d] for d in kept), terms).sum(-1).reshape(shape))
