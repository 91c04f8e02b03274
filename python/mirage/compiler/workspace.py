"""The places of intermediate tensors in the workspace: offline dynamic storage allocation.

A problem is a list of buffers, each with a size and the first and last kernel that accesses it. A
solution gives offsets such that buffers that are alive at the same time do not overlap. Kernels of
one artifact run one after the other. Minimal size is NP-hard (Garey & Johnson, SR2). Buffers are
placed one by one at the lowest free offset, the largest first, or those with the largest product of
bytes and lifetime first. As long as the result exceeds the most bytes that are alive at one time,
the buffers that end highest are moved forward in the order, and the best result is kept. For the
programs of the catalogue, the result is within 1.1 of that bound (``test_workspace.py``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

ALIGNMENT = 256
"""The alignment of offsets in bytes: kernels copy 16 bytes at a time, tensor maps need 128, sectors
32.
"""


ROUNDS = 32
"""The most orders that are tried."""


@dataclass(frozen=True)
class Lifetime:
    """A buffer of ``bytes`` bytes that kernels ``first`` to ``last`` access."""

    bytes: int
    first: int
    last: int

    @property
    def room(self) -> int:
        """The bytes times the number of kernels."""
        return self.bytes * (self.last - self.first + 1)

    def meets(self, other: Lifetime) -> bool:
        """Return whether both are alive during some kernel."""
        return self.first <= other.last and other.first <= self.last


def plan(buffers: Sequence[Lifetime]) -> tuple[int, ...]:
    """Return an offset in bytes for each buffer."""
    numbers = range(len(buffers))
    by_size = sorted(numbers, key=lambda i: (-buffers[i].bytes, buffers[i].first, i))
    by_room = sorted(numbers, key=lambda i: (-buffers[i].room, buffers[i].first, i))
    least = lower_bound(buffers)
    best = _placed(buffers, by_size)
    for order in (by_size, by_room):
        offsets = _placed(buffers, order)
        for _ in range(ROUNDS):
            if peak(buffers, offsets) < peak(buffers, best):
                best = offsets
            if peak(buffers, best) <= least:
                return best
            highest = peak(buffers, offsets)
            late = [i for i in order if offsets[i] + buffers[i].bytes == highest]
            order = [*late, *(i for i in order if i not in late)]
            offsets = _placed(buffers, order)
    return best


def peak(buffers: Sequence[Lifetime], offsets: Sequence[int]) -> int:
    """Return the bytes of the workspace of a solution."""
    return max((o + b.bytes for b, o in zip(buffers, offsets, strict=True)), default=0)


def lower_bound(buffers: Sequence[Lifetime]) -> int:
    """Return a lower bound on the bytes of any solution: among buffers alive at a time, all but the
    last end where another one may start."""
    most = 0
    for kernel in {b.first for b in buffers}:
        alive = [b.bytes for b in buffers if b.first <= kernel <= b.last]
        ends = [-(-n // ALIGNMENT) * ALIGNMENT for n in alive]
        slack = max(end - n for end, n in zip(ends, alive, strict=True))
        most = max(most, sum(ends) - slack)
    return most


def _placed(buffers: Sequence[Lifetime], order: Sequence[int]) -> tuple[int, ...]:
    """Place each buffer, in order, at the lowest free offset."""
    offsets: dict[int, int] = {}
    for i in order:
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
    """Describe the errors of a solution."""
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
