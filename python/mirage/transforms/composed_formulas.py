"""Formulas of formulas: a kernel that computes a formula also computes the formulas that it reads.
Otherwise a separate kernel would first write each of them: the computed indices of a lookup, for
example, or the place of an element before the element itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from mirage.semantics.integers import Integers
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.computed_integers import formulas_of, in_memory
from mirage.transforms.formula_writer import FormulaWriter

MOST_AGAIN = 1 << 23
"""The most functions that are recomputed, in about the time of a launch."""


def with_composed_formulas(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with formulas in memory that read no other formulas, if that costs
    little."""
    formulas, stored = formulas_of(graph), in_memory(graph)
    readers: dict[Value, list[Op]] = {}
    for op in graph.ops:
        for v in op.operands:
            readers.setdefault(v, []).append(op)

    def is_alone(value: Value, size: int) -> bool:
        """Return whether only formulas in memory read a value, or it is computed next to them."""
        if value.type.size == size:
            return True
        others = (r.results[0] for r in readers[value])
        return value not in graph.outputs and stored.issuperset(others)

    made: dict[Op, Op] = {}
    for op in graph.ops:
        if op.results[0] not in stored or op.results[0] not in formulas:
            continue
        size = op.results[0].type.size
        inner = {
            v: formulas[v] for v in op.operands
            if v in formulas
            and is_alone(v, size)
            and max(formulas[v].formula.work, 1) * size <= MOST_AGAIN
        }  # fmt: skip
        found = _composed(formulas[op.results[0]], inner) if inner else None
        if found is not None:
            made[op] = formulas[op.results[0]] = found
    if not made:
        return graph
    return without_dead_ops(replace(graph, ops=tuple(made.get(op, op) for op in graph.ops)))


def _composed(op: Integers, inner: Mapping[Value, Integers]) -> Integers | None:
    """Return a formula that computes the formulas ``inner``; None if there is none."""
    writer = FormulaWriter(op.result, {}, set(), set(), composed={op.result: op, **inner})
    return writer.formula()
