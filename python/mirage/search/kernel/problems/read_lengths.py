"""Axes that are cut short at positions that are read when a kernel runs: the lengths of sequences,
each its own. The steps that blocks take are only known then."""

from __future__ import annotations

from math import prod

from mirage.search.kernel.problems.problem import KernelProblem
from mirage.semantics.scalar import BinaryFn, DType

INTEGERS = (DType.I32, DType.I64)


def read_lengths(problem: KernelProblem) -> tuple[tuple[str, float], ...]:
    """Return the axes along which integers (positions) are compared with integers that differ along
    other axes, with the length that is expected for the longest of as many lengths, in units of the
    average, if these are evenly distributed. One integer for all blocks is not counted: they have
    as many steps as each other."""
    found = dict[str, float]()
    for op in problem.definitions.values():
        if op.function not in (BinaryFn.LT, BinaryFn.LE):
            continue
        if any(x.dtype not in INTEGERS for x in op.operands):
            continue
        axes = [{a for dim in problem.table.dims(x) for a in dim} for x in op.operands]
        for own, others in (axes, axes[::-1]):
            lengths = prod(problem.table.sizes[a] for a in others - own)
            if len(own - others) == 1 and lengths > 1:
                (axis,) = own - others
                found[axis] = max(found.get(axis, 1.0), 2.0 * lengths / (lengths + 1.0))
    longest = max((problem.table.sizes[a] for a in found), default=0)
    return tuple((a, n) for a, n in sorted(found.items()) if problem.table.sizes[a] == longest)
