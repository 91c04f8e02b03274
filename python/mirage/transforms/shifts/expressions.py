"""Recognition of tiles that are parts of the same tensor, computed twice.

Every tile of a block graph is a part of a tensor that may never be stored: a product of two loaded
tiles is a part of the product of the tensors. An :class:`Expression` identifies that tensor by its
computation, and says which part of it the tile is. Two loops, or two kernels, that compute the same
scores have expressions with equal keys, even if one of them works on the transposed scores or on
tiles of another size.

Results of ops that are not followed (slices, joins, running maxima) count as new tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from mirage.semantics.scalar import BINARY, ReduceFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Binary,
    Cast,
    Cumulation,
    Elementwise,
    Load,
    Loop,
    Mask,
    Matmul,
    Movement,
    Op,
    Reduce,
    Scan,
    Source,
    Unary,
    Value,
    View,
    no_rule,
)
from mirage.transforms.shifts.alignment import viewed

Keys = dict[tuple[object, ...], int]
"""The numbers of the tensors of a program."""


@dataclass(frozen=True)
class Cut:
    """The part of a dimension of ``size`` elements that a tile of ``tile`` has at the current steps
    of ``axes``.
    """

    axes: tuple[str, ...]
    tile: int
    size: int

    def covers(self, other: Cut, extents: Mapping[str, int], finished: frozenset[str]) -> bool:
        """Return whether all elements of ``other`` are among those that this tile had in the steps
        of the loops over ``finished``, with the other axes fixed.
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
    """A part of the tensor ``key``. Its axes have numbers, which are the same wherever the tensor
    is computed: ``cuts`` gives the tile's part of each axis, and ``dims`` the axis of each
    dimension of the tile (None: the value does not vary along it). If a tile of a sum lacks the
    steps of ``pending`` loops, it is not yet a part of the tensor.
    """

    key: int
    dims: tuple[int | None, ...]
    cuts: tuple[Cut, ...]
    pending: frozenset[str] = frozenset()


class Expressions:
    """The expressions of the tiles of a launch, whose ops are added in program order. ``tensors``
    are the device tensors that its params stand for.
    """

    def __init__(
        self, keys: Keys, tensors: Mapping[Value, Value], extents: Mapping[str, int]
    ) -> None:
        self._keys = keys
        self._tensors = tensors
        self._extents = extents
        self._of: dict[Value, Expression] = {}

    def __getitem__(self, value: Value) -> Expression:
        return self._of[value]

    def __contains__(self, value: Value) -> bool:
        return value in self._of

    def add(self, op: Op) -> None:
        """Add the results of an op whose operands, or whose body, are known."""
        if isinstance(op, Loop):
            for accumulator, result in zip(op.accumulators, op.results, strict=True):
                x = self._of[accumulator.value]
                complete = accumulator.fn is AccumulateFn.SUM and op.axis.name in x.pending
                plain = complete and accumulator.rescale is None
                self._of[result] = (
                    replace(x, pending=x.pending - {op.axis.name}) if plain else self._own(result)
                )
            return
        self._of[op.result] = self._expression(op) or self._own(op.result)

    def _own(self, value: Value) -> Expression:
        """Return a new tensor of which nothing else is a part."""
        large = [n for n in value.shape if n > 1]
        numbers = iter(range(len(large)))
        dims = tuple(next(numbers) if n > 1 else None for n in value.shape)
        return Expression(self._key("value", value), dims, tuple(Cut((), n, n) for n in large))

    def _key(self, *parts: object) -> int:
        return self._keys.setdefault(parts, len(self._keys))

    def _expression(self, op: Op) -> Expression | None:
        if isinstance(op, Load):
            return self._load(op)
        if op.number is not None:
            dims = (None,) * len(op.result.shape)
            return Expression(self._key("constant", op.number), dims, ())
        if isinstance(op, Source):  # rows that are looked up read params, like loads
            return None
        xs = [self._of[v] for v in op.operands]
        if isinstance(op, View):
            dims = viewed(op, op.operands[0], xs[0].dims)
            return None if dims is None else replace(xs[0], dims=dims)
        if not xs or any(x.pending for x in xs):
            return None
        (x, *_) = xs
        if isinstance(op, Unary | Cast):
            return replace(x, key=self._key(op.function or op.result.dtype, x.key))
        if isinstance(op, Mask):
            axis = x.dims[op.dim]
            if axis is None or x.cuts[axis].axes != op.axes:
                return None
            return replace(x, key=self._key("mask", axis, op.extent, op.fill, x.key))
        if isinstance(op, Binary):
            rank = len(op.result.shape)
            dims = [(None,) * (rank - len(x.dims)) + x.dims for x in xs]
            return self._combined(op.fn, xs, dims, (), BINARY[op.fn].commutes)
        if isinstance(op, Matmul):
            return self._matmul(op, xs)
        if isinstance(op, Reduce):
            return self._reduce(op, x)
        if not isinstance(op, Elementwise | Movement | Scan | Cumulation):
            no_rule(op, "which tiles are parts of one tensor")
        return None

    def _load(self, op: Load) -> Expression:
        tensor = self._tensors[op.operands[0]]
        where = zip(op.map, op.result.shape, tensor.shape, strict=True)
        cuts = [Cut(*cut) for cut in where]
        large = [d for d, cut in enumerate(cuts) if cut.size > 1]
        dims = tuple(large.index(d) if d in large else None for d in range(len(cuts)))
        return Expression(self._key("load", tensor), dims, tuple(cuts[d] for d in large))

    def _matmul(self, op: Matmul, xs: Sequence[Expression]) -> Expression | None:
        a, b = xs
        summed = a.dims[-1], b.dims[-2]
        rank = len(op.result.shape)
        left = (None,) * (rank - len(a.dims)) + a.dims[:-1] + (None,)
        right = (None,) * (rank - len(b.dims)) + b.dims[:-2] + (None, b.dims[-1])
        if None in summed:
            return None
        return self._combined("matmul", xs, [left, right], summed, commutes=True)

    def _combined(
        self,
        kind: object,
        xs: Sequence[Expression],
        dims: Sequence[tuple[int | None, ...]],
        summed: tuple[int | None, ...],
        commutes: bool,
    ) -> Expression | None:
        """Combine two tensors: axes of the same dimension of the result are one axis, which both
        must cut alike; over ``summed``, one axis of each, products are summed.
        """
        order = (1, 0) if commutes and xs[1].key < xs[0].key else (0, 1)
        first, second = (xs[i] for i in order)
        dims_a, dims_b = (dims[i] for i in order)
        axis_a, axis_b = (summed[i] for i in order) if summed else (None, None)
        numbers = [a for a in range(len(first.cuts)) if a != axis_a]
        cuts = [first.cuts[a] for a in numbers]
        where_b: dict[int, int] = {}
        for a, b in zip(dims_a, dims_b, strict=True):
            if a is not None and b is not None:
                if first.cuts[a] != second.cuts[b]:
                    return None
                where_b[b] = numbers.index(a)
        for b, cut in enumerate(second.cuts):
            if b not in where_b and b != axis_b:
                where_b[b] = len(cuts)
                cuts.append(cut)
        found = tuple(
            numbers.index(a) if a is not None else where_b[b] if b is not None else None
            for a, b in zip(dims_a, dims_b, strict=True)
        )
        pending = frozenset[str]()
        if axis_a is not None and axis_b is not None:
            whole = first.cuts[axis_a]
            if whole != second.cuts[axis_b] or not self._adds_up(whole):
                return None
            pending = frozenset(whole.axes)
        key = self._key(kind, first.key, second.key, axis_a, axis_b, tuple(where_b.items()))
        return Expression(key, found, tuple(cuts), pending)

    def _reduce(self, op: Reduce, x: Expression) -> Expression | None:
        axes = [x.dims[d] for d in op.dims]
        pending = frozenset[str]()
        for axis in axes:
            if axis is None or not self._adds_up(x.cuts[axis]):
                return None
            pending |= frozenset(x.cuts[axis].axes)
        if pending and op.fn is not ReduceFn.SUM:
            return None
        numbers = [a for a in range(len(x.cuts)) if a not in axes]
        dims = tuple(None if a is None or a in axes else numbers.index(a) for a in x.dims)
        key = self._key(op.fn, x.key, tuple(axes))
        return Expression(key, dims, tuple(x.cuts[a] for a in numbers), pending)

    def _adds_up(self, cut: Cut) -> bool:
        """Return whether the parts cover the dimension exactly."""
        return cut.tile * prod(self._extents[a] for a in cut.axes) == cut.size
