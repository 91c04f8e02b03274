"""Parts of tensors by their indices, for the oracle."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from math import prod

from mirage.semantics.ugraph import Axis, Output, Reshape, StepNumber, Steps, TileMap

from oracle.pytorch import torch

Tensor = torch.Tensor
Box = tuple[tuple[int, int], ...]
"""For each dimension, the first index and the one after the last."""


def whole(shape: Sequence[int]) -> Box:
    """Return the box of a whole tensor."""
    return tuple((0, n) for n in shape)


def sizes(box: Box) -> tuple[int, ...]:
    """Return the number of indices in each dimension."""
    return tuple(b - a for a, b in box)


def inside(box: Box, other: Box) -> bool:
    """Return whether ``other`` contains all of ``box``."""
    return box == other or all(c <= a and b <= d for (a, b), (c, d) in zip(box, other, strict=True))


def cut(x: Tensor, box: Box, of: Box) -> Tensor:
    """Return ``box`` from ``x``, which covers the box ``of``, in each run."""
    if box == of:
        return x
    return x[(slice(None), *(slice(a - c, b - c) for (a, b), (c, _) in zip(box, of, strict=True)))]


_RECENT = 32
"""The number of recent boxes among which one that contains another is searched: even of thousands,
it is one of the last."""


class Parts:
    """The parts of a tensor that have been computed."""

    def __init__(self) -> None:
        self.every: dict[Box, Tensor] = {}
        self.recent: list[Box] = []

    def find(self, box: Box) -> Tensor | None:
        """Return a part if it has been computed, possibly as a part of another one."""
        if box in self.every:
            return self.every[box]
        for place, known in enumerate(self.recent):
            if inside(box, known):
                self.recent.insert(0, self.recent.pop(place))  # the next one is usually next to it
                return cut(self.every[known], box, known)
        return None

    def add(self, box: Box, x: Tensor) -> None:
        self.every[box] = x
        self.recent.insert(0, box)
        del self.recent[_RECENT:]


def aligned(box: Box, shape: Sequence[int]) -> Box:
    """Return the box of an operand that is read for ``box`` of the result if the operand is
    broadcast."""
    last = box[len(box) - len(shape) :]
    return tuple((0, 1) if n == 1 else b for b, n in zip(last, shape, strict=True))


def only(x: Tensor, box: Box) -> Tensor:
    """Return ``box`` of a result with all of its normalised dimensions complete."""
    have = zip(box, x.shape[1:], strict=True)
    here = (slice(a, b) if n != b - a else slice(None) for (a, b), n in have)
    return x[(slice(None), *here)]


def flat(index: Sequence[int], shape: Sequence[int]) -> int:
    found = 0
    for i, n in zip(index, shape, strict=True):
        found = found * n + i
    return found


def run_of(box: Box, shape: Sequence[int], source: Sequence[int]) -> tuple[Box, int]:
    """Return a box of ``source`` that is a single run of elements in row-major order and contains
    all elements of ``box``, which belongs to another shape of the same elements; and the number of
    the first element in it."""
    first = flat([a for a, _ in box], shape)
    last = flat([b - 1 for _, b in box], shape)
    found: list[tuple[int, int]] = []
    for d, _ in enumerate(source):
        size = prod(source[d + 1 :])
        a, b = first // size % source[d], last // size % source[d]
        if first // (size * source[d]) != last // (size * source[d]):
            a, b = 0, source[d] - 1  # an earlier dimension has several indices already
        found.append((a, b + 1))
    return tuple(found), flat([a for a, _ in found], source)


def reshaped(op: Reshape, x: Tensor, box: Box) -> Tensor:
    shape = op.result.shape
    _, start = run_of(box, shape, op.operands[0].shape)
    index = torch.zeros((), dtype=torch.int64)
    for d, (a, b) in enumerate(box):
        along = torch.arange(a, b).reshape((-1, *(1,) * (len(box) - d - 1)))
        index = index + along * prod(shape[d + 1 :])
    return x.reshape((x.shape[0], -1))[:, (index - start).reshape(sizes(box))]


def starts(
    tile_map: TileMap, tile: Sequence[int], place: Mapping[str, int], extents: Mapping[str, int]
) -> tuple[int, ...]:
    found: list[int] = []
    for axes, t in zip(tile_map, tile, strict=True):
        part = 0
        for axis in axes:
            part = part * extents[axis] + place[axis]
        found.append(part * t)
    return tuple(found)


def positions(
    grid: Sequence[Axis], output: Output, box: Box, extents: Mapping[str, int]
) -> Iterator[tuple[int, ...]]:
    """Yield the blocks that store into ``box``; of blocks that store the same part, the first and
    the last."""
    choices: dict[str, set[int]] = {}
    for axes, t, (a, b) in zip(output.map, output.value.shape, box, strict=True):
        strides = [prod(extents[x] for x in axes[i + 1 :]) for i in range(len(axes))]
        for part in range(a // t, (b - 1) // t + 1):
            for axis, stride in zip(axes, strides, strict=True):
                choices.setdefault(axis, set()).add(part // stride % extents[axis])
    every = [sorted(choices.get(a.name, {0, a.extent - 1})) for a in grid]
    return itertools.product(*every)


def steps_of(steps: Steps | None, place: Mapping[str, int], extent: int) -> range:
    """Return the steps that a block takes: at least one."""
    if steps is None:
        return range(extent)
    ends = [_step_number(n, place) for n in (steps.first, steps.end)]
    first = min(max(ends[0], 0), extent - 1)
    return range(first, min(max(ends[1], first + 1), extent))


def _step_number(n: StepNumber, place: Mapping[str, int]) -> int:
    total = n.constant + sum(place[axis] * factor for axis, factor in n.terms)
    total += sum(_step_number(quotient, place) * factor for quotient, factor in n.quotients)
    return total // n.divisor
