"""Choices whose outcome is known, either from the ranges of integers (such as positions), or
because an integer that is kept where it is not zero is the same integer everywhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mirage.semantics.bounds.integer_ranges import Range, ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.substitute import rewritten, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, Value


def without_certain_choices(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with each choice replaced by the operand that is always chosen."""
    ranges = ranges_of(graph)
    makers = {v: op for op in graph.ops for v in op.results}
    found = {
        op: _operand(number)
        for op in graph.ops
        if (number := _chosen(op, ranges, makers)) is not None
        and op.operands[number].type == op.result.type
    }
    return without_dead_ops(rewritten(graph, found)) if found else graph


def _operand(number: int) -> Callable[[Builder, Op], Value]:
    return lambda _, op: op.operands[number]


def _chosen(op: Op, ranges: Mapping[Value, Range], makers: Mapping[Value, Op]) -> int | None:
    """Return the number of the operand that an op always returns, or None."""
    if op.function not in (BinaryFn.KEEP, BinaryFn.MAX, BinaryFn.MIN):
        return None
    a, b = op.operands
    if op.function is BinaryFn.KEEP:
        return 1 if ranges.get(a) == (1, 1) or _is_not_zero(a, b, makers) else None
    if not (a.dtype.is_integer and b.dtype.is_integer) or a not in ranges or b not in ranges:
        return None
    if ranges[a][1] <= ranges[b][0]:
        return 0 if op.function is BinaryFn.MIN else 1
    if ranges[b][1] <= ranges[a][0]:
        return 1 if op.function is BinaryFn.MIN else 0
    return None


def _is_not_zero(truth: Value, x: Value, makers: Mapping[Value, Op]) -> bool:
    """Return whether a truth value says that an integer is not zero."""
    op = makers.get(truth)
    if op is None or op.function is not BinaryFn.NE or not x.dtype.is_integer:
        return False
    numbers = [made.number for v in op.operands if (made := makers.get(v)) is not None]
    return x in op.operands and 0 in numbers
