"""Rows of ops that sample images at arbitrary places: the four pixels around each place, looked up
by index, are added with their weights.

A pixel outside of the image is zero, or the one at the border; a place that is NaN or infinite has
no pixels. Places are computed in f32 at least.
"""

from __future__ import annotations

from mirage.frontend.torch_import.rows.lowering import Lowering, Row, wide
from mirage.frontend.torch_import.rows.torch_call import Call, Unsupported
from mirage.semantics.positions import MAX_POSITIONS, gather, iota
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Value

_ZEROS, _BORDER = 0, 1


def _sampled(b: Lowering, c: Call) -> Value:
    """``op(x[N, C, H, W], grid[N, h, w, 2], how, padding, align_corners)``, between pixels."""
    x, grid, how, padding = c.value(0), c.value(1), c.integer(2), c.integer(3)
    if how or padding not in (_ZEROS, _BORDER):
        raise Unsupported("pixels that are the nearest, cubic or reflected ones")
    count, channels, high, across = x.shape
    if not x.type.size or max(x.type.size // channels, high, across) > MAX_POSITIONS:
        raise Unsupported(f"places in {x.type}")
    grid = wide(b, grid)
    shape = grid.shape[:3]
    places = [
        _place(b, b.reshape(b.cut(grid, 3, i, 1), shape), n, bool(c.arg(4)), padding)
        for i, n in ((0, across), (1, high))
    ]
    table = b.reshape(b.permuted(x, (0, 2, 3, 1)), (x.type.size // channels, channels))
    image = b.reshape(iota(b, (count,), 0), (count, 1, 1))
    total: Value | None = None
    for below, row, share in _sides(b, places[1], high):
        for left, column, part in _sides(b, places[0], across):
            place = b.combine(BinaryFn.MUL, b.spread(image, shape), high)
            place = b.combine(BinaryFn.MUL, b.binary(BinaryFn.ADD, place, row), across)
            place = b.reshape(b.binary(BinaryFn.ADD, place, column), (row.type.size,))
            pixel = wide(b, b.reshape(gather(b, table, place), (*shape, channels)))
            there = b.reshape(b.binary(BinaryFn.AND, below, left), (*shape, 1))
            weight = b.reshape(b.binary(BinaryFn.MUL, share, part), (*shape, 1))
            taken = b.binary(BinaryFn.MUL, b.binary(BinaryFn.KEEP, there, pixel), weight)
            total = taken if total is None else b.binary(BinaryFn.ADD, total, taken)
    assert total is not None
    return b.typed(b.permuted(total, (0, 3, 1, 2)), c.result.dtype)


def _place(b: Lowering, x: Value, size: int, corners: bool, padding: int) -> Value:
    """Convert places in ``-1 .. 1`` to pixel numbers: the ends are the centres of the outer pixels
    (with ``corners``) or their outer edges. NaN stays NaN."""
    x = b.combine(BinaryFn.ADD, x, 1)
    if corners:
        x = b.combine(BinaryFn.MUL, b.combine(BinaryFn.MUL, x, 0.5), size - 1)
    else:
        x = b.combine(BinaryFn.SUB, b.combine(BinaryFn.MUL, x, size), 1)
        x = b.combine(BinaryFn.MUL, x, 0.5)
    if padding == _BORDER:
        x = b.combine(BinaryFn.MIN, b.combine(BinaryFn.MAX, x, 0), size - 1)
    return x


def _sides(b: Lowering, x: Value, size: int) -> list[tuple[Value, Value, Value]]:
    """Return, for the pixels before and after each place, whether the pixel exists, its number
    (another valid number if it does not), and its weight."""
    first = b.unary(UnaryFn.FLOOR, x)
    rest = b.binary(BinaryFn.SUB, x, first)
    sides = ((first, b.combine(BinaryFn.SUB, 1, rest)), (b.combine(BinaryFn.ADD, first, 1), rest))
    found: list[tuple[Value, Value, Value]] = []
    for pixel, share in sides:
        there = b.binary(
            BinaryFn.AND,
            b.combine(BinaryFn.LE, 0, pixel),
            b.combine(BinaryFn.LE, pixel, size - 1),
        )
        number = b.typed(b.binary(BinaryFn.KEEP, there, pixel), DType.I64)
        found.append((there, number, share))
    return found


SAMPLING: dict[str, Row] = {"aten.grid_sampler_2d": _sampled}
"""Torch ops that interpolate between pixels."""
