"""Formulas that look elements up also compute the indices, if these are computed from inputs.

Otherwise a kernel would compute the indices for the one that reads them. Only indices that a caller
can have checked without that kernel are concerned
(:mod:`mirage.frontend.torch_import.conversion.index_limits`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from mirage.frontend.torch_import.conversion.index_expressions import steps_of
from mirage.frontend.torch_import.conversion.index_limits import Named
from mirage.semantics.integer_formula import FormulaError
from mirage.semantics.integers import Integers
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.ugraph import Elementwise, KernelGraph, View
from mirage.transforms.composed_formulas import MOST_AGAIN
from mirage.transforms.formula_writer import FormulaWriter


def with_nearby_indices(graph: KernelGraph, named: Iterable[Named]) -> KernelGraph:
    """Return a graph, whose inputs are the values that no op computes, with formulas that compute
    the indices which calls have ``named``."""
    picks = [op for op in graph.ops if isinstance(op, Integers) and op.formula.tables]
    if not picks:
        return graph
    makers = {v: op for op in graph.ops for v in op.results}
    inputs = {v: 0 for op in graph.ops for v in op.operands if v not in makers}
    known = {
        one.index
        for one in named
        if one.index in makers and steps_of(one.index, inputs, makers) is not None
    }
    made: dict[Op, Op] = {}
    for op in picks:
        indices = {op.operands[number] for number, *_ in op.formula.indices}
        if not indices.isdisjoint(known):
            made[op] = _composed(op, makers, indices & known)
    return replace(graph, ops=tuple(made.get(op, op) for op in graph.ops)) if made else graph


def _composed(op: Integers, makers: Mapping[Value, Op], indices: Iterable[Value]) -> Integers:
    computed, moves = set[Op](), set[Op]()
    left = list(indices)
    while left:
        maker = makers.get(left.pop())
        if isinstance(maker, Elementwise | View):
            (moves if isinstance(maker, View) else computed).add(maker)
            left += maker.operands
    writer = FormulaWriter(op.result, makers, computed, moves, composed={op.result: op})
    found = writer.formula()
    if found is None or found.formula.work * op.result.type.size > MOST_AGAIN:
        return op
    try:
        found.formula.check([(v.shape, v.dtype) for v in found.operands], op.result.shape)
    except FormulaError:
        return op
    return found
