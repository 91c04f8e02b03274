"""Which elements of a table a formula picks for neighbours in its result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from mirage.semantics.integer_formula import CONSTANT, LOAD, PICK, POSITION, TABLE, Formula
from mirage.semantics.scalar import BinaryFn


@dataclass(frozen=True)
class PickedRun:
    """What is read of a table for ``count`` neighbours in a tile: ``elements`` of a row, of which
    ``run`` follow each other."""

    count: int
    elements: int
    run: int


def picked_run(
    formula: Formula, table: int, shape: Sequence[int], tile: Sequence[int], sector: int
) -> PickedRun:
    """Return what is picked, along the last dimension of a tile that is larger than 1, of an
    operand, a table of a ``shape``. All of a row is read if it has fewer sectors, of ``sector``
    elements, than elements are picked."""
    dim = max((d for d, n in enumerate(tile) if n > 1), default=0)
    count = tile[dim] if tile else 1
    picks = [s.args[1:] for s in formula.steps if s.name == PICK and s.args[0] == table]
    strides = [_stride(formula, index, dim) for index in picks[-1]] if picks else []
    moving = [d for d, stride in enumerate(strides) if stride != 0]
    if not moving:
        return PickedRun(count, 1, 1)
    if moving == [len(shape) - 1] and strides[-1] in (1, -1):
        return PickedRun(count, count, count)
    row = prod(shape[moving[0] :])
    return PickedRun(count, row, row) if row < count * sector else PickedRun(count, count, 1)


def _stride(formula: Formula, number: int, dim: int) -> int | None:
    """Return how much a step grows with the index along a dimension of the result; None if that is
    not always the same."""
    step = formula.steps[number]
    if step.name == POSITION:
        return int(step.args[0] == dim)
    if step.name in (CONSTANT, TABLE):
        return 0
    if step.name == LOAD:
        return None if dim in step.args else 0
    parts = [_stride(formula, arg, dim) for arg in step.reads]
    if not any(part != 0 for part in parts):
        return 0
    first, last = (parts[0], parts[-1]) if len(parts) == 2 else (None, None)
    if first is None or last is None:
        return None
    if step.name == BinaryFn.ADD.value:
        return first + last
    return first - last if step.name == BinaryFn.SUB.value else None
