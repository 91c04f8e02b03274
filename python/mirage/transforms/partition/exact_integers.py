"""Integers and truth values: the ops that kernels compute as floats, those that they compute with
exact integers, and those that PyTorch does.

Tiles hold whole numbers as f32, exactly up to 2^24. So a kernel computes with an integer, and
writes it for readers that expect one (the program's caller, lookups, calls), if its range is known
to lie within that: positions and values computed from them, truth values, bytes, counts (the range
of a sum is that of its terms, times their number, and no partial sum exceeds it). An index is
written only if it is known to be inside of its table: others are exact arithmetic, whose result a
program can check before a kernel looks it up (:mod:`mirage.transforms.partition.checked_indices`).
All other ops on integers are exact arithmetic in 64 bits, if they compute element by element
(:mod:`mirage.transforms.partition.integer_regions`) or are totals, such as a sum of token ids
(:mod:`mirage.semantics.integer_totals`), and calls otherwise.
Conversions that may change a number (to integers from floats that are not known to be whole, or to
narrower integers) are calls as well, and so are ops whose result may leave its type (`i * i` of
bytes): it wraps around, which f32 does not.

Some ops work in kernels for any integer. One is comparing it with a number whose range is known
(`arange(n) <= position`) and below 2^24. Rounding to f32 keeps the order of integers, is exact up
to 2^24, and never moves a larger number below 2^24, so the answer is the same. (2^24 itself is the
rounded 2^24 + 1.) Other integers are compared in parts
(:mod:`mirage.transforms.partition.integers_in_parts`). Choices among integers are treated like
comparisons. Conversions of integers to floats round to f32 first, in kernels and in PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from mirage.semantics.bounds.integer_ranges import Range, may_wrap, ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.integer_totals import IntegerTotal, exact_total
from mirage.semantics.ops.op import NamedRows
from mirage.semantics.positions import MAX_POSITIONS
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import (
    Boundary,
    Contraction,
    Cumulation,
    Elementwise,
    KernelGraph,
    Op,
    Source,
    Structure,
    Value,
    View,
)
from mirage.transforms.partition.beside_totals import beside_totals
from mirage.transforms.partition.calls import calls_of
from mirage.transforms.partition.clamped_numbers import clamped_numbers, converts_whole_numbers
from mirage.transforms.partition.integer_regions import Regions, regions_of
from mirage.transforms.partition.integers_in_parts import compared_in_parts, largest_magnitude
from mirage.transforms.partition.moved_terms import with_moved_terms


def integers_as_calls(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with formulas of exact integers, and calls, in place of the ops on integers
    that kernels do not compute as floats."""
    if not any(v.dtype.is_integer for op in graph.ops for v in (*op.operands, *op.results)):
        return graph
    ranges = ranges_of(graph)
    solved = with_moved_terms(graph, ranges)
    if solved is not graph:
        graph, ranges = solved, ranges_of(solved)
    in_parts = compared_in_parts(graph, ranges)
    if in_parts is not graph:
        graph, ranges = in_parts, ranges_of(in_parts)
    graph = _with_whole_casts(graph, ranges)
    outside = {v for op in graph.ops if isinstance(op, Boundary) for v in op.operands}
    outside.update(graph.outputs)
    rows = _rows_of_tables(graph)
    called: set[Op] = set()
    for op in reversed(graph.ops):
        if isinstance(op, Boundary | Structure):
            continue
        integers = [v for v in (*op.operands, *op.results) if v.dtype.is_integer]
        exported = [v for v in op.results if v.dtype.is_integer and v in outside]
        if exported and op.number is not None:  # calls take numbers from the CPU
            called.add(op)
            continue
        written = all(_is_written(ranges[v], rows.get(v, ())) for v in exported)
        if integers and not (written and _in_kernels(op, ranges)):
            called.add(op)
            outside.update(op.operands)
    called |= beside_totals(graph, called)
    totals = {op: made for op in called if (made := exact_total(op)) is not None}
    regions = regions_of(graph, called)
    if not called and not regions.formulas:
        return graph
    found = replace(graph, ops=_with_calls(graph, called, regions, totals))
    return without_dead_ops(found) if regions.formulas else found


def _with_calls(
    graph: KernelGraph, called: set[Op], regions: Regions, totals: Mapping[Op, IntegerTotal]
) -> tuple[Op, ...]:
    """Return the ops with calls in place of some of them, and formulas in place of others. Kernels
    have their own numbers and read none that PyTorch makes."""
    in_kernels = {
        op for op in graph.ops if op not in called and not isinstance(op, Boundary | Structure)
    }
    read = {v for op in in_kernels for v in op.operands}
    own: dict[Value, Value] = {}
    ops: list[Op] = []
    for op in graph.ops:
        if op in regions.formulas:
            ops.append(regions.formulas[op])
        elif op in regions.inside:
            continue
        elif op in totals:
            ops.append(totals[op])
        elif op in called:
            ops.extend(calls_of(op))
            if op.number is not None and op.result in read:
                own[op.result] = Value(op.result.type)
                ops.append(replace(op, results=(own[op.result],)))
        elif op in in_kernels and not own.keys().isdisjoint(op.operands):
            ops.append(with_operands(op, tuple(own.get(v, v) for v in op.operands)))
        else:
            ops.append(op)
    return tuple(ops)


def _rows_of_tables(graph: KernelGraph) -> dict[Value, list[NamedRows]]:
    """Return the tables whose rows each index names."""
    rows: dict[Value, list[NamedRows]] = {}
    for op in graph.ops:
        for named in op.named_indices:
            rows.setdefault(named.index, []).append(named)
    return rows


def _is_written(known: Range, rows: Sequence[NamedRows] = ()) -> bool:
    """Return whether kernels may write an integer: one that f32 holds, and that is the number of a
    row of each table that it is an index of (``rows``)."""
    if rows:
        return all(table.hold(*known) for table in rows)
    return max(map(abs, known)) <= MAX_POSITIONS


def _with_whole_casts(graph: KernelGraph, ranges: dict[Value, Range]) -> KernelGraph:
    """Return ``graph`` with conversions to integers stated as exact where the numbers are known to
    be whole, small and in the type's range, or NaN."""
    clamped = clamped_numbers(graph)

    def stated(op: Op) -> Op:
        if not (isinstance(op, Elementwise) and op.cuts):
            return op
        small = not may_wrap(op, ranges) and (
            largest_magnitude(op.operands[0], ranges) <= MAX_POSITIONS
        )
        if not small and not (op.result.dtype.bits <= 16 and converts_whole_numbers(op, clamped)):
            return op
        build = Builder()
        build.cast(op.operands[0], op.result.dtype, whole=True)
        return replace(build.ops[-1], results=op.results)

    ops = tuple(map(stated, graph.ops))
    return graph if ops == graph.ops else replace(graph, ops=ops)


def _in_kernels(op: Op, ranges: dict[Value, Range]) -> bool:
    """Return whether kernels compute an op on integers."""
    if op.cut_at is not None or (isinstance(op, Elementwise) and op.cuts):
        return False  # those that are copied are copied as floats
    if not isinstance(op, View | Elementwise | Source | Contraction | Cumulation):
        return False
    integers = [v for v in (*op.operands, *op.results) if v.dtype.is_integer]
    small = [largest_magnitude(v, ranges) for v in integers]
    if isinstance(op, View) or (isinstance(op, Elementwise) and op.identity):
        return True  # those of large ones that kernels read are compared, or become floats
    compared = all(v.dtype.is_integer for v in op.operands)
    fn = getattr(op, "fn", None)
    if compared and fn in (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE):
        return min(small[:2]) < MAX_POSITIONS
    if fn is BinaryFn.KEEP:  # the same holds for chosen ones
        return True
    return not may_wrap(op, ranges) and all(end <= MAX_POSITIONS for end in small)
