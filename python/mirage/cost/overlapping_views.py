"""Elements that a block reads twice, because two of its tensors are views that overlap.

``x[1:] - x[:-1]`` loads each element through two views. Both tiles of a block are loaded at the
same step, so what they have in common comes from device memory once and from L2 the second time.
What is in only one of the two tiles (the other block that reads it may run at any time) is counted
for each view.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod

from mirage.semantics.ugraph import Launch, Op, Source, Value, all_ops


def read_from_memory(launch: Launch, views: Mapping[Value, Op]) -> Iterator[tuple[Value, float]]:
    """Yield operands of a launch that are slices of the same tensor as an earlier operand, and the
    bytes of them that device memory reads. ``views`` are the slices around the launch that are not
    copied, by their results."""
    loaded = _only_loads(launch)
    earlier: dict[Value, list[tuple[Op, Source]]] = {}
    for value, load in loaded.items():
        view = views.get(value)
        if view is None:
            continue
        others = earlier.setdefault(view.operands[0], [])
        common = max((_common_share(view, load, *other) for other in others), default=0.0)
        if common:
            yield value, (1 - common) * value.type.bytes
        others.append((view, load))


def _only_loads(launch: Launch) -> dict[Value, Source]:
    """Return the load of each operand that has only one, in the order of the operands."""
    found: dict[Value, list[Source]] = {p: [] for p in launch.body.params}
    for op in all_ops(launch.inside):
        if isinstance(op, Source) and op.cuts:
            found[op.operands[0]].append(op)
    pairs = zip(launch.operands, launch.body.params, strict=True)
    return {value: found[p][0] for value, p in pairs if len(found[p]) == 1}


def _common_share(view: Op, load: Source, other: Op, other_load: Source) -> float:
    """Return the share of a tile that is also in the tile of another view at the same step: none if
    the two are cut into tiles in different ways."""
    if load.cuts != other_load.cuts or view.result.shape != other.result.shape:
        return 0.0
    assert view.cut_at is not None
    assert other.cut_at is not None
    apart = (abs(a - b) for a, b in zip(view.cut_at, other.cut_at, strict=True))
    tile = load.result.shape
    return prod(max(0.0, 1 - d / n) for d, n in zip(apart, tile, strict=True))
