"""Which tiles are parts of the same tensor, computed twice.

Every tile of a block graph is a part of a tensor that nobody may ever hold: a product of two loaded
tiles is a part of the product of the tensors. An :class:`Expression` names that tensor, by what is
computed from what, and says which part of it the tile is. Two loops that compute the same scores,
in tiles of different sizes perhaps, have expressions with equal keys and different cuts.

What is summed over steps of a loop, or over a part of a dimension, is not followed: such a value is
a tensor of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod

from mirage.semantics.ugraph import (
    Binary,
    Broadcast,
    Cast,
    Constant,
    Load,
    Mask,
    Matmul,
    Op,
    Reduce,
    Reshape,
    Transpose,
    Unary,
    Value,
)
from mirage.transforms.padding import same_unit_free_dims


@dataclass(frozen=True)
class Cut:
    """The part of a dimension of ``size`` elements that a tile of ``tile`` has at the current steps
    of ``axes``.
    """

    axes: tuple[str, ...]
    tile: int
    size: int

    @property
    def whole(self) -> bool:
        """Whether the tile has all elements, and nothing else."""
        return not self.axes and self.tile == self.size

    def covers(self, other: Cut, extents: Mapping[str, int], finished: frozenset[str]) -> bool:
        """Whether all elements of ``other`` are among those that this tile had in the steps of the
        loops over ``finished``, the other axes standing still.
        """
        common = 0
        for a, b in zip(self.axes, other.axes, strict=False):
            if a != b:
                break
            common += 1
        mine, theirs = self.axes[common:], other.axes[common:]
        if not finished.issuperset(mine):
            return False
        reach = self.tile * prod(extents[a] for a in mine)
        if not common and reach >= self.size:
            return True
        return reach == other.tile * prod(extents[a] for a in theirs)


@dataclass(frozen=True)
class Expression:
    """Part ``cuts`` of the tensor ``key``."""

    key: int
    cuts: tuple[Cut, ...]


class Expressions:
    """The expressions of the tiles of a launch, which are added in program order."""

    def __init__(self) -> None:
        self._of: dict[Value, Expression] = {}
        self._keys: dict[tuple[object, ...], int] = {}

    def __getitem__(self, value: Value) -> Expression:
        return self._of[value]

    def add(self, op: Op) -> None:
        """The results of an op whose operands are known."""
        found = self._expression(op)
        for result in op.results:
            whole = tuple(Cut((), n, n) for n in result.shape)
            self._of[result] = found or Expression(self._key("value", result), whole)

    def _key(self, *parts: object) -> int:
        return self._keys.setdefault(parts, len(self._keys))

    def _expression(self, op: Op) -> Expression | None:
        if isinstance(op, Load):
            (tensor,) = op.operands
            sizes = zip(op.map, op.result.shape, tensor.shape, strict=True)
            return Expression(self._key("load", tensor), tuple(Cut(*cut) for cut in sizes))
        if isinstance(op, Constant):
            return Expression(self._key("constant", op.value), ())
        if not op.operands or any(v not in self._of for v in op.operands):
            return None
        xs = [self._of[v] for v in op.operands]
        (x, *_) = xs
        if isinstance(op, Unary):
            return Expression(self._key(op.fn, x.key), x.cuts)
        if isinstance(op, Cast):
            return Expression(self._key(op.result.dtype, x.key), x.cuts)
        if isinstance(op, Binary):
            cuts = _broadcast(xs[0].cuts, xs[1].cuts)
            key = self._key(op.fn, xs[0].key, xs[1].key)
            return None if cuts is None else Expression(key, cuts)
        if isinstance(op, Matmul):
            return self._matmul(*xs)
        return self._view(op, x)

    def _matmul(self, a: Expression, b: Expression) -> Expression | None:
        lead = _broadcast(a.cuts[:-2], b.cuts[:-2])
        if lead is None or not a.cuts[-1].whole or not b.cuts[-2].whole:
            return None
        return Expression(self._key("matmul", a.key, b.key), (*lead, a.cuts[-2], b.cuts[-1]))

    def _view(self, op: Op, x: Expression) -> Expression | None:
        cuts = x.cuts
        if isinstance(op, Reduce) and all(cuts[d].whole for d in op.dims):
            kept = tuple(Cut((), 1, 1) if d in op.dims else cut for d, cut in enumerate(cuts))
            return Expression(self._key(op.fn, op.dims, x.key), kept)
        if isinstance(op, Transpose):
            kept = tuple(cuts[d] for d in op.permutation)
            return Expression(self._key("transpose", op.permutation, x.key), kept)
        if isinstance(op, Mask) and op.axes == cuts[op.dim].axes:
            return Expression(self._key("mask", op.dim, op.extent, op.fill, x.key), cuts)
        if isinstance(op, Broadcast):
            kept = _broadcast(cuts, tuple(Cut((), n, n) for n in op.result.shape))
            key = self._key("broadcast", op.result.shape, x.key)
            return None if kept is None else Expression(key, kept)
        if isinstance(op, Reshape):
            shape = op.result.shape
            source = same_unit_free_dims(op.operands[0].shape, shape)
            if source is not None:
                dropped = tuple(cut for d, cut in enumerate(cuts) if d not in source.values())
                order = tuple(source.get(d) for d in range(len(shape)))
                kept = tuple(Cut((), 1, 1) if d is None else cuts[d] for d in order)
                return Expression(self._key("reshape", order, dropped, x.key), kept)
        return None


def _broadcast(a: tuple[Cut, ...], b: tuple[Cut, ...]) -> tuple[Cut, ...] | None:
    """The cuts of an elementwise op; None where the operands are cut in different ways."""
    rank = max(len(a), len(b))
    one = Cut((), 1, 1)
    found: list[Cut] = []
    for x, y in zip((one,) * (rank - len(a)) + a, (one,) * (rank - len(b)) + b, strict=True):
        if x != y and one not in (x, y):
            return None
        found.append(y if x == one else x)
    return tuple(found)
