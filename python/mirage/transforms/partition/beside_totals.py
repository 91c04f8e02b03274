"""Reductions of numbers that follow from rows of integers and from their exact totals.

The place of the largest of large integers is a maximum of small ones, which kernels compute as
floats. But a kernel that has the total of a row has the row, too: if it computes both, the row is
read once (:mod:`mirage.transforms.integer_rows`). So such reductions become exact as well, with all
ops between them and the total, and with all values that depend only on them.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Set

from mirage.semantics.integer_totals import IntegerTotal, exact_total
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.ugraph import Elementwise, KernelGraph, View
from mirage.transforms.partition.integer_regions import has_formula


def beside_totals(graph: KernelGraph, called: Set[Op]) -> set[Op]:
    """Return the ops that become exact because of a total that would be ``called`` otherwise."""
    made = {v: op for op in graph.ops for v in op.results}
    totals: dict[Value, IntegerTotal] = {}
    own: set[Value] = set()
    found: set[Op] = set()
    for op in graph.ops:
        total = exact_total(op)
        if total is not None and op in called:
            totals[op.result] = total
        elif total is not None and total.over:
            steps = _steps(total, made, totals)
            if steps:
                found.update((op, *steps))
                totals[op.result] = total
                own.add(op.result)
        elif has_formula(op) and _is_of(op, own, made):
            found.add(op)
            own.update(op.results)
    return found - called


def _is_of(op: Op, own: Container[Value], made: Mapping[Value, Op]) -> bool:
    """Return whether an op computes with these values, and otherwise only with numbers."""
    others = [v for v in op.operands if v not in made or made[v].number is None]
    return bool(others) and all(v in own for v in others)


def _steps(
    total: IntegerTotal,
    made: Mapping[Value, Op],
    totals: Mapping[Value, IntegerTotal],
) -> list[Op]:
    """Return the ops on integers between a reduction and an earlier total of the same number of
    rows; nothing if there is none, or if one of the ops is not a step of a formula."""
    steps: dict[Op, None] = {}
    reaches = False
    waiting = list(total.operands)
    while waiting:
        value = waiting.pop()
        before = totals.get(value)
        op = made.get(value)
        if before is not None:
            reaches |= before.over == total.over and _rows(before) == _rows(total)
        elif isinstance(op, View):
            waiting.extend(op.operands)
        elif isinstance(op, Elementwise) and op.number is None and op not in steps:
            if not has_formula(op) or not all(v.dtype.is_integer for v in op.operands):
                return []
            steps[op] = None
            waiting.extend(op.operands)
    return list(steps) if reaches else []


def _rows(total: IntegerTotal) -> tuple[int, ...]:
    return total.operands[0].shape
