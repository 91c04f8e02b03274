"""The places of elements in tensors that are parts of others: strides, in elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

Strides = tuple[int, ...]
START = 16
"""The alignment of tensors' addresses in bytes."""


def dense(shape: Sequence[int]) -> Strides:
    """Return the strides of a tensor in row-major order."""
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def reshaped(shape: Sequence[int], strides: Strides, result: Sequence[int]) -> Strides | None:
    """Return the strides of the same elements in another shape; None if no strides reach all of
    them."""
    runs = _runs(shape, strides)
    found: list[int] = []
    taken, run = 1, 0  # elements of a run that are already covered by dimensions
    for n in reversed(result):
        if run < len(runs) and taken == runs[run][0]:
            run, taken = run + 1, 1
        found.append(runs[run][1] * taken if run < len(runs) else 1)
        if n == 1:
            continue
        if run == len(runs) or runs[run][0] % (taken * n):
            return None
        taken *= n
    return tuple(reversed(found))


def row_alignment(shape: Sequence[int], strides: Strides, size: int, align: int) -> int:
    """Return a number of bytes, at most 16, that divides the addresses of all rows of a tensor
    whose elements have ``size`` bytes and whose first element is aligned to ``align``. It is
    ``size`` if the elements of a row are not contiguous."""
    if not shape or strides[-1] != 1:
        return size
    for n, step in zip(shape[:-1], strides[:-1], strict=True):
        if n > 1:
            align = gcd(align, step * size)
    return align


@dataclass(frozen=True)
class Digits:
    """The places of strided elements that form a tensor of another shape: ``counts`` says how many
    of the extents in ``shape``, most significant first, form each of its dimensions."""

    shape: tuple[int, ...]
    strides: Strides
    counts: tuple[int, ...]


def in_digits(shape: Sequence[int], strides: Strides, result: Sequence[int]) -> Digits | None:
    """Return the same elements in another shape, whose dimensions may each cover several runs; None
    if a dimension would start or end unevenly within a run."""
    runs = _runs(shape, strides)
    extents: list[int] = []  # the last one first
    steps: list[int] = []
    counts: list[int] = []
    taken, run = 1, 0
    for left in reversed(result):
        before = len(extents)
        while left > 1 or len(extents) == before:
            if run < len(runs) and taken == runs[run][0]:
                run, taken = run + 1, 1
            extent = min(left, runs[run][0] // taken) if run < len(runs) else 1
            if left > 1 and (run == len(runs) or left % extent or runs[run][0] % (taken * extent)):
                return None
            extents.append(extent)
            steps.append(runs[run][1] * taken if run < len(runs) else 1)
            taken *= extent
            left //= extent
        counts.append(len(extents) - before)
    return Digits(*(tuple(reversed(numbers)) for numbers in (extents, steps, counts)))


def _runs(shape: Sequence[int], strides: Strides) -> list[list[int]]:
    """Return runs of dimensions that follow each other evenly, as extents and steps, the last one
    first."""
    runs: list[list[int]] = []
    for n, step in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if runs and step == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= n
        else:
            runs.append([n, step])
    return runs
