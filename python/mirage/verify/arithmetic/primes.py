"""Random primes with roots of unity, for arithmetic in place of the reals."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction


@dataclass(frozen=True)
class Primes:
    """Primes ``p`` and ``q`` with ``q`` dividing ``p - 1``, and an element ``w`` of order ``q``
    modulo ``p``.

    A number is a pair of residues; ``exp`` takes the second one to ``w ** x_q`` modulo ``p``.
    """

    p: int
    q: int
    w: int

    def residues(self, value: Fraction) -> tuple[int, int] | None:
        """Return a rational as a pair of residues; None if a prime divides its denominator."""
        top, bottom = value.numerator, value.denominator
        if bottom % self.p == 0 or bottom % self.q == 0:
            return None
        return top * pow(bottom, -1, self.p) % self.p, top * pow(bottom, -1, self.q) % self.q


_FOUR_SUFFICE = 3_215_031_751
"""The least composite number that passes the test with the first four primes as bases."""


def is_prime(n: int) -> bool:
    """Return whether ``n`` is prime: Miller-Rabin with the first twelve primes as bases, which is
    exact below 3.3e24, or with the first four, as far as these are exact (Jaeschke, 1993)."""
    small = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if n < 2:
        return False
    for s in small:
        if n % s == 0:
            return n == s
    odd, shift = n - 1, 0
    while odd % 2 == 0:
        odd, shift = odd // 2, shift + 1
    for a in small[:4] if n < _FOUR_SUFFICE else small:
        x = pow(a, odd, n)
        if x in (1, n - 1):
            continue
        for _ in range(shift - 1):
            x = x * x % n
            if x == n - 1:
                break
        else:
            return False
    return True


def draw(rng: random.Random, q_bits: int, p_below: int | None) -> Primes:
    """Draw random primes: ``q`` of exactly ``q_bits`` bits, and the smallest prime ``p = r q + 1``
    (at most ``p_below``).
    """
    while True:
        q = rng.getrandbits(q_bits) | 1 | 1 << (q_bits - 1)
        if not is_prime(q):
            continue
        p = 2 * q + 1
        while p_below is None or p < p_below:
            if is_prime(p):
                w = 1
                while w == 1:
                    w = pow(rng.randrange(2, p - 1), (p - 1) // q, p)
                return Primes(p, q, w)
            p += 2 * q
