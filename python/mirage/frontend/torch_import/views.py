"""Rows of torch ops that move elements about."""

from __future__ import annotations

from mirage.frontend.torch_import.lowering import Call, Lowering, Row, Unsupported
from mirage.semantics.builder import normalize_dims
from mirage.semantics.ugraph import Value


def _reshape(b: Lowering, c: Call) -> Value:
    """Any op that keeps the row-major order of the elements: the result's shape says all."""
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
    if step != 1:
        raise Unsupported(f"a slice with step {step}")
    return b.cut(x, dim, start, c.result.shape[dim])


def _select(b: Lowering, c: Call) -> Value:
    x, dim, index = c.value(0), c.integer(1), c.integer(2)
    return b.reshape(b.cut(x, dim, index % x.shape[dim], 1), c.result.shape)


def _narrow(b: Lowering, c: Call) -> Value:
    x, dim, start = c.value(0), c.integer(1), c.integer(2)
    return b.cut(x, dim, start % x.shape[dim], c.integer(3))


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
    """Each dimension (missing leading ones too) ``repeats`` times in sequence."""
    x, repeats = c.value(0), c.integers(1)
    sizes = (*(1 for _ in range(len(repeats) - len(x.shape))), *x.shape)
    apart = tuple(n for size in sizes for n in (1, size))
    wide = tuple(n for times, size in zip(repeats, sizes, strict=True) for n in (times, size))
    y = b.reshaped(x, apart)
    return b.reshaped(y if apart == wide else b.broadcast(y, wide), c.result.shape)


def _repeat_interleave(b: Lowering, c: Call) -> Value:
    """``op(x, repeats, dim)``: each element along ``dim`` ``repeats`` times in place."""
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
