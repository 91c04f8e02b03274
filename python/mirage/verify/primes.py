"""Random primes with roots of unity, for arithmetic in place of the reals."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Primes:
    """Primes ``p`` and ``q`` with ``q`` dividing ``p - 1``, and an element ``w`` of order ``q``
    modulo ``p``.

    A number is a pair of residues; ``exp`` takes the second one to ``w ** x_q`` modulo ``p``.
    """

    p: int
    q: int
    w: int


def is_prime(n: int) -> bool:
    """Miller-Rabin with the first twelve primes as bases: exact below 3.3e24."""
    small = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37)
    if n < 2:
        return False
    for s in small:
        if n % s == 0:
            return n == s
    odd, shift = n - 1, 0
    while odd % 2 == 0:
        odd, shift = odd // 2, shift + 1
    for a in small:
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


def is_square(a: int, p: int) -> bool:
    """Whether ``a`` is a square modulo the odd prime ``p``."""
    return a % p == 0 or pow(a, (p - 1) // 2, p) == 1


def square_root(a: int, p: int) -> int:
    """A square root modulo the odd prime ``p`` (Tonelli-Shanks); ``a`` must be a square. The
    smaller of the two.
    """
    a %= p
    if a == 0:
        return 0
    odd, shift = p - 1, 0
    while odd % 2 == 0:
        odd, shift = odd // 2, shift + 1
    z = next(z for z in range(2, p) if not is_square(z, p))
    m, c, t, r = shift, pow(z, odd, p), pow(a, odd, p), pow(a, (odd + 1) // 2, p)
    while t != 1:
        i, u = 0, t
        while u != 1:
            u, i = u * u % p, i + 1
        b = pow(c, 1 << (m - i - 1), p)
        m, c = i, b * b % p
        t, r = t * c % p, r * b % p
    return min(r, p - r)


def draw(
    rng: random.Random, q_bits: int, p_below: int | None, squares: Iterable[int] = ()
) -> Primes:
    """Random primes: ``q`` of exactly ``q_bits`` bits, ``p = r q + 1`` the smallest prime of that
    form (at most ``p_below``).

    Every number in ``squares`` is a square modulo both.
    """
    squares = tuple(squares)
    while True:
        q = rng.getrandbits(q_bits) | 1 | 1 << (q_bits - 1)
        if not all(is_square(s, q) for s in squares) or not is_prime(q):
            continue
        p = 2 * q + 1
        while p_below is None or p < p_below:
            if all(is_square(s, p) for s in squares) and is_prime(p):
                w = 1
                while w == 1:
                    w = pow(rng.randrange(2, p - 1), (p - 1) // q, p)
                return Primes(p, q, w)
            p += 2 * q
