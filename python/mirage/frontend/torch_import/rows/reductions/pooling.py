"""Rows of pooling: maxima and means of windows, adjacent or overlapping, along any number of
dimensions.

A window is a product of intervals, so dimensions are pooled one after the other. Along one
dimension, windows of ``size`` elements are combined from ``size`` strided slices; adjacent windows
become a dimension of a reshape.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from itertools import product
from math import prod

from mirage.frontend.torch_import.rows.elements.comparisons import choose
from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.movement.views import strided
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.positions import MAX_POSITIONS, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import TensorType, Value

MOST_SLICES = 64
"""The most slices that are combined along one dimension, and the most windows of different
sizes."""
_BINARY = {ReduceFn.MAX: BinaryFn.MAX, ReduceFn.SUM: BinaryFn.ADD}


@dataclass(frozen=True)
class Windows:
    """The windows along one dimension of ``old`` elements: ``new`` windows of ``size`` elements
    that are ``dilation`` apart, each ``stride`` after the previous one; the first one starts
    ``before`` elements before the tensor."""

    old: int
    new: int
    size: int
    stride: int
    before: int = 0
    dilation: int = 1

    @property
    def end(self) -> int:
        """The number of elements up to the end of the last window."""
        return (self.new - 1) * self.stride + (self.size - 1) * self.dilation + 1 - self.before

    def meets_padding(self, i: int) -> tuple[bool, bool]:
        """Return whether element ``i`` of some window lies before the tensor, and after it."""
        first = i * self.dilation - self.before
        return first < 0, first + (self.new - 1) * self.stride >= self.old

    def counts(self, padded: bool) -> list[int]:
        """Return the number of elements in each window, including padding if ``padded``."""
        begin = [i * self.stride - self.before for i in range(self.new)]
        low, high = (-self.before, self.old + self.before) if padded else (0, self.old)
        return [min(at + self.size, high) - max(at, low) for at in begin]


def _along(b: Lowering, x: Value, dim: int, fn: ReduceFn, windows: Windows) -> Value:
    """Apply ``fn`` to each window of ``x`` along ``dim``."""
    w, front, back = windows, x.shape[:dim], x.shape[dim + 1 :]
    if w.size == w.stride and w.dilation == 1 and not w.before and w.end <= w.old:
        tiles = b.reshaped(b.cut(x, dim, 0, w.end), (*front, w.new, w.size, *back))
        return b.reduced(fn, tiles, (dim + 1,), False)
    if w.new == 1 and w.dilation == 1:  # even if it reaches beyond the input
        part = b.cut(x, dim, 0, min(w.size - w.before, w.old))
        return b.reshaped(b.reduced(fn, part, (dim,), False), (*front, 1, *back))
    if w.size > MOST_SLICES:
        raise Unsupported(f"windows of {w.size} elements that overlap (limit {MOST_SLICES})")
    if w.before or w.end > w.old:
        if fn is ReduceFn.MAX and x.dtype.is_integer:
            raise Unsupported("a maximum of integers over windows that are padded")
        parts = [x]
        for length, place in ((w.before, 0), (w.end - w.old, 1)):
            if length > 0:
                fill = TensorType((*front, length, *back), x.dtype)
                none = b.filled(0 if fn is ReduceFn.SUM else float("-inf"), fill)
                parts.insert(place * len(parts), none)
        x = b.concat(tuple(parts), dim)
    slices = [strided(b, x, dim, i * w.dilation, w.stride, w.new) for i in range(w.size)]
    return reduce(lambda y, z: b.binary(_BINARY[fn], y, z), slices)


def _given(c: Call, index: int, rank: int, default: Sequence[int]) -> tuple[int, ...]:
    """Return argument ``index``: one number for each of ``rank`` dimensions, or one for all of
    them."""
    given = c.integers(index) if c.arg(index) not in (None, []) else tuple(default)
    return given * rank if len(given) == 1 else given


def _windows(c: Call, rank: int, dilation: int | None = None) -> list[tuple[int, Windows]]:
    """Return the windows of ``op(x, size, stride, padding, …)`` along each pooled dimension."""
    x, y = c.value(0).shape, c.result.shape
    if not c.value(0).type.size:
        raise Unsupported("windows of no elements")
    sizes = _given(c, 1, rank, ())
    columns = (sizes, _given(c, 2, rank, sizes), _given(c, 3, rank, (0,)))
    apart = (1,) * rank if dilation is None else _given(c, dilation, rank, (1,))
    rows = zip(*columns, apart, strict=True)
    dims = range(len(x) - rank, len(x))
    return [(d, Windows(x[d], y[d], *row)) for d, row in zip(dims, rows, strict=True)]


def _largest(rank: int) -> Row:
    """``op(x, size, stride, padding, dilation, ceil)``: the maxima, and their places."""

    def row(b: Lowering, c: Call) -> Value | list[Value]:
        x = c.value(0)
        if any(c.used[1:]):
            return _largest_with_places(b, x, _windows(c, rank, 4))
        for dim, windows in _windows(c, rank, 4):
            x = _along(b, x, dim, ReduceFn.MAX, windows)
        return x

    return row


def _largest_with_places(
    b: Lowering, x: Value, windows: Sequence[tuple[int, Windows]]
) -> list[Value]:
    """Return the maximum of each window, and the row-major place of its first occurrence in the
    pooled dimensions. Each next element replaces the maximum if it is larger than all previous ones
    or NaN.

    Padding is read as the nearest element of the tensor. A dense window contains that element as
    well, so the order of first (and of last) occurrences of different elements does not change."""
    shape = list(x.shape)
    for dim, w in windows:
        shape[dim] = w.new
    inside = [x.shape[dim] for dim, _ in windows]
    if x.dtype.is_integer or prod(inside) > MAX_POSITIONS:
        raise Unsupported(f"the places of maxima of windows of {x.type}")
    if prod(w.size for _, w in windows) > MOST_SLICES:
        raise Unsupported(f"the places of maxima of more than {MOST_SLICES} elements")
    if any(w.before and w.dilation > 1 for _, w in windows):
        raise Unsupported("the places of maxima of windows that are padded and not dense")
    steps = [max(1, prod(inside[i + 1 :])) for i in range(len(inside))]
    found: tuple[Value, Value] | None = None
    for offsets in product(*(range(w.size) for _, w in windows)):
        part = x
        for (dim, w), i in zip(windows, offsets, strict=True):
            part = _taken(b, part, dim, w, i)
        own = [(w, i) for (_, w), i in zip(windows, offsets, strict=True)]
        here = _place(b, own, steps, len(shape))
        if found is None:
            found = part, here
            continue
        best, place = found
        larger = b.binary(BinaryFn.LT, best, part)
        larger = b.binary(BinaryFn.OR, larger, b.binary(BinaryFn.NE, part, part))
        place = choose(b, larger, here, place, DType.F32)
        found = choose(b, larger, part, best, x.dtype), place
    assert found is not None
    best, place = found
    return [best, b.typed(b.spread(place, tuple(shape)), DType.I64)]


def _taken(b: Lowering, x: Value, dim: int, w: Windows, i: int) -> Value:
    """Return element ``i`` of each window along ``dim``. Padding gives the nearest existing element
    or, if the window is not dense and may lack that element, minus infinity."""
    front, back = x.shape[:dim], x.shape[dim + 1 :]
    parts = [x]
    for length, at in ((w.before, 0), (w.end - w.old, 1)):
        if length > 0:
            shape = (*front, length, *back)
            if w.dilation == 1:
                more = b.spread(b.cut(x, dim, at * (w.old - 1), 1), shape)
            else:
                more = b.filled(float("-inf"), TensorType(shape, x.dtype))
            parts.insert(at * len(parts), more)
    padded = parts[0] if len(parts) == 1 else b.concat(tuple(parts), dim)
    return strided(b, padded, dim, i * w.dilation, w.stride, w.new)


def _place(
    b: Lowering, own: Sequence[tuple[Windows, int]], steps: Sequence[int], rank: int
) -> Value:
    """Return the place in its plane of an element of each window; for padding, that of the nearest
    element."""
    total: Value | None = None
    for k, ((w, i), step) in enumerate(zip(own, steps, strict=True)):
        at = b.combine(BinaryFn.MUL, b.typed(iota(b, (w.new,), 0), DType.F32), w.stride)
        at = b.combine(BinaryFn.ADD, at, i * w.dilation - w.before)
        before, after = w.meets_padding(i)
        at = b.combine(BinaryFn.MAX, at, 0) if before else at
        at = b.combine(BinaryFn.MIN, at, w.old - 1) if after else at
        at = b.combine(BinaryFn.MUL, at, step)
        at = b.reshape(at, (w.new, *(1 for _ in own[k + 1 :])))
        total = at if total is None else b.binary(BinaryFn.ADD, total, at)
    assert total is not None
    return b.reshape(total, (*(1 for _ in range(rank - len(own))), *total.shape))


def _mean(rank: int) -> Row:
    """``op(x, size, stride, padding, ceil, count_padding, divisor)``."""

    def row(b: Lowering, c: Call) -> Value:
        x = c.value(0)
        if x.dtype.is_integer:
            raise Unsupported("a mean of integers")
        y = wide(b, x)
        given, share = c.arg(6), Fraction(1)
        for dim, windows in _windows(c, rank):
            y = _along(b, y, dim, ReduceFn.SUM, windows)
            counts = windows.counts(padded=bool(c.arg(5, True)))
            if given is None and len(set(counts)) == 1:
                share /= counts[0]
            elif given is None:
                y = b.binary(BinaryFn.DIV, y, _column(b, y, dim, windows, c))
        share = share if given is None else 1 / Fraction(c.integer(6))
        return b.typed(y if share == 1 else b.combine(BinaryFn.MUL, y, share), x.dtype)

    return row


def _column(b: Lowering, y: Value, dim: int, w: Windows, c: Call) -> Value:
    """Return the number of elements of each window along ``dim``, as a function of its position."""
    before = w.before if c.arg(5, True) else 0
    begin = b.typed(iota(b, (w.new,), 0), DType.F32)
    begin = b.combine(BinaryFn.SUB, b.combine(BinaryFn.MUL, begin, w.stride), w.before)
    end = b.combine(BinaryFn.ADD, begin, w.size)
    end = b.combine(BinaryFn.MIN, end, w.old + before)
    count = b.binary(BinaryFn.SUB, end, b.combine(BinaryFn.MAX, begin, -before))
    return b.typed(b.reshape(count, (w.new, *(1 for _ in y.shape[dim + 1 :]))), y.dtype)


def _adaptive(fn: ReduceFn, rank: int) -> Row:
    """``op(x, size)``: window ``i`` of ``n`` extends from ``floor(i old / n)`` to ``ceil((i + 1)
    old / n)``."""

    def row(b: Lowering, c: Call) -> Value:
        x, y = c.value(0), c.result.shape
        if any(c.used[1:]) or not x.type.size:
            raise Unsupported("the places of maxima of windows, or windows of no elements")
        if x.dtype.is_integer:
            raise Unsupported("windows of integers")
        z = wide(b, x) if fn is ReduceFn.SUM else x
        for dim in range(len(y) - rank, len(y)):
            z = _in_parts(b, z, dim, y[dim], fn)
        return b.typed(z, x.dtype)

    return row


def _in_parts(b: Lowering, x: Value, dim: int, new: int, fn: ReduceFn) -> Value:
    old = x.shape[dim]
    if old % new == 0:
        y = _along(b, x, dim, fn, Windows(old, new, old // new, old // new))
        mean = fn is ReduceFn.SUM and old != new
        return b.combine(BinaryFn.MUL, y, Fraction(new, old)) if mean else y
    if new > MOST_SLICES:
        raise Unsupported(f"{new} windows of {old} elements (limit {MOST_SLICES})")
    bounds = [(i * old // new, -(-(i + 1) * old // new)) for i in range(new)]
    parts = [b.cut(x, dim, low, high - low) for low, high in bounds]
    if fn is ReduceFn.SUM:
        return b.concat(tuple(b.mean(part, (dim,), True) for part in parts), dim)
    return b.concat(tuple(b.reduced(fn, part, (dim,), True) for part in parts), dim)


POOLING: dict[str, Row] = {
    **{f"aten.max_pool{n}d_with_indices": _largest(n) for n in (2, 3)},
    **{f"aten.max_pool{n}d": _largest(n) for n in (1, 2, 3)},
    **{f"aten.avg_pool{n}d": _mean(n) for n in (1, 2, 3)},
    **{f"aten._adaptive_avg_pool{n}d": _adaptive(ReduceFn.SUM, n) for n in (2, 3)},
    **{f"aten.adaptive_max_pool{n}d": _adaptive(ReduceFn.MAX, n) for n in (2, 3)},
}
"""Torch ops that pool."""
