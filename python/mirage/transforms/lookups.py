"""Positions, gathered rows and arithmetic on integers computed by the kernels that load them.

Until the kernels are chosen, a lookup is a tensor like any other. Then the launches that load one
get its operands instead and determine the elements themselves. If something else reads it (a call
of PyTorch, the caller), a separate kernel computes integers
(:mod:`mirage.transforms.computed_integers`) or writes rows (:mod:`mirage.transforms.written_rows`);
positions become a call.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from math import prod

from mirage.semantics.integer_formula import CONSTANT, LOAD, PICK, TABLE, Formula, Step
from mirage.semantics.integers import Integers
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.positions import Lookup
from mirage.semantics.scalar import DType
from mirage.semantics.substitute import without_dead_ops
from mirage.semantics.ugraph import (
    BlockGraph,
    External,
    KernelGraph,
    Launch,
    Load,
    Reshape,
    Slice,
    Structure,
    launches,
)
from mirage.transforms.composed_formulas import with_composed_formulas
from mirage.transforms.computed_integers import (
    integers_without_views,
    lines_of,
    read_from_memory,
    with_stored_integers,
)
from mirage.transforms.integer_kernels import with_integer_kernels
from mirage.transforms.written_rows import gathers_of, with_written_rows


def fused(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with launches that compute the lookups that they load."""
    graph = integers_without_views(rows_without_views(with_integer_kernels(graph)))
    graph = with_stored_integers(with_composed_formulas(with_written_rows(graph)))
    lookups = {op.result: op for op in graph.ops if isinstance(op, Lookup) and op.in_tiles}
    if not lookups:
        return graph
    made: dict[Op, Op] = {
        op: _Fused(op, lookups, lines_of(graph)).run()
        for op in launches(graph.ops)
        if lookups.keys() & set(op.operands)
    }
    ops = tuple(made.get(op, op) for op in graph.ops)
    return with_own_views(without_dead_ops(replace(graph, ops=ops)))


def with_own_views(graph: KernelGraph) -> KernelGraph:
    """Turn calls that view a tensor into views if only kernels read them, which is the case once
    kernels look up its rows."""
    ops: list[Op] = []
    others, kernels = set(graph.outputs), set(launches(graph.ops))
    for op in reversed(graph.ops):
        view = _view(op)
        view = None if view is None or view.result in others else view
        ops.append(view or op)
        if op not in kernels and view is None:
            others.update(op.operands)
    return replace(graph, ops=tuple(reversed(ops)))


def _view(op: Op) -> Op | None:
    """Return the view that a call makes; None for other ops."""
    if not isinstance(op, External):
        return None
    given = dict(op.arguments)
    match op.target, given.get("dim"), given.get("start"):
        case "aten.reshape.default", _, _:
            return Reshape(op.operands, op.results)
        case "aten.narrow.default", int(dim), int(start):
            offsets = tuple(start if d == dim else 0 for d in range(len(op.result.shape)))
            return Slice(op.operands, op.results, offsets)
        case _:
            return None


def rows_without_views(graph: KernelGraph) -> KernelGraph:
    """Turn reshapes of gathered rows that keep each row, or have one element of each, into reshapes
    of the indices."""
    made = gathers_of(graph)
    ops: list[Op] = []
    changed = False
    for op in graph.ops:
        source = made.get(op.operands[0]) if op.renames else None
        if source is not None:
            table, indices = source.operands
            row = table.shape[1:]
            shape = op.result.shape[: len(op.result.shape) - len(row)]
            if shape and op.result.shape[len(shape) :] == row and prod(shape) == indices.type.size:
                value = Value(replace(indices.type, shape=shape))
                ops.append(Reshape((indices,), (value,)))
                op = made[op.result] = replace(source, operands=(table, value), results=op.results)
                changed = True
            elif source.in_tiles and row == (1,) and op.result.shape and not source.from_end:
                value = Value(replace(indices.type, shape=op.result.shape))
                ops.append(Reshape((indices,), (value,)))
                op = _elements(table, value, op.result)
                changed = True
        ops.append(op)
    return without_dead_ops(replace(graph, ops=tuple(ops))) if changed else graph


def _elements(table: Value, index: Value, result: Value) -> Integers:
    """Return the elements of the only column of a table."""
    dims = tuple(-1 if n == 1 else d for d, n in enumerate(result.shape))
    steps = (
        Step(TABLE, (2,)), Step(LOAD, dims), Step(CONSTANT, (0,), DType.I64),
        Step(PICK, (0, 1, 2), table.dtype),
    )  # fmt: skip
    return Integers((table, index), (result,), Formula(steps))


class _Fused:
    def __init__(
        self, launch: Launch, lookups: dict[Value, Lookup], lines: Container[Value]
    ) -> None:
        self.launch, self.lines = launch, lines
        outside = zip(launch.body.params, launch.operands, strict=True)
        kept = read_from_memory(launch)
        self.lookups = {p: lookups[v] for p, v in outside if v in lookups and p not in kept}
        self.params: dict[Value, Value] = {  # the numbers of the new launch's operands
            v: p
            for p, v in zip(launch.body.params, launch.operands, strict=True)
            if p not in self.lookups
        }

    def run(self) -> Launch:
        body = self.launch.body
        ops = tuple(map(self._op, body.ops))
        graph = BlockGraph(tuple(self.params.values()), ops, body.outputs)
        return replace(self.launch, operands=tuple(self.params), body=graph)

    def _op(self, op: Op) -> Op:
        if isinstance(op, Structure):
            return op.rebuilt(tuple(map(self._op, op.inside)), lambda v: v)
        if not isinstance(op, Load) or op.operands[0] not in self.lookups:
            return op
        lookup = self.lookups[op.operands[0]]
        return lookup.tile(op.result, op.map, self._param, self.lines)

    def _param(self, value: Value) -> Value:
        return self.params.setdefault(value, Value(value.type, value.name))
