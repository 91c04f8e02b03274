"""Arithmetic in which an element is a formula of elements of the inputs, written out.

Nothing is computed and nothing is simplified, so two elements that are the same formula of the same
elements hold the same number, whatever the inputs hold. The first plane has the number of the
formula, as :class:`Formulas` keeps them; the others say which elements of the inputs it reads, in
the order in which it does. A program has few different formulas, one for each way through its ops,
however many elements its tensors have.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from mirage.semantics.domain import Domain, Planes
from mirage.semantics.numbers import Number
from mirage.semantics.scalar import BINARY, Array, BinaryFn, DType, ReduceFn, UnaryFn

Formula = tuple[object, ...]
MOST_READ = 16
"""The most elements of inputs that one formula may read."""
MOST_FORMULAS = 1024
_MOST_ELEMENTS = 2**31 - 1


class NoFormulaError(Exception):
    """An element is not a formula of a few elements, as with products, sums and lookups."""


class Formulas(Domain):
    """A table of formulas, shared by the two programs that are compared."""

    def __init__(self) -> None:
        self.numbers: dict[Formula, int] = {}
        self.reads: list[int] = []
        self.start = 0
        self.element = self._number(("element",), 1)

    def elements(self, shape: tuple[int, ...]) -> Planes:
        """Return a tensor of new elements, which no other tensor has."""
        size = int(np.prod(shape, dtype=np.int64))
        first, self.start = self.start, self.start + size
        if self.start > _MOST_ELEMENTS:
            raise NoFormulaError("more elements than there are numbers for")
        which = np.arange(first, self.start, dtype=np.int32).reshape(shape)
        return np.broadcast_to(np.int32(self.element), shape), which

    def constant(self, value: Number, dtype: DType) -> Planes:
        return (np.asarray(self._number(("number", value), 0), np.int32),)

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        return self._applied(("unary", fn), x)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        shape = np.broadcast_shapes(a[0].shape, b[0].shape)
        a, b = (tuple(np.broadcast_to(p, shape) for p in x) for x in (a, b))
        formula = np.zeros(shape, np.int32)
        read: list[Array] = []
        for first, second, where in self._pairs(a[0], b[0]):
            x, y = (a, first), (b, second)
            if BINARY[fn].commutes and first > second:
                x, y = y, x
            own = self.reads[first] + self.reads[second]
            number = self._number(("binary", fn, x[1], y[1]), own)
            planes = (*x[0][1 : 1 + self.reads[x[1]]], *y[0][1 : 1 + self.reads[y[1]]])
            if where is None:
                return (np.broadcast_to(np.int32(number), shape), *planes)
            formula[where] = number
            read += (np.zeros(shape, np.int32) for _ in range(own - len(read)))
            for plane, elements in zip(read, planes, strict=False):
                plane[where] = elements[where]
        return (formula, *read)

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        raise NoFormulaError("a product")

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        raise NoFormulaError("a reduction")

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes | None:
        return self._applied(("cut", given, dtype), x)

    def unknown(self, name: str, x: Planes) -> Planes:
        return self._applied(("unknown", name), x)

    def rows(self, table: Planes, places: Planes) -> Planes | None:
        raise NoFormulaError("a lookup")

    def rescale(self, x: Planes, before: Planes, now: Planes, dtype: DType) -> Planes:
        raise NoFormulaError("a running maximum")

    def equal(self, a: Planes, b: Planes) -> Array:
        more = max(len(a), len(b))
        return super().equal(_padded(a, more), _padded(b, more))

    def select(self, keep: Array, x: Planes, fill: float, dtype: DType) -> Planes:
        (other,) = self.constant(fill, dtype)
        return np.where(keep, x[0], other), *(np.where(keep, p, 0) for p in x[1:])

    def concat(self, xs: Sequence[Planes], dim: int) -> Planes:
        most = max(map(len, xs))
        return super().concat([_padded(x, most) for x in xs], dim)

    def _applied(self, what: Formula, x: Planes) -> Planes:
        """Apply a function of one argument to each element."""
        if (only := _uniform(x[0])) is not None:
            number = self._number((*what, only), self.reads[only])
            return (np.broadcast_to(np.int32(number), x[0].shape), *x[1:])
        present = self._present(x[0])
        table = np.zeros(len(self.reads), np.int32)
        for n in present:
            table[n] = self._number((*what, n), self.reads[n])
        return table[x[0]], *x[1:]

    def _number(self, formula: Formula, reads: int) -> int:
        if formula not in self.numbers:
            if reads > MOST_READ or len(self.reads) == MOST_FORMULAS:
                raise NoFormulaError("long formulas")
            self.numbers[formula] = len(self.reads)
            self.reads.append(reads)
        return self.numbers[formula]

    def _present(self, numbers: Array) -> list[int]:
        seen = np.zeros(len(self.reads), bool)
        seen[numbers] = True
        return [int(n) for n in np.flatnonzero(seen)]

    def _pairs(self, a: Array, b: Array) -> Iterator[tuple[int, int, Array | None]]:
        """Yield each pair of formulas that occurs, with a mask of its places (None: all places)."""
        many = len(self.reads)
        if not a.size:
            raise NoFormulaError("tensors of no elements")
        first, second = _uniform(a), _uniform(b)
        if first is not None and second is not None:
            yield first, second, None
            return
        pairs = a * np.int32(many) + b
        seen = np.zeros(many * many, bool)
        seen[pairs] = True
        found = np.flatnonzero(seen)
        for pair in found:
            where = None if len(found) == 1 else pairs == pair
            yield int(pair) // many, int(pair) % many, where


def _uniform(numbers: Array) -> int | None:
    """Return the number that all elements have; None if they differ."""
    if not numbers.size:
        return None
    first = int(numbers.flat[0])
    return first if bool((numbers == first).all()) else None


def _padded(x: Planes, count: int) -> Planes:
    """Append planes of zeros, so that there are ``count`` planes."""
    return *x, *(np.zeros(x[0].shape, np.int32) for _ in range(count - len(x)))
