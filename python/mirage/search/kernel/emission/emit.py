"""From a derivation and a choice of sizes to a :class:`Launch` (and, for a grid sum, the program
of its combine kernel).

Tiles are kept in two dimensions, rows and columns, behind leading dimensions of size 1. The
orientation is passed down from the result: a matmul wants its contracted axis in the columns of its
left operand and in the rows of its right one, a reduction removes the axis that its result does not
have, elementwise ops pass the requested orientation to their operands, and a load is viewed (or
transposed) as needed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod

from mirage.search.algebra.atoms import InAtom
from mirage.search.algebra.axes import Dims
from mirage.search.kernel.derivations.derive import Derivations, Goal
from mirage.search.kernel.derivations.moves import (
    Accumulate,
    Edge,
    EmitError,
    Load,
    Product,
    Reduction,
)
from mirage.search.kernel.emission.bodies import Bodies
from mirage.search.kernel.emission.computed_once import without_repeats
from mirage.search.kernel.emission.masked_padding import Padding, Sizes
from mirage.search.kernel.emission.tile_views import flipped, reshaped, turned, upright, viewed
from mirage.search.kernel.loop_nests.columns import GROUP_ROWS
from mirage.semantics.builder import Builder, promote
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    Launch,
    Output,
    Schedule,
    TileMap,
    Value,
)

_Key = tuple[Goal, str | None, str | None, int]
"""The key of an emitted tile: its goal, the axes of its rows and columns, and its loop, if it
belongs to one."""


@dataclass
class Emitter:
    """Writes one launch."""

    derivations: Derivations
    choice: dict[Goal, Edge]
    tensors: list[Value]
    extents: dict[str, int]
    sizes: Sizes
    half: DType | None
    tf32: bool
    _params: dict[int, Value] = field(default_factory=dict[int, Value])
    _memo: dict[_Key, Value] = field(default_factory=dict["_Key", Value])
    _loads: dict[tuple[Goal, int], Value] = field(default_factory=dict[tuple[Goal, int], Value])
    _casts: dict[tuple[Value, DType], Value] = field(
        default_factory=dict[tuple[Value, DType], Value]
    )

    def __post_init__(self) -> None:
        self._bodies = Bodies(self.derivations, self.choice)
        self._padding = Padding(self.derivations.algebra, self.sizes, self.extents, self.axes_of)

    def launch(self, stores: list[tuple[Goal, Value, Dims, str | None]]) -> Launch:
        """Return a launch that stores goals, given as (goal, result tensor, its axes, the split
        axis if its first dimension counts parts)."""
        self._bodies.mark_early([s[0] for s in stores])
        outputs = [self._store(*s) for s in stores]
        known: dict[Value, Value] = {}
        ops = without_repeats(self._bodies.ops(self.sizes.steps), known)
        outputs = [replace(o, value=known.get(o.value, o.value)) for o in outputs]
        grid = tuple(Axis(self.grid_name(a), n) for a, n in self._grid_order(stores) if n > 1)
        numbers = sorted(self._params)
        return Launch(
            tuple(self.tensors[i] for i in numbers),
            tuple(s[1] for s in stores),
            grid,
            BlockGraph(tuple(self._params[i] for i in numbers), tuple(ops), tuple(outputs)),
            Schedule(
                self.sizes.warps,
                self.sizes.stages,
                self.sizes.warpgroups,
                cluster=self.sizes.cluster,
            ),
        )

    def _grid_order(
        self, stores: list[tuple[Goal, Value, Dims, str | None]]
    ) -> list[tuple[str, int]]:
        seen: dict[str, int] = {}
        for _, _, dims, _ in stores:
            for a in (x for dim in dims for x in dim):
                seen.setdefault(a, self.sizes.grid.get(a, 1))
        for a, n in self.sizes.grid.items():
            seen.setdefault(a, n)
        return list(seen.items())

    def grid_name(self, axis: str) -> str:
        """Return the name of the grid axis of ``axis``."""
        return f"{axis}_part" if axis == self.derivations.kind.split else axis

    def axes_of(self, label: str) -> tuple[str, ...]:
        """Return the grid and loop axes that split ``label``, outermost first."""
        names: tuple[str, ...] = ()
        if self.sizes.grid.get(label, 1) > 1:
            names += (self.grid_name(label),)
        step = self._bodies.axis_name(label)
        return names if step is None else (*names, step)

    def _map(self, dims: Dims) -> TileMap:
        return tuple(tuple(n for a in dim for n in self.axes_of(a)) for dim in dims)

    def builder(self, goal: Goal) -> Builder:
        """Return the builder of the body in which a goal is computed."""
        return self._bodies.builder(goal)

    def _place(self, goal: Goal) -> int:
        return self._bodies.place(goal)

    # ---- values

    def _wide(self, goal: Goal) -> set[str]:
        free = self.derivations.algebra.free(goal[0])
        return {a for a, level in free if level == "L" and self.sizes.tile[a] > 1}

    def get(self, goal: Goal, row: str | None, col: str | None) -> Value:
        """Return the tile of ``goal`` with ``row`` and ``col`` as its last two dimensions (1 where
        it does not have them)."""
        wide = self._wide(goal)
        if not wide <= {row, col}:
            raise EmitError(f"expected a tile over {row} and {col}, got one over {sorted(wide)}")
        place = self._place(goal)
        key = (goal, row if row in wide else None, col if col in wide else None, place)
        if key not in self._memo:
            other, edge = self._memo.get((goal, key[2], key[1], place)), self.choice[goal]
            if other is not None and not isinstance(edge, Load) and other.shape != ():
                self._memo[key] = flipped(self.builder(goal), other)
            else:
                self._memo[key] = edge.emit(self, key[1], key[2])
        return self._memo[key]

    def load(self, edge: Load, row: str | None, col: str | None) -> Value:
        """Return a loaded tile, viewed as rows and columns."""
        atom = self.derivations.algebra.atoms[edge.atom]
        assert isinstance(atom, InAtom)
        build = self.builder(edge.goal)
        place = edge.goal, self._place(edge.goal)
        if place not in self._loads:
            source = self.tensors[atom.tensor]
            param = self._params.get(atom.tensor)
            if param is None:
                param = self._params[atom.tensor] = Value(source.type, source.name)
            tile = tuple(prod(self.sizes.tile[a] for a in dim) for dim in atom.dims)
            self._loads[place] = build.load(param, self._map(atom.dims), tile)
        return viewed(build, self._loads[place], atom.dims, self.sizes.tile, row, col)

    def _operand(self, build: Builder, x: Value, dtype: DType) -> Value:
        x = upright(build, x)
        if x.dtype is dtype:
            return x
        if (x, dtype) not in self._casts:
            self._casts[(x, dtype)] = build.cast(x, dtype)
        return self._casts[(x, dtype)]

    def matmul(self, edge: Product, row: str | None, col: str | None) -> Value:
        """Return a matrix product of tiles."""
        k = edge.axis
        left, right = edge.children
        if row in self._wide(right) or col in self._wide(left):
            left, right = right, left
        a, b = self.get(left, row, k), self.get(right, k, col)
        build = self.builder(edge.goal)
        pad_left, pad_right = self._padding.needed(left, right, k)
        dtype = self._operand_type(edge)
        # values that do not change in the loop are masked and converted before it
        before = self.builder(left), self.builder(right)
        if pad_left:
            a = self._padding.mask(before[0], a, -1, k, 0.0)
        if pad_right:
            b = self._padding.mask(before[1], b, -2, k, 0.0)
        tf32 = self.tf32 and dtype is DType.F32 and not edge.wide
        first, second = self._operand(before[0], a, dtype), self._operand(before[1], b, dtype)
        return build.matmul(first, second, tf32=tf32)

    def _operand_type(self, edge: Product) -> DType:
        if any(t.dtype is DType.F64 for t in self.tensors):
            return DType.F64
        if edge.wide or self.half is None:
            return DType.F32
        loads = {
            self.tensors[atom.tensor].dtype.in_tile
            for g in edge.children
            if isinstance(load := self.choice[g], Load)
            and isinstance(atom := self.derivations.algebra.atoms[load.atom], InAtom)
        }
        halves = [kind for kind in loads if kind.is_half]
        return promote(*halves) if halves else self.half

    def add(self, edge: Edge, row: str | None, col: str | None) -> Value:
        """Return a sum. Other values are added one by one to a tile that a loop has produced: their
        sum would be an additional tile in registers that are already full."""
        build, (first, second) = self.builder(edge.goal), edge.terms
        terms = [first, second]
        if self._leaves_loop(first) != self._leaves_loop(second) and None not in (row, col):
            left, other = (first, second) if self._leaves_loop(first) else (second, first)
            parts = self._terms(other, {row, col})
            if len(parts) > 1:
                terms = [left, *parts]
        total = self.get(terms[0], row, col)
        for term in terms[1:]:
            total = build.binary(BinaryFn.ADD, total, self.get(term, row, col))
        return total

    def _leaves_loop(self, goal: Goal) -> bool:
        """Return whether a value consists of sums of a loop that has ended."""
        outside = self._place(goal) < 0
        return outside and self._bodies.phases.ended(goal[0]) > 0

    def _terms(self, goal: Goal, wide: set[str | None]) -> list[Goal]:
        """Return the whole tiles whose sum a value is, if nothing else needs that sum."""
        terms = self.choice[goal].terms
        whole = any(self._wide(term) == wide for term in terms)
        if not whole or self._uses[goal] > 1:
            return [goal]
        return [part for term in terms for part in self._terms(term, wide)]

    @cached_property
    def _uses(self) -> Counter[Goal]:
        """The number of values that use each value."""
        return Counter(child for edge in self.choice.values() for child in edge.children)

    def reduce(self, edge: Reduction, row: str | None, col: str | None) -> Value:
        """Return a reduction of a tile, masked where padding would count."""
        child, axis = edge.children[0], edge.axis
        build = self.builder(edge.goal)
        if self.sizes.tile[axis] == 1:
            return self._padding.guard(build, self.get(child, row, col), edge)
        if row is not None and col is not None:
            raise EmitError(
                f"expected a tile of two axes to reduce over {axis}, got {row}, {col} and {axis}"
            )
        # whether the operand exists as a column
        is_column = row is None and (child, axis, None, self._place(child)) in self._memo
        kept = row or col
        is_turned = self._is_turned(edge, row, col)
        if is_turned != (col is not None or is_column):
            x, dim = self.get(child, axis, kept), -2
        else:
            x, dim = self.get(child, kept, axis), -1
        x = self._padding.guard(build, x, edge, dim)
        x = upright(build, x)
        x = build.reduce(edge.fn, x, (len(x.shape) + dim,))
        return turned(build, x) if is_turned else x

    def _is_turned(self, edge: Reduction, row: str | None, col: str | None) -> bool:
        """Return whether a tile is reduced in its own orientation, after which rows of the result
        become columns (or columns rows)."""
        kept, axis = row or col, edge.axis
        return kept is not None and self._lies(
            edge.children[0], *((axis, kept) if row else (kept, axis))
        )

    def _lies(self, goal: Goal, row: str, col: str) -> bool:
        """Return whether a tile exists with these rows and columns (or is computed from one that
        does), and does not exist in the other orientation."""
        if self._wide(goal) != {row, col}:
            return False
        place = self._place(goal)
        if (goal, row, col, place) in self._memo or (goal, col, row, place) in self._memo:
            return (goal, col, row, place) not in self._memo
        edge = self.choice[goal]
        if isinstance(edge, Load):
            atom = self.derivations.algebra.atoms[edge.atom]
            assert isinstance(atom, InAtom)
            return [a for dim in atom.dims for a in dim if self.sizes.tile[a] > 1] == [row, col]
        made = (child for child in edge.children if self._wide(child) == {row, col})
        first = next(made, None)
        return first is not None and self._lies(first, row, col)

    def _sums_lie_turned(self, made: Edge, row: str | None, col: str | None) -> bool:
        """Return whether the sums of a value have its columns as rows. The sums of a step are added
        up in the orientation that they have; what rescales them has the orientation of the
        summands. Warpgroups multiply 64 rows at a time, so a product with fewer rows and at least
        64 columns is computed as the product of the transposed factors in the other order."""
        if row is None or col is None:
            if not isinstance(made, Reduction) or self.sizes.tile[made.axis] == 1:
                return False
            return self._is_turned(made, row, col)
        if not isinstance(made, Product) or not self.sizes.warpgroups:
            return False
        return self.sizes.tile[row] % GROUP_ROWS > 0 and self.sizes.tile[col] % GROUP_ROWS == 0

    def accumulate(self, edge: Accumulate, row: str | None, col: str | None) -> Value:
        """Return a value that a loop sums."""
        child, axis = edge.children[0], edge.axis
        made = self.choice[child]
        is_turned = self._sums_lie_turned(made, row, col)
        if is_turned:
            row, col = col, row
        outer = self._bodies.enter(child)
        x, build = self.get(child, row, col), self.builder(child)
        dim = -1 if axis == col else -2
        x = self._padding.guard(build, x, edge, dim if axis in (row, col) else None)
        fn = AccumulateFn.MAX if edge.fn is ReduceFn.MAX else AccumulateFn.SUM
        if x.dtype.is_half:
            x = build.cast(x, DType.F32)
        result = self._bodies.accumulate(Accumulator(fn, x), axis)
        self._bodies.current = outer
        if not is_turned:
            return result
        turn = flipped if isinstance(made, Product) else turned
        return turn(self.builder(edge.goal), result)

    # ---- stores

    def _store(self, goal: Goal, result: Value, dims: Dims, split: str | None) -> Output:
        order = [a for dim in dims for a in dim if self.sizes.tile[a] > 1]
        if len(order) > 2:
            raise EmitError(f"expected a result tile of two axes, got {order}")
        last = {a for dim in dims[-1:] for a in dim}
        if len(order) == 2:
            row, col = order[0], order[1]
        elif order and (order[0] in last or len(dims) < 2):
            row, col = None, order[0]
        else:
            row, col = (order[0] if order else None), None
        x = self.get(goal, row, col)
        build = self.builder(goal)
        tile = tuple(prod(self.sizes.tile[a] for a in dim) for dim in dims)
        maps = self._map(dims)
        if split is not None:
            tile = (1, *tile)
            maps = (((self.grid_name(split),) if self.sizes.grid[split] > 1 else ()), *maps)
        if x.shape == ():
            x = build.broadcast(x, tile)
        elif x.type.size < prod(tile):
            x = build.broadcast(x, (1,) * (2 - len(x.shape)) + x.shape) if len(x.shape) < 2 else x
            full = (
                *x.shape[:-2],
                self.sizes.tile[row] if row else 1,
                self.sizes.tile[col] if col else 1,
            )
            x = build.broadcast(x, full)
        if x.shape != tile:
            x = reshaped(build, x, tile)
        return Output(x, maps)
