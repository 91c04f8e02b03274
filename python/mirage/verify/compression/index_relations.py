"""The statements that the ops of several programs make about the indices of their dimensions and
axes.

A *slot* is a dimension of a tensor or tile, or a grid or loop axis of a launch. Ops say which slots
hold the same indices, which are tiled by which axes, joined by a reshape, or cut out of others by a
slice. :mod:`mirage.verify.compression.digits` solves these statements.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass

from mirage.semantics.indexing.relations import Joined, Regrouped, Relation, Same, Taken
from mirage.semantics.ops.kinds import relations_of
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Elementwise,
    KernelGraph,
    Launch,
    Load,
    Loop,
    Mask,
    Matmul,
    Movement,
    Op,
    Reduce,
    Scan,
    TileMap,
    Value,
    axis_extents,
    unknown,
)
from mirage.verify.compression.running_maxima import order_matters

Slot = Hashable


class Irregular(ValueError):
    """The two programs' index structure has no common digits."""


class Union:
    """Union-find over hashable keys."""

    def __init__(self) -> None:
        self.parent: dict[Hashable, Hashable] = {}

    def find(self, key: Hashable) -> Hashable:
        """Return the representative of the key's set."""
        parent = self.parent
        root = parent.setdefault(key, key)
        if root is key:
            return root
        while (up := parent[root]) is not root:
            root = up
        while key is not root:
            parent[key], key = root, parent[key]
        return root

    def join(self, a: Hashable, b: Hashable) -> None:
        """Merge the sets of two keys."""
        self.parent[self.find(a)] = self.find(b)


@dataclass(frozen=True)
class Tiling:
    parts: tuple[Slot, ...]
    whole: Slot | None  # None if it is a mask
    size: int


@dataclass(frozen=True)
class Cut:
    """The slot ``part`` holds the indices of ``whole`` from ``offset`` on."""

    whole: Slot
    part: Slot
    offset: int


class Slots:
    """The slots of several graphs (primitive ops only) and the ops' statements about them."""

    def __init__(self) -> None:
        self.union = Union()
        self.sizes: dict[Slot, int] = {}
        self.tilings: list[Tiling] = []
        self.joins: list[tuple[tuple[Slot, ...], tuple[Slot, ...]]] = []
        self.cuts: list[Cut] = []
        self.in_order: set[Slot] = set()  # loop axes whose sums depend on the order of the steps
        self.last: set[Slot] = set()  # axes whose last index differs from the others

    def slot(self, value: Value, dim: int) -> Slot:
        """Return the slot of a dimension of a tensor or tile."""
        key = ("dim", value, dim)
        self.sizes.setdefault(key, value.shape[dim])
        return key

    def axis(self, launch: Launch, name: str) -> Slot:
        """Return the slot of a grid or loop axis."""
        return ("axis", launch, name)

    def _same(self, a: Value, i: int, b: Value, j: int) -> None:
        if a.shape[i] != b.shape[j]:
            raise Irregular(f"sizes {a.shape[i]} and {b.shape[j]} meet")
        self.union.join(self.slot(a, i), self.slot(b, j))

    def same_shape(self, a: Value, b: Value) -> None:
        for i in range(len(a.shape)):
            self._same(a, i, b, i)

    def _aligned(self, a: Value, b: Value, skip: int = 0) -> None:
        """State that trailing dimensions (except the last ``skip``) of ``a`` broadcast to those of
        ``b``."""
        for back in range(skip + 1, min(len(a.shape), len(b.shape)) + 1):
            if a.shape[-back] != 1:
                self._same(a, len(a.shape) - back, b, len(b.shape) - back)

    def add(self, graph: KernelGraph) -> None:
        for v in (*graph.inputs, *graph.outputs):
            for dim in range(len(v.shape)):
                self.slot(v, dim)
        for op in graph.ops:
            for v in op.results:
                for dim in range(len(v.shape)):
                    self.slot(v, dim)
            if isinstance(op, Launch):
                self._launch(op)
            else:
                self._op(op)

    def _launch(self, launch: Launch) -> None:
        for name, extent in axis_extents(launch).items():
            self.sizes["axis", launch, name] = extent
        for p, v in zip(launch.body.params, launch.operands, strict=True):
            self.same_shape(p, v)
        self._block(launch, launch.body.ops)
        for output, result in zip(launch.body.outputs, launch.results, strict=True):
            self._tile(launch, output.map, output.value, result)

    def _block(self, launch: Launch, ops: tuple[Op, ...]) -> None:
        for op in ops:
            for v in op.results:
                for dim in range(len(v.shape)):
                    self.slot(v, dim)
            if isinstance(op, Load):
                self._tile(launch, op.map, op.result, op.operands[0])
            elif isinstance(op, Loop):
                self._block(launch, op.body)
                if order_matters(op):
                    self.in_order.add(self.axis(launch, op.axis.name))
                for a, result in zip(op.accumulators, op.results, strict=True):
                    self._accumulator(a, result)
                    # The last running maximum is that of all steps, whatever their order.
                    if a.fn is AccumulateFn.LAST and a.value not in op.maxima:
                        self.last.add(self.axis(launch, op.axis.name))
            else:
                if isinstance(op, Mask):
                    parts = (*(self.axis(launch, a) for a in op.axes), self.slot(op.result, op.dim))
                    self.tilings.append(Tiling(parts, None, op.extent))
                self._op(op)

    def _accumulator(self, a: Accumulator, result: Value) -> None:
        self.same_shape(a.value, result)
        if a.rescale is not None:
            self._aligned(a.rescale, a.value)

    def _tile(self, launch: Launch, tile_map: TileMap, tile: Value, whole: Value) -> None:
        for dim, axes in enumerate(tile_map):
            if tile.shape[dim] == whole.shape[dim] and all(
                self.sizes["axis", launch, a] == 1 for a in axes
            ):
                self._same(tile, dim, whole, dim)
                continue
            parts = (*(self.axis(launch, a) for a in axes), self.slot(tile, dim))
            self.tilings.append(Tiling(parts, self.slot(whole, dim), whole.shape[dim]))

    def _op(self, op: Op) -> None:
        if op.number is not None:
            return
        y = op.result
        if isinstance(op, Matmul):
            a, b = op.operands
            self._same(a, len(a.shape) - 1, b, len(b.shape) - 2)
            self._same(a, len(a.shape) - 2, y, len(y.shape) - 2)
            self._same(b, len(b.shape) - 1, y, len(y.shape) - 1)
            self._aligned(a, y, skip=2)
            self._aligned(b, y, skip=2)
        elif isinstance(op, Reduce):
            for dim in range(len(y.shape)):
                if dim not in op.dims:
                    self._same(op.operands[0], dim, y, dim)
        elif isinstance(op, Movement):
            for relation in relations_of(op, "which indices an op relates"):
                self._moved(op, relation)
        elif isinstance(op, Elementwise | Scan):
            for v in op.operands:
                self._aligned(v, y)
        else:
            raise unknown(op, "which indices an op relates")

    def _moved(self, op: Movement, relation: Relation) -> None:
        y = op.result
        match relation:
            case Same():
                self._same(op.operands[relation.operand], relation.dim, y, relation.result)
            case Regrouped():
                # dimensions of size 1 have no index; before others they would end them
                x = op.operands[0]
                left = tuple(self.slot(x, d) for d in relation.dims if x.shape[d] != 1)
                right = tuple(self.slot(y, d) for d in relation.result if y.shape[d] != 1)
                self.joins.append((left, right))
            case Taken():
                whole, part = self.slot(op.operands[0], relation.dim), self.slot(y, relation.result)
                self.cuts.append(Cut(whole, part, relation.offset))
            case Joined():
                part = self.slot(op.operands[relation.operand], relation.dim)
                self.cuts.append(Cut(self.slot(y, relation.result), part, relation.offset))
