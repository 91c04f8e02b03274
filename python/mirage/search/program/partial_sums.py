"""Sums over whole rows of a product, as sums of partial sums.

The kernel of a product of a few rows has a tile of each row in each block, so no block can sum a
whole row, and another kernel has a single block for each. If the sum is a sum of sums over tiles,
the blocks of the product store the sums of their tiles as further results, and every reader adds up
these few numbers. That is only worthwhile if readers need the sum before they compute with the row.
If the sum only scales the row, the next product reads the row unscaled and sums it in its own loop.
"""

from __future__ import annotations

from mirage.cost.compilable import FEW_ROWS
from mirage.search.kernel.problems.one_tile import LEAST, NARROWEST
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, ReduceFn
from mirage.semantics.substitute import rewritten
from mirage.semantics.ugraph import (
    Contraction,
    Elementwise,
    KernelGraph,
    Op,
    Value,
    View,
)


def with_partial_sums(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with such sums in two steps; the same object if there are none."""
    definitions = {r: op for op in graph.ops for r in op.results}
    found = (
        op
        for op in graph.ops
        if _sums_long_rows(op)
        and _is_of_product(op.operands[0], definitions)
        and _is_needed_first(graph, op.result)
    )
    return rewritten(graph, dict.fromkeys(found, _in_two_steps))


def _sums_long_rows(op: Op) -> bool:
    """Return whether an op sums each of a few rows, of which many blocks have a tile."""
    if not isinstance(op, Contraction) or len(op.operands) != 1 or not op.sums:
        return False
    shape = op.operands[0].shape
    length = shape[-1]
    few = op.operands[0].type.size <= FEW_ROWS * length
    return few and op.over == ((len(shape) - 1,),) and length % NARROWEST == 0 and (
        length >= LEAST * NARROWEST
    )  # fmt: skip


def _is_of_product(row: Value, definitions: dict[Value, Op]) -> bool:
    """Return whether the elements of a row are functions of those of a product's row."""
    left, seen = [row], {row}
    while left:
        value = left.pop()
        op = definitions.get(value)
        if isinstance(op, Contraction) and len(op.operands) == 2:
            return True
        if isinstance(op, Elementwise) or (op is not None and op.renames):
            new = [v for v in op.operands if v.shape[-1:] == row.shape[-1:] and v not in seen]
            seen.update(new)
            left += new
    return False


def _is_needed_first(graph: KernelGraph, total: Value) -> bool:
    """Return whether a row depends on a sum other than by being scaled, or is a result, so that
    sums over that row cannot be scaled instead."""
    numbers, scaled = {total}, set[Value]()
    for op in graph.ops:
        if not numbers.isdisjoint(op.operands) or not scaled.isdisjoint(op.operands):
            if all(v.type.size <= total.type.size for v in (*op.operands, *op.results)):
                numbers.update(op.results)
            elif _scales(op, scaled):
                scaled.update(op.results)
            elif not _multiplies(op):
                return True
    return not scaled.isdisjoint(graph.outputs)


def _scales(op: Op, scaled: set[Value]) -> bool:
    """Return whether an op multiplies elements of rows, or only moves or repeats them. ``scaled``
    are rows that were multiplied before."""
    if isinstance(op, Elementwise) and op.function is BinaryFn.MUL:
        return op.operands[0] is not op.operands[1]
    if isinstance(op, Elementwise) and op.function is BinaryFn.DIV:
        return op.operands[1] not in scaled
    return isinstance(op, View) or (isinstance(op, Elementwise) and op.identity)


def _multiplies(op: Op) -> bool:
    """Return whether an op sums products."""
    return isinstance(op, Contraction) and op.sums


def _in_two_steps(build: Builder, op: Op) -> Value:
    (rows,) = op.operands
    *lead, length = rows.shape
    parts = build.reshape(rows, (*lead, length // NARROWEST, NARROWEST))
    rank = len(lead)
    sums = build.reduce(ReduceFn.SUM, parts, (rank + 1,))
    return build.reshape(build.reduce(ReduceFn.SUM, sums, (rank,)), op.result.shape)
