"""An output as a whole, and in parts.

A mean over a whole output hides an effect that is confined to a few rows or columns: the residual
of a cast beside large numbers, or one row on a grid among a hundred others. So means are taken over
the whole, over a few neighbouring indices of each dimension, and over elements of about the same
size.

If elements are not known (NaN or infinite), neighbouring parts are joined until enough elements are
known, since a difference of two or three numbers may be accidental.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mirage.semantics.scalar import Array

Flags = np.ndarray[tuple[int, ...], np.dtype[np.bool_]]

_FEWEST = 32
"""The fewest elements of a part: fewer say too little about an error."""
_OCTAVES = 8
"""The powers of two between the smallest and the largest of the elements that count as about the
same size."""


class OutputParts:
    """The parts of an output whose ``known`` elements are compared; with ``sizes``, also the groups
    of elements of about the same size."""

    def __init__(self, known: Array, sizes: Array | None = None) -> None:
        self.known = known
        self.sizes = sizes
        self._starts = [self._starts_along(axis) for axis in range(known.ndim)]
        self.counts = np.concatenate(list(self._sums(known.astype(np.float64))))
        self.elements = np.concatenate(list(self._sums(np.ones(known.shape))))

    @property
    def slack(self) -> Array:
        """The factor by which a ratio of two means may be off in each part, because the part has
        few elements."""
        return 1.0 + 3.0 / np.sqrt(np.maximum(self.counts, 1.0))

    @property
    def decides(self) -> Flags:
        """Which parts count: the whole, the parts with no unknown element, and those that still
        have enough elements."""
        found = _has_enough(self.counts, self.elements)
        found[0] = True
        return found

    def rms(self, e: Array) -> Array:
        """Return the root mean square of the known elements of each part, the whole first."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.where(self.known, e * e, 0.0)
            found = np.concatenate(list(self._sums(squares)))
            found = np.sqrt(found / np.maximum(self.counts, 1.0))
        return np.where(np.isfinite(found), found, np.inf)

    def _sums(self, x: Array) -> Iterator[Array]:
        yield np.sum(x).reshape(1)
        for axis, starts in enumerate(self._starts):
            if len(starts) > 1:
                yield np.add.reduceat(_lines(x, axis), starts)
        if self.sizes is not None and x.size >= 2 * _FEWEST:
            yield np.bincount(self._kinds(self.sizes).ravel(), x.ravel())

    def _starts_along(self, axis: int) -> list[int]:
        """Return the first index of each part along a dimension."""
        size = self.known.shape[axis]
        together = -(-_FEWEST // max(self.known.size // max(size, 1), 1))
        starts = list(range(0, size, together))
        if len(starts) < 2 or self.known.all():
            return starts
        counts = np.add.reduceat(_lines(self.known.astype(np.float64), axis), starts)
        elements = np.add.reduceat(_lines(np.ones(self.known.shape), axis), starts)
        found, count, total = [0], 0.0, 0.0
        for start, known, every in zip(starts, counts, elements, strict=True):
            if total and _has_enough(count, total):
                found.append(start)
                count, total = 0.0, 0.0
            count, total = count + known, total + every
        if len(found) > 1 and not _has_enough(count, total):
            found.pop()  # the last indices belong to the part before
        return found

    def _kinds(self, sizes: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        with np.errstate(divide="ignore", invalid="ignore"):
            powers = np.log2(np.abs(np.where(self.known, sizes, 0.0)))
        kinds = np.where(np.isfinite(powers), np.floor(powers / _OCTAVES), np.nan)
        _, numbers, counts = np.unique(kinds, return_inverse=True, return_counts=True)
        numbers = np.asarray(numbers).reshape(sizes.shape)
        # groups of too few elements are counted with those that are zero or unknown
        return np.where(counts[numbers] < _FEWEST, len(counts), numbers)


def _lines(x: Array, axis: int) -> Array:
    """Return the sum over each index of a dimension."""
    return x.sum(tuple(d for d in range(x.ndim) if d != axis))


def _has_enough(known: Array | float, elements: Array | float) -> Flags:
    return np.asarray((known >= _FEWEST) | (known == elements))
