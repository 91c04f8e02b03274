"""What a floating-point constant in a program means as an exact number.

Programs carry constants as floats: ``1/6144``, ``1e-6``, ``64**-0.5``. Testing in finite fields
needs exact numbers, and two programs that fold the same constant in different orders, or at f32,
must get the same one. So a constant stands for the simplest number within f32 rounding of its
value: a decimal of at most three digits (``1e-12``), a fraction, or the square root of one where
that is simpler (``128**-0.5`` is the root of 1/128). A constant of type f64 is meant to f64's
precision instead.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from mirage.semantics.scalar import DType

# Half a unit in the last place of f32 at worst; for f64 there is room for one more rounding.
_F32, _F64 = Fraction(1, 1 << 24), Fraction(1, 1 << 52)
_LARGEST = 1 << 22  # fractions of larger numbers come close to anything
_DIGITS = 14  # binary ones of a number that is meant all the same
_SIMPLE = 1 << 18  # products of numerator and denominator that are rarely met by chance


@dataclass(frozen=True)
class Exact:
    """``rational * sqrt(radicand)`` with a square-free radicand of at least 1."""

    rational: Fraction
    radicand: int = 1

    @property
    def bits(self) -> int:
        """Size of its numerator, denominator or radicand."""
        parts = (self.rational.numerator, self.rational.denominator, self.radicand)
        return max(n.bit_length() for n in parts)


@lru_cache(maxsize=4096)
def exact(value: float, dtype: DType = DType.F32) -> Exact:
    """The simplest exact number within f32 rounding (f64 rounding for a constant of that type) of a
    finite ``value``.
    """
    relative = _F64 if dtype is DType.F64 else _F32
    target = Fraction(value)
    if target == 0:
        return Exact(Fraction(0))
    plain = _short_decimal(value, relative)
    if plain is not None:
        return Exact(plain)
    plain = _simplest(target, relative)
    if max(abs(plain.numerator), plain.denominator) > _LARGEST:
        # Products of sizes: 1/2^28 is meant, not 1/268435440.
        plain = _short_binary(target, relative) or plain
    square = _simplest(target * target, 2 * relative)
    if max(square.numerator, square.denominator) > _LARGEST:
        square = _short_binary(target * target, 2 * relative) or square
    root = square.numerator * square.denominator
    height = abs(plain.numerator) * plain.denominator
    # A root is meant only where it is far simpler than the fraction (by chance both have height
    # about 2^24), or where it is made of small primes, as sizes are, and the fraction is no simple
    # one: 128**-1.5.
    of_sizes = height > _SIMPLE and root <= _LARGEST**2 and _is_smooth(root)
    far_simpler = root * 256 <= height and root <= 1 << 24
    if plain.denominator == 1 or not (of_sizes or far_simpler):
        return Exact(plain)
    outside, inside = _square_part(root)
    if inside == 1:
        return Exact(plain)
    sign = 1 if value > 0 else -1
    return Exact(Fraction(sign * outside, square.denominator), inside)


def _short_decimal(value: float, relative: Fraction) -> Fraction | None:
    """The decimal with three significant digits, if it is within ``relative``."""
    decimal = Fraction(f"{value:.2e}")
    return decimal if abs(decimal - Fraction(value)) <= relative * abs(decimal) else None


def _short_binary(target: Fraction, relative: Fraction) -> Fraction | None:
    """The number within ``relative`` that has, itself or one over it, the fewest binary digits."""
    if target < 0:
        mirrored = _short_binary(-target, relative)
        return None if mirrored is None else -mirrored
    for value, inverted in ((target, False), (1 / target, True)):
        low, high = value * (1 - relative), value * (1 + relative)
        unit = Fraction(2) ** (value.numerator.bit_length() - value.denominator.bit_length() + 1)
        for _ in range(_DIGITS):
            multiple = -(-low // unit) * unit
            if 0 < multiple <= high:
                return 1 / multiple if inverted else multiple
            unit /= 2
    return None


def _is_smooth(n: int) -> bool:
    """Whether ``n`` has no prime factor above 7."""
    for p in (2, 3, 5, 7):
        while n % p == 0:
            n //= p
    return n == 1


def prime_factors(n: int) -> tuple[int, ...]:
    """Distinct prime factors of ``n`` (trial division: ``n`` is below 2^24)."""
    factors: list[int] = []
    d = 2
    while d * d <= n:
        if n % d == 0:
            factors.append(d)
            while n % d == 0:
                n //= d
        d += 1
    if n > 1:
        factors.append(n)
    return tuple(factors)


def _square_part(n: int) -> tuple[int, int]:
    """``n == a * a * b`` with square-free ``b``."""
    a, b = 1, n
    for f in prime_factors(n):
        while b % (f * f) == 0:
            b //= f * f
            a *= f
    return a, b


def _simplest(target: Fraction, relative: Fraction) -> Fraction:
    """The fraction with the smallest denominator within ``relative`` of ``target`` (Stern-Brocot,
    by continued fractions).
    """
    if target < 0:
        return -_simplest(-target, relative)
    return _between(target * (1 - relative), target * (1 + relative))


def _between(low: Fraction, high: Fraction) -> Fraction:
    """The simplest fraction in ``[low, high]``, ``0 < low``."""
    floor = low.numerator // low.denominator
    if floor == low:
        return low
    if floor + 1 <= high:
        return Fraction(floor + 1)
    rest = _between(1 / (high - floor), 1 / (low - floor))
    return floor + 1 / rest
