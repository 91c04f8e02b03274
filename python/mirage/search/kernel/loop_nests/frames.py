"""Frames: the axes that a kernel splits over the grid, and the axis that it loops over.

A *frame type* fixes the structure: the axis of the loop, the axis of a loop inside of it, and the
reduced axis that the grid splits. The derivations of a kernel depend on nothing else. The sizes of
tiles are the *columns* of a type (:mod:`mirage.search.kernel.loop_nests.columns`).
"""

from __future__ import annotations

from dataclasses import dataclass

from mirage.search.algebra.normalizer import MatmulRoles
from mirage.search.kernel.problems.one_tile import NARROWEST


@dataclass(frozen=True)
class FrameType:
    """The loop's axis, and the reduced axis that is split over the grid, if any."""

    loop: str | None
    split: str | None
    passes: int = 1  # loops over the axis, one after the other
    inner: str | None = None  # axis of a loop inside each step of the loop

    def levels(self, axis: str) -> tuple[str, ...]:
        """Return the levels into which the type splits an axis that some sum binds."""
        levels = ("L",)
        if axis in (self.loop, self.inner):
            levels += ("T",)
        if axis == self.split:
            levels += ("G",)
        return levels

    def __str__(self) -> str:
        twice = {2: " twice", 3: " three times"}.get(self.passes, "")
        around = f" around {self.inner}" if self.inner is not None else ""
        return f"loop {self.loop or '-'}{around}{twice}, grid sum {self.split or '-'}"


@dataclass(frozen=True)
class AxisUse:
    """The uses of a kernel problem's axes."""

    free: tuple[str, ...]  # axes of the outputs
    reduced: tuple[str, ...]  # axes that some sum or maximum binds, and no output has
    mixed: tuple[str, ...]  # both, or along which tiles are whole for another reason
    sizes: dict[str, int]
    matmuls: tuple[MatmulRoles, ...]
    narrowest: int = NARROWEST
    """The smallest tile extent along an axis of the columns of a product."""
    lines: frozenset[str] = frozenset()
    """Axes along which all tensors that are read have whole lines, however short the axis is."""
    twice: frozenset[str] = frozenset()
    """Reduced axes along rows that a tile has whole afterwards: steps may be long."""

    def types(self) -> list[FrameType]:
        """Return all frame types, the simplest first."""
        long = [a for a in self.reduced if self.sizes[a] >= 32]
        short = [a for a in self.reduced if 2 <= self.sizes[a] < 32 and not self.contracted(a)]
        splits: list[str | None] = [None, *long]
        loops: list[str | None] = [None, *long, *short]
        return [FrameType(loop, split) for split in splits for loop in loops]

    def contracted(self, axis: str) -> bool:
        """Return whether a matmul of the program sums over the axis."""
        return any(axis in m.contracted for m in self.matmuls)
