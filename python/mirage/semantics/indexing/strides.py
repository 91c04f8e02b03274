"""Where the elements of tensors lie that are parts of others: strides, in elements."""

from __future__ import annotations

from collections.abc import Sequence
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
    runs: list[list[int]] = []  # dimensions that follow one another evenly: extent, step
    for n, step in zip(reversed(shape), reversed(strides), strict=True):
        if n == 1:
            continue
        if runs and step == runs[-1][0] * runs[-1][1]:
            runs[-1][0] *= n
        else:
            runs.append([n, step])
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
