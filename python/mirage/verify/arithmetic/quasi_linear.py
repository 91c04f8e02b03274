"""Functions of one whole number, known everywhere.

A function that is made of sums, multiples, quotients rounded down, remainders, comparisons and
choices is linear, for each remainder of its argument, beyond some number in both directions. So it
is known completely by its values around zero and by two linear functions for each remainder, and
two such functions are equal if and only if these are. A function of a number with few values (of a
byte) is known by its values alone.

:class:`Functions` computes with such functions. Where it cannot, because the linear functions are
not what a function is beyond the values around zero, or because of products, it raises
:class:`NoFunction`; :class:`MoreRemainders` asks for another period.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import gcd, lcm

import numpy as np

from mirage.semantics.integer_functions import BITS, wrapped
from mirage.semantics.scalar import Array, BinaryFn, DType, UnaryFn

MOST_REMAINDERS, MOST_VALUES = 2520, 1 << 16
_PERIODS = 12
"""The periods around zero, in each direction, for which values are computed."""
_LARGEST = 1 << 50
_HELD = 1 << 62


class NoFunction(Exception):
    """A function is not one of those that this module knows."""


@dataclass(frozen=True)
class MoreRemainders(Exception):
    """A quotient needs a longer ``period``."""

    period: int


@dataclass(frozen=True)
class Function:
    """The ``values`` for the arguments around zero (or for all arguments), and for each remainder,
    below and above these, the ``slopes`` and ``starts``: ``slope k + start`` for the argument ``k
    period + remainder``. Without tails, both are empty."""

    values: Array
    slopes: Array
    starts: Array

    @property
    def key(self) -> object:
        return self.values.tobytes(), self.slopes.tobytes(), self.starts.tobytes()

    def affine(self, times: int, plus: int) -> Function:
        return Function(self.values * times + plus, self.slopes * times, self.starts * times + plus)

    def divided(self, plus: int, by: int) -> Function:
        """Return the function less ``plus``, divided by ``by``."""
        return Function((self.values - plus) // by, self.slopes // by, (self.starts - plus) // by)


class Functions:
    """Functions of a whole number from ``least`` to ``most``, or of any, with a period."""

    def __init__(self, period: int, least: int | None = None, most: int | None = None) -> None:
        self.period = period
        tails = np.zeros((2, 0), np.int64)
        if least is None or most is None:
            end = _PERIODS * period
            self.arguments = np.arange(-end, end, dtype=np.int64)
            tails = np.tile(np.arange(period, dtype=np.int64), (2, 1))
        else:
            self.arguments = np.arange(least, most + 1, dtype=np.int64)
        if len(self.arguments) > MOST_VALUES:
            raise NoFunction("many values")
        self._ends = np.array([[-_PERIODS - 1], [_PERIODS]])
        self.argument = Function(self.arguments, np.full_like(tails, period), tails)

    def number(self, n: int) -> Function:
        """Return the function that is the same number everywhere. Raises :class:`NoFunction`."""
        if abs(n) > _HELD:
            raise NoFunction("a large number")
        zero = self.argument.affine(0, 0)
        return zero.affine(1, n)

    def constant(self, f: Function) -> int | None:
        """Return the number that a function is everywhere; None if it is none."""
        first = int(f.values[0])
        same = (f.values == first).all() and not f.slopes.any() and (f.starts == first).all()
        return first if same else None

    def normal(self, f: Function) -> tuple[Function, int, int]:
        """Return ``u``, ``by`` and ``plus`` with ``f = by u + plus``, the same ``u`` for all
        functions that differ in these numbers."""
        plus = int(f.values[-self.arguments[0]]) if self.arguments[0] <= 0 else int(f.values[0])
        rest = f.affine(1, -plus)
        parts = (rest.values, rest.slopes.ravel(), rest.starts.ravel())
        numbers = np.concatenate(parts)
        by = int(np.gcd.reduce(numbers)) or 1
        first = numbers[np.flatnonzero(numbers)[:1]]
        by = -by if first.size and first[0] < 0 else by
        return f.divided(plus, by), by, plus

    # ---- functions of functions ------------------------------------------------------------------

    def unary(self, fn: UnaryFn, x: Function) -> Function:
        if fn is UnaryFn.NEG:
            return x.affine(-1, 0)
        if fn is UnaryFn.FLOOR:
            return x
        if fn is UnaryFn.ABS:
            return self.binary(BinaryFn.MAX, x, x.affine(-1, 0))
        if fn is UnaryFn.RELU:
            return self.binary(BinaryFn.MAX, x, self.number(0))
        if fn is UnaryFn.NOT:
            return self._truth(lambda v: v == 0, x)
        if fn is UnaryFn.SQUARE:
            return self.binary(BinaryFn.MUL, x, x)
        raise NoFunction(fn.value)

    def binary(self, fn: BinaryFn, x: Function, y: Function) -> Function:
        if fn is BinaryFn.ADD or fn is BinaryFn.SUB:
            sign = 1 if fn is BinaryFn.ADD else -1
            return self._made(*(a + sign * b for a, b in _pairs(x, y)))
        if fn is BinaryFn.MUL:
            return self._product(x, y)
        if fn in (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER):
            return self._divided(fn, x, self.constant(y))
        if fn in (BinaryFn.MAX, BinaryFn.MIN):
            sign = self._sign(x, y)
            return self._chosen(sign >= 0 if fn is BinaryFn.MAX else sign <= 0, x, y)
        if fn in _COMPARED:
            sign = self._sign(x, y)
            return self._split(_COMPARED[fn](sign).astype(np.int64))
        if fn is BinaryFn.KEEP:
            self._check_flat(x)
            return self._chosen(self._flat(x) != 0, y, self.number(0))
        if fn in _LOGIC:
            return self._truth(lambda a, b: _LOGIC[fn](a != 0, b != 0), x, y)
        raise NoFunction(fn.value)

    def cut(self, x: Function, bits: int) -> Function:
        """Return the numbers that integers of so many bits hold for those of a function."""
        half = 1 << (bits - 1)
        rest = self._divided(BinaryFn.REMAINDER, x.affine(1, half), 2 * half)
        return rest.affine(1, -half)

    def of_bits(self, name: str, x: Function, y: Function, dtype: DType) -> Function:
        """Apply a function of bits; only numbers of known size have them."""
        if x.slopes.size:
            raise NoFunction(name)
        values = wrapped(BITS[name](x.values, y.values, dtype), dtype)
        return self._made(values, x.slopes, x.starts)

    def _made(self, values: Array, slopes: Array, starts: Array) -> Function:
        if any(np.abs(a).max(initial=0) > _LARGEST for a in (values, slopes, starts)):
            raise NoFunction("large numbers")
        return Function(values, slopes, starts)

    def _product(self, x: Function, y: Function) -> Function:
        most = [max(np.abs(a).max(initial=0) for a in _parts(f)) for f in (x, y)]
        if most[0] * float(most[1]) > _LARGEST or (x.slopes * y.slopes).any():
            raise NoFunction("a product")
        slopes = x.slopes * y.starts + y.slopes * x.starts
        return self._made(x.values * y.values, slopes, x.starts * y.starts)

    def _divided(self, fn: BinaryFn, x: Function, by: int | None) -> Function:
        if not by or abs(by) > _LARGEST:
            raise NoFunction("a divisor that is not one number")
        rest = x.slopes % by
        if rest.any():
            more = (abs(by) // gcd(abs(by), int(r)) for r in np.unique(rest))
            raise MoreRemainders(self.period * lcm(*more))
        if fn is BinaryFn.FLOOR_DIV:
            return Function(x.values // by, x.slopes // by, x.starts // by)
        return Function(x.values % by, x.slopes * 0, x.starts % by)

    def _sign(self, x: Function, y: Function) -> Array:
        """Return the sign of ``x - y`` for each of the values, then for each remainder on both
        sides."""
        d = self.binary(BinaryFn.SUB, x, y)
        nearest = d.slopes * self._ends + d.starts
        outward = np.sign(d.slopes) * np.array([[-1], [1]])
        sign = np.sign(nearest)
        if ((outward != 0) & (sign != outward)).any():
            raise NoFunction("a sign that changes far from zero")
        return np.concatenate([np.sign(d.values), sign.ravel()])

    def _chosen(self, first: Array, x: Function, y: Function) -> Function:
        n = len(self.arguments)
        tails = first[n:].reshape(x.slopes.shape)
        return Function(
            np.where(first[:n], x.values, y.values),
            np.where(tails, x.slopes, y.slopes),
            np.where(tails, x.starts, y.starts),
        )

    def _check_flat(self, *xs: Function) -> None:
        if any(x.slopes.any() for x in xs):
            raise NoFunction("a truth value that is none")

    def _flat(self, x: Function) -> Array:
        return np.concatenate([x.values, x.starts.ravel()])

    def _truth(self, of: Callable[..., Array], *xs: Function) -> Function:
        self._check_flat(*xs)
        return self._split(np.asarray(of(*map(self._flat, xs))).astype(np.int64))

    def _split(self, flat: Array) -> Function:
        n, like = len(self.arguments), self.argument.slopes
        return Function(flat[:n], np.zeros_like(like), flat[n:].reshape(like.shape))


_COMPARED: dict[BinaryFn, Callable[[Array], Array]] = {
    BinaryFn.LT: lambda sign: sign < 0,
    BinaryFn.LE: lambda sign: sign <= 0,
    BinaryFn.EQ: lambda sign: sign == 0,
    BinaryFn.NE: lambda sign: sign != 0,
}
_LOGIC: dict[BinaryFn, Callable[[Array, Array], Array]] = {
    BinaryFn.AND: np.logical_and,
    BinaryFn.OR: np.logical_or,
    BinaryFn.XOR: np.logical_xor,
}


def _parts(x: Function) -> tuple[Array, Array, Array]:
    return x.values, x.slopes, x.starts


def _pairs(x: Function, y: Function) -> list[tuple[Array, Array]]:
    return list(zip(_parts(x), _parts(y), strict=True))
