"""Exact arithmetic with formal exponentials, for small programs.

A value is a residue modulo a large prime ``p`` as long as no exponential enters, and then a
quotient of *group-ring elements*: sums of ``c_j e^(l_j)`` with ``c_j`` modulo ``p`` and exponents
``l_j`` modulo another large prime ``q``. ``e^a e^b = e^(a+b)`` is the only identity that holds by
construction, so two different programs agree only if a polynomial happens to vanish at a random
point or two different exponents happen to coincide; each has a probability of about 2^-60 per
occasion, and :class:`Counts` counts the occasions.

Functions outside the algebra are random functions: arguments are compared exactly, equal ones get
the same fresh random value. ``max`` (``min``) is the free semilattice: the maximum of a set of
arguments is a fresh random value that belongs to the set.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mirage.semantics.domain import Domain, Planes, map_planes
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.scalar import BINARY, Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.group_ring import (
    Element,
    GroupRing,
    Quotient,
    Terms,
    TooLarge,
    add_floats,
)
from mirage.verify.arithmetic.object_arrays import as_array, map_elements, objects
from mirage.verify.arithmetic.primes import Primes


@dataclass
class Counts:
    """The counts that bound the probability of an error."""

    terms: int = 1  # most terms in a comparison of two outputs, after clearing denominators
    arguments: int = 0  # different arguments of uninterpreted functions, sets of maxima included
    argument_terms: tuple[int, int] = (
        1,
        1,
    )  # most terms in numerator and denominator of an argument


class FormalExp(GroupRing, Domain):
    """The domain described in the module's docstring. Plane 0 holds elements, plane 1 (while known)
    residues modulo q.
    """

    def __init__(self, primes: Primes, rng: random.Random) -> None:
        super().__init__(primes)
        self.rng = rng
        self.counts = Counts()
        self._values: dict[object, tuple[int, int]] = {}
        self._identities: dict[int, list[tuple[Element, int]]] = {}
        self._sets: dict[tuple[BinaryFn, int], frozenset[int]] = {}
        self._add = np.frompyfunc(self.add, 2, 1)
        self._mul = np.frompyfunc(self.mul, 2, 1)
        self._add_q = np.frompyfunc(_plain_add(primes.q), 2, 1)
        self._mul_q = np.frompyfunc(_plain_mul(primes.q), 2, 1)

    # ---- uninterpreted functions -----------------------------------------------------------------

    def identity(self, a: Element) -> int | None:
        """Return a key that equal elements share and different elements do not; None for undefined
        elements.
        """
        if isinstance(a, float):
            return None
        if isinstance(a, int):
            image = a
        else:
            bottom = 1 if a.denominator is None else self._image(a.denominator)
            if bottom == 0:
                return None
            image = self._image(a.numerator) * pow(bottom, -1, self.primes.p) % self.primes.p
        bucket = self._identities.setdefault(image, [])
        for other, number in bucket:
            if self.same(other, a):
                return number
        self.counts.arguments += 1
        top, bottom = _lengths(a)
        most = self.counts.argument_terms
        self.counts.argument_terms = (max(most[0], top), max(most[1], bottom))
        bucket.append((a, self.counts.arguments))
        return self.counts.arguments

    def _image(self, a: Terms) -> int:
        """Evaluate the quotient with ``e`` replaced by a root of unity: equal quotients have equal
        images."""
        p = self.primes.p
        return sum(c * pow(self.primes.w, l, p) for l, c in a.items()) % p

    def _fresh(self, key: object) -> tuple[int, int]:
        if key not in self._values:
            self._values[key] = (
                self.rng.randrange(1, self.primes.p),
                self.rng.randrange(1, self.primes.q),
            )
        return self._values[key]

    def _function(self, fn: object, *arguments: Array) -> Planes:
        shape = np.broadcast_shapes(*(a.shape for a in arguments))
        columns = [np.broadcast_to(a, shape).ravel() for a in arguments]
        results: list[tuple[Element, Element]] = []
        commutes = isinstance(fn, BinaryFn) and BINARY[fn].commutes
        for row in zip(*columns, strict=True):
            numbers = tuple(map(self.identity, row))
            if None in numbers:
                results.append((math.nan, math.nan))
                continue
            key = frozenset(numbers) if commutes else numbers
            results.append(self._fresh((fn, key)))
        return tuple(objects([r[i] for r in results], shape) for i in (0, 1))

    def _join(self, fn: BinaryFn, items: list[tuple[Element, ...]]) -> tuple[Element, ...]:
        """Return the maximum (or minimum) of elements, with all of its planes."""
        if any(isinstance(x[0], float) and x[0] != -math.inf for x in items):
            return (math.nan,) * len(items[0])
        least = [x for x in items if isinstance(x[0], float)]
        rest = [x for x in items if not isinstance(x[0], float)]
        if not rest or (least and fn is BinaryFn.MIN):
            return least[0]
        members: set[int] = set()
        for x in rest:
            number = self.identity(x[0])
            if number is None:
                return (math.nan,) * len(x)
            members |= self._sets.get((fn, number), frozenset((number,)))
        first = self.identity(rest[0][0])
        if first is not None and self._sets.get((fn, first), frozenset((first,))) == frozenset(
            members
        ):
            return rest[0]
        fresh = self._fresh((fn, frozenset(members)))
        number = self.identity(fresh[0])
        assert number is not None
        self._sets[fn, number] = frozenset(members)
        return fresh[: len(rest[0])]

    # ---- the domain ------------------------------------------------------------------------------

    def random(self, shape: tuple[int, ...]) -> Planes:
        """Draw uniformly random nonzero residues."""
        count = math.prod(shape)
        return tuple(
            objects([self.rng.randrange(1, m) for _ in range(count)], shape)
            for m in (self.primes.p, self.primes.q)
        )

    def integers(self, values: tuple[int, ...]) -> Planes:
        """Make a vector of integers."""
        return tuple(
            objects([v % m for v in values], (len(values),)) for m in (self.primes.p, self.primes.q)
        )

    def constant(self, value: Number, dtype: DType) -> Planes:
        value = as_number(value)
        if not isinstance(value, Fraction):
            x: Element = value if value < 0 else math.nan
            return objects([x], ()), objects([x], ())
        residues = self.primes.residues(value) or (math.nan, math.nan)
        return tuple(objects([r], ()) for r in residues)

    def select(self, keep: Array, x: Planes, fill: float, dtype: DType) -> Planes:
        planes = self.constant(fill, dtype)
        return tuple(np.where(keep, p, f[()]) for p, f in zip(x, planes, strict=False))

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        if fn is UnaryFn.NEG:
            return self.binary(BinaryFn.MUL, x, self.constant(-1.0, dtype), dtype)
        if fn is UnaryFn.SQUARE:
            return self.binary(BinaryFn.MUL, x, x, dtype)
        if fn is UnaryFn.RECIPROCAL:
            return self._inverse(x)
        if fn is UnaryFn.EXP and len(x) == 2:
            return (map_elements(_exp, x[1]),)
        if fn is UnaryFn.LOG and any(isinstance(v, Quotient) for v in x[0].ravel()):
            # Residues do not tell which part of the exponents may be taken out.
            raise TooLarge("logarithms of exponentials are left to the proof")
        return self._function(fn, x[0])

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes:
        """Convert from ``given`` to an integer type that may not hold the numbers: an uninterpreted
        function."""
        return self._function((given, dtype), x[0])

    def unknown(self, name: str, x: Planes) -> Planes:
        return self._function(name, x[0])

    def _inverse(self, x: Planes) -> Planes:
        q = self.primes.q

        def invert_q(v: Element) -> Element:
            return math.nan if not isinstance(v, int) or v == 0 else pow(v, -1, q)

        return tuple(map_elements(f, v) for f, v in zip((self.invert, invert_q), x, strict=False))

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        if fn is BinaryFn.ADD:
            return tuple(
                as_array(f(x, y)) for f, x, y in zip((self._add, self._add_q), a, b, strict=False)
            )
        if fn is BinaryFn.MUL:
            return tuple(
                as_array(f(x, y)) for f, x, y in zip((self._mul, self._mul_q), a, b, strict=False)
            )
        if fn is BinaryFn.SUB:
            return self.binary(BinaryFn.ADD, a, self._negative(b), dtype)
        if fn is BinaryFn.DIV:
            return self.binary(BinaryFn.MUL, a, self._inverse(b), dtype)
        if fn in (BinaryFn.MAX, BinaryFn.MIN):
            shape = np.broadcast_shapes(a[0].shape, b[0].shape)
            count = min(len(a), len(b))
            first = list(zip(*(np.broadcast_to(x, shape).ravel() for x in a[:count]), strict=True))
            second = list(zip(*(np.broadcast_to(x, shape).ravel() for x in b[:count]), strict=True))
            rows = [self._join(fn, [x, y]) for x, y in zip(first, second, strict=True)]
            return tuple(objects([r[i] for r in rows], shape) for i in range(count))
        return self._function(fn, a[0], b[0])

    def _negative(self, x: Planes) -> Planes:
        """Return ``-x``; minus infinity becomes plus infinity, which counts as undefined."""
        return tuple(
            map_elements(lambda v, f=f, m=m: -v if isinstance(v, float) else f(v, m - 1), plane)
            for f, m, plane in zip(
                (self.mul, _plain_mul(self.primes.q)),
                (self.primes.p, self.primes.q),
                x,
                strict=False,
            )
        )

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        planes: list[Array] = []
        for x, y, mul, add in zip(
            a, b, (self._mul, self._mul_q), (self._add, self._add_q), strict=False
        ):
            products = as_array(mul(x[..., :, :, None], y[..., None, :, :]))
            planes.append(as_array(add.reduce(products, axis=-2)))
        return tuple(planes)

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        if fn is ReduceFn.SUM:
            for d in dims:
                x = tuple(
                    as_array(add.reduce(v, axis=d, keepdims=True))
                    for v, add in zip(x, (self._add, self._add_q), strict=False)
                )
            return x
        kept = tuple(d for d in range(x[0].ndim) if d not in dims)
        shape = tuple(1 if d in dims else n for d, n in enumerate(x[0].shape))
        across = math.prod(x[0].shape[d] for d in dims)
        flat = (math.prod(shape), across)
        rows = map_planes(lambda v: v.transpose((*kept, *dims)).reshape(flat), x)
        results = [
            self._join(BinaryFn.MAX, list(zip(*(plane[i] for plane in rows), strict=True)))
            for i in range(math.prod(shape))
        ]
        return tuple(objects([r[i] for r in results], shape) for i in range(len(x)))

    def rescale(self, x: Planes, before: Planes, now: Planes, dtype: DType) -> Planes:
        planes = self.binary(BinaryFn.SUB, before, now, dtype)
        both = self.equal(before, now)
        difference = map_planes(lambda v: np.where(both, 0, v), planes)
        return self.binary(BinaryFn.MUL, x, self.unary(UnaryFn.EXP, difference, dtype), dtype)

    def equal_outputs(self, a: Planes, b: Planes) -> bool:
        """Whether two outputs are equal everywhere; counts the terms that decide it."""
        for x, y in zip(a[0].ravel(), b[0].ravel(), strict=True):
            (n1, d1), (n2, d2) = _lengths(x), _lengths(y)
            self.counts.terms = max(self.counts.terms, n1 * d2 + n2 * d1)
            if not self.same(x, y):
                return False
        return True

    def equal(self, a: Planes, b: Planes) -> Array:
        return np.asarray(np.frompyfunc(self.same, 2, 1)(a[0], b[0])).astype(bool)


def _plain_add(m: int) -> Callable[[Element, Element], Element]:
    def add(a: Element, b: Element) -> Element:
        if isinstance(a, int) and isinstance(b, int):
            return (a + b) % m
        return add_floats(a, b)

    return add


def _plain_mul(m: int) -> Callable[[Element, Element], Element]:
    def mul(a: Element, b: Element) -> Element:
        return a * b % m if isinstance(a, int) and isinstance(b, int) else math.nan

    return mul


def _lengths(x: Element) -> tuple[int, int]:
    """Return the numbers of terms of numerator and denominator."""
    if not isinstance(x, Quotient):
        return 1, 1
    return len(x.numerator), len(x.denominator or (1,))


def _exp(exponent: Element) -> Element:
    if isinstance(exponent, float):
        return 0 if exponent == -math.inf else math.nan
    assert isinstance(exponent, int)
    return 1 if exponent == 0 else Quotient({exponent: 1})


def is_undefined(x: Array) -> Array:
    """Return a mask of the elements that are undefined or infinite."""
    return np.array([isinstance(v, float) for v in x.ravel()], dtype=bool).reshape(x.shape)
