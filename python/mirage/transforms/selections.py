"""Pieces of a tensor in another order, selected by position instead of copied.

A concatenation of pieces of one tensor, each with a function of its elements (rotary positions turn
``x`` to ``concat(-x[h:], x[:h])``) has to be stored before it can be read, and so have the pieces:
kernels read whole tensors. With the dimension split in two (the piece, and the place in it), this
is

    y[i] = f_i(v[i]),   v[i] = sum over k of (x[k] where k is the piece that stands at i, else 0)

which consists of elementwise functions and sums over few elements, so any kernel can include it.
All but one of the summands are replaced by 0, whatever ``x`` holds there.

Conditions: the pieces are equally long, have several elements, start at multiples of their length
and are slices along one dimension only; their order is linear, ``k = i + c`` or ``k = c - i``;
there are at most two functions, the second one for the last pieces; and only elementwise functions
read the result, since a product or a caller needs it in memory anyway. Nothing is selected if ``x``
is given or computed element by element, and all values from the result up to the stored ones are,
too: then the pieces of the stored values are computed side by side
(:mod:`mirage.search.program.late_joins`), and each element of ``x`` is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mirage.semantics.builder import Builder
from mirage.semantics.indexing.relations import Joined, Same, Taken
from mirage.semantics.positions import iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import with_operands, without_dead_ops
from mirage.semantics.ugraph import Boundary, Elementwise, KernelGraph, Movement, Op, Value, View

MOST = 4
"""The most pieces of the tensor; each of them is considered for each element."""


@dataclass(frozen=True)
class _Piece:
    """The elements of ``source`` from ``number`` times the length of a piece on, with functions
    applied to them, the first one first."""

    source: Value
    number: int
    functions: tuple[UnaryFn, ...]


def selected_pieces(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with selections in place of concatenations of pieces of one tensor."""
    definitions = {v: op for op in graph.ops for v in op.results}
    readers: dict[Value, list[Op]] = {}
    for op in graph.ops:
        for v in op.operands:
            readers.setdefault(v, []).append(op)
    outputs = set(graph.outputs)
    earlier, later = _reduced_earlier(graph), _reduced_later(graph)
    same: dict[Value, Value] = {}
    ops: list[Op] = []
    build = Builder()
    for op in graph.ops:
        operands = tuple(same.get(v, v) for v in op.operands)
        op = with_operands(op, operands)
        dim = _joined(op)
        if dim is not None and op.result not in outputs:
            pieces = _pieces(op, dim, definitions)
            inside = all(isinstance(r, Elementwise) for r in readers.get(op.result, ()))
            inside &= op.result in later or any(p.source in earlier for p in pieces)
            start = len(build.ops)
            if inside and pieces and (found := _selection(build, op, dim, pieces)) is not None:
                ops += build.ops[start:]
                same[op.result] = found
                continue
            del build.ops[start:]
        ops.append(op)
    if not same:
        return graph
    return without_dead_ops(KernelGraph(graph.name, graph.inputs, tuple(ops), graph.outputs))


def _reduced_earlier(graph: KernelGraph) -> set[Value]:
    """Return the values that are computed from products or sums: a kernel that ends with these can
    compute the values as well."""
    found: set[Value] = set()
    for op in graph.ops:
        if isinstance(op, Boundary):
            continue
        moved = isinstance(op, Elementwise | View | Movement)
        if not moved or not found.isdisjoint(op.operands):
            found.update(op.results)
    return found


def _reduced_later(graph: KernelGraph) -> set[Value]:
    """Return the values on which an op that is not elementwise depends before anything is stored.
    Values that are joined with others are stored in parts of different sizes, by separate
    kernels."""
    found: set[Value] = set()
    for op in reversed(graph.ops):
        if isinstance(op, Boundary):
            continue
        moved = isinstance(op, Elementwise | View)
        if not moved or not found.isdisjoint(op.results):
            found.update(op.operands)
    return found


def _joined(op: Op) -> int | None:
    """Return the dimension along which the operands are concatenated."""
    if not isinstance(op, Movement) or not op.result.type.size:
        return None
    dims = {r.result for r in op.relations() or () if isinstance(r, Joined)}
    return dims.pop() if len(dims) == 1 else None


def _pieces(op: Op, dim: int, definitions: dict[Value, Op]) -> list[_Piece]:
    """Return the pieces; none if they are not equally long pieces of one tensor."""
    found = [_piece(v, dim, definitions) for v in op.operands]
    known = [p for p in found if p is not None]
    one = len({p.source for p in known}) == 1 and len({v.type for v in op.operands}) == 1
    return known if one and len(known) == len(found) else []


def _piece(value: Value, dim: int, definitions: dict[Value, Op]) -> _Piece | None:
    functions: list[UnaryFn] = []
    op = definitions.get(value)
    while op is not None and isinstance(op.function, UnaryFn):
        functions.insert(0, op.function)
        op = definitions.get(op.operands[0])
    relations = op.relations() if isinstance(op, Movement) else None
    if op is None or relations is None or len(op.operands) != 1:
        return None
    start: int | None = None
    for relation in relations:
        if isinstance(relation, Taken) and relation.dim == relation.result == dim:
            start = relation.offset
        elif not isinstance(relation, Same) or relation.dim != relation.result:
            return None
    (source,), size = op.operands, op.result.shape[dim]
    # pieces of one element are neighbours that change places, which parts with steps do as well
    if start is None or size < 2 or source.shape[dim] % size or start % size:
        return None
    if source.shape[dim] > MOST * size or source.dtype.is_integer:
        return None
    return _Piece(source, start // size, tuple(functions))


def _selection(b: Builder, op: Op, dim: int, pieces: Sequence[_Piece]) -> Value | None:
    """Return the value of ``op`` as elementwise functions; None if the conditions do not hold."""
    count, source = len(pieces), pieces[0].source
    size = op.operands[0].shape[dim]
    line = _line(b, [p.number for p in pieces], source.shape[dim] // size)
    kinds = [p.functions for p in pieces]
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
    """Return which piece is at which place, as truth values (places, parts)."""
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
        value = b.unary(function, value)
    return value
