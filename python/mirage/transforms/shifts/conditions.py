"""Conditions on the shifts of a launch, checked once all demands on them are known.

The dimensions that a maximum covers follow from all uses of the exponential, so a condition on it
is noted where it arises and checked at the end.
"""

from __future__ import annotations

from collections.abc import Callable

from mirage.semantics.ugraph import Value
from mirage.transforms.shifts.shifts import Align, NotHomogeneous, Shift, Term, Terms

RECIPROCALS = "a sum of reciprocals of exponentials, which the row maximum does not bound"


class Conditions:
    """Conditions that are noted; :meth:`check` raises :class:`NotHomogeneous`."""

    def __init__(self) -> None:
        self._checks: list[Callable[[], None]] = []

    def check(self) -> None:
        """Check all conditions."""
        for check in self._checks:
            check()

    def note(self, check: Callable[[], None]) -> None:
        """Record a condition of another kind: ``check`` raises if it fails."""
        self._checks.append(check)

    def constant(self, s: Shift, dim: int, reason: str) -> None:
        """Demand that ``m`` does not vary along ``dim``."""

        def check() -> None:
            if s.result_shape[dim] > 1:
                raise NotHomogeneous(s.exps, reason)

        self._checks.append(check)

    def agree(self, s: Shift, a: Align, b: Align) -> Align:
        """Return one alignment for two factors; where they differ, the shift must not vary."""
        for x, y in zip(a, b, strict=True):
            if x != y:
                for dim in (x, y):
                    if dim is not None:
                        self.constant(s, dim, "a combination of exponentials of different rows")
        return tuple(y if x is None else x for x, y in zip(a, b, strict=True))

    def divisor(self, terms: Terms, what: str) -> None:
        """Demand that a divisor cannot underflow: it must contain the largest exponential of
        everything that the maximum covers.
        """
        for s, t in terms.items():
            if t.power >= 0:
                self._checks.append(lambda s=s, t=t: _check_divisor(s, t, what))

    def complete(self, terms: Terms) -> None:
        """Demand that each dimension of ``m`` corresponds to one of the value."""
        for s, t in terms.items():

            def check(s: Shift = s, t: Term = t) -> None:
                if any(n > 1 and d not in t.align for d, n in enumerate(s.result_shape)):
                    raise NotHomogeneous(s.exps, "a combination of exponentials of different rows")

            self._checks.append(check)

    @staticmethod
    def summed(x: Value, terms: Terms, dims: tuple[int, ...]) -> None:
        """Note that elements along ``dims`` are summed: ``m`` does not vary there, since the
        maximum covers them."""
        for s, t in terms.items():
            for d in dims:
                a = t.align[d]
                if a is None:
                    continue
                if t.power < 0 and x.shape[d] > 1:
                    raise NotHomogeneous(s.exps, RECIPROCALS)
                s.constant.add(a)


def _check_divisor(s: Shift, t: Term, what: str) -> None:
    if t.partial or any(a is not None and s.partial(a) for a in t.align):
        raise NotHomogeneous(
            s.exps, f"{what} by a part of a row, which may vanish beside the row's maximum"
        )
    if s.running:
        raise NotHomogeneous(
            s.exps, f"{what} inside a loop by a value that the loop also accumulates"
        )
