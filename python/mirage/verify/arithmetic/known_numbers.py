"""Symbolic arithmetic in which some elements are known numbers: positions, masks made of them, and
tensors that a program holds.

A function of known numbers is the resulting number, if that is rational; a choice by a known number
is one of the two alternatives; a row that is looked up at a known place is that row.
:mod:`mirage.verify.arithmetic.truth_values` and :mod:`mirage.verify.arithmetic.table_rows` handle
what is known about the other elements.
"""

from __future__ import annotations

import math

import numpy as np

from mirage.semantics.domain import Planes
from mirage.semantics.numbers import read
from mirage.semantics.scalar import Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.known_functions import BINARY, UNARY, element_of, number_of
from mirage.verify.arithmetic.object_arrays import as_array, map_elements, objects
from mirage.verify.arithmetic.pairwise_maxima import pairwise_maxima
from mirage.verify.arithmetic.ratios import Element
from mirage.verify.arithmetic.table_rows import TableRows


class KnownNumbers(TableRows):
    """The domain described in the module's docstring."""

    def held(self, values: Array) -> Planes:
        """Make a tensor of known numbers. They are given in float64, and each is read like a
        constant: exactly, if it has at most the digits of an f32."""

        def element(x: float) -> Element:
            return element_of(read(x) if math.isfinite(x) else float(x))

        flat = np.asarray(values, np.float64)
        return (objects([element(float(x)) for x in flat.ravel()], flat.shape),)

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        known = UNARY.get(fn)
        if known is None:
            return super().unary(fn, x, dtype)

        def apply(v: Element) -> Element:
            number = number_of(v)
            if number is not None:
                return element_of(known(number))
            if fn is UnaryFn.NOT and self._key(v) in self._truths:
                return self._not(v)
            found = self._apply(fn, v)
            if fn is UnaryFn.BIAS:
                self._masks[self._key(found)] = self._key(v)
            return found

        return (map_elements(apply, x[0]),)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn is BinaryFn.KEEP:
            return (self._kept_by(a[0], b[0]),)
        if fn is BinaryFn.ADD and self._kept and self._masks:
            return (as_array(np.frompyfunc(self._seen, 2, 1)(a[0], b[0])),)
        known = BINARY.get(fn)
        if known is None:
            return super().binary(fn, a, b, dtype)

        def apply(x: Element, y: Element) -> Element:
            first, second = number_of(x), number_of(y)
            if first is None or second is None:
                decided = self._of_tables(known, x, y)
                if decided is not None:
                    return decided
            if fn is BinaryFn.EQ and (first is None or second is None):
                return self._equal(x, y)
            if fn in (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER) and second is not None:
                divided = self._divided(fn, x, second)
                if divided is not None:
                    return divided
            if fn is BinaryFn.LT and second == 0 and (truth := self._below_zero(x)) is not None:
                return truth
            if fn in (BinaryFn.MAX, BinaryFn.MIN):
                one_of = self._combined(fn, x, y) or self._one_of(fn, x, y)
                if one_of is not None:
                    return one_of
            if first is None or second is None:
                one, other = (objects([v], ()) for v in (x, y))
                (found,) = super(KnownNumbers, self).binary(fn, (one,), (other,), dtype)
                element: Element = found.item()
                if fn in (BinaryFn.LT, BinaryFn.LE):
                    self.note_truth(element)
                return element
            return element_of(known(first, second))

        return (as_array(np.frompyfunc(apply, 2, 1)(a[0], b[0])),)

    def _kept_by(self, masks: Array, x: Array) -> Array:
        """Return ``x`` where the masks are not zero, and zero elsewhere. A mask that is known is
        read once for all elements that it keeps."""
        numbers = [number_of(v) for v in masks.ravel()]
        if any(n is None for n in numbers):
            return as_array(np.frompyfunc(self._keep, 2, 1)(masks, x))
        chosen = np.array([n != 0 for n in numbers]).reshape(masks.shape)
        return as_array(np.where(chosen, x, objects([element_of(0)], ())))

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        if fn is ReduceFn.SUM:
            return super().reduce(fn, x, dims, dtype)
        return pairwise_maxima(self, x, dims, dtype)

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes:
        half = 2 ** (dtype.bits - 1)

        def apply(v: Element) -> Element:
            number = number_of(v)
            if number is None or not -half <= number < half:
                return self._apply((given, dtype), v)
            return element_of(math.trunc(number))

        return (map_elements(apply, x[0]),)
