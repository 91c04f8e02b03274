"""The inputs of a program that are indices, and the number of rows of their tables.

Kernels read nothing for an index outside of its table and store nothing; a caller who wants an
error instead compares indices with these bounds before a launch.
"""

from __future__ import annotations

from mirage.semantics.ops.kinds import all_ops
from mirage.semantics.ugraph import KernelGraph, launches


def index_bounds(graph: KernelGraph) -> tuple[tuple[int, int, bool], ...]:
    """Return the numbers of the inputs that are used directly as indices, each with the number of
    rows of its table and whether negative indices count from its end; an input from which something
    else is computed first has no bound."""
    numbers = {v: i for i, v in enumerate(graph.inputs)}
    for op in graph.ops:
        if op.renames and op.operands[0] in numbers:
            numbers[op.result] = numbers[op.operands[0]]
    for launch in launches(graph.ops):
        for param, value in zip(launch.body.params, launch.operands, strict=True):
            if value in numbers:
                numbers[param] = numbers[value]
    named = (rows for op in all_ops(graph.ops) for rows in op.named_indices)
    found = {(numbers[x.index], x.count, x.from_end) for x in named if x.index in numbers}
    return tuple(sorted(found))
