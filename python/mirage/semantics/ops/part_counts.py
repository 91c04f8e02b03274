"""Other numbers of parts along axes that cut tensors into tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod


class NothingLeftError(ValueError):
    """All elements are in parts that have been removed."""


@dataclass(frozen=True)
class Parts:
    """The number of parts of each axis ``before`` and ``after``."""

    before: Mapping[str, int]
    after: Mapping[str, int]

    def size(self, size: int, axes: tuple[str, ...], tile: int) -> int:
        """Return the size that replaces ``size`` indices that axes cut into tiles: the number of
        whole tiles changes by as much as the number of parts, so the overhang of the last tile does
        not change. Raises :class:`NothingLeftError`."""
        before, after = (prod(extents[a] for a in axes) for extents in (self.before, self.after))
        found = size - tile * (before - after)
        if found < 1:
            raise NothingLeftError(
                f"{size} indices in tiles of {tile} are in the {before - after} parts that are gone"
            )
        return found
