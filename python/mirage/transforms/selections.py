"""Pieces of a tensor in another order, chosen by position instead of copied.

A concatenation of pieces of one tensor, each with a function of its elements (rotary positions turn
``x`` to ``concat(-x[h:], x[:h])``) has to be stored before it can be read, and so have the pieces:
kernels read whole tensors. With the dimension split in two, which piece and where in it, the same
is

    y[i] = f_i(v[i]),   v[i] = sum over k of (x[k] where k is the piece that stands at i, else 0)

which is computed element by element and by sums over few elements, so that any kernel takes it in.
All but one of the summands are chosen to be 0, whatever ``x`` holds there.

Conditions: the pieces are equally long, begin at multiples of that and are slices along one
dimension only; which of them stands where is a line, ``k = i + c`` or ``k = c - i``; there are at
most two functions, the second one for the last pieces; and only functions of elements read the
result, as a product or a caller needs it in memory anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirage.semantics.builder import Builder
from mirage.semantics.positions import iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import (
    Concat,
    Elementwise,
    KernelGraph,
    Op,
    Slice,
    Unary,
    Value,
)

MOST = 4
"""Pieces of the tensor, each of which is looked at for each element."""


@dataclass(frozen=True)
class _Piece:
    """The elements of ``source`` from ``number`` times the length of a piece on, through
    functions, the first one first."""

    source: Value
    number: int
    functions: tuple[Unary, ...]

    @property
    def what(self) -> object:
        """Equal for the same functions."""
        return tuple((f.fn, f.result.dtype) for f in self.functions)


def selected_pieces(graph: KernelGraph) -> KernelGraph:
    """``graph`` with selections for concatenations of pieces of one tensor."""
    definitions = {v: op for op in graph.ops for v in op.results}
    readers: dict[Value, list[Op]] = {}
    for op in graph.ops:
        for v in op.operands:
            readers.setdefault(v, []).append(op)
    outputs = set(graph.outputs)
    same: dict[Value, Value] = {}
    ops: list[Op] = []
    build = Builder()
    for op in graph.ops:
        operands = tuple(same.get(v, v) for v in op.operands)
        op = op if operands == op.operands else with_operands(op, operands)
        if isinstance(op, Concat) and op.result not in outputs:
            pieces = _pieces(op, definitions)
            inside = all(isinstance(r, Elementwise) for r in readers.get(op.result, ()))
            start = len(build.ops)
            if inside and pieces and (found := _selection(build, op, pieces)) is not None:
                ops += build.ops[start:]
                same[op.result] = found
                continue
            del build.ops[start:]
        ops.append(op)
    if not same:
        return graph
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs))


def _pieces(op: Concat, definitions: dict[Value, Op]) -> list[_Piece]:
    """The pieces, empty where they are not of one tensor and equally long."""
    found = [_piece(v, op.dim, definitions) for v in op.operands]
    known = [p for p in found if p is not None]
    one = len({p.source for p in known}) == 1 and len({v.type for v in op.operands}) == 1
    return known if one and len(known) == len(found) else []


def _piece(value: Value, dim: int, definitions: dict[Value, Op]) -> _Piece | None:
    functions: list[Unary] = []
    op = definitions.get(value)
    while isinstance(op, Unary):
        functions.insert(0, op)
        op = definitions.get(op.operands[0])
    if not isinstance(op, Slice):
        return None
    (source,) = op.operands
    size = op.result.shape[dim]
    others = [d for d, n in enumerate(source.shape) if d != dim and n != op.result.shape[d]]
    fits = size and not source.shape[dim] % size and not op.offsets[dim] % size
    if others or not fits or source.shape[dim] > MOST * size or source.dtype.is_integer:
        return None
    return _Piece(source, op.offsets[dim] // size, tuple(functions))


def _selection(b: Builder, op: Concat, pieces: Sequence[_Piece]) -> Value | None:
    """The value of ``op``, element by element; None where the conditions do not hold."""
    count, dim, source = len(pieces), op.dim, pieces[0].source
    size = op.operands[0].shape[dim]
    line = _line(b, [p.number for p in pieces], source.shape[dim] // size)
    kinds = [p.what for p in pieces]
    other = next((i for i, kind in enumerate(kinds) if kind != kinds[0]), count)
    if line is None or any(kind != kinds[other] for kind in kinds[other:]) or count > MOST:
        return None
    lead, trail = source.shape[:dim], source.shape[dim + 1 :]
    after = (1,) * (1 + len(trail))
    parts = b.reshape(source, (*lead, 1, source.shape[dim] // size, size, *trail))
    here = b.reshape(line, (*line.shape, *after))
    chosen = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.KEEP, here, parts), (dim + 1,))
    chosen = b.reshape(chosen, (*lead, count, size, *trail))
    value = _through(b, chosen, pieces[0])
    if other < count:
        limit = b.constant(other, DType.I64)
        first = b.binary(BinaryFn.LT, iota(b, (count,), 0, DType.I64), limit)
        last = b.binary(BinaryFn.LE, limit, iota(b, (count,), 0, DType.I64))
        kept = [
            b.binary(BinaryFn.KEEP, b.reshape(mask, (count, *after)), _through(b, chosen, piece))
            for mask, piece in ((first, pieces[0]), (last, pieces[other]))
        ]
        value = b.binary(BinaryFn.ADD, kept[0], kept[1])
    return b.reshape(value, op.result.shape)


def _line(b: Builder, numbers: Sequence[int], parts: int) -> Value | None:
    """Which part stands at which place, as truth values (places, parts)."""
    places = b.reshape(iota(b, (len(numbers),), 0, DType.I64), (len(numbers), 1))
    part = iota(b, (parts,), 0, DType.I64)
    for fn, sign in ((BinaryFn.ADD, 1), (BinaryFn.SUB, -1)):
        sums = {number + sign * place for place, number in enumerate(numbers)}
        if len(sums) == 1:
            return b.binary(
                BinaryFn.EQ, b.binary(fn, part, places), b.constant(sums.pop(), DType.I64)
            )
    return None


def _through(b: Builder, value: Value, piece: _Piece) -> Value:
    for function in piece.functions:
        value = b.unary(function.fn, value)
    return value
