"""Known ranges of what formulas of exact integers compute."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

from mirage.semantics.bounds.integer_ranges import Range, range_of
from mirage.semantics.builder import Builder
from mirage.semantics.integer_formula import PICK, POSITION, Formula
from mirage.semantics.integer_ops import computed
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.scalar import DType


def formula_range(
    formula: Formula, shape: tuple[int, ...], operands: Sequence[Value], given: Sequence[Range]
) -> Range:
    """Return the known range of the result, given those of the operands; ``shape`` is that of the
    tensor in which the formula counts positions."""
    b = Builder()
    values: list[Value] = []
    ranges: list[Range] = []
    for number, step in enumerate(formula.steps):
        if step.is_operand:
            values.append(Value(TensorType((), operands[number].dtype)))
            ranges.append(given[number])
        elif step.name in (POSITION, PICK):
            values.append(Value(TensorType((), step.dtype or DType.I64)))
            if step.name == POSITION:
                ranges.append((0, max(shape[step.args[0]] - 1, 0)))
            else:
                ranges.append(_picked(values[-1].dtype, ranges[step.args[0]]))
        else:
            values.append(computed(b, step, [values[arg] for arg in step.reads]))
            ranges.append(range_of(b.ops[-1], values[-1], [ranges[arg] for arg in step.reads]))
    return ranges[-1]


def _picked(dtype: DType, table: Range) -> Range:
    """Return the range of an element of a table, or of 0 if there is none."""
    return (min(table[0], 0), max(table[1], 0)) if dtype.is_integer else (-inf, inf)
