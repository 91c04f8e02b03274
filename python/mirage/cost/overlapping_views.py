"""Elements that a block reads twice, because two of its tensors are views that overlap.

``x[1:] - x[:-1]`` loads each element through two views. Both tiles of a block are loaded at the
same step, so their common elements come from device memory once and from L2 the second time.
Elements that are in only one of the two tiles are counted for each view (the other block that reads
them may run at any time).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from mirage.semantics.ugraph import Launch, Source, Value, all_ops

Num = Any


@dataclass(frozen=True)
class Cut:
    """Where a view begins in the tensor of which it is a block; the tensor may be identified by
    anything."""

    whole: Hashable
    start: tuple[int, ...]

    def common_share(self, other: Cut, tile: Sequence[Num]) -> Num:
        """Return the share of a tile of this view that is also in the tile at the same place of
        another view of the same shape. Sizes of the tile may be arrays."""
        if self.whole != other.whole:
            return 0.0
        apart = (abs(a - b) for a, b in zip(self.start, other.start, strict=True))
        return prod(np.maximum(0.0, 1.0 - d / n) for d, n in zip(apart, tile, strict=True))


def read_from_memory(launch: Launch, cuts: Mapping[Value, Cut]) -> Iterator[tuple[Value, float]]:
    """Yield operands of a launch that are slices of the same tensor as an earlier operand, and the
    bytes of them that device memory reads. ``cuts`` are the slices around the launch that are not
    copied."""
    earlier: list[tuple[Cut, Source]] = []
    for value, load in _only_loads(launch).items():
        cut = cuts.get(value)
        if cut is None:
            continue
        common = max((_common(cut, load, *other) for other in earlier), default=0.0)
        if common:
            yield value, (1 - common) * value.type.bytes
        earlier.append((cut, load))


def least_from_memory(
    values: Iterable[Value], cuts: Mapping[Value, Cut], bytes_of: Mapping[Value, float]
) -> float:
    """Return the least bytes that device memory reads of some tensors, whatever their tiles are."""
    total, earlier = 0.0, list[Value]()
    for value in values:
        size = bytes_of[value]
        if size and (cut := cuts.get(value)) is not None:
            alike = (v for v in earlier if v.shape == value.shape)
            shares = (cut.common_share(cuts[v], value.shape) for v in alike)
            size *= 1.0 - max(shares, default=0.0)
            earlier.append(value)
        total += size
    return total


def _only_loads(launch: Launch) -> dict[Value, Source]:
    """Return the load of each operand that has only one, in the order of the operands."""
    found: dict[Value, list[Source]] = {p: [] for p in launch.body.params}
    for op in all_ops(launch.inside):
        if isinstance(op, Source) and op.cuts:
            found[op.operands[0]].append(op)
    pairs = zip(launch.operands, launch.body.params, strict=True)
    return {value: found[p][0] for value, p in pairs if len(found[p]) == 1}


def _common(cut: Cut, load: Source, other: Cut, other_load: Source) -> float:
    """Return the share of a tile that is also in the tile of another view at the same step: none if
    the two are cut into tiles in different ways."""
    alike = load.operands[0].shape == other_load.operands[0].shape
    if load.cuts != other_load.cuts or not alike:
        return 0.0
    return float(cut.common_share(other, load.result.shape))
