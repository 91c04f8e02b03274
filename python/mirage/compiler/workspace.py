"""Where intermediate tensors lie in the workspace: dynamic storage allocation, offline.

A problem is a list of buffers, each with a size and the first and last kernel that touches it; a
solution gives offsets such that buffers that are alive at the same time do not overlap. Kernels of
one artifact run one after the other. Minimal size is NP-hard (Garey & Johnson, SR2); placing the
largest buffer first at the lowest free offset is the usual good approximation and exact for the two
or three buffers that programs have here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 256
"""Offsets are multiples of this many bytes: kernels copy 16 bytes at a time, tensor maps want 128,
sectors 32.
"""


@dataclass(frozen=True)
class Lifetime:
    """A buffer of ``bytes`` bytes that kernels number ``first`` to ``last`` touch."""

    bytes: int
    first: int
    last: int

    def meets(self, other: Lifetime) -> bool:
        """Whether both are alive during some kernel."""
        return self.first <= other.last and other.first <= self.last


def plan(buffers: Sequence[Lifetime]) -> tuple[int, ...]:
    """An offset in bytes for each buffer."""
    offsets: dict[int, int] = {}
    for i in sorted(range(len(buffers)), key=lambda i: (-buffers[i].bytes, buffers[i].first, i)):
        taken = sorted(
            (offsets[j], offsets[j] + max(buffers[j].bytes, 1))
            for j in offsets
            if buffers[j].meets(buffers[i])
        )
        at = 0
        for start, end in taken:
            if at + buffers[i].bytes <= start:
                break
            at = max(at, -(-end // ALIGNMENT) * ALIGNMENT)
        offsets[i] = at
    return tuple(offsets[i] for i in range(len(buffers)))


def check(buffers: Sequence[Lifetime], offsets: Sequence[int]) -> list[str]:
    """What is wrong with a solution, in words."""
    problems = [
        f"buffer {i} starts at {o}, not a multiple of {ALIGNMENT}"
        for i, o in enumerate(offsets)
        if o % ALIGNMENT or o < 0
    ]
    for i, a in enumerate(buffers):
        for j in range(i):
            b = buffers[j]
            if (
                a.meets(b)
                and offsets[i] < offsets[j] + b.bytes
                and offsets[j] < offsets[i] + a.bytes
            ):
                problems.append(f"buffers {j} and {i} overlap while both are alive")
    return problems
