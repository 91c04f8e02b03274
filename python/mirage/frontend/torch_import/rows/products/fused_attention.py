"""Attention as a single op."""

from __future__ import annotations

from mirage.frontend.torch_import.rows.elements.comparisons import bias
from mirage.frontend.torch_import.rows.lowering import Lowering, wide
from mirage.frontend.torch_import.rows.reductions.reductions import any_of_rows
from mirage.frontend.torch_import.rows.seen_rows import has_no_empty_row
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import Value


def attention(b: Lowering, c: Call) -> Value:
    """``op(q, k, v, mask, dropout, causal, scale, enable_gqa)``. Scores are in f32, and weights in
    the type of values, as PyTorch's kernels have them. A row that attends to no key is zero, as in
    PyTorch when a mask is given; a softmax over nothing would be 0 / 0."""
    q, k, v, mask = c.value(0), c.value(1), c.value(2), c.optional(3)
    if c.number(4, 0.0) != 0.0:
        raise Unsupported("dropout; pass dropout_p=0.0")
    shape = (*q.shape[:-1], v.shape[-1])
    rows, cols = q.shape[-2], k.shape[-2]
    grouped = c.arg(7, False) and q.shape[-3] != k.shape[-3]
    groups = k.shape[-3] if grouped else 1
    if grouped:
        # Query heads of a group are rows of one matrix, so that keys and values are not repeated.
        q = b.reshape(q, (*q.shape[:-3], groups, q.shape[-3] // groups * rows, q.shape[-1]))
    scores = b.product(wide(b, q), b.swapped(wide(b, k), -1, -2))
    scores = b.combine(BinaryFn.MUL, scores, c.number(6, float(q.shape[-1]) ** -0.5))
    masks = [] if mask is None else _additive(b, mask, scores.dtype)
    if c.arg(5):  # rows and columns both count from the first one
        row, col = b.grid(rows, cols)
        masks.append(bias(b, b.binary(BinaryFn.LE, col, row), scores.dtype))
    whole = scores.shape
    if masks and grouped:
        heads = whole[-2] // rows
        scores = b.reshape(scores, (*whole[:-2], heads, rows, cols))
        masks = [_by_groups(b, m, groups, heads) for m in masks]
    for m in masks:
        scores = b.binary(BinaryFn.ADD, scores, m)
    weights = b.reshaped(b.typed(b.softmax(scores, -1), v.dtype), whole)
    y = b.reshaped(b.product(weights, v), shape)
    if mask is None or mask.dtype is not DType.I1 or has_no_empty_row(b, mask):
        return y
    return b.binary(BinaryFn.KEEP, any_of_rows(b, mask), y)


def _additive(b: Lowering, mask: Value, dtype: DType) -> list[Value]:
    """Return the biases that a mask adds to the scores; none if the mask is known to have no
    effect."""
    number = b.number_of(mask)
    if mask.dtype is DType.I1:
        return [] if number == 1 else [bias(b, mask, dtype)]
    return [] if number == 0 else [mask]


def _by_groups(b: Lowering, mask: Value, groups: int, heads: int) -> Value:
    """Convert a mask for (head, row, column) to one for (group, head in the group, row, column)."""
    if len(mask.shape) < 3:
        return mask
    own = (groups, heads) if mask.shape[-3] != 1 else (1, 1)
    return b.reshape(mask, (*mask.shape[:-3], *own, *mask.shape[-2:]))
