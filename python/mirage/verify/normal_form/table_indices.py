"""Indices that the reference looks rows up with name rows, wherever it is defined.

So they are not below zero, and what a candidate would do if they were is not looked at: counting
them from the end of the table, say.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from mirage.semantics.op import Elementwise, Lookup, Op, Value, View
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.substitute import rename_graph, without_dead_ops
from mirage.semantics.ugraph import KernelGraph


def looked_up_with(reference: KernelGraph) -> frozenset[int]:
    """The inputs, by number, that the reference looks rows up with as they are."""
    numbers = {v: i for i, v in enumerate(reference.inputs)}
    for op in reference.ops:
        if isinstance(op, View) and op.operands[0] in numbers:
            numbers[op.results[0]] = numbers[op.operands[0]]
    lookups = (op for op in reference.ops if isinstance(op, Lookup) and op.operands)
    return frozenset(numbers[op.operands[-1]] for op in lookups if op.operands[-1] in numbers)


def not_below_zero(graph: KernelGraph, inputs: Set[int]) -> KernelGraph:
    """``graph`` without what it does where these inputs are below zero."""
    at_least_zero = {graph.inputs[i] for i in inputs}
    numbers = {v: op.number for op in graph.ops for v in op.results if op.number is not None}
    zero: set[Value] = set()
    names: dict[Value, Value] = {}
    for op in graph.ops if inputs else ():
        if isinstance(op, View) and op.operands[0] in at_least_zero:
            at_least_zero.update(op.results)
        elif _is_zero(op, zero):
            zero.update(op.results)
        elif op.function is BinaryFn.LT and op.operands[0] in at_least_zero:
            bound = numbers.get(op.operands[1])
            if bound is not None and bound <= 0:
                zero.update(op.results)
        elif op.function is BinaryFn.ADD and not zero.isdisjoint(op.operands):
            (result,) = op.results
            rest = [v for v in op.operands if v not in zero]
            if len(rest) == 1 and rest[0].type == result.type:
                names[result] = names.get(rest[0], rest[0])
    if not names:
        return graph
    kept = tuple(op for op in graph.ops if not names.keys() & set(op.results))
    return without_dead_ops(rename_graph(replace(graph, ops=kept), names))


def _is_zero(op: Op, zero: Set[Value]) -> bool:
    """Whether all elements of the result are zero."""
    if op.function in (BinaryFn.MUL, BinaryFn.KEEP, BinaryFn.AND):
        return not zero.isdisjoint(op.operands)
    same = isinstance(op, View) or (isinstance(op, Elementwise) and op.identity)
    return same and bool(op.operands) and op.operands[0] in zero
