"""The move that computes a running sum, maximum or product along an axis."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from mirage.cost.accountant import Accountant
from mirage.search.algebra.atoms import SoFarAtom
from mirage.search.kernel.derivations.moves import (
    Above,
    Accounts,
    Body,
    Edge,
    EmitError,
    Num,
)
from mirage.semantics.ugraph import Value


@dataclass(frozen=True)
class Cumulate(Edge):
    """The running sums, maxima or products along an axis that the tile has as a whole."""

    atom: SoFarAtom
    reads: ClassVar[bool] = True

    @property
    def sort(self) -> tuple[object, ...]:
        return (self.atom.axis, self.atom.fn)

    def account(self, at: Accounts, account: Accountant, size: Num, inside: bool) -> Num:
        labels = at.labels(self.goal)
        rows = at.elements(tuple(a for a in labels if a != self.atom.axis))
        account.cumulate(size, rows, inside, at.is_last(self.atom.axis))
        return at.fits(labels)

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        if self.atom.axis not in (row, col):
            raise EmitError(f"expected a tile over {self.atom.axis}, got one over {row} and {col}")
        x, build = body.get(self.children[0], row, col), body.builder(self.goal)
        dim = len(x.shape) - (1 if self.atom.axis == col else 2)
        return build.cumulate(
            self.atom.fn, x, dim, exclusive=self.atom.exclusive, reversed=self.atom.reversed
        )

    def combine(self, above: Above) -> Value:
        raise self.not_above()
