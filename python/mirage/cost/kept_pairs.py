"""The registers of rows whose 16-bit elements stay as they were loaded, two in a register, since
there are no registers for what is computed from them: that is computed again after each exchange
between warps (``RecomputeValues.cpp``)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mirage.cost.block_analysis import BlockAnalysis
from mirage.semantics.ugraph import (
    Elementwise,
    Load,
    Loop,
    Rearrangement,
    Reduce,
    Source,
    Value,
)

OTHERS = 16
"""The registers of a thread other than those of values that live across barriers (``kOthers``)."""
FEWEST_AHEAD = 4
"""The registers of elements that are loaded behind the last barrier, just before they are needed
(``kFewestAhead``)."""


def registers_of_pairs(analysis: BlockAnalysis, held: Callable[[Value], float]) -> float | None:
    """Return the registers of a thread that keeps only elements of 16 bits from one exchange to the
    next; None if a kernel keeps other values as well. ``held``: the registers of a loaded tile."""
    ops = analysis.launch.body.ops
    if analysis.matmuls or any(isinstance(op, Loop) for op in ops):
        return None
    exchanges = [op for op in ops if not isinstance(op, Elementwise | Rearrangement | Source)]
    if not exchanges:
        return None
    read = [_elements(analysis, op.operands) for op in exchanges]
    read.append(_elements(analysis, (out.value for out in analysis.launch.body.outputs)))
    most, known = 0.0, set[Value]()
    for number, op in enumerate(exchanges):
        known |= read[number] | set(op.results)
        kept = known & set[Value]().union(*read[number + 1 :])
        if not all(_are_pairs(analysis, value) for value in kept):
            return None
        most = max(most, sum(map(held, kept)))
    ahead = sum(map(held, read[-1] - known))
    return OTHERS + most + min(FEWEST_AHEAD, ahead)


def _elements(analysis: BlockAnalysis, values: Iterable[Value]) -> set[Value]:
    """Return the loaded tiles, and the tiles that ops other than elementwise ones compute, from
    which values are computed element by element. A result of a reduction is no such tile: it has
    one element for each row."""
    found: set[Value] = set()
    left = list(values)
    seen: set[Value] = set()
    while left:
        value = left.pop()
        op = analysis.definitions.get(value)
        if value in seen or op is None:
            continue
        seen.add(value)
        if isinstance(op, Elementwise | Rearrangement):
            left += op.operands
        elif isinstance(op, Load) or not isinstance(op, Source | Reduce):
            found.add(value)
    return found


def _are_pairs(analysis: BlockAnalysis, value: Value) -> bool:
    """Return whether a tile is a row of elements of 16 bits that was loaded as it is: for a
    reduction of several rows, warps need not exchange anything."""
    op = analysis.definitions[value]
    loaded = isinstance(op, Load) and op.operands[0].dtype.bytes == value.dtype.bytes == 2
    return loaded and value.type.size == value.shape[-1]
