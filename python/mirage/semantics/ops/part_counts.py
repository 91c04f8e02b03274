"""Other numbers of parts along axes that cut tensors into tiles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod


class NothingLeftError(ValueError):
    """All that there was lies in parts that are gone."""


@dataclass(frozen=True)
class Parts:
    """How many parts each axis had ``before``, and has ``after``."""

    before: Mapping[str, int]
    after: Mapping[str, int]

    def size(self, size: int, axes: tuple[str, ...], tile: int) -> int:
        """What becomes of ``size`` indices that axes cut into tiles: as many whole tiles less (or
        more) as there are parts, so what the last tile has beyond the end stays. Raises
        :class:`NothingLeftError`."""
        before, after = (prod(extents[a] for a in axes) for extents in (self.before, self.after))
        found = size - tile * (before - after)
        if found < 1:
            raise NothingLeftError(
                f"{size} indices in tiles of {tile} are in the {before - after} parts that are gone"
            )
        return found
