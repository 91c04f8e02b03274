"""The steps that a block takes in its loops."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from mirage.cost.boxes import shifted_steps
from mirage.semantics.ugraph import (
    Launch,
    Load,
    Loop,
    Op,
    axis_extents,
)


@dataclass(frozen=True)
class Steps:
    """The average number of a loop's steps that a block takes, the ratio of the largest number to
    the average, the share of its tensors' elements that the loop is expected to read, and whether
    integers decide on the number, which is then unknown when the order of blocks is chosen."""

    mean: float
    uneven: float = 1.0
    share: float = 1.0
    read: bool = False


def unevenness(taken: Iterable[Steps]) -> tuple[float, float]:
    """Return the largest ratio of the most steps to the average, and that of loops for which it is
    unknown which blocks take the most."""
    every = [(s.uneven, s.read) for s in taken]
    return max((n for n, _ in every), default=1.0), max((n for n, r in every if r), default=1.0)


def steps_of(launch: Launch, loop: Loop, shifted: frozenset[Load]) -> Steps:
    for load in shifted.intersection(loop.body):
        tensor, tile = load.operands[0].type, load.result.shape[-1]
        return Steps(float(shifted_steps(tensor.shape[-1], tile, tensor.dtype.bytes)))
    if loop.steps is None:
        return Steps(float(loop.axis.extent))
    extents, extent = axis_extents(launch), loop.axis.extent
    mean = float(loop.steps.counts(extents, extent).mean())
    # a tile that one block skips because of its position is read by another one
    share = mean / extent if loop.steps.readings else 1.0
    read = bool(loop.steps.readings)
    return Steps(mean, loop.steps.most(extents, extent) / mean, share, read)


def trips_of(
    ops: tuple[Op, ...], taken: Mapping[Loop, Steps], around: float = 1.0
) -> Iterator[tuple[float, float, bool]]:
    """Yield, for each loop, how often its body runs, its steps, and whether it contains no loop."""
    for op in ops:
        if isinstance(op, Loop):
            trips = around * taken[op].mean
            inner = list(trips_of(op.body, taken, trips))
            yield trips, taken[op].mean, not inner
            yield from inner
