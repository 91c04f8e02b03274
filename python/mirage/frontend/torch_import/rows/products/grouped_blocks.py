"""Products of many rows with the weights of their experts, in blocks of one expert each.

The rows of a group are laid into blocks with the same number of rows; the rest of a group's last
block repeats some row, whose product nothing reads. Each block is then multiplied with the weights
of its expert, and the result's rows are looked up at their places in the blocks. Results on which
only elementwise ops are computed, before they are multiplied again in the same groups, stay in
blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from typing import TypeAlias

from mirage.frontend.torch_import.rows.lowering import Layout, Lowering
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.positions import gather, index_of, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Elementwise

LARGE_BLOCK, SMALL_BLOCK = 128, 64
ROWS_OF_LARGE = 1.5
"""From so many large blocks in an average group on, fewer reads of factors outweigh more padding: a
prompt of DeepSeek-V2-Lite with 2048 tokens (64 experts, 192 rows each) took 33.3 ms on an H200, in
small blocks 34.2 (``torch.compile`` 30.5 and 29.9 in the same two runs)."""


Look: TypeAlias = "Callable[[Value, Value], Value]"


def grouped_product(b: Lowering, x: Value, weights: Value, ends: Value, looked_up: Look) -> Value:
    """Return the products of rows with the weights of the groups that end at ``ends``; rows after
    the last end are zero. ``looked_up(table, index)`` gives the weights of blocks."""
    rows, experts = x.shape[0], weights.shape[0]
    key = ends, rows, experts
    if key not in b.layouts:
        b.layouts[key] = _layout(b, ends, rows, experts)
    layout = b.layouts[key]
    made = {v: op for op in b.ops for v in op.results}
    inner = _in_blocks(b, x, layout, made) or _laid(b, x, layout, made)
    product = b.matmul(inner, looked_up(weights, layout.owner))
    # zeros in blocks without a row, so that kernels need not multiply there
    product = b.binary(BinaryFn.KEEP, b.combine(BinaryFn.LT, 0, layout.later), product)
    width = weights.shape[2]
    y = gather(b, b.reshape(product, (layout.count * layout.size, width)), layout.place)
    result = b.binary(BinaryFn.KEEP, layout.inside, y)
    b.blocked[result] = layout, product
    return result


def _layout(b: Lowering, ends: Value, rows: int, experts: int) -> Layout:
    """All numbers are counts, of comparisons with the ends: whole and small, whatever these are."""
    size = LARGE_BLOCK if rows >= ROWS_OF_LARGE * LARGE_BLOCK * experts else SMALL_BLOCK
    count = min((rows + experts * (size - 1)) // size, rows)
    line = iota(b, (rows,), 0, ends.dtype)
    column = b.reshape(ends, (experts, 1))
    before = b.binary(BinaryFn.LT, line, column)  # the rows before each end
    end = b.reduce(ReduceFn.SUM, b.typed(before, DType.F32), (1,))
    passed = b.typed(b.binary(BinaryFn.LE, column, line), DType.F32)
    own = b.reduce(ReduceFn.SUM, passed, (0,))  # the expert of each row: the ends that it passed
    number = b.typed(iota(b, (experts,), 0), DType.F32)
    expert, other = b.reshape(number, (experts, 1)), b.reshape(number, (1, experts))
    is_next = b.binary(BinaryFn.EQ, b.combine(BinaryFn.ADD, other, 1), expert)
    start = _chosen(b, is_next, b.reshape(end, (1, experts)), 1)
    blocks = b.combine(BinaryFn.ADD, b.binary(BinaryFn.SUB, end, start), size - 1)
    blocks = b.unary(UnaryFn.FLOOR, b.combine(BinaryFn.MUL, blocks, Fraction(1, size)))
    so_far = b.binary(BinaryFn.LE, other, expert)
    last = _chosen(b, so_far, b.reshape(blocks, (1, experts)), 1)  # blocks up to each expert's
    first = b.combine(BinaryFn.MUL, b.binary(BinaryFn.SUB, last, blocks), size)
    shift = b.binary(BinaryFn.SUB, first, start)
    block = b.typed(iota(b, (count,), 0), DType.F32)
    owner = b.typed(b.binary(BinaryFn.LE, last, b.reshape(block, (1, count))), DType.F32)
    owner = b.combine(BinaryFn.MIN, b.reduce(ReduceFn.SUM, owner, (0,)), experts - 1)
    later = b.typed(b.binary(BinaryFn.LT, b.reshape(block, (1, count)), last), DType.I64)
    later = b.reduce(ReduceFn.SUM, later, (0,))  # the experts that have rows from a block on
    moved = _chosen(b, b.binary(BinaryFn.EQ, expert, owner), shift, 0)
    corner = b.combine(BinaryFn.MUL, b.reshape(block, (1, count)), size)
    corner = b.reshape(b.binary(BinaryFn.SUB, corner, moved), (count, 1))
    within = b.typed(b.reshape(iota(b, (size,), 0), (1, size)), DType.F32)
    laid = _limited(b, b.binary(BinaryFn.ADD, corner, within), rows)
    place = _chosen(b, b.binary(BinaryFn.EQ, expert, own), shift, 0)
    place = b.binary(BinaryFn.ADD, b.reshape(b.typed(line, DType.F32), (1, rows)), place)
    inside = b.combine(BinaryFn.LT, b.reshape(own, (rows, 1)), experts)
    return Layout(
        count,
        size,
        b.cast(b.reshape(owner, (count,)), DType.I64),
        b.reshape(later, (count, 1, 1)),
        b.cast(laid, DType.I64),
        b.cast(b.reshape(_limited(b, place, count * size), (rows,)), DType.I64),
        inside,
    )


def _chosen(b: Lowering, where: Value, numbers: Value, dim: int) -> Value:
    """Sum the numbers along a dimension where a condition holds."""
    return b.reduce(ReduceFn.SUM, b.binary(BinaryFn.KEEP, where, numbers), (dim,))


def _limited(b: Lowering, numbers: Value, size: int) -> Value:
    return b.combine(BinaryFn.MIN, b.combine(BinaryFn.MAX, numbers, 0), size - 1)


def _laid(b: Lowering, x: Value, layout: Layout, made: Mapping[Value, Op]) -> Value:
    """Lay rows into blocks. For rows that are looked up, the indices are laid into blocks."""
    op = made.get(x)
    index = None if op is None else index_of(op)
    if op is not None and op.names_rows is not None and index is not None and len(index.shape) == 1:
        rows = gather(b, index, layout.rows)
        return gather(b, op.operands[0], rows, from_end=op.names_rows.from_end)
    return gather(b, x, layout.rows)


def _in_blocks(b: Lowering, x: Value, layout: Layout, made: Mapping[Value, Op]) -> Value | None:
    """Return ``x`` computed in blocks, if it is computed row by row from products in the same
    layout and numbers; None otherwise."""
    if x in b.blocked:
        own, value = b.blocked[x]
        return value if own is layout else None
    op = made.get(x)
    if op is None or len(op.results) != 1 or len(x.shape) != 2:
        return None
    shape = (layout.count, layout.size, x.shape[1])
    result = Value(TensorType(shape, x.dtype))
    if op.cut_at is not None and op.operands[0].shape[0] == x.shape[0]:
        inner = _in_blocks(b, op.operands[0], layout, made)
        return None if inner is None else b.slice(inner, (0, 0, op.cut_at[1]), shape)
    if not isinstance(op, Elementwise) or op.cuts:
        return None
    operands: list[Value] = []
    for v in op.operands:
        inner = v if not v.shape else _in_blocks(b, v, layout, made)
        if inner is None or (v.shape and v.shape != x.shape):
            return None
        operands.append(inner)
    b.ops.append(replace(op, operands=tuple(operands), results=(result,)))
    b.blocked[x] = layout, result
    return result
