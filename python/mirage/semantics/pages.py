"""Pages of rows, as rows of a longer table.

A paged cache is read by page: ``cache[table]`` with several rows in each page, which then form one
line of rows. Kernels can look rows up by index as they load them, if each row is contiguous in the
table. So a reshape that joins the first dimensions of a row with those of the indices becomes a
lookup in a table of shorter rows: row ``j`` of page ``i`` is row ``i * rows + j`` of that table,
and an index that is outside stays outside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from mirage.semantics.builder import Builder
from mirage.semantics.positions import Lookup, gather, iota
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.signature import signature
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import KernelGraph, Op, Value

_Places = dict[tuple[Value, int, int, tuple[int, ...]], Value]
"""The numbers of rows, by the indices of pages, the number of pages, the rows of each page and the
shape; they are shared, since keys and values are in the same pages."""

MOST_ROWS = 1 << 31
"""The most rows of a table, so that their numbers are far from the ends of i64."""


_DEEPEST = 8  # ops from the number of a row to its page


def rows_of_pages(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with lookups of rows in place of reshapes of lookups of pages; the same
    object if there are none."""
    # lookups in a table; others have no operands
    pages = {op.result: op for op in graph.ops if isinstance(op, Lookup) and op.names_rows}
    same: dict[Value, Value] = {}
    places: _Places = {}
    ops: list[Op] = []
    for op in graph.ops:
        page = pages.get(op.operands[0]) if op.renames and op.result not in graph.outputs else None
        build = Builder()
        found = None if page is None else _rows(build, page, op.result.shape, places)
        if found is None:
            operands = tuple(same.get(v, v) for v in op.operands)
            ops.append(with_operands(op, operands))
        else:
            ops += build.ops
            same[op.result] = found
    if not same:
        return graph
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs))


def _rows(b: Builder, page: Op, shape: tuple[int, ...], places: _Places) -> Value | None:
    """Return the rows that ``page`` looks up, in another shape, in which fewer dimensions belong to
    a row."""
    table, index = page.operands
    row = table.shape[1:]
    if shape[max(0, len(shape) - len(row)) :] == row:
        return None  # whole pages
    for joined in range(1, len(row)):
        inner = row[joined:]
        lead = shape[: max(0, len(shape) - len(inner))]
        rows = prod(row[:joined])
        fits = shape[len(lead) :] == inner and prod(lead) == index.type.size * rows
        if lead and fits and rows > 1 and table.shape[0] * rows <= MOST_ROWS:
            key = index, table.shape[0], rows, lead
            if key not in places:
                places[key] = _numbers(b, *key)
            # rows before the first one count from the end if pages count from there
            from_end = page.names_rows is not None and page.names_rows.from_end
            all_rows = b.reshape(table, (table.shape[0] * rows, *inner))
            return gather(b, all_rows, places[key], from_end=from_end)
    return None


def _numbers(b: Builder, index: Value, pages: int, rows: int, lead: tuple[int, ...]) -> Value:
    """Return the numbers of the rows of all pages. Pages far outside of the table get the numbers
    of rows just outside, since multiples of arbitrary integers could wrap around."""
    if index.dtype is DType.I64:
        for fn, nearest in ((BinaryFn.MAX, -pages - 1), (BinaryFn.MIN, pages)):
            index = b.binary(fn, index, b.constant(nearest, DType.I64))
    else:
        index = b.cast(index, DType.I64)
    return _multiples(b, index, rows, lead)


def _multiples(b: Builder, index: Value, rows: int, lead: tuple[int, ...]) -> Value:
    own = b.reshape(index, (index.type.size, 1))
    first = b.binary(BinaryFn.MUL, own, b.constant(rows, DType.I64))
    line = b.reshape(iota(b, (rows,), 0, DType.I64), (1, rows))
    return b.reshape(b.binary(BinaryFn.ADD, first, line), lead)


def of_any_pages(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with the numbers of rows without the limits of :func:`rows_of_pages`, as in
    exact arithmetic, where nothing wraps around: the limits only replace numbers outside of a table
    by others outside."""
    makers = {v: op for op in graph.ops for v in op.results}
    ops: list[Op] = []
    for op in graph.ops:
        found = _page_of(op, makers) if isinstance(op, Lookup) and op.names_rows else None
        if found is None:
            ops.append(op)
            continue
        b = Builder()
        numbers = _multiples(b, *found, op.operands[1].shape)
        ops += [*b.ops, with_operands(op, (op.operands[0], numbers))]
    if len(ops) == len(graph.ops):
        return graph
    return without_dead_ops(replace(graph, ops=tuple(ops)))


def _page_of(lookup: Op, makers: Mapping[Value, Op]) -> tuple[Value, int] | None:
    """Return the pages whose rows are looked up by the numbers that :func:`rows_of_pages` computes,
    and the rows of each; None if the numbers are computed in another way."""
    table, numbers = lookup.operands
    ops = _made_of(numbers, makers)
    limited = [op.operands[0] for op in ops if op.function is BinaryFn.MAX]
    if len(limited) != 1 or limited[0].dtype is not DType.I64:
        return None
    (index,) = limited
    rows = numbers.type.size // index.type.size
    if numbers.type.size != index.type.size * rows or table.shape[0] % max(rows, 1):
        return None
    b = Builder()
    result = _numbers(b, index, table.shape[0] // rows, rows, numbers.shape)
    own = _made_of(result, {v: op for op in b.ops for v in op.results})
    expected = KernelGraph("", (index,), own, (result,))
    found = replace(expected, ops=ops, outputs=(numbers,))
    return (index, rows) if signature(expected) == signature(found) else None


def _made_of(value: Value, makers: Mapping[Value, Op]) -> tuple[Op, ...]:
    """Return the ops that compute a value from one with a lower limit, each after its operands."""
    found: dict[Op, None] = {}

    def visit(value: Value, depth: int) -> None:
        op = makers.get(value)
        if op is None or op in found or depth > _DEEPEST:
            return
        for operand in op.operands[op.function is BinaryFn.MAX :]:
            visit(operand, depth + 1)
        found[op] = None

    visit(value, 0)
    return tuple(found)
