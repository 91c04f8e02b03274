"""The time until a kernel has its first bytes, alone and behind another kernel."""

from __future__ import annotations

from mirage.cost.target import Target

FIRST_LOAD = 0.6
"""The share of the time until the first byte arrives that nothing hides. Blocks that load all of
their data at once wait one after the other: softmax of 4096 columns takes 22.1 µs with one block of
eight rows on an SM at a time, 21.2 with two, 18.8 with three of four rows, 18.3 with twelve of one
row by two warps (a copy takes 18.0)."""

HOT = 0.6
"""The share of the time until the first byte arrives if the data is in L2."""


def after_another(target: Target) -> float:
    """Return the µs that a kernel takes more if it follows another one than by itself. If it starts
    before that one ends, as dependent launches do, this is less than 0: its launch is over when its
    turn comes, and what it reads that is not in L2 by then is on its way."""
    early = target.launch + (1.0 - HOT) * FIRST_LOAD * target.latency
    return target.combine - (early if target.starts_early else 0.0)
