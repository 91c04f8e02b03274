"""Rows of torch ops that move elements."""

from __future__ import annotations

from mirage.frontend.torch_import.rows.elements.comparisons import choose
from mirage.frontend.torch_import.rows.lowering import Lowering, Row
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.builder import normalize_dims
from mirage.semantics.numbers import Number
from mirage.semantics.positions import iota
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import TensorType, Value

MOST_WINDOWED = 64
"""The most elements of a window that does not become a reshape: each requires a slice."""


def _reshape(b: Lowering, c: Call) -> Value:
    """Any op that keeps the row-major order of the elements; the result's shape determines it."""
    return b.reshaped(c.value(0), c.result.shape)


def _expand(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    return x if x.shape == c.result.shape else b.broadcast(x, c.result.shape)


def _permute(b: Lowering, c: Call) -> Value:
    return b.permuted(c.value(0), c.integers(1))


def _transpose(b: Lowering, c: Call) -> Value:
    return b.swapped(c.value(0), c.integer(1), c.integer(2))


def _matrix_transpose(b: Lowering, c: Call) -> Value:
    x = c.value(0)
    return x if len(x.shape) < 2 else b.swapped(x, -1, -2)


def _cat(b: Lowering, c: Call) -> Value:
    parts = [b.typed(x, c.result.dtype) for x in c.values(0) if x.type.size]
    if not parts:
        return b.filled(0, c.result)
    return parts[0] if len(parts) == 1 else b.concat(tuple(parts), c.integer(1))


def _stack(b: Lowering, c: Call) -> Value:
    (dim,) = normalize_dims((c.integer(1),), len(c.result.shape))
    parts = [b.typed(x, c.result.dtype) for x in c.values(0)]
    return b.concat(tuple(b.reshape(x, (*x.shape[:dim], 1, *x.shape[dim:])) for x in parts), dim)


def _slice(b: Lowering, c: Call) -> Value:
    """``op(x, dim, start, end, step)``."""
    x = c.value(0)
    dim = c.integer(1)
    start, _, step = slice(
        *(None if c.arg(i) is None else c.integer(i) for i in (2, 3, 4))
    ).indices(x.shape[dim])
    count = c.result.shape[dim]
    return b.cut(x, dim, start, count) if step == 1 else strided(b, x, dim, start, step, count)


def strided(b: Lowering, x: Value, dim: int, start: int, step: int, count: int) -> Value:
    """Return ``count`` (at least one) elements along ``dim``, each ``step`` after the previous one:
    the dimension is split into groups of ``step``, and one column of them is taken.
    """
    (dim,) = normalize_dims((dim,), len(x.shape))
    size, span = x.shape[dim], count * step
    if count == 1:
        return b.cut(x, dim, start, 1)
    if span > size:  # the last group is not complete, wherever groups start
        last = b.cut(x, dim, start + span - step, 1)
        return b.concat((strided(b, x, dim, start, step, count - 1), last), dim)
    column = max(start % step, start + span - size)  # in its group; groups may begin anywhere
    groups = b.cut(x, dim, start - column, span)
    y = b.reshape(groups, (*x.shape[:dim], count, step, *x.shape[dim + 1 :]))
    column_of_groups = b.cut(y, dim + 1, column, 1)
    return b.reshape(column_of_groups, (*x.shape[:dim], count, *x.shape[dim + 1 :]))


def _slice_scatter(b: Lowering, c: Call) -> Value:
    """``op(x, source, dim, start, end, step)``: replace a slice of ``x``; stores into a part of a
    tensor are captured in this form.
    """
    x, source = c.value(0), b.typed(c.value(1), c.value(0).dtype)
    (dim,) = normalize_dims((c.integer(2),), len(x.shape))
    start, stop, step = slice(
        *(None if c.arg(i) is None else c.integer(i) for i in (3, 4, 5))
    ).indices(x.shape[dim])
    if stop <= start:
        return x
    if step != 1:
        return _stored_in_steps(b, x, source, dim, start, step)
    before = _part(b, x, dim, 0, start)
    after = _part(b, x, dim, stop, x.shape[dim] - stop)
    parts = (*before, source, *after)
    return source if len(parts) == 1 else b.concat(parts, dim)


def _stored_in_steps(
    b: Lowering, x: Value, source: Value, dim: int, start: int, step: int
) -> Value:
    """Replace the elements of ``x`` along ``dim`` that are ``step`` apart. The source with each
    element repeated ``step`` times is as long as the part of ``x`` in which it is chosen."""
    size, count = x.shape[dim], source.shape[dim]
    span = min(count * step, size - start)
    apart = b.reshape(source, (*source.shape[: dim + 1], 1, *source.shape[dim + 1 :]))
    shape = (*source.shape[: dim + 1], step, *source.shape[dim + 1 :])
    repeated = b.reshape(
        b.spread(apart, shape), (*x.shape[:dim], count * step, *x.shape[dim + 1 :])
    )
    place = b.reshape(iota(b, (span,), 0), (span, *(1 for _ in x.shape[dim + 1 :])))
    hit = b.combine(BinaryFn.EQ, b.combine(BinaryFn.REMAINDER, place, step), 0)
    new = b.cut(repeated, dim, 0, span)
    stored = choose(b, hit, new, b.cut(x, dim, start, span), x.dtype)
    after = _part(b, x, dim, start + span, size - start - span)
    parts = (*_part(b, x, dim, 0, start), stored, *after)
    return stored if len(parts) == 1 else b.concat(parts, dim)


def _select_scatter(b: Lowering, c: Call) -> Value:
    """``op(x, source, dim, index)``: replace one part of ``x`` along ``dim``."""
    x, source = c.value(0), b.typed(c.value(1), c.value(0).dtype)
    (dim,) = normalize_dims((c.integer(2),), len(x.shape))
    at = c.integer(3) % x.shape[dim]
    part = b.reshape(source, (*x.shape[:dim], 1, *x.shape[dim + 1 :]))
    before = _part(b, x, dim, 0, at)
    after = _part(b, x, dim, at + 1, x.shape[dim] - at - 1)
    parts = (*before, part, *after)
    return part if len(parts) == 1 else b.concat(parts, dim)


def _part(b: Lowering, x: Value, dim: int, start: int, length: int) -> list[Value]:
    """Return a part of ``x`` along ``dim``, in pieces if ``x`` was concatenated: stores that fill a
    tensor part by part then read nothing of its previous contents.
    """
    joined = next((op for op in b.ops if op.joined_along == dim and op.result is x), None)
    if joined is None:
        return [b.cut(x, dim, start, length)] if length else []
    pieces: list[Value] = []
    at = 0
    for piece in joined.operands:
        first, last = max(start, at), min(start + length, at + piece.shape[dim])
        if first < last:
            pieces.append(b.cut(piece, dim, first - at, last - first))
        at += piece.shape[dim]
    return pieces


def _copy(b: Lowering, c: Call) -> Value:
    """``op(x, source)``: the contents of ``x`` after ``x.copy_(source)``."""
    source = b.typed(c.value(1), c.result.dtype)
    return source if source.shape == c.result.shape else b.broadcast(source, c.result.shape)


def _pad(b: Lowering, c: Call) -> Value:
    """``op(x, pads, value)``: pairs of lengths before and after, last dimension first; negative
    ones cut.
    """
    x, pads = c.value(0), c.integers(1)
    for index in range(len(pads) // 2):
        low, high = pads[2 * index : 2 * index + 2]
        x = padded(b, x, len(x.shape) - 1 - index, low, high, c.number(2, 0.0))
    return x


def padded(b: Lowering, x: Value, dim: int, low: int, high: int, number: Number = 0.0) -> Value:
    """Return ``x`` with ``low`` numbers before it along ``dim``, and ``high`` after it; negative
    lengths cut."""
    start = max(-low, 0)
    parts = [b.cut(x, dim, start, x.shape[dim] - start - max(-high, 0))]
    for length, place in ((low, 0), (high, 1)):
        if length > 0:
            shape = tuple(length if i == dim else n for i, n in enumerate(parts[0].shape))
            parts.insert(place * len(parts), b.filled(number, TensorType(shape, x.dtype)))
    return parts[0] if len(parts) == 1 else b.concat(tuple(parts), dim)


def _roll(b: Lowering, c: Call) -> Value:
    """``op(x, shifts, dims)``: elements that leave a dimension at its end enter at its start.
    Without dims, the tensor is one line."""
    x, shifts, dims = c.value(0), c.integers(1), c.integers(2) if c.arg(2) else ()
    if not x.type.size:
        return x
    y = x if dims else b.reshaped(x, (x.type.size,))
    for shift, dim in zip(shifts, dims or (0,), strict=True):  # also the same dimension twice
        size = y.shape[dim]
        if first := shift % size:
            parts = b.cut(y, dim, size - first, first), b.cut(y, dim, 0, size - first)
            y = b.concat(parts, dim)
    return b.reshaped(y, x.shape)


def _select(b: Lowering, c: Call) -> Value:
    x, dim, index = c.value(0), c.integer(1), c.integer(2)
    return b.reshape(b.cut(x, dim, index % x.shape[dim], 1), c.result.shape)


def _narrow(b: Lowering, c: Call) -> Value:
    x, dim, start = c.value(0), c.integer(1), c.integer(2)
    return b.cut(x, dim, start % x.shape[dim], c.integer(3))


def _unfold(b: Lowering, c: Call) -> Value:
    """``op(x, dim, size, step)``: the windows along ``dim``, with their elements last. Windows that
    do not overlap are made by splitting a dimension in two."""
    x, size, step = c.value(0), c.integer(2), c.integer(3)
    if x.shape and c.result.size:
        (dim,) = normalize_dims((c.integer(1),), len(x.shape))
        count = c.result.shape[dim]
        if size <= step and count * step <= x.shape[dim]:
            before, after = x.shape[:dim], x.shape[dim + 1 :]
            whole = b.cut(x, dim, 0, count * step)
            apart = b.cut(b.reshape(whole, (*before, count, step, *after)), dim + 1, 0, size)
            last = len(apart.shape) - 1
            order = (*range(dim + 1), *range(dim + 2, last + 1), dim + 1)
            return b.permuted(apart, order)
    if not x.shape or not c.result.size or size > MOST_WINDOWED:
        raise Unsupported(f"windows of {size} elements (limit {MOST_WINDOWED})")
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    slices = [strided(b, x, dim, i, step, c.result.shape[dim]) for i in range(size)]
    columns = tuple(b.reshape(y, (*y.shape, 1)) for y in slices)
    return columns[0] if size == 1 else b.concat(columns, -1)


def _pieces(b: Lowering, x: Value, dim: int, sizes: list[int]) -> list[Value]:
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    return [b.cut(x, dim, start, size) for start, size in zip(starts, sizes, strict=True)]


def _in_steps(total: int, step: int) -> list[int]:
    return [min(step, total - start) for start in range(0, total, step)]


def _split(b: Lowering, c: Call) -> list[Value]:
    x, dim = c.value(0), c.integer(2)
    return _pieces(b, x, dim, _in_steps(x.shape[dim], c.integer(1)))


def _split_sizes(b: Lowering, c: Call) -> list[Value]:
    return _pieces(b, c.value(0), c.integer(2), list(c.integers(1)))


def _chunk(b: Lowering, c: Call) -> list[Value]:
    x, chunks, dim = c.value(0), c.integer(1), c.integer(2)
    return _pieces(b, x, dim, _in_steps(x.shape[dim], -(-x.shape[dim] // chunks)))


def _unbind(b: Lowering, c: Call) -> list[Value]:
    x = c.value(0)
    (dim,) = normalize_dims((c.integer(1),), len(x.shape))
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    return [b.reshape(y, shape) for y in _pieces(b, x, dim, [1] * x.shape[dim])]


def _repeat(b: Lowering, c: Call) -> Value:
    """Repeat each dimension (missing leading ones too) as a whole ``repeats`` times."""
    x, repeats = c.value(0), c.integers(1)
    sizes = (*(1 for _ in range(len(repeats) - len(x.shape))), *x.shape)
    apart = tuple(n for size in sizes for n in (1, size))
    wide = tuple(n for times, size in zip(repeats, sizes, strict=True) for n in (times, size))
    y = b.reshaped(x, apart)
    return b.reshaped(y if apart == wide else b.broadcast(y, wide), c.result.shape)


def _repeat_interleave(b: Lowering, c: Call) -> Value:
    """``op(x, repeats, dim)``: repeat each element along ``dim`` in place."""
    x, times = c.value(0), c.integer(1)
    if c.arg(2) is None:
        x, dim = b.reshaped(x, (x.type.size,)), 0
    else:
        (dim,) = normalize_dims((c.integer(2),), len(x.shape))
    apart = (*x.shape[: dim + 1], 1, *x.shape[dim + 1 :])
    wide = (*x.shape[: dim + 1], times, *x.shape[dim + 1 :])
    y = b.reshape(x, apart)
    return b.reshaped(y if times == 1 else b.broadcast(y, wide), c.result.shape)


VIEWS: dict[str, Row] = {
    "aten.view": _reshape,
    "aten.reshape": _reshape,
    "aten._unsafe_view": _reshape,
    "aten._reshape_copy": _reshape,
    "aten.flatten.using_ints": _reshape,
    "aten.unflatten.int": _reshape,
    "aten.unsqueeze": _reshape,
    "aten.squeeze": _reshape,
    "aten.squeeze.dim": _reshape,
    "aten.squeeze.dims": _reshape,
    "aten.expand": _expand,
    "aten.expand_as": _expand,
    "aten.broadcast_to": _expand,
    "aten.permute": _permute,
    "aten.transpose.int": _transpose,
    "aten.t": _matrix_transpose,
    "aten.numpy_T": _matrix_transpose,
    "aten.mT": _matrix_transpose,
    "aten.cat": _cat,
    "aten.stack": _stack,
    "aten.slice.Tensor": _slice,
    "aten.unfold": _unfold,
    "aten.select_scatter": _select_scatter,
    "aten.slice_scatter": _slice_scatter,
    "aten.copy": _copy,
    "aten.constant_pad_nd": _pad,
    "aten.roll": _roll,
    "aten.select.int": _select,
    "aten.narrow": _narrow,
    "aten.split.Tensor": _split,
    "aten.split_with_sizes": _split_sizes,
    "aten.split.sizes": _split_sizes,
    "aten.chunk": _chunk,
    "aten.unbind.int": _unbind,
    "aten.repeat": _repeat,
    "aten.repeat_interleave.self_int": _repeat_interleave,
}
"""Torch ops that reshape, reorder, join and cut."""
