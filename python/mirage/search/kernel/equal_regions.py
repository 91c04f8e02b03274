"""The regions solved so far. A region that differs from one of them only in its values is not
solved again: in an attention, for example, the projection of the values after that of the keys."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.problems.problem import Solution
from mirage.search.kernel.workers import Region
from mirage.semantics.ugraph import Value


@dataclass
class EqualRegions:
    """The ways to compute one region of each kind. ``write`` writes a way as launches."""

    write: Callable[[Pick], Solution | None]
    _known: dict[object, tuple[Region, tuple[Pick, ...]]] = field(
        default_factory=dict[object, "tuple[Region, tuple[Pick, ...]]"]
    )

    def add(self, region: Region, picks: Sequence[Pick]) -> None:
        """Remember the ways to compute a region."""
        self._known[region.kind] = region, tuple(picks)

    def picks(self, region: Region) -> list[Pick] | None:
        """Return ways to compute a region, if an equal one is known."""
        if region.kind not in self._known:
            return None
        known, picks = self._known[region.kind]
        theirs = (*known.graph.inputs, *known.graph.outputs)
        ours = (*region.graph.inputs, *region.graph.outputs)
        names = dict(zip(theirs, ours, strict=True))
        return [self._renamed(pick, names) for pick in picks]

    def _renamed(self, pick: Pick, names: Mapping[Value, Value]) -> Pick:
        """Return a way for other values. It is written at once if the original way has been
        written."""
        own = Pick(pick.time, None, like=pick, names=names)
        if pick.written is not None:
            self.write(own)
        return own
