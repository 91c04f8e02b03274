"""Blocks that hold rows of integers and reduce them several times.

The place of a row's largest integer takes two reductions: the maximum, and the first place at which
an element equals it. A block that has the row in registers computes both, and reads it once.

Longer rows are cut into parts. Each block then finds the largest integer ``m`` of its part, and the
total ``t`` of a formula where an element equals ``m`` (and of zeros elsewhere). This is the same
problem again, with the parts' ``m`` as the row: if the ``m`` of a part is not the largest ``M``,
none of its elements is, so the part adds only zeros; and if ``m`` is ``M``, then ``t`` is the
contribution of the part.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf, prod

from mirage.semantics.integer_formula import LOAD, POSITION, Formula, Step
from mirage.semantics.integer_functions import CAST
from mirage.semantics.integer_totals import IntegerReduce
from mirage.semantics.integers import Integers, MapIntegers, TileIntegers
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import (
    BlockGraph,
    Launch,
    Load,
    Mask,
    Output,
    Reduce,
    Reshape,
    Schedule,
)
from mirage.transforms.integer_reductions import TILE, Cut, grid_of, padded

MOST = 8192
"""The most integers that a block holds."""
PART = 4096
"""The integers of a part of a row that a block does not hold."""
NEIGHBOURS = 16
"""The least columns of a tile: neighbours in memory, which are read together."""
OF_THREAD, LOADED = 32, 128
"""The most integers that a thread holds, and the bytes that it loads of them."""
_KEEP, _EQ = BinaryFn.KEEP.value, BinaryFn.EQ.value


@dataclass(frozen=True)
class Rows:
    """Reductions over the same dimensions of the same rows: the first one, and reductions of
    formulas of the rows and of earlier results."""

    totals: tuple[IntegerReduce, ...]
    formulas: Mapping[Value, Integers]

    @property
    def shape(self) -> tuple[int, ...]:
        return self.totals[0].operands[0].shape

    @property
    def dims(self) -> tuple[int, ...]:
        return self.totals[0].dims

    def launches(self, positions: Container[Value]) -> list[Launch]:
        """Return the launches that compute the totals, which the last one has as results; none if
        no block holds the rows and they have no parts."""
        tile = _tile(self.shape, self.dims)
        wide = [d for d in self.dims if self.shape[d] > 1]
        if all(tile[d] == self.shape[d] for d in wide):
            return [self._launch(tile, [op.result for op in self.totals], positions)]
        if len(wide) > 1 or not all(map(self._is_of_largest, self.totals[1:])):
            return []
        parts = tuple(ceil(n / tile[d]) if d in self.dims else n for d, n in enumerate(self.shape))
        partial = [Value(TensorType(parts, op.result.dtype)) for op in self.totals]
        return [self._launch(tile, partial, positions), *self._joined(partial).launches(positions)]

    def _is_of_largest(self, op: IntegerReduce) -> bool:
        """Return whether a total is that of a formula where an element is the largest of its row,
        and of zeros elsewhere."""
        first, made = self.totals[0], self.formulas[op.operands[0]]
        steps = made.formula.steps
        if first.fn is not ReduceFn.MAX or steps[-1].name != _KEEP:
            return False
        known: dict[object, int] = {}
        every = tuple(range(len(self.shape)))
        row = self.formulas.get(first.operands[0])
        element = _number(known, (first.operands[0], _wide(first.operands[0], every)))
        element = element if row is None else _numbered(row, known)[-1]
        largest = _number(known, (first.result, _wide(first.result, every)))
        numbers = _numbered(made, known)
        equal, given = (steps[-1].args[i] for i in range(2))
        compared = {numbers[i] for i in steps[equal].args}
        own = {op.result for op in self.totals}
        reading = {i for i, v in enumerate(made.operands) if v in own}
        for i, step in enumerate(steps):
            if not reading.isdisjoint(step.reads):
                reading.add(i)
        return steps[equal].name == _EQ and compared == {element, largest} and given not in reading

    def _joined(self, partial: Sequence[Value]) -> Rows:
        """Return the same problem of the parts' results."""
        first = replace(self.totals[0], operands=(partial[0],))
        every = tuple(range(len(self.shape)))
        parts, one = (_wide(v, every) for v in (partial[0], first.result))
        totals, formulas = [first], dict[Value, Integers]()
        for op, value in zip(self.totals[1:], partial[1:], strict=True):
            steps = (
                Step(LOAD, parts), Step(LOAD, one), Step(LOAD, parts),
                Step(_EQ, (0, 1), DType.I1), Step(_KEEP, (3, 2), value.dtype),
            )  # fmt: skip
            row = Value(value.type)
            formulas[row] = Integers((partial[0], first.result, value), (row,), Formula(steps))
            totals.append(replace(op, operands=(row,)))
        return Rows(tuple(totals), formulas)

    def _launch(
        self, tile: Sequence[int], results: Sequence[Value], positions: Container[Value]
    ) -> Launch:
        cuts = [Cut(n, own, ceil(n / own)) for n, own in zip(self.shape, tile, strict=True)]
        grid, _ = grid_of(cuts)
        body = _Body(cuts, self.dims, positions)
        for op in self.totals:
            body.add(op, self.formulas)
        params = tuple(body.params.values())
        graph = BlockGraph(params, tuple(body.ops), tuple(body.outputs))
        widest = max(v.dtype.bytes for v in body.params)
        threads = prod(map(padded, tile)) // min(OF_THREAD, LOADED // widest)
        warps = min(max(threads // 32, 4), 16)
        return Launch(
            tuple(body.params), tuple(results), grid, graph, Schedule(warps=warps, stages=1)
        )


def _tile(shape: tuple[int, ...], dims: Sequence[int]) -> tuple[int, ...]:
    """Return the size of the tiles of blocks that hold rows, or parts of them."""
    tile = [1] * len(shape)
    for d in dims:
        tile[d] = shape[d]
    columns = [d for d, n in enumerate(shape) if n > 1 and d not in dims]
    last = max((d for d, n in enumerate(shape) if n > 1), default=0)
    width = min(padded(shape[last]), NEIGHBOURS) if last in columns else 1
    if prod(padded(tile[d]) for d in dims) * width > MOST:
        longest = max(dims, key=lambda d: shape[d])
        rest = prod(padded(tile[d]) for d in dims if d != longest)
        tile[longest] = max(1, min(shape[longest], PART // (rest * width)))
    held = prod(padded(tile[d]) for d in dims)
    if columns:
        tile[columns[-1]] = min(shape[columns[-1]], max(TILE // held, width, 1))
    return tuple(tile)


@dataclass
class _Body:
    """The ops of one block."""

    cuts: Sequence[Cut]
    dims: Sequence[int]
    positions: Container[Value]
    ops: list[Op] = field(default_factory=list[Op])
    params: dict[Value, Value] = field(default_factory=dict[Value, Value])
    outputs: list[Output] = field(default_factory=list[Output])
    tiles: dict[tuple[Value, tuple[int, ...]], Value] = field(
        default_factory=dict[tuple[Value, tuple[int, ...]], Value]
    )

    def add(self, op: IntegerReduce, formulas: Mapping[Value, Integers]) -> None:
        """Add a reduction."""
        every = tuple(range(len(self.cuts)))
        made = formulas.get(op.operands[0])
        value = self._tile(op.operands[0], every) if made is None else self._formula(made)
        fill = -inf if op.fn is ReduceFn.MAX else 0.0
        for d in self.dims:
            if self.cuts[d].overhangs and (made is not None or op.fn is ReduceFn.MAX):
                axes = self._axes(d)
                mask = Mask((value,), (Value(value.type),), d, axes, self.cuts[d].size, fill)
                value = self._added(mask)
        wide = tuple(d for d in self.dims if value.shape[d] > 1)
        if wide:
            shape = tuple(1 if d in wide else n for d, n in enumerate(value.shape))
            value = self._added(
                Reduce((value,), (Value(TensorType(shape, DType.I64)),), op.fn, wide)
            )
        self.tiles[op.result, _wide(op.result, every)] = value
        self.outputs.append(Output(value, tuple(map(self._axes, every))))

    def _added(self, op: Op) -> Value:
        self.ops.append(op)
        return op.results[0]

    def _axes(self, dim: int) -> tuple[str, ...]:
        return (f"g{dim}",) if self.cuts[dim].parts > 1 else ()

    def _tile(self, v: Value, dims: tuple[int, ...]) -> Value:
        """Return the tile of a tensor, of which each dimension lies along one of the rows'."""
        dims = _wide(v, dims)
        if (v, dims) not in self.tiles:
            self.tiles[v, dims] = self._along(self._loaded(v, dims), dims)
        return self.tiles[v, dims]

    def _loaded(self, v: Value, dims: tuple[int, ...]) -> Value:
        axes = tuple(self._axes(d) if d >= 0 else () for d in dims)
        shape = tuple(self.cuts[d].tile if d >= 0 else 1 for d in dims)
        result = Value(TensorType(shape, DType.I64))
        if v in self.positions:
            steps = (Step(POSITION, (0,), DType.I64), Step(CAST, (0,), DType.I64))
            return self._added(TileIntegers((), (result,), axes, v.shape, Formula(steps)))
        param = self.params.setdefault(v, Value(v.type, v.name))
        return self._added(Load((param,), (result,), axes))

    def _along(self, tile: Value, dims: tuple[int, ...]) -> Value:
        """Return a tile with its dimensions at the places of those of the rows."""
        order = [d for d in dims if d >= 0]
        assert order == sorted(order), "expected dimensions in the order of the rows'"
        shape = tuple(cut.tile if d in dims else 1 for d, cut in enumerate(self.cuts))
        if shape == tile.shape:
            return tile
        return self._added(Reshape((tile,), (Value(TensorType(shape, DType.I64)),)))

    def _formula(self, made: Integers) -> Value:
        tiles = tuple(
            self._tile(v, dims) for v, dims in zip(made.operands, made.formula.loads, strict=True)
        )
        steps = (replace(s, args=()) if s.name == LOAD else s for s in made.formula.steps)
        shape = tuple(cut.tile for cut in self.cuts)
        result = Value(TensorType(shape, DType.I64))
        return self._added(MapIntegers(tiles, (result,), Formula(tuple(steps))))


def _wide(v: Value, dims: Sequence[int]) -> tuple[int, ...]:
    """Return along which dimensions those of a value lie, if they have several elements."""
    return tuple(-1 if n == 1 else d for d, n in zip(dims, v.shape, strict=True))


def _number(known: dict[object, int], key: object) -> int:
    return known.setdefault(key, len(known))


def _numbered(made: Integers, known: dict[object, int]) -> list[int]:
    """Return a number for each step of a formula, the same for equal steps."""
    numbers: list[int] = []
    for i, step in enumerate(made.formula.steps):
        if step.name == LOAD:
            key: object = (made.operands[i], step.args)
        else:
            args = tuple(numbers[a] for a in step.args) if step.reads else step.args
            key = (step.name, args, step.dtype)
        numbers.append(_number(known, key))
    return numbers
