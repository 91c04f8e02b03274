"""Masks of which every row is known to have a true element.

The contents of a mask follow from positions and from tensors that were computed at import;
otherwise they are not known. So its elements are computed in some columns: the first (for causal
masks and prefixes), the last, and the diagonals from either end (for windows and documents).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np

from mirage.frontend.torch_import.rows.lowering import Lowering
from mirage.semantics.domain import Float64, Planes
from mirage.semantics.ops.kinds import Lookup
from mirage.semantics.scalar import Array, BinaryFn
from mirage.semantics.ugraph import Elementwise, Value, View

MOST_ROWS = 1 << 20
"""The most rows that are examined."""

_Place: TypeAlias = "tuple[Array, ...]"
"""The place of elements: one index array for each dimension, with a common shape."""


def has_no_empty_row(b: Lowering, mask: Value) -> bool:
    """Return whether each row is known to have a true element."""
    *rows, size = mask.shape or (0,)
    if not rows or not 0 < mask.type.size // max(size, 1) <= MOST_ROWS:
        return False
    elements = _Elements(b)
    places = np.indices(rows, sparse=True)
    row, last = places[-1], size - rows[-1]
    seen = np.zeros(rows, bool)
    for column in (np.zeros_like(row), np.full_like(row, size - 1), row, row + last):
        known = elements.at(mask, (*places, np.clip(column, 0, size - 1)))
        if known is not None:
            seen |= known != 0
    return bool(seen.all())


class _Elements:
    """The known elements of values."""

    def __init__(self, b: Lowering) -> None:
        self._held = b.held
        self._made = {v: op for op in b.ops for v in op.results}

    def at(self, value: Value, place: _Place) -> Array | None:
        """Return the elements at a place; None if they are not known."""
        op = self._made.get(value)
        if value in self._held:
            return self._held[value][place].astype(np.float64)
        if op is None:
            return None
        if op.number is not None:
            return np.asarray(float(op.number))
        if isinstance(op, Lookup) and not op.operands:  # positions
            return _positions(op)[place]
        if isinstance(op, View):
            source = self._source(op, place)
            return None if source is None else self.at(op.operands[0], source)
        if not isinstance(op, Elementwise) or op.cuts:
            return None
        if op.function in (BinaryFn.EQ, BinaryFn.LE) and self._is_one(op.operands, place):
            return np.asarray(1.0)
        operands: list[Planes] = []
        for x in op.operands:
            known = self.at(x, _repeated(x.shape, place))
            if known is None:
                return None
            operands.append((known,))
        shape = np.broadcast_shapes(*(x[0].shape for x in operands))
        return op.compute(Float64(), operands, 0, shape)[0]

    def _is_one(self, values: Sequence[Value], place: _Place) -> bool:
        """Return whether two values are the same integer there, even if it is unknown."""
        (x, at), (y, other) = (self._root(v, _repeated(v.shape, place)) for v in values)
        return x is y and x.dtype.is_integer and all(map(_equal, at, other))

    def _root(self, value: Value, place: _Place) -> tuple[Value, _Place]:
        """Return the value that a value is a view of, and the place there."""
        op = self._made.get(value)
        while isinstance(op, View) and (source := self._source(op, place)) is not None:
            value, place = op.operands[0], source
            op = self._made.get(value)
        return value, place

    @staticmethod
    def _source(op: View, place: _Place) -> _Place | None:
        """Return the place in the operand; None if the operand is cut or its dimensions are
        merged."""
        dims, x, shape = op.source_dims(), op.operands[0], op.result.shape
        if dims is None or len(op.operands) != 1:
            return None
        source = {to: place[at] for at, to in dims.items() if x.shape[to] == shape[at]}
        if any(n != 1 and d not in source for d, n in enumerate(x.shape)):
            return None
        return tuple(source.get(d, np.asarray(0)) for d in range(len(x.shape)))


@lru_cache(maxsize=4)
def _positions(op: Lookup) -> Array:
    """Return all positions; the masks of many layers are made of the same ones."""
    return op.compute(Float64(), (), 0, op.result.shape)[0]


def _equal(a: Array, b: Array) -> bool:
    return bool(np.all(a == b))


def _repeated(source: tuple[int, ...], place: _Place) -> _Place:
    """Return the place in an operand of shape ``source`` for an element of its broadcast."""
    own = place[len(place) - len(source) :]
    return tuple(np.zeros_like(i) if n == 1 else i for n, i in zip(source, own, strict=True))
