"""Keeps dimensions that a program merges apart, as long as its ops allow it.

Grouped queries are written as 2 heads x 100 tokens = 200 rows of a product. Kernels that cut the
100 tokens into tiles of 16 have no common digits with 200, but the program can be written without
it: rows and columns of a matrix product may also be batches. Reshapes that merge dimensions move
towards the outputs until they meet a reshape that separates the dimensions again. Inputs are given
the dimensions in which one of the programs reads them, and outputs those that all programs keep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import accumulate, pairwise
from math import prod
from operator import mul

from mirage.semantics.ugraph import (
    Boundary,
    Elementwise,
    KernelGraph,
    Matmul,
    Movement,
    Op,
    Reduce,
    Reshape,
    Source,
    Structure,
    TensorType,
    Transpose,
    Value,
    no_rule,
)

_Cuts = tuple[tuple[int, ...], ...]
"""For each dimension, the sizes that it was merged from, outermost first."""


def split(graphs: tuple[KernelGraph, ...]) -> tuple[KernelGraph, ...] | None:
    """Return the same programs (primitive ops only) with fewer merged dimensions; None if no merged
    dimensions can be kept apart."""
    inputs = [_as_read(vs, graphs) for vs in zip(*(g.inputs for g in graphs), strict=True)]
    found = [_Splitter(graph, inputs) for graph in graphs]
    if not any(splitter.useful for splitter in found):
        return None
    outputs = [
        _in_common([s.cuts(v) for s, v in zip(found, vs, strict=True)])
        for vs in zip(*(g.outputs for g in graphs), strict=True)
    ]
    return tuple(splitter.result(outputs) for splitter in found)


def _as_read(values: Sequence[Value], graphs: Sequence[KernelGraph]) -> _Cuts:
    """Return the sizes into which reshapes cut the dimensions of an input, in all programs
    together."""
    found: list[set[int]] = [{1} for _ in values[0].shape]
    for value, graph in zip(values, graphs, strict=True):
        views = (op.result.shape for op in graph.ops if value in op.operands and op.renames)
        for ends in map(_ends, views):
            for cut, size, low in zip(found, value.shape, _ends(value.shape)[1:], strict=True):
                within = (b // low for b in ends if b % low == 0 and low < b < low * size)
                cut.update(b for b in within if size % b == 0)
    return tuple(map(_sizes_between, found, values[0].shape))


def _in_common(cuts: Sequence[_Cuts]) -> _Cuts:
    """Return the sizes into which all cut each dimension."""
    return tuple(
        _sizes_between(set[int].intersection(*({*_ends(cut)} for cut in same)), prod(same[0]))
        for same in zip(*cuts, strict=True)
    )


def _ends(sizes: Sequence[int]) -> list[int]:
    """Return the number of elements in each dimension's slices and below, outermost first."""
    return [*accumulate(reversed(sizes), mul, initial=1)][::-1]


def _sizes_between(ends: set[int], size: int) -> tuple[int, ...]:
    """Return the sizes of a dimension's parts, which begin at multiples of ``ends``; only the
    dimension's own size if these are incompatible."""
    bounds = sorted(ends | {1, size})
    if any(high % low for low, high in pairwise(bounds)):
        return (size,)
    return tuple(high // low for low, high in pairwise(bounds))[::-1] or (size,)


class _Splitter:
    def __init__(self, graph: KernelGraph, inputs: Sequence[_Cuts]) -> None:
        self.graph = graph
        self.ops: list[Op] = []
        self.there: set[Value] = set()  # the values that the new program computes
        self.apart: dict[Value, tuple[_Cuts, Value]] = {}  # the values with their dimensions split
        self.useful = False  # whether a product, sum or function is computed with split dimensions
        self.inputs = tuple(map(self._input, graph.inputs, inputs))
        self._run()

    def _input(self, value: Value, cuts: _Cuts) -> Value:
        """Return the new program's input."""
        if not _split(cuts):
            self.there.add(value)
            return value
        fine = Value(TensorType(tuple(n for c in cuts for n in c), value.dtype), value.name)
        self.found(value, cuts, fine)
        return fine

    def _run(self) -> None:
        for op in self.graph.ops:
            rule = _rule_of(op)
            if rule is None or not rule(self, op):
                for v in op.operands:
                    self._whole(v)
                self.ops.append(op)
                self.there.update(op.results)

    def result(self, cuts: Sequence[_Cuts]) -> KernelGraph:
        """Return the program, with the dimensions of its outputs split like this."""
        outputs: list[Value] = []
        for v, cut in zip(self.graph.outputs, cuts, strict=True):
            if _split(cut):
                outputs.append(self.shaped(v, tuple(n for c in cut for n in c)))
            else:
                self._whole(v)
                outputs.append(v)
        return KernelGraph(self.graph.name, self.inputs, _needed(self.ops, outputs), tuple(outputs))

    def _whole(self, value: Value) -> None:
        """Emit the reshape that restores a value's own shape."""
        if value not in self.there:
            _, fine = self.apart[value]
            self.ops.append(Reshape((fine,), (value,)))
            self.there.add(value)

    def cuts(self, value: Value) -> _Cuts:
        """Return, for each dimension of a value, the sizes that it was merged from and that were
        kept apart."""
        return self.apart[value][0] if value in self.apart else tuple((n,) for n in value.shape)

    def fine(self, value: Value) -> Value:
        """Return the value with its dimensions kept apart."""
        return self.apart[value][1] if value in self.apart else value

    def shaped(self, value: Value, shape: tuple[int, ...]) -> Value:
        """Reshape a value."""
        fine = self.fine(value)
        if fine.shape == shape:
            return fine
        result = Value(TensorType(shape, value.dtype), value.name)
        self.ops.append(Reshape((fine,), (result,)))
        return result

    def transposed(self, value: Value, permutation: Sequence[int]) -> Value:
        """Reorder the dimensions of a value of the new program."""
        if list(permutation) == sorted(permutation):
            return value
        shape = tuple(value.shape[d] for d in permutation)
        result = Value(TensorType(shape, value.dtype), value.name)
        self.ops.append(Transpose((value,), (result,), tuple(permutation)))
        return result

    def found(self, value: Value, cuts: _Cuts, fine: Value) -> None:
        """Record the replacement for a value of the old program."""
        self.apart[value] = cuts, fine

    def compute(self, op: Op, operands: Sequence[Value], cuts: _Cuts, **attributes: object) -> bool:
        """Emit ``op`` with its result's dimensions kept apart."""
        shape = tuple(n for cut in cuts for n in cut)
        fine = Value(TensorType(shape, op.result.dtype), op.result.name)
        self.ops.append(replace(op, operands=tuple(operands), results=(fine,), **attributes))
        self.found(op.result, cuts, fine)
        self.useful = True
        return True


_Rule = Callable[..., bool]


def _reshape(s: _Splitter, op: Op) -> bool:
    """Take the sizes that stay apart as the result's dimensions. A size may be split across two
    dimensions."""
    (x,), y = op.operands, op.result
    sizes = [n for cut in s.cuts(x) for n in cut if n != 1]
    cuts: list[tuple[int, ...]] = []
    for n in y.shape:
        own: list[int] = []
        while prod(own) < n and sizes:
            size, (rest, more) = sizes.pop(0), divmod(n, prod(own))
            if more:
                return False
            if size > rest and size % rest == 0:
                sizes.insert(0, size // rest)
                size = rest
            own.append(size)
        if prod(own) != n:
            return False
        cuts.append(tuple(own) or (1,))
    if sizes:
        return False
    s.found(y, tuple(cuts), s.shaped(x, tuple(n for cut in cuts for n in cut)))
    return True


def _elementwise(s: _Splitter, op: Op) -> bool:
    cuts = _together(s, op.operands, op.result.shape)
    if cuts is None or not _split(cuts):
        return False
    return s.compute(op, [_aligned(s, v, cuts) for v in op.operands], cuts)


def _matmul(s: _Splitter, op: Op) -> bool:
    """Take all but the last part of a product's rows, and of its columns, as batches."""
    (a, b), y = op.operands, op.result
    rows, *contracted = s.cuts(a)[-2:]
    *other, columns = s.cuts(b)[-2:]
    batch = _together(s, (a, b), y.shape[:-2], skip=2)
    if batch is None or not all(len(cut) == 1 for cut in (*contracted, *other)):
        return False
    cuts = (*batch, rows, columns)
    if not _split(cuts):
        return False
    above, beside = len(rows) - 1, len(columns) - 1
    apart = *rows[:-1], *(1,) * beside, rows[-1], a.shape[-1]
    first = _aligned(s, a, batch, apart, skip=2)
    second = _aligned(s, b, batch, (*(1,) * above, b.shape[-2], *columns), skip=2)
    lead = len(second.shape) - beside - 2  # before the rows of the second factor
    before, inner = range(lead), lead
    order = *before, *range(inner + 1, inner + 1 + beside), inner, inner + 1 + beside
    second = s.transposed(second, order)
    shape = *(n for cut in batch for n in cut), *rows[:-1], *columns[:-1], rows[-1], columns[-1]
    product = Value(TensorType(shape, y.dtype), y.name)
    s.ops.append(replace(op, operands=(first, second), results=(product,)))
    lead = len(shape) - beside - 2  # before the columns
    order = *range(lead), lead + beside, *range(lead, lead + beside), lead + beside + 1
    s.found(y, cuts, s.transposed(product, order))
    s.useful = True
    return True


def _reduce(s: _Splitter, op: Reduce) -> bool:
    (x,) = op.operands
    cuts = s.cuts(x)
    if not _split(cuts):
        return False
    after = tuple((1,) * len(c) if d in op.dims else c for d, c in enumerate(cuts))
    return s.compute(op, (s.fine(x),), after, dims=_places(cuts, op.dims))


def _transpose(s: _Splitter, op: Transpose) -> bool:
    (x,) = op.operands
    cuts = s.cuts(x)
    if not _split(cuts):
        return False
    after = tuple(cuts[d] for d in op.permutation)
    return s.compute(op, (s.fine(x),), after, permutation=_places(cuts, op.permutation))


def _rule_of(op: Op) -> _Rule | None:
    """None for ops that stay the same, on operands with merged dimensions."""
    match op:
        case Elementwise():
            return _elementwise
        case Matmul():
            return _matmul
        case Reduce():
            return _reduce
        case Transpose():
            return _transpose
        case Source() | Movement() | Structure() | Boundary():
            return _reshape if op.renames else None
        case _:
            no_rule(op, "dimensions that are kept apart")
            return None


def _split(cuts: _Cuts) -> bool:
    return any(len(cut) > 1 for cut in cuts)


def _places(cuts: _Cuts, dims: Sequence[int]) -> tuple[int, ...]:
    """Return the positions of these dimensions once all dimensions are kept apart."""
    starts = [0, *accumulate(map(len, cuts))]
    return tuple(p for d in dims for p in range(starts[d], starts[d] + len(cuts[d])))


def _together(
    s: _Splitter, operands: Sequence[Value], shape: tuple[int, ...], skip: int = 0
) -> _Cuts | None:
    """Return how the dimensions in which operands meet (except the last ``skip`` of each) are
    split; None if two operands split one differently."""
    cuts: list[tuple[int, ...]] = []
    for back in range(len(shape), 0, -1):
        here: set[tuple[int, ...]] = set()
        for v in operands:
            dim = len(v.shape) - skip - back
            if dim >= 0 and v.shape[dim] != 1:
                here.add(s.cuts(v)[dim])
        apart = {cut for cut in here if len(cut) > 1}
        if len(apart) > 1:
            return None
        cuts.append(apart.pop() if apart else (shape[-back],))
    return tuple(cuts)


def _aligned(
    s: _Splitter, value: Value, cuts: _Cuts, rest: tuple[int, ...] = (), skip: int = 0
) -> Value:
    """Return an operand with its dimensions split like those that it meets, and its last ``skip``
    like ``rest``."""
    own = value.shape[: len(value.shape) - skip]
    meets = cuts[len(cuts) - len(own) :]
    shape = [n for size, cut in zip(own, meets, strict=True) for n in _sizes(size, cut)]
    return s.shaped(value, (*shape, *rest))


def _sizes(size: int, cut: tuple[int, ...]) -> tuple[int, ...]:
    return (1,) * len(cut) if size == 1 else cut


def _needed(ops: Sequence[Op], outputs: Sequence[Value]) -> tuple[Op, ...]:
    wanted = set(outputs)
    kept: list[Op] = []
    for op in reversed(ops):
        if not wanted.isdisjoint(op.results):
            kept.append(op)
            wanted.update(op.operands)
    return tuple(kept[::-1])
