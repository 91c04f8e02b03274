"""An output as a whole, and in parts.

What a few rows or columns of an output are about is lost in a mean over all of it: the residual of
a cast beside large numbers, one row on a grid among a hundred others. So means are taken over the
whole, over a few neighbouring indices of each dimension, and over elements of about the same size.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mirage.semantics.scalar import Array

_FEWEST = 32
"""Elements of a part: fewer say too little about an error."""
_OCTAVES = 8
"""Powers of two between the smallest and the largest of about the same size."""


class OutputParts:
    """The parts of an output of which ``known`` elements are compared; with ``sizes`` those of
    about the same size too."""

    def __init__(self, known: Array, sizes: Array | None = None) -> None:
        self.known = known
        self.sizes = sizes
        self.counts = np.concatenate(list(self._sums(known.astype(np.float64))))

    @property
    def slack(self) -> Array:
        """By what factor a ratio of two means may be off in each part, as it has few elements."""
        return 1.0 + 3.0 / np.sqrt(np.maximum(self.counts, 1.0))

    def rms(self, e: Array) -> Array:
        """The root mean square of the known elements of each part, the whole first."""
        with np.errstate(over="ignore", invalid="ignore"):
            squares = np.where(self.known, e * e, 0.0)
            found = np.concatenate(list(self._sums(squares)))
            found = np.sqrt(found / np.maximum(self.counts, 1.0))
        return np.where(np.isfinite(found), found, np.inf)

    def _sums(self, x: Array) -> Iterator[Array]:
        yield np.sum(x).reshape(1)
        for axis, size in enumerate(x.shape):
            each = x.size // max(size, 1)
            together = -(-_FEWEST // max(each, 1))
            if size <= together:
                continue
            lines = x.sum(tuple(d for d in range(x.ndim) if d != axis))
            yield np.add.reduceat(lines, np.arange(0, size, together))
        if self.sizes is not None and x.size >= 2 * _FEWEST:
            yield np.bincount(self._kinds(self.sizes).ravel(), x.ravel())

    def _kinds(self, sizes: Array) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
        with np.errstate(divide="ignore", invalid="ignore"):
            powers = np.log2(np.abs(np.where(self.known, sizes, 0.0)))
        kinds = np.where(np.isfinite(powers), np.floor(powers / _OCTAVES), np.nan)
        _, numbers, counts = np.unique(kinds, return_inverse=True, return_counts=True)
        numbers = np.asarray(numbers).reshape(sizes.shape)
        # of too few nothing is known: they are counted with those that are zero or not known
        return np.where(counts[numbers] < _FEWEST, len(counts), numbers)
