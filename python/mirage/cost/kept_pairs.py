"""The registers of rows whose elements stay as they were loaded, two of 16 bits in a register,
since there are none for what is computed from them.

That is computed again after each exchange between warps, and elements that are needed only after
the last exchange are loaded just before (``RecomputeValues.cpp``, ``LateOrder.h``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from mirage.cost.block_analysis import BlockAnalysis
from mirage.cost.kernel_features import (
    FEWEST_AHEAD,
    MOST_AHEAD,
    MOST_LATE,
    OTHERS,
    OTHERS_BESIDE,
)
from mirage.semantics.ugraph import (
    Elementwise,
    Op,
    Rearrangement,
    Source,
    Value,
    all_ops,
)


@dataclass(frozen=True)
class KeptElements:
    """The registers of a thread for elements that are loaded."""

    across: float
    """Registers of elements that are needed before and after an exchange."""
    late: float
    """Registers of all elements that are needed only after the last exchange."""

    def fit(self, limit: int) -> bool:
        """Return whether the compiler keeps elements, and they have enough registers."""
        most = limit - OTHERS
        needed = self.across + min(FEWEST_AHEAD, self.late)
        late = 2 * self.late <= MOST_LATE and (self.across > 0 or self.late > most)
        return needed <= most and late

    @property
    def held(self) -> float:
        """The registers of elements if there are enough of them."""
        return self.across + min(MOST_AHEAD, self.late)

    def fit_beside(self, limit: int) -> bool:
        """Return whether ``limit`` registers are enough in a block that waits for others."""
        needed = self.across + min(FEWEST_AHEAD, self.late)
        return self.across > 0 and needed <= limit - OTHERS - OTHERS_BESIDE


def kept_elements(analysis: BlockAnalysis, held: Callable[[Value], float]) -> KeptElements | None:
    """Return the elements that a kernel without products keeps; None if it keeps other values, or
    if warps exchange nothing. ``held``: the registers of a loaded tile."""
    body = analysis.launch.body
    exchanges = [op for op in body.ops if not isinstance(op, Elementwise | Rearrangement | Source)]
    if analysis.matmuls or not exchanges:
        return None
    wide = _Elements(analysis, held)
    read = [wide.of(_operands(op)) for op in exchanges]
    read.append(wide.of(out.value for out in body.outputs))
    across, known = 0.0, set[Value]()
    for number, op in enumerate(exchanges):
        known |= read[number] | wide.of(op.results)
        kept = known & set[Value]().union(*read[number + 1 :])
        if not all(_are_pairs(analysis, value) for value in kept):
            return None
        across = max(across, sum(map(held, kept)))
    return KeptElements(across, sum(map(held, read[-1] - known)))


def _operands(op: Op) -> Iterable[Value]:
    return (v for inner in all_ops((op,)) for v in inner.operands)


@dataclass(frozen=True)
class _Elements:
    """Finds the wide tiles from which values are computed."""

    analysis: BlockAnalysis
    held: Callable[[Value], float]

    def of(self, values: Iterable[Value]) -> set[Value]:
        """Return the loaded tiles, and those that loops and ops other than elementwise ones
        compute, from which values are computed element by element. Tiles with fewer elements than a
        block has threads do not count: totals of rows."""
        found: set[Value] = set()
        left = list(values)
        seen: set[Value] = set()
        while left:
            value = left.pop()
            op = self.analysis.definitions.get(value)
            if value in seen or self.held(value) < 0.5:
                continue
            seen.add(value)
            if isinstance(op, Elementwise | Rearrangement):
                left += op.operands
            elif value in self.analysis.looped or (
                op is not None and not (isinstance(op, Source) and not op.operands)
            ):
                found.add(value)
        return found


def _are_pairs(analysis: BlockAnalysis, value: Value) -> bool:
    """Return whether a tile is a row of elements of 16 bits that was loaded as it is: for a
    reduction of several rows, warps need not exchange anything."""
    load = analysis.load_of(value)
    if load is None or load.result is not value:
        return False
    loaded = load.operands[0].dtype.bytes == value.dtype.bytes == 2
    return loaded and value.type.size == value.shape[-1]
