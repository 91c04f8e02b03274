"""Which output of one program is which of another."""

from __future__ import annotations

from collections.abc import Sequence


def match_outputs(allowed: Sequence[Sequence[bool]]) -> tuple[int, ...] | None:
    """A perfect matching (augmenting paths): ``result[i]`` is an allowed partner of ``i``, all
    different.
    """
    partner: dict[int, int] = {}

    def place(i: int, seen: set[int]) -> bool:
        for j, ok in enumerate(allowed[i]):
            if ok and j not in seen:
                seen.add(j)
                if j not in partner or place(partner[j], seen):
                    partner[j] = i
                    return True
        return False

    if not all(place(i, set()) for i in range(len(allowed))):
        return None
    matched = {i: j for j, i in partner.items()}
    return tuple(matched[i] for i in range(len(allowed)))
