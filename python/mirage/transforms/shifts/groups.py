"""Exponentials that are added: a group with one maximum.

``exp(x) + exp(y)`` is not proportional to a power of ``exp(-m)`` alone, nor of ``exp(-n)``. It is
homogeneous in both at once: if both exponentials are scaled by the same factor, so is the sum. So
where values that carry different shifts are added, both are brought to the maximum ``M`` of the
shifts, ``a exp(m - M) + b exp(n - M)``, and the sum carries ``M``. Sums of the same exponentials,
in whatever order they are added, get the same ``M``: it cancels between numerator and denominator.

``M`` is no larger than it must be: it exists where the sums meet, once in each loop (where it runs
along, if the loop accumulates the sum), and values that are computed from only one of the
exponentials keep that one's maximum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mirage.semantics.ugraph import Loop
from mirage.transforms.shifts.conditions import Conditions
from mirage.transforms.shifts.shifts import Align, NotHomogeneous, Origin, Shift, Term

_ORDERS = "sums of the same exponentials in several orders, over different rows"
_ROWS = "a combination of exponentials of different rows"


class Groups:
    """The merged shifts of a launch."""

    def __init__(self, conditions: Conditions) -> None:
        self.conditions = conditions
        self.known: dict[frozenset[Shift], Shift] = {}

    def merge(
        self, sides: Sequence[tuple[Shift, Align]], rank: int, loops: Sequence[Loop]
    ) -> tuple[Shift, Align]:
        """Return the shift of a sum of values that carry ``sides``, and its alignment. The sides
        are aligned with the dimensions of the sum, which are ``rank``; ``loops`` are those around
        the sum, outermost first.
        """
        leaves: dict[Shift, Align] = {}  # for each dimension of the sum
        for s, align in sides:
            for leaf, dims in self._leaves(s).items():
                through = tuple(None if a is None else dims[a] for a in align)
                known = leaves.get(leaf)
                leaves[leaf] = (
                    through if known is None else self.conditions.agree(leaf, known, through)
                )
        key = frozenset(leaves)
        if key not in self.known:
            self.known[key] = _merged(leaves, loops)
        merged = self.known[key]
        for s, _ in sides:
            self._require_part(s, merged)
        return merged, self._align(merged, leaves, rank)

    def parts(
        self, terms: Mapping[Shift, Term], others: Mapping[Shift, Term]
    ) -> list[tuple[Shift, Shift]]:
        """Return the shifts of ``terms`` that are parts of merged shifts of ``others``."""
        return [
            (s, whole)
            for whole in others
            for s in terms
            if s is not whole and whole.leaves and self._leaves(s).keys() <= whole.leaves.keys()
        ]

    def through(self, part: Shift, whole: Shift, mine: Align, align: Align) -> Align:
        """Return the alignment of the whole with a value that is aligned with a part as in
        ``mine``, where it meets a value that is aligned with the whole as in ``align``.
        """
        self._require_part(part, whole)
        dims = whole.dims_of(part)
        seen = tuple(None if a is None else dims[a] for a in align)
        self.conditions.agree(part, mine, seen)
        return align

    @staticmethod
    def _leaves(s: Shift) -> dict[Shift, Align]:
        """Return the shifts of which a merged shift is the maximum, if it is nothing else."""
        if s.leaves and not s.constant and not s.powers:
            return dict(s.leaves)
        return {s: tuple(range(len(s.shape)))}

    def _require_part(self, s: Shift, merged: Shift) -> None:
        def check() -> None:
            stands_for_leaves = s is not merged and s not in merged.leaves
            if stands_for_leaves and (s.reduced or s.running):
                raise NotHomogeneous(s.exps, _ORDERS)
            dims = merged.dims_of(s)
            if any(n > 1 and d not in dims for d, n in enumerate(s.result_shape)):
                raise NotHomogeneous(s.exps, _ROWS)

        self.conditions.note(check)

    def _align(self, merged: Shift, leaves: dict[Shift, Align], rank: int) -> Align:
        """Return the dimension of ``merged`` for each dimension of a value; where the leaves are
        aligned differently than when they were first merged, they must not vary.
        """
        found: list[int | None] = []
        for d in range(rank):
            mine = {s: align[d] for s, align in leaves.items()}
            matches = [
                e
                for e in range(len(merged.shape))
                if any(a is not None and a == merged.leaves[s][e] for s, a in mine.items())
            ]
            found.append(matches[0] if matches else None)
            for e in matches:
                for s, a in mine.items():
                    other = merged.leaves[s][e]
                    for dim in (a, other) if a != other else ():
                        if dim is not None:
                            self.conditions.constant(s, dim, _ROWS)
        return tuple(found)


def _merged(leaves: dict[Shift, Align], loops: Sequence[Loop]) -> Shift:
    inside = {s.loop for s in leaves}
    around = [loop for loop in loops if loop in inside]
    return Shift(
        Origin.MERGED,
        (),
        frozenset(e for s in leaves for e in s.exps),
        around[-1] if around else None,
        frozenset(a for s in leaves for a in s.axes),
        leaves=leaves,
    )
