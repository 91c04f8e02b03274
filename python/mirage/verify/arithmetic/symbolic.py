"""Exact symbolic arithmetic for small programs: equality without chance.

A value is a quotient of sums of terms ``c * monomial * e^(polynomial)`` with rational ``c``
(:mod:`mirage.verify.arithmetic.interned_sums`), two quotients are compared by cross-multiplication
(:mod:`mirage.verify.arithmetic.ratios`).

Uninterpreted functions and maxima are treated as in :mod:`mirage.verify.arithmetic.formal`: one
symbol for each argument (each set of arguments). Arguments count as equal only if their normal
forms look alike, so a proof may be missed but never invented.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from mirage.semantics import numbers
from mirage.semantics.domain import Domain, Planes, map_planes
from mirage.semantics.scalar import BINARY, Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.interned_sums import MOST_WORK, ONE
from mirage.verify.arithmetic.logarithms import Number
from mirage.verify.arithmetic.object_arrays import as_array, map_elements, objects
from mirage.verify.arithmetic.ratios import Element, Ratio, Ratios


class Symbolic(Ratios, Domain):
    """The domain described in the module's docstring; one plane of elements. The options are those
    of :class:`Ratios` and of its sums."""

    def __init__(
        self,
        *,
        reciprocals_as_symbols: bool = False,
        fold: bool = False,
        most_work: int = MOST_WORK,
    ) -> None:
        super().__init__(
            reciprocals_as_symbols=reciprocals_as_symbols, fold=fold, most_work=most_work
        )
        self._add = np.frompyfunc(self.add, 2, 1)
        self._mul = np.frompyfunc(self.mul, 2, 1)

    def inputs(self, name: int, shape: tuple[int, ...]) -> Planes:
        """Make a tensor of symbols, one for each element of an input."""
        return (objects([self.variable((name, i)) for i in range(math.prod(shape))], shape),)

    def integers(self, values: tuple[int, ...]) -> Planes:
        """Make a vector of integers."""
        return (objects([Ratio({ONE: v} if v else {}) for v in values], (len(values),)),)

    def constant(self, value: numbers.Number, dtype: DType) -> Planes:
        value = numbers.as_number(value)
        if not isinstance(value, Fraction):
            return (objects([value if value < 0 else math.nan], ()),)
        if (symbol := self.read(value)) is not None:
            return (objects([symbol], ()),)
        c: Number = value.numerator if value.denominator == 1 else value
        return (objects([Ratio({ONE: c} if c else {})], ()),)

    def read(self, number: Fraction) -> Ratio | None:
        """Return the element that replaces a constant; None if its value is used."""
        return None

    def select(self, keep: Array, x: Planes, fill: float, dtype: DType) -> Planes:
        value = self.constant(fill, dtype)[0][()]
        mask = np.broadcast_to(keep, np.broadcast_shapes(keep.shape, x[0].shape))
        source = np.broadcast_to(x[0], mask.shape)
        return (
            objects(
                [v if k else value for k, v in zip(mask.ravel(), source.ravel(), strict=True)],
                mask.shape,
            ),
        )

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        if fn is UnaryFn.NEG:
            return self.binary(BinaryFn.MUL, x, self.constant(-1.0, dtype), dtype)
        if fn is UnaryFn.SQUARE:
            return self.binary(BinaryFn.MUL, x, x, dtype)
        own = {UnaryFn.RECIPROCAL: self.invert, UnaryFn.EXP: self._exp, UnaryFn.LOG: self._log}
        if fn in own:
            return (map_elements(own[fn], x[0]),)
        return (map_elements(lambda v: self._apply(fn, v), x[0]),)

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn is BinaryFn.ADD:
            return (as_array(self._add(a[0], b[0])),)
        if fn is BinaryFn.MUL:
            return (as_array(self._mul(a[0], b[0])),)
        if fn is BinaryFn.SUB:
            minus = Ratio({ONE: -1})
            negative = map_elements(
                lambda v: -v if isinstance(v, float) else self.mul(v, minus), b[0]
            )
            return (as_array(self._add(a[0], negative)),)
        if fn is BinaryFn.DIV:
            return (as_array(self._mul(a[0], map_elements(self.invert, b[0]))),)
        if fn in (BinaryFn.MAX, BinaryFn.MIN):
            return (as_array(np.frompyfunc(lambda x, y: self._join(fn, [x, y]), 2, 1)(a[0], b[0])),)
        apply = self._apply_in_any_order if BINARY[fn].commutes else self._apply
        return (as_array(np.frompyfunc(lambda x, y: apply(fn, x, y), 2, 1)(a[0], b[0])),)

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes:
        return (map_elements(lambda v: self._apply((given, dtype), v), x[0]),)

    def unknown(self, name: str, x: Planes) -> Planes:
        return (map_elements(lambda v: self._apply(name, v), x[0]),)

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        products = as_array(self._mul(a[0][..., :, :, None], b[0][..., None, :, :]))
        return (as_array(self._add.reduce(products, axis=-2)),)

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        if fn is ReduceFn.SUM:
            for d in dims:
                x = (as_array(self._add.reduce(x[0], axis=d, keepdims=True)),)
            return x
        kept = tuple(d for d in range(x[0].ndim) if d not in dims)
        shape = tuple(1 if d in dims else n for d, n in enumerate(x[0].shape))
        across = math.prod(x[0].shape[d] for d in dims)
        flat = (math.prod(shape), across)
        (rows,) = map_planes(lambda v: v.transpose((*kept, *dims)).reshape(flat), x)
        return (objects([self._join(BinaryFn.MAX, list(row)) for row in rows], shape),)

    def rescale(self, x: Planes, before: Planes, now: Planes, dtype: DType) -> Planes:
        def factor(b: Element, n: Element) -> Element:
            return Ratio({ONE: 1}) if self.same(b, n) else self._exp(self.add(b, self.negated(n)))

        with np.errstate(invalid="ignore"):  # minus infinity minus minus infinity
            factors = as_array(np.frompyfunc(factor, 2, 1)(before[0], now[0]))
        return (as_array(self._mul(x[0], factors)),)

    def equal(self, a: Planes, b: Planes) -> Array:
        return np.asarray(np.frompyfunc(self.same, 2, 1)(a[0], b[0])).astype(bool)
