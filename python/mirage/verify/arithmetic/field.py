"""Arithmetic on pairs of residues, vectorised: the real sizes over a finite field.

A number is ``(x_p, x_q)``, residues modulo two primes with ``q | p - 1``. Ring operations act on
both; ``exp`` gives ``w ** x_q`` modulo ``p`` and the second residue is no longer known (its plane
is dropped). Both planes are float64 arrays of integers: products of two residues stay below 2^50,
so that every step is exact, and matrix products go through BLAS with one operand cut into limbs.
Source of the method: Wu et al., OSDI'25, section 5; Li & Wu, ITCS'26.

Functions outside the algebra (``sqrt``, ``sigmoid``, ...) are keyed random functions of the first
residue. ``max`` takes the argument that comes last in a random total order of the residues:
this is associative, commutative and idempotent, like the maximum, and has none of its other
properties.

Optionally ``log`` is the inverse of ``exp``: the discrete logarithm modulo ``p``, a residue modulo
``q``, additive on all products. The first residue is not known then: its plane is NaN throughout,
and elements count as defined if one of their planes is.

Two values are not residues. NaN stands for "undefined" (a division by zero); it propagates like a
NaN, and if it reaches an output, then the draw says nothing. ``-inf`` is the least element: the
identity of ``max``, and ``exp`` takes it to 0.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property
from itertools import product

import numpy as np

from mirage.semantics.domain import Domain, Planes, map_planes
from mirage.semantics.numbers import Number, as_number
from mirage.semantics.scalar import BINARY, Array, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.primes import Primes
from mirage.verify.arithmetic.unknown_functions import UNKNOWN

_LIMB = 1 << 13
_MAX_TERMS = 1 << 13  # terms of 2^25 * 2^13 each that sum up to less than 2^52
_STEP = 1 << 12
_KEYED = ("order", *UnaryFn, *BinaryFn, *product(DType, DType), *UNKNOWN)
_PLACES: dict[object, int] = {key: i for i, key in enumerate(product(_KEYED, (0, 1)))}
"""The places of the keys of random functions, by the name of the function and the number of the
plane. They must not depend on the order in which programs use them."""
_FEW = 256  # the number of elements up to which a division is faster than the calls that avoid one
_GIANTS = 16  # the factor on the number of baby steps in a discrete logarithm


class Modulus:
    """Exact arithmetic modulo a prime below 2^25 on float64 arrays of residues; NaN and infinities
    spread.
    """

    def __init__(self, m: int) -> None:
        if not 2 < m < 1 << 25:
            raise ValueError(f"expected a modulus between 3 and 2^25, got {m}")
        self.m = float(m)
        self.inverse = 1.0 / m

    def reduce(self, x: Array) -> Array:
        """Reduce integers of magnitude below 2^52 to residues."""
        if x.size <= _FEW:
            return np.asarray(np.remainder(x, self.m))
        r = x * self.inverse
        np.floor(r, out=r)
        np.multiply(r, self.m, out=r)
        np.subtract(x, r, out=r)
        # The quotient may be off by one either way.
        np.add(r, self.m, out=r, where=r < 0.0)
        return np.subtract(r, self.m, out=r, where=r >= self.m)

    def add(self, a: Array, b: Array) -> Array:
        """Return the sum of two arrays of residues."""
        r = np.asarray(a + b)
        r -= self.m * (r >= self.m)  # a mask that is often true would take three times as long
        return r

    def sub(self, a: Array, b: Array) -> Array:
        """Return the difference of two arrays of residues."""
        r = np.asarray(a - b)
        r += self.m * (r < 0.0)
        return r

    def mul(self, a: Array, b: Array) -> Array:
        """Return the elementwise product of two arrays of residues."""
        return self.reduce(a * b)

    def invert(self, a: Array) -> Array:
        """Return the reciprocals of residues; NaN for zero."""
        result: Array | None = None
        base, exponent = a, int(self.m) - 2
        while exponent:
            if exponent & 1:
                result = base if result is None else self.mul(result, base)
            exponent >>= 1
            if exponent:
                base = self.mul(base, base)
        assert result is not None
        return np.where(a == 0.0, np.nan, result)

    def matmul(self, a: Array, b: Array) -> Array:
        """Return the exact product of two matrices of residues. One operand is cut into two limbs,
        and long contractions are cut into pieces, unless the sums are small.
        """
        if self.m * self.m * a.shape[-1] <= 1 << 52:
            return self.reduce(np.matmul(a, b))
        high = np.floor(b / _LIMB)
        low = b - high * _LIMB
        total: Array | None = None
        for start in range(0, a.shape[-1], _MAX_TERMS):
            part = slice(start, start + _MAX_TERMS)
            x = a[..., part]
            upper = self.reduce(np.matmul(x, high[..., part, :]))
            lower = self.reduce(np.matmul(x, low[..., part, :]))
            piece = self.reduce(upper * _LIMB + lower)
            total = piece if total is None else self.add(total, piece)
        assert total is not None
        return total


def _mix(x: Array, key: tuple[int, int]) -> Array:
    """A keyed pseudorandom function of integers below 2^53, as uint64 (two rounds of splitmix64's
    finaliser).
    """
    z = x.astype(np.uint64)
    for k in key:
        z = z + np.uint64(k)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        z = z ^ (z >> np.uint64(31))
    return z


class FieldPair(Domain):
    """The domain described in the module's docstring. ``seed`` keys the random functions;
    ``logarithms`` makes ``log`` the inverse of ``exp`` instead of a random function.
    """

    def __init__(self, primes: Primes, seed: int, *, logarithms: bool = False) -> None:
        self.primes = primes
        self._logarithms = logarithms
        self.p = Modulus(primes.p)
        self.q = Modulus(primes.q)
        self.moduli = (self.p, self.q)
        self._keys = np.random.default_rng(seed).integers(1 << 62, size=(len(_PLACES), 2))
        self._low = self._powers(primes.w, _STEP)
        self._high = self._powers(pow(primes.w, _STEP, primes.p), primes.q // _STEP + 1)

    def _drawn(self, keyed: object, plane: int) -> tuple[int, int]:
        """Return the two numbers that key a random function."""
        first, second = self._keys[_PLACES[keyed, plane]].tolist()
        return first, second

    def _powers(self, base: int, count: int) -> Array:
        powers = np.ones(1)
        while len(powers) < count:
            factor = float(pow(base, len(powers), self.primes.p))
            powers = np.concatenate((powers, self.p.mul(powers, np.asarray(factor))))
        return powers[:count]

    def random(self, rng: np.random.Generator, shape: tuple[int, ...]) -> Planes:
        """Draw uniformly random nonzero numbers."""
        return tuple(rng.integers(1, int(m.m), size=shape).astype(np.float64) for m in self.moduli)

    def integers(self, values: Array) -> Planes:
        """Convert integers of magnitude below 2^52 to residues modulo each prime."""
        return tuple(m.reduce(values.astype(np.float64)) for m in self.moduli)

    def constant(self, value: Number, dtype: DType) -> Planes:
        value = as_number(value)
        if not isinstance(value, Fraction):
            return (np.asarray(value if value < 0 else np.nan),) * 2
        residues = self.primes.residues(value) or (np.nan, np.nan)
        return tuple(np.asarray(float(r)) for r in residues)

    def unary(self, fn: UnaryFn, x: Planes, dtype: DType) -> Planes:
        with np.errstate(all="ignore"):
            if fn is UnaryFn.NEG:
                return tuple(m.sub(np.zeros(()), v) for m, v in zip(self.moduli, x, strict=False))
            if fn is UnaryFn.SQUARE:
                return tuple(m.mul(v, v) for m, v in zip(self.moduli, x, strict=False))
            if fn is UnaryFn.RECIPROCAL:
                return tuple(m.invert(v) for m, v in zip(self.moduli, x, strict=False))
            if fn is UnaryFn.EXP and len(x) == 2:
                return (self._exp(x[1]),)
            if fn is UnaryFn.LOG and self._logarithms:
                return (np.full_like(x[0], np.nan), self._log(x[0]))
            return self._random_function(fn, x[0])

    def _exp(self, x: Array) -> Array:
        finite = np.isfinite(x)
        every = bool(finite.all())
        index = (x if every else np.where(finite, x, 0.0)).astype(np.int64)
        value = self.p.mul(self._high[index >> 12], self._low[index & (_STEP - 1)])
        if every:
            return value
        return np.where(finite, value, np.where(x == -np.inf, 0.0, np.nan))

    def _log(self, x: Array) -> Array:
        """The residue ``l`` modulo ``q`` with ``w ** (r l) == x ** r`` modulo ``p = r q + 1``."""
        p, q, w = self.primes.p, self.primes.q, self.primes.w
        cofactor = (p - 1) // q
        known = np.isfinite(x) & (x != 0.0)
        power = base = np.where(known, x, 1.0)
        for _ in range(cofactor - 1):
            power = self.p.mul(power, base)
        # Giant steps backwards until a baby step is met.
        babies, order = self._babies
        back = np.asarray(float(pow(w, -babies.size, p)))
        result = np.full(x.shape, np.nan)
        for giant in range(q // babies.size + 1):
            at = np.minimum(np.searchsorted(babies, power), babies.size - 1)
            met = (babies[at] == power) & np.isnan(result)
            result = np.where(met, giant * babies.size + order[at], result)
            power = self.p.mul(power, back)
        result = self.q.mul(result, np.asarray(float(pow(cofactor, -1, q))))
        return np.where(known, result, np.nan)

    @cached_property
    def _babies(self) -> tuple[Array, Array]:
        """The first powers of the root of unity in ascending order, and their exponents."""
        powers = self.p.mul(self._high[:_GIANTS, None], self._low).ravel()
        order = np.argsort(powers)
        return powers[order], order

    def agreement(self, a: Planes, b: Planes) -> tuple[Array, Array]:
        """Return two masks: where the values agree as far as both are defined, and where both are
        defined."""
        planes = list(zip(a, b, strict=False))
        finite = [np.isfinite(x) & np.isfinite(y) for x, y in planes]
        same = [(x == y) | ~f for (x, y), f in zip(planes, finite, strict=True)]
        every = np.logical_or if self._logarithms else np.logical_and
        return np.logical_and.reduce(same), every.reduce(finite)

    def _random_function(self, fn: object, x: Array) -> Planes:
        finite = np.isfinite(x)
        clean = np.where(finite, x, 0.0)
        return tuple(
            np.where(
                finite,
                (_mix(clean, self._drawn(fn, i)) % np.uint64(int(m.m))).astype(np.float64),
                np.nan,
            )
            for i, m in enumerate(self.moduli)
        )

    def _rank(self, x: Array) -> Array:
        """Return the rank of each residue in the random total order; the least element comes first,
        undefined elements last."""
        finite = np.isfinite(x)
        if finite.all():
            return (_mix(x, self._drawn("order", 0)) >> np.uint64(2)).astype(np.int64)
        rank = (_mix(np.where(finite, x, 0.0), self._drawn("order", 0)) >> np.uint64(2)).astype(
            np.int64
        )
        return np.where(
            finite, rank, np.where(x == -np.inf, np.int64(-1), np.int64(1) << np.int64(62))
        )

    def binary(self, fn: BinaryFn, a: Planes, b: Planes, dtype: DType) -> Planes:
        with np.errstate(all="ignore"):
            if fn is BinaryFn.DIV:
                inverse = tuple(m.invert(v) for m, v in zip(self.moduli, b, strict=False))
                return self.binary(BinaryFn.MUL, a, inverse, dtype)
            if fn in (BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL):
                name = fn.value
                return tuple(
                    getattr(m, name)(x, y) for m, x, y in zip(self.moduli, a, b, strict=False)
                )
            if fn in (BinaryFn.MAX, BinaryFn.MIN):
                first, second = self._rank(a[0]), self._rank(b[0])
                undefined = np.int64(1) << np.int64(62)
                if fn is BinaryFn.MAX:
                    left = first >= second
                else:
                    left = ((first <= second) & (second != undefined)) | (first == undefined)
                return tuple(np.where(left, x, y) for x, y in zip(a, b, strict=False))
            known = np.isfinite(a[0]) & np.isfinite(b[0])
            first, second = np.where(known, a[0], 0.0), np.where(known, b[0], 0.0)
            if BINARY[fn].commutes:
                first, second = np.minimum(first, second), np.maximum(first, second)
            mixed = _mix(first, self._drawn(fn, 0)) >> np.uint64(12)
            both = (mixed ^ second.astype(np.uint64)).astype(np.float64)
            return self._random_function(fn, np.where(known, both, np.nan))

    def cut(self, x: Planes, given: DType, dtype: DType) -> Planes:
        """Convert from ``given`` to an integer type that may not hold the numbers: an uninterpreted
        function."""
        return self._random_function((given, dtype), x[0])

    def unknown(self, name: str, x: Planes) -> Planes:
        return self._random_function(name, x[0])

    def matmul(self, a: Planes, b: Planes, dtype: DType) -> Planes:
        with np.errstate(all="ignore"):
            return tuple(m.matmul(x, y) for m, x, y in zip(self.moduli, a, b, strict=False))

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        with np.errstate(all="ignore"):
            if fn is ReduceFn.SUM:
                totals = [np.sum(v, axis=dims, keepdims=True) for v in x]
                return tuple(
                    np.where(t == -np.inf, t, m.reduce(t))
                    for m, t in zip(self.moduli, totals, strict=False)
                )
            kept = tuple(d for d in range(x[0].ndim) if d not in dims)
            shape = tuple(1 if d in dims else n for d, n in enumerate(x[0].shape))
            across = math.prod(x[0].shape[d] for d in dims)
            rows = map_planes(
                lambda v: v.transpose((*kept, *dims)).reshape(*(v.shape[d] for d in kept), across),
                x,
            )
            best = np.argmax(self._rank(rows[0]), axis=-1)[..., None]
            return map_planes(lambda v: np.take_along_axis(v, best, axis=-1).reshape(shape), rows)

    def rescale(self, x: Planes, before: Planes, now: Planes, dtype: DType) -> Planes:
        same = self.equal(before, now)
        planes = self.binary(BinaryFn.SUB, before, now, dtype)
        difference = map_planes(lambda v: np.where(same, 0.0, v), planes)
        return self.binary(BinaryFn.MUL, x, self.unary(UnaryFn.EXP, difference, dtype), dtype)
