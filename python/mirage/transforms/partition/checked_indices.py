"""Indices that a program computes, and that may be outside of their tables.

A program can be asked to check its indices before kernels read them
(:mod:`mirage.runtime.arguments.index_check`): those that are operands of the kernels of a part. So
a computed index that may be outside ends a part, and the kernels that look it up are in a later
one. Only exact arithmetic computes such indices; kernels write no integer that they hold as a
float, if it may be outside (:mod:`mirage.transforms.partition.exact_integers`).
"""

from __future__ import annotations

from collections.abc import Iterator

from mirage.semantics.bounds.formula_ranges import formula_range
from mirage.semantics.bounds.integer_ranges import Range, known_range, range_of
from mirage.semantics.ops.op import NamedRows, Op, Value
from mirage.semantics.ugraph import KernelGraph, Launch, Source, View, all_ops, launches


def checked_indices(graph: KernelGraph) -> frozenset[Value]:
    """Return the indices that exact arithmetic computes, other than those that are known to be
    inside of all tables whose rows they name; both before and after kernels are chosen."""
    exact = _exact_values(graph)
    named = [(v, rows) for v, rows in _named(graph) if v in exact]
    if not named:
        return frozenset()
    ranges = _ranges(graph)
    return frozenset(v for v, rows in named if not rows.hold(*ranges[v]))


def _exact_values(graph: KernelGraph) -> set[Value]:
    """Return the results of exact arithmetic, which kernels do not convert."""
    found = {v for op in graph.ops if op.arithmetic or op.as_floats is not op for v in op.results}
    for launch in launches(graph.ops):
        tiles = zip(launch.results, launch.ends, strict=True)
        found.update(v for v, tile in tiles if tile.dtype.is_number)
    return found


def _named(graph: KernelGraph) -> Iterator[tuple[Value, NamedRows]]:
    """Yield the indices of a graph, without the views of them, with the rows that they name."""
    sources = {op.result: op.operands[0] for op in graph.ops if isinstance(op, View)}
    for launch in launches(graph.ops):
        sources.update(zip(launch.body.params, launch.operands, strict=True))
    for op in all_ops(graph.ops):
        for rows in op.named_indices:
            value = rows.index
            while value in sources:
                value = sources[value]
            yield value, rows


def _ranges(graph: KernelGraph) -> dict[Value, Range]:
    """Return the known ranges of values, including those of kernels."""
    ranges: dict[Value, Range] = {}
    kernels: dict[Op, Launch] = {op: op for op in launches(graph.ops)}
    for op in graph.ops:
        if op in kernels:
            _add_kernel(kernels[op], ranges)
        else:
            _add(op, ranges)
    return ranges


def _add_kernel(launch: Launch, ranges: dict[Value, Range]) -> None:
    for param, value in zip(launch.body.params, launch.operands, strict=True):
        ranges[param] = known_range(value, ranges)
    for op in launch.body.ops:
        _add(op, ranges)
    for value, tile in zip(launch.results, launch.ends, strict=True):
        ranges[value] = known_range(tile, ranges)


def _add(op: Op, ranges: dict[Value, Range]) -> None:
    """Add the ranges of the results of an op; tiles of floats have none."""
    given = [known_range(v, ranges) for v in op.operands]
    for v in op.results:
        if op.arithmetic is not None:
            ranges[v] = formula_range(*op.arithmetic, op.operands, given)
        elif not isinstance(op, Source):
            ranges[v] = range_of(op, v, given)
        elif v.dtype.is_number and given:  # a part of a tensor, and zeros beyond its end
            ranges[v] = min(given[0][0], 0), max(given[0][1], 0)
