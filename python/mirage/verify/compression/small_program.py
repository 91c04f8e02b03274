"""The real program on inputs that repeat themselves, as a small program.

Give every digit of the index structure (:mod:`mirage.verify.compression.digits`) a few *cells*:
some single indices and one cell for all the others, the *bulk*. On inputs that are constant within
cells the program's values are constant within cells too, because no op tells apart indices within a
segment of a digit. So one representative of each cell is enough, and a sum over an index becomes a
sum over cells weighted with the numbers of indices in them. The result is an ordinary graph with
small extents and a few more inputs, the weights. It computes *exactly* what the real program
computes on such inputs, real sizes, constants, masks and tails included; nothing is approximated
and no constant needs to be recognised as a size.

Loops run through the cells in the order of the indices: a bulk step adds its value times its
weight. This is also right with a running maximum, since equal steps do not change the maximum.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from mirage.semantics.builder import promote
from mirage.semantics.indexing.relations import Taken
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    Binary,
    BlockGraph,
    Contraction,
    KernelGraph,
    Launch,
    Load,
    Loop,
    Mask,
    Movement,
    Op,
    Output,
    Reshape,
    Slice,
    TensorType,
    Value,
    axis_extents,
    unknown,
)
from mirage.verify.compression.digits import Digit, Structure
from mirage.verify.compression.index_relations import Irregular, Slot

Weights = tuple[int, ...]


def cells_of(digit: Digit, singles: int) -> Weights:
    """Return the numbers of indices in the cells of one digit, in order.

    Each segment has ``singles`` single indices and the bulk. If the order matters, there are single
    indices on both sides of the bulk.
    """
    if digit.pinned:
        return (1,) * digit.radix
    result: list[int] = []
    for length in digit.segments:
        after = singles if digit.ordered else 0
        if length <= singles + after + 1:
            result.extend([1] * length)
        else:
            result.extend([1] * singles + [length - singles - after] + [1] * after)
    return tuple(result)


_SINGLE = 2


def even_cells(digit: Digit, count: int) -> Weights:
    """Divide each segment of a digit into at most ``count`` cells of about equal size.

    If there are at least four cells, two of them are single indices. Without them no value could
    occur exactly once, for example a maximum, or the only term of a softmax that a mask leaves."""
    if digit.pinned:
        return (1,) * digit.radix
    result: list[int] = []
    for length in digit.segments:
        parts = min(count, length)
        single = _SINGLE if 2 * _SINGLE <= parts < length else 0
        size, more = divmod(length - single, parts - single)
        rest = parts - single - more
        result.extend([1] * single + [size + 1] * more + [size] * rest)
    return tuple(result)


class Cells:
    """The cells of all digits: sizes and weights of dimensions and axes."""

    def __init__(self, structure: Structure, cells: Mapping[Hashable, Weights]) -> None:
        self.structure = structure
        self.cells = cells
        self._weights: dict[tuple[tuple[Hashable, ...], int], Weights] = {}

    @classmethod
    def with_singles(cls, structure: Structure, singles: Mapping[Hashable, int]) -> Cells:
        """Make cells with the given number of single indices of each digit (at least one) and the
        bulk."""
        return cls(
            structure, {d: cells_of(x, singles.get(d, 1)) for d, x in structure.digits.items()}
        )

    @classmethod
    def even(cls, structure: Structure, count: int) -> Cells:
        """Make the cells of each digit by :func:`even_cells`."""
        return cls(structure, {d: even_cells(x, count) for d, x in structure.digits.items()})

    def weights(self, slot: Slot) -> Weights:
        """Return, for each small index of the slot, the number of real indices that it stands
        for."""
        names, size = self.structure.digits_of(slot), self.structure.size(slot)
        if (names, size) not in self._weights:
            w = [1]
            for d in names:
                w = [x * y for x in w for y in self.cells[d]]
            w = w[: self._prefix(names, size)]
            if sum(w) != size:
                raise Irregular(f"cells cover {sum(w)} of {size} indices")
            self._weights[names, size] = tuple(w)
        return self._weights[names, size]

    def _prefix(self, names: Sequence[Hashable], size: int) -> int:
        """Return the number of small indices that stand for the first ``size`` real ones (which end
        at cuts of the digits).
        """
        base = prod(self.structure.digits[d].radix for d in names)
        small = prod(len(self.cells[d]) for d in names)
        if size >= base:
            return small
        count, rest = 0, size
        for d in names:
            base //= self.structure.digits[d].radix
            small //= len(self.cells[d])
            value, rest = divmod(rest, base)
            start = before = 0
            for cell in self.cells[d]:
                before += start < value
                start += cell
            count += before * small
        return count

    def size(self, slot: Slot) -> int:
        """Return the number of small indices of the slot."""
        return len(self.weights(slot))

    def prefix(self, parts: Sequence[Slot], size: int) -> int:
        """Return the number of small indices that stand for the first ``size`` real indices of the
        joined slots."""
        if size >= prod(self.structure.size(s) for s in parts):
            return prod(self.size(s) for s in parts)
        return self._prefix([d for s in parts for d in self.structure.digits_of(s)], size)


def compress_all(
    graphs: Sequence[KernelGraph], cells: Cells
) -> tuple[list[KernelGraph], tuple[Weights, ...]]:
    """Return small forms of several graphs, which all take the same weights, and those weights."""
    return joined([compress(g, cells) for g in graphs])


def joined(small: Sequence[SmallGraph]) -> tuple[list[KernelGraph], tuple[Weights, ...]]:
    """Return the small forms, all with the same inputs (the real programs' inputs, then the weights
    of all), and those weights."""
    weights = tuple(dict.fromkeys(w for s in small for w in s.weights))
    result: list[KernelGraph] = []
    for s in small:
        count = len(s.graph.inputs) - len(s.weights)
        known = dict(zip(s.weights, s.graph.inputs[count:], strict=True))
        extra = (known.get(w) or Value(TensorType((len(w),), DType.F32)) for w in weights)
        inputs = (*s.graph.inputs[:count], *extra)
        result.append(KernelGraph(s.graph.name, inputs, s.graph.ops, s.graph.outputs))
    return result, weights


@dataclass(frozen=True)
class SmallGraph:
    """A small program; its inputs are those of the real one, followed by the weights."""

    graph: KernelGraph
    weights: tuple[Weights, ...]


def compress(graph: KernelGraph, cells: Cells) -> SmallGraph:
    """Return the small form of ``graph``, which has only primitive ops. Raises
    :class:`Irregular`."""
    return _Compressor(graph, cells).run()


class _Compressor:
    def __init__(self, graph: KernelGraph, cells: Cells) -> None:
        self.graph = graph
        self.cells = cells
        self.structure = cells.structure
        self.names: dict[Value, Value] = {}
        self.weight_inputs: dict[Weights, Value] = {}

    def run(self) -> SmallGraph:
        inputs = tuple(map(self._new, self.graph.inputs))
        ops: list[Op] = []
        for op in self.graph.ops:
            ops.extend(self._launch(op) if isinstance(op, Launch) else self._op(op, None))
        outputs = tuple(self.names[v] for v in self.graph.outputs)
        extra = tuple(self.weight_inputs.values())
        small = KernelGraph(self.graph.name, (*inputs, *extra), tuple(ops), outputs)
        return SmallGraph(small, tuple(self.weight_inputs))

    def _shape(self, value: Value) -> tuple[int, ...]:
        return tuple(
            self.cells.size(self.structure.slot(value, d)) for d in range(len(value.shape))
        )

    def _new(self, value: Value) -> Value:
        self.names[value] = Value(TensorType(self._shape(value), value.dtype), value.name)
        return self.names[value]

    def _weight(self, weights: Weights) -> Value:
        if weights not in self.weight_inputs:
            self.weight_inputs[weights] = Value(TensorType((len(weights),), DType.F32))
        return self.weight_inputs[weights]

    # ---- sums ------------------------------------------------------------------------------------

    def _op(self, op: Op, block: _Block | None) -> list[Op]:
        xs = [self.names[v] for v in op.operands]
        before: list[Op] = []
        if isinstance(op, Contraction) and op.sums:
            for d in op.over[0]:
                weights = self.cells.weights(self.structure.slot(op.operands[0], d))
                xs[0] = self._scaled(xs[0], d, weights, block, before)
        results = tuple(map(self._new, op.results))
        sizes: dict[str, object] = {}
        if isinstance(op, Slice):
            sizes["offsets"] = self._offsets(op)
        elif isinstance(op, Movement) and any(isinstance(r, Taken) for r in op.relations() or ()):
            raise unknown(op, "what a part of cells is")
        elif isinstance(op, Mask):
            assert block is not None
            parts = (
                *(self.structure.axis(block.launch, a) for a in op.axes),
                self.structure.slot(op.result, op.dim),
            )
            sizes["extent"] = self.cells.prefix(parts, op.extent)
        new = replace(op, operands=tuple(xs), results=results, **sizes)
        if new.renames and prod(xs[0].shape) != new.result.type.size:
            raise Irregular(f"a reshape joins cells of {xs[0].shape} and {new.result.shape}")
        return [*before, new]

    def _scaled(
        self, x: Value, dim: int, weights: Weights, block: _Block | None, ops: list[Op]
    ) -> Value:
        """Multiply ``x`` by the weights along ``dim``."""
        if all(w == 1 for w in weights):
            return x
        w = self._weight(weights) if block is None else block.weight(weights, ops)
        trailing = len(x.shape) - dim - 1
        if trailing:
            wide = Value(TensorType((len(weights),) + (1,) * trailing, DType.F32))
            ops.append(Reshape((w,), (wide,)))
            w = wide
        y = Value(TensorType(x.shape, promote(x.dtype, DType.F32)))
        ops.append(Binary((x, w), (y,), BinaryFn.MUL))
        return y

    def _offsets(self, op: Slice) -> tuple[int, ...]:
        x = op.operands[0]
        result: list[int] = []
        for dim, offset in enumerate(op.offsets):
            if x.shape[dim] == op.result.shape[dim]:
                result.append(0)
                continue
            result.append(self.cells.prefix([self.structure.slot(x, dim)], offset))
        return tuple(result)

    # ---- launches --------------------------------------------------------------------------------

    def _launch(self, launch: Launch) -> list[Op]:
        block = _Block(self, launch)
        params = tuple(map(self._new, launch.body.params))
        ops = self._block_ops(launch.body.ops, block)
        outputs = tuple(Output(self.names[o.value], o.map) for o in launch.body.outputs)
        operands = tuple(self.names[v] for v in launch.operands)
        results = tuple(map(self._new, launch.results))
        extra = tuple(block.params)
        body = BlockGraph((*params, *(block.params[w] for w in extra)), ops, outputs)
        grid = tuple(
            Axis(a.name, self.cells.size(self.structure.axis(launch, a.name))) for a in launch.grid
        )
        return [
            Launch((*operands, *map(self._weight, extra)), results, grid, body, launch.schedule)
        ]

    def _block_ops(self, ops: tuple[Op, ...], block: _Block) -> tuple[Op, ...]:
        result: list[Op] = []
        for op in ops:
            if isinstance(op, Load):
                result.append(
                    replace(
                        op, operands=(self.names[op.operands[0]],), results=(self._new(op.result),)
                    )
                )
            elif isinstance(op, Loop):
                result.append(self._loop(op, block))
            else:
                result.extend(self._op(op, block))
        return tuple(result)

    def _loop(self, op: Loop, block: _Block) -> Loop:
        body = list(self._block_ops(op.body, block))
        slot = self.structure.axis(block.launch, op.axis.name)
        weights = self.cells.weights(slot)
        accumulators: list[Accumulator] = []
        for a in op.accumulators:
            value = self.names[a.value]
            if a.fn is AccumulateFn.SUM and any(w != 1 for w in weights):
                value = self._step_weighted(value, weights, op.axis.name, block, body)
            accumulators.append(
                Accumulator(a.fn, value, None if a.rescale is None else self.names[a.rescale])
            )
        results = tuple(map(self._new, op.results))
        return Loop((), results, Axis(op.axis.name, len(weights)), tuple(body), tuple(accumulators))

    def _step_weighted(
        self, x: Value, weights: Weights, axis: str, block: _Block, ops: list[Op]
    ) -> Value:
        w = Value(TensorType((1,), DType.F32))
        ops.append(Load((block.param(weights),), (w,), ((axis,),)))
        if x.shape == ():
            flat = Value(TensorType((), DType.F32))
            ops.append(Reshape((w,), (flat,)))
            w = flat
        y = Value(TensorType(x.shape, promote(x.dtype, DType.F32)))
        ops.append(Binary((x, w), (y,), BinaryFn.MUL))
        return y


class _Block:
    """The weights that one launch reads."""

    def __init__(self, owner: _Compressor, launch: Launch) -> None:
        self.launch = launch
        self.extents = axis_extents(launch)
        self.params: dict[Weights, Value] = {}

    def param(self, weights: Weights) -> Value:
        """Return the parameter that holds the weights."""
        if weights not in self.params:
            self.params[weights] = Value(TensorType((len(weights),), DType.F32))
        return self.params[weights]

    def weight(self, weights: Weights, ops: list[Op]) -> Value:
        """Return a tile that holds all of the weights."""
        tile = Value(TensorType((len(weights),), DType.F32))
        ops.append(Load((self.param(weights),), (tile,), ((),)))
        return tile
