"""Where the elements of tensors lie that are parts of others: strides, in elements."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

Strides = tuple[int, ...]
START = 16
"""Bytes of which the addresses of tensors are multiples."""


def dense(shape: Sequence[int]) -> Strides:
    """Those of a tensor in row-major order."""
    strides: list[int] = []
    step = 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def reshaped(shape: Sequence[int], strides: Strides, result: Sequence[int]) -> Strides | None:
    """Strides of the same elements in another shape; None where none lead to all of them."""
    runs = _runs(shape, strides)
    found: list[int] = []
    taken, run = 1, 0  # elements of a run that dimensions cover already
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
    """Bytes that divide the addresses of all rows of a tensor whose elements have ``size`` bytes
    and whose first one lies at a multiple of ``align``; 16 at most, ``size`` where the elements of
    a row do not lie side by side."""
    if not shape or strides[-1] != 1:
        return size
    for n, step in zip(shape[:-1], strides[:-1], strict=True):
        if n > 1:
            align = gcd(align, step * size)
    return align


@dataclass(frozen=True)
class Digits:
    """How elements that lie apart make up a tensor of another shape: ``counts`` says how many of
    the extents in ``shape``, most significant first, make up each of its dimensions."""

    shape: tuple[int, ...]
    strides: Strides
    counts: tuple[int, ...]


def in_digits(shape: Sequence[int], strides: Strides, result: Sequence[int]) -> Digits | None:
    """The same elements in another shape, whose dimensions may cover several that do not follow one
    another evenly; None where one would begin or end within a dimension unevenly."""
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
    """Dimensions that follow one another evenly: extent and step, the last one first."""
    runs: list[list[int]] = []
    for n, step in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if runs and step == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= n
        else:
            runs.append([n, step])
    return runs
