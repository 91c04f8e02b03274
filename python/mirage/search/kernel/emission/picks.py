"""Ways to compute a value: derivations at sizes, whose launches are written on demand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mirage.search.kernel.emission.launches import Draft
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.problems.problem import Solution
from mirage.semantics.ugraph import Value

OTHER_COLUMNS = 64
"""The number of choices of sizes of a derivation that are tried before it counts as impossible to
write."""


@dataclass(eq=False)
class Pick:
    """One way to compute a value: a draft that is written on demand, a solution that a worker has
    written, or another way with other values."""

    time: float
    draft: Draft | None
    ready: Solution | None = None
    written: Solution | None = None
    refused: bool = False
    others: tuple[tuple[float, int], ...] = ()  # times and columns to try next if it is refused
    number: int | None = None  # what a worker reports in place of :attr:`work`
    like: Pick | None = None  # the way from which this one differs only in its values
    names: Mapping[Value, Value] = field(default_factory=dict[Value, Value])
    """Maps the values of ``like`` to those of this way."""

    @property
    def sizes(self) -> tuple[FrameType, int] | None:
        """The property that derivations of the same frame type at the same sizes have in common."""
        return None if self.draft is None else (self.draft.kind, self.draft.column)

    @property
    def work(self) -> object:
        """The property that ways to compute a value share if they do the same work: the same
        estimate at the same sizes."""
        if self.like is not None:
            return self.like.work
        return self.number if self.draft is None else (self.sizes, self.time)

    def next(self) -> Pick | None:
        """Return the same derivation at the next best sizes."""
        if self.like is not None and (other := self.like.next()) is not None:
            return Pick(other.time, None, like=other, names=self.names)
        if self.draft is None or not self.others:
            return None
        (time, column), *others = self.others
        return Pick(time, replace(self.draft, column=column), others=tuple(others))


def fastest(times: Any, most: int) -> Any:
    """Return the places of up to ``most`` of the least finite times, in their order; equal times
    count in the order of their places."""
    places = np.flatnonzero(np.isfinite(times))
    if len(places) > most:
        found = times[places]
        places = places[found <= np.partition(found, most - 1)[most - 1]]
    return places[np.argsort(times[places], kind="stable")[:most]]


def best_sizes(times: Any, draft: Draft) -> list[Pick]:
    """Return a derivation at its best choice of sizes, and at a second one with other tiles."""
    columns = draft.measure.columns
    best = fastest(times, OTHER_COLUMNS)
    order: list[int] = best.tolist()
    least: list[float] = times[best].tolist()
    picked: list[Pick] = []
    for place, i in enumerate(order):
        tiles = [v[i] for v in columns.tile.values()]
        if picked and tiles == [v[order[0]] for v in columns.tile.values()]:
            continue
        others = () if picked else (*zip(least[1:], order[1:], strict=True),)
        picked.append(Pick(least[place], replace(draft, column=i), others=others))
        if len(picked) == 2:
            break
    return picked
