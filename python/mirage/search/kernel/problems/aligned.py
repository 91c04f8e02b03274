"""Tensors copied into longer rows, so that the tensor memory accelerator can start at each row: a
kernel of its own."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil

from mirage.semantics.copy_launch import copy_launch
from mirage.semantics.ugraph import Launch, TensorType, Value

ROW_BYTES = 16
"""The alignment, in bytes, of rows of tensors that are copied by boxes."""
LINE_BYTES = 128
"""The unit in which the rows of a box are read: a row that starts elsewhere takes two of them."""
LONG_ROW = 1024
"""The least bytes of a row that is worth copying only to align it to a cache line."""
MOST_LONGER = 1.25
"""The largest factor by which rows are made longer to fill whole lines."""
TILE_COLUMNS = 512
TILE = 2048
"""The elements of all tensors together that a block copies."""


def is_aligned(type_: TensorType) -> bool:
    """Return whether all rows start at multiples of ``ROW_BYTES``."""
    return len(type_.shape) > 0 and type_.shape[-1] * type_.dtype.bytes % ROW_BYTES == 0


def may_align(type_: TensorType) -> bool:
    """Return whether a copy with longer rows is useful: there must be several rows, and tiles of
    them; if boxes can start at all rows, but not at all lines, the rows must be long."""
    columns = type_.shape[-1] if type_.shape else 0
    row = columns * type_.dtype.bytes
    useful = (
        row % LINE_BYTES != 0 and row >= LONG_ROW if is_aligned(type_) else columns >= ROW_BYTES
    )
    return useful and type_.size > columns


def aligned_type(type_: TensorType) -> TensorType:
    """Return the type with longer rows: extended to whole cache lines, or to the largest part of a
    line that does not make them much longer."""
    *leading, columns = type_.shape
    unit = LINE_BYTES // type_.dtype.bytes
    while unit * type_.dtype.bytes > ROW_BYTES and _up(columns, unit) > MOST_LONGER * columns:
        unit //= 2
    return TensorType((*leading, _up(columns, unit)), type_.dtype)


def aligned_copies(pairs: Sequence[tuple[Value, Value]]) -> list[Launch]:
    """Copy each first value into the second, whose rows are longer. Elements loaded beyond the end
    of a row are zero, so the ends of the new rows are zeros. Tensors of the same batches are copied
    by one launch, each block of which has a part of all of them."""
    groups: dict[tuple[int, ...], list[tuple[Value, Value]]] = {}
    for source, result in pairs:
        groups.setdefault(source.shape[:-2], []).append((source, result))
    return [_copies(group) for group in groups.values()]


def _copies(pairs: Sequence[tuple[Value, Value]]) -> Launch:
    batch = pairs[0][0].shape[:-2]
    sizes = [(*source.shape[-2:], result.shape[-1]) for source, result in pairs]
    columns = max(ceil(longer / min(TILE_COLUMNS, _below(n))) for _, n, longer in sizes)
    widths = [min(power_of_two(ceil(longer / columns)), _below(n)) for _, n, longer in sizes]
    rows, heights = _rows([n for n, _, _ in sizes], widths)
    tiles = [(*(1 for _ in batch), h, w) for h, w in zip(heights, widths, strict=True)]
    elements = sum(h * w for h, w in zip(heights, widths, strict=True))
    warps = 4 if 2 * elements >= TILE else 1
    return copy_launch(pairs, (*batch, rows, columns), tiles, warps)


def _rows(sizes: Sequence[int], widths: Sequence[int]) -> tuple[int, list[int]]:
    """Return the number of parts of the rows of all tensors, which is the same for all, and each
    tensor's rows per part: powers of two (proofs cut tensors in steps that divide each other) with
    as little overhang as possible."""
    usual = ceil(sum(n * w for n, w in zip(sizes, widths, strict=True)) / TILE)

    def heights(parts: int) -> list[int]:
        return [min(power_of_two(ceil(n / parts)), _below(n)) for n in sizes]

    def work(parts: int) -> int:
        return parts * sum(h * w for h, w in zip(heights(parts), widths, strict=True))

    options = {ceil(n / (1 << exponent)) for n in sizes for exponent in range(n.bit_length())}
    fits = [
        parts
        for parts in sorted(options)
        if all(parts * h >= n for h, n in zip(heights(parts), sizes, strict=True))
    ]
    near = [parts for parts in fits if usual <= 2 * parts <= 4 * usual] or fits
    least = min(map(work, near))
    best = min((p for p in near if work(p) <= 1.1 * least), key=lambda p: abs(p - usual))
    return best, heights(best)


def _up(x: int, multiple: int) -> int:
    return -(-x // multiple) * multiple


def power_of_two(x: int) -> int:
    """Return the least power of two that is at least ``x``."""
    return 1 << (x - 1).bit_length()


def _below(x: int) -> int:
    """Return the largest power of two up to ``x``."""
    return 1 << (x.bit_length() - 1)
