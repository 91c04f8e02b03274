"""The results of a program whose sums are added in another order.

Two passes over a row give its variance to the last digit, whatever its mean is: the same mean is
subtracted from all elements, and its error is the same for all of them. A kernel that joins the
moments of parts of a row subtracts a mean of each part, each with its own rounding; a product with
ones adds a row one element after the other. Both are sums in another order, which a program does
not specify. So if a candidate's errors are too large relative to those of the actual reference,
they are compared with those of a possible reference: its sums are added one after the other, and a
sum that is used for several elements is off by a separate rounding at each of them.

A difference from a sum is off in this way only in the squares and products that statistics add up.
What a norm subtracts from its elements is one number for the whole row, whatever the order of its
terms was: a kernel that subtracts the mean behind a product, ``x @ w - mean(x) * sum(w)``, has lost
digits that no order of sums loses.
"""

from __future__ import annotations

import numpy as np

from mirage.semantics.domain import Planes, TypedFloat
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, all_ops

_BLOCK = 256
"""The number of terms that are added one after the other; their sums are then added, as in a matrix
product."""
_DIFFERENCES = (BinaryFn.ADD, BinaryFn.SUB)
_OFF = 2.0**-23
"""The largest relative error of a sum at each use: one rounding up or down."""


def has_sums(graph: KernelGraph) -> bool:
    """Return whether a program has a sum."""
    return any(op.function is ReduceFn.SUM for op in all_ops(graph.ops))


class SummedOtherwise(TypedFloat):
    """The arithmetic of a GPU that adds one term after the other, with separate roundings for each
    use."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)
        self._sums: dict[int, Array] = {}  # arrays of sums and of functions of them alone
        # differences from sums: as they are, and with a separate rounding for each element
        self._apart: dict[int, tuple[Array, Planes]] = {}

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        if fn is UnaryFn.SQUARE:
            (x,) = self._each_apart(x)
        found = super().unary(fn, x, dtype)
        return self._noted(found) if self._is_sum(x) else found

    def cast(self, x: Planes, dtype: DType) -> Planes:
        found = super().cast(x, dtype)
        if id(_whole(x[0])) in self._apart:
            self._note_apart(found, super().cast(self._each_apart(x)[0], dtype))
        return self._noted(found) if self._is_sum(x) else found

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        shape = np.broadcast_shapes(a[0].shape, b[0].shape)
        if fn in _DIFFERENCES and (self._is_repeated(a, shape) or self._is_repeated(b, shape)):
            left, right = (self._used(x, shape, x[0].shape) for x in (a, b))
            found = super().binary(fn, left, right, dtype)
            left, right = (self._used(x, shape, shape) for x in (a, b))
            apart = super().binary(fn, left, right, dtype)
            self._note_apart(found, apart)
        elif fn is BinaryFn.MUL and all(id(_whole(x[0])) in self._apart for x in (a, b)):
            left, right = self._each_apart(a, b)
            found = super().binary(fn, left, right, dtype)
        else:
            left, right = (self._used(x, shape, shape) for x in (a, b))
            found = super().binary(fn, left, right, dtype)
        alone = all(self._is_sum(x) or x[0].size == 1 for x in (a, b))
        return self._noted(found) if alone and found[0].size > 1 else found

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        if fn is not ReduceFn.SUM:
            return super().reduce(fn, x, dims, dtype)
        terms = self._in(x, dtype)
        kept = [d for d in range(terms.ndim) if d not in dims]
        lines = terms.transpose(*dims, *kept).reshape(-1, *(terms.shape[d] for d in kept))
        total = np.zeros(lines.shape[1:], terms.dtype)
        for start in range(0, len(lines), _BLOCK):
            total = total + _one_after_the_other(lines[start : start + _BLOCK])
        shape = [1 if d in dims else n for d, n in enumerate(terms.shape)]
        return self._noted(self._round(total.reshape(shape), dtype))

    def _is_repeated(self, x: Planes, shape: tuple[int, ...]) -> bool:
        """Return whether an op whose result has that shape uses a sum for several elements."""
        return x[0].size != np.prod(shape) and self._is_sum(x)

    def _used(self, x: Planes, shape: tuple[int, ...], roundings: tuple[int, ...]) -> Planes:
        """Return a value as an op whose result has that shape reads it: a sum that is used for
        several elements has as many ``roundings`` as that shape has elements."""
        if not self._is_repeated(x, shape):
            return x
        off = 1.0 + _OFF * self._rng.uniform(-1.0, 1.0, roundings)
        return (np.asarray(x[0] * off, x[0].dtype),)

    def _note_apart(self, x: Planes, apart: Planes) -> None:
        self._apart[id(_whole(x[0]))] = _whole(x[0]), apart

    def _each_apart(self, *xs: Planes) -> tuple[Planes, ...]:
        """Return values with a separate rounding for each element, where there are such."""
        known = (self._apart.get(id(_whole(x[0]))) for x in xs)
        return tuple(x if k is None else k[1] for x, k in zip(xs, known, strict=True))

    def _noted(self, x: Planes) -> Planes:
        self._sums[id(_whole(x[0]))] = _whole(x[0])
        return x

    def _is_sum(self, x: Planes) -> bool:
        return id(_whole(x[0])) in self._sums


def _one_after_the_other(lines: Array) -> Array:
    return np.add.accumulate(lines, axis=0)[-1]


def _whole(x: Array) -> Array:
    """Return the array that a view belongs to."""
    while isinstance(x.base, np.ndarray):
        x = x.base
    return x
