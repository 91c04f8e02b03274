"""The part that may be moved out of a logarithm: ``log(e^c a) = c + log(a)``.

An exponential is positive, so that both sides are defined for the same ``a``: the identity has no
condition. Which ``c`` is taken out of a sum of exponentials must not depend on how the sum is
written, nor on how many indices it runs over. It is the part of the exponents in which values of
functions occur (a maximum, as in ``log sum e^(x - m)``), where that part is the same for all of
them; or all of the exponent, where there is only one. ``docs/verification.md`` has the argument why
small programs decide this.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from fractions import Fraction

Number = int | Fraction
Term = tuple[int, int]  # (exponent, monomial), as in :mod:`mirage.verify.arithmetic.symbolic`
Sum = dict[Term, Number]
Powers = tuple[tuple[int, int], ...]


def common_part(
    exponents: Sequence[Sum],
    powers_of: Callable[[int], Powers],
    functions: Collection[int],
) -> Sum:
    """Return the part of the exponent that can be taken out of all ``exponents`` (at least one).
    Terms with a negative power are never taken out.

    ``powers_of`` gives the symbols of a monomial with their powers; ``functions`` are the symbols
    that are values of functions.
    """
    if len(exponents) == 1:
        (only,) = exponents
        whole = all(power > 0 for term in only for _, power in powers_of(term[1]))
        return dict(only) if whole else {}
    groups = [_groups(x, powers_of, functions) for x in exponents]
    result: Sum = {}
    for key, part in groups[0].items():
        if all(other.get(key) == part for other in groups[1:]):
            result.update(part)
    return result


def _groups(
    exponent: Sum, powers_of: Callable[[int], Powers], functions: Collection[int]
) -> dict[Powers, Sum]:
    """Write an exponent as a polynomial in values of functions and return its coefficients, without
    the terms that contain negative powers or no function.
    """
    result: dict[Powers, Sum] = {}
    fractional: set[Powers] = set()
    for term, c in exponent.items():
        powers = powers_of(term[1])
        key = tuple(p for p in powers if p[0] in functions)
        result.setdefault(key, {})[term] = c
        if any(power < 0 for _, power in powers):
            fractional.add(key)
    return {key: part for key, part in result.items() if key and key not in fractional}
