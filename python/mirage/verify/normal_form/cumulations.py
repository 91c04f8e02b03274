"""Cumulations (running sums, maxima and products) as sums with weights that both programs share.

A sum of the elements up to each one is a product with a triangular matrix of ones, and a maximum of
them is the largest of all elements after minus infinity is added to those that come later. So every
``Cumulate`` is written as a product (or as a maximum of sums) with a matrix that becomes an input
of both programs, one for each size. A proof for all contents of this input holds for the triangular
matrix, too. (For maxima it does as a limit: on any finite elements, numbers that are low enough
have the effect of minus infinity.) A difference for some contents shows nothing.

A product of them is read as ``h(sum of g(x))`` with such weights, for two unknown functions ``g``
and ``h`` of real numbers. A proof for all functions holds for products: let ``g`` be a function
whose values are linearly independent over the rational numbers (one for each real number). Then a
sum of some ``g(x)`` determines how often it has each ``x``, and ``h`` may be the function that
multiplies these. Nothing is assumed about their signs, and zeros are numbers like others. A program
that computes the same without the op is not equal for all matrices. For two programs without a
hint, each op between kernels is therefore also read according to its definition: as a sum or
maximum of choices by position, or as products in ``log2`` steps, where after the ``k``-th step each
element is multiplied by the ``2^k - 1`` elements before it (W. D. Hillis, G. L. Steele, Data
parallel algorithms, 1986).
"""

from __future__ import annotations

from dataclasses import replace

from mirage.semantics.builder import Builder
from mirage.semantics.ops.cumulation import COMBINED, NOTHING, Cumulate
from mirage.semantics.ops.kinds import Structure, all_ops
from mirage.semantics.ops.op import Op, TensorType, Value
from mirage.semantics.positions import Iota
from mirage.semantics.scalar import BinaryFn, CumulateFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch
from mirage.verify.arithmetic.unknown_functions import OF_ALL, OF_EACH, unknown

_Matrix = tuple[CumulateFn, bool, bool, int]
"""The function, whether the element itself is left out, whether the last element is the first, and
the number of places."""


_Weights = dict[_Matrix, Value]
"""The inputs that stand for triangular matrices."""

_CHOSEN = {CumulateFn.SUM: ReduceFn.SUM, CumulateFn.MAX: ReduceFn.MAX}
"""A cumulation as a reduction of choices."""


def with_shared_weights(
    first: KernelGraph, second: KernelGraph
) -> tuple[KernelGraph, KernelGraph] | None:
    """Return two programs without cumulations, with the same further inputs; None if there are
    none."""
    weights: _Weights = {}
    found = [_without_cumulations(g, weights) for g in (first, second)]
    if not weights:
        return None
    one, other = (replace(g, inputs=(*g.inputs, *weights.values())) for g in found)
    return one, other


def _matrix_of(op: Cumulate, weights: _Weights) -> Value:
    """Return the matrix of an op: a row for each element, a column for each place."""
    size = op.result.shape[op.dim]
    value = Value(TensorType((size, size), DType.F32), "so_far")
    return weights.setdefault((op.fn, op.exclusive, op.reversed, size), value)


def _without_cumulations(graph: KernelGraph, weights: _Weights) -> KernelGraph:
    """Return ``graph`` with products in place of its cumulations; the inputs are not added yet."""
    if not any(isinstance(op, Cumulate) for op in all_ops(graph.ops)):
        return graph
    ops: list[Op] = []
    for op in graph.ops:
        if isinstance(op, Launch):
            ops.append(_in_launch(op, weights))
        elif isinstance(op, Cumulate):
            ops.extend(_written(op, _matrix_of(op, weights), in_block=False))
        else:
            ops.append(op)
    return replace(graph, ops=tuple(ops))


def _in_launch(launch: Launch, weights: _Weights) -> Launch:
    """Return the launch with products; a block loads the matrices as a whole."""
    params: dict[Value, Value] = {}

    def write(op: Op) -> list[Op]:
        if isinstance(op, Structure):
            return [op.rebuilt(tuple(o for i in op.inside for o in write(i)), _same)]
        if not isinstance(op, Cumulate):
            return [op]
        matrix = _matrix_of(op, weights)
        param = params.setdefault(matrix, Value(matrix.type, matrix.name))
        build = Builder(in_block=True)
        loaded = build.load(param, ((), ()), matrix.shape)
        return [*build.ops, *_written(op, loaded, in_block=True)]

    ops = tuple(o for op in launch.body.ops for o in write(op))
    if not params:
        return launch
    body = replace(launch.body, params=(*launch.body.params, *params.values()), ops=ops)
    return replace(launch, operands=(*launch.operands, *params), body=body)


def _same(v: Value) -> Value:
    return v


def _written(op: Cumulate, matrix: Value, *, in_block: bool) -> list[Op]:
    """Return the ops that compute the result of ``op`` with a matrix of weights."""
    build = Builder(in_block=in_block)
    (x,) = op.operands
    rank, size = len(x.shape), x.shape[op.dim]
    order = (*(d for d in range(rank) if d != op.dim), op.dim)
    line = build.transpose(x, order)
    if op.fn is CumulateFn.MAX:
        column = build.reshape(line, (*line.shape, 1))
        terms = build.binary(BinaryFn.ADD, column, matrix)
        found = build.reduce(ReduceFn.MAX, terms, (rank - 1,))
    else:
        rows = build.reshape(line, (1, size)) if rank == 1 else line
        if op.fn is CumulateFn.PROD:
            found = unknown(build, OF_ALL, build.matmul(unknown(build, OF_EACH, rows), matrix))
        else:
            found = build.matmul(rows, matrix)
    found = build.reshape(found, line.shape)
    back = tuple(order.index(d) for d in range(rank))
    build.transpose(build.cast(found, op.result.dtype), back)
    return [*build.ops[:-1], replace(build.ops[-1], results=op.results)]


def as_choices(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` with sums and maxima of choices by position, and with products, in place of
    the cumulations between its kernels; the same object if there are none."""
    if not any(isinstance(op, Cumulate) for op in graph.ops):
        return graph

    def written(op: Op) -> list[Op]:
        if not isinstance(op, Cumulate):
            return [op]
        return _products(op) if op.fn is CumulateFn.PROD else _choices(op, _CHOSEN[op.fn])

    parts = map(written, graph.ops)
    return replace(graph, ops=tuple(op for part in parts for op in part))


def _products(op: Cumulate) -> list[Op]:
    """Return products in steps."""
    build = Builder()
    x, dim, size = op.operands[0], op.dim, op.result.shape[op.dim]

    def part(start: int, count: int) -> Value:
        offsets = tuple(start if d == dim else 0 for d in range(len(x.shape)))
        shape = tuple(count if d == dim else n for d, n in enumerate(x.shape))
        return build.slice(x, offsets, shape)

    def joined(before: Value, after: Value) -> Value:
        return build.concat((after, before) if op.reversed else (before, after), dim)

    def first(count: int) -> Value:
        return part(size - count if op.reversed else 0, count)

    def last(count: int) -> Value:
        return part(0 if op.reversed else size - count, count)

    if op.exclusive:
        one = tuple(1 if d == dim else n for d, n in enumerate(x.shape))
        nothing = build.broadcast(build.constant(NOTHING[op.fn], x.dtype), one)
        x = joined(nothing, first(size - 1)) if size > 1 else nothing
    for step in (1 << k for k in range((size - 1).bit_length())):
        after = build.binary(COMBINED[op.fn], last(size - step), first(size - step))
        x = joined(first(step), after)
    build.reshape(build.cast(x, op.result.dtype), op.result.shape)
    return [*build.ops[:-1], replace(build.ops[-1], results=op.results)]


def _choices(op: Cumulate, fn: ReduceFn) -> list[Op]:
    (x,) = op.operands
    rank, size = len(x.shape), x.shape[op.dim]
    places = Value(TensorType((size,), DType.I64))
    build = Builder(ops=[Iota((), (places,), 0)])
    column = build.reshape(places, (size, 1))
    compare = BinaryFn.LT if op.exclusive else BinaryFn.LE
    pair = (column, places) if op.reversed else (places, column)
    seen = build.binary(compare, *pair)
    order = (*(d for d in range(rank) if d != op.dim), op.dim)
    line = build.transpose(x, order)
    terms = build.binary(BinaryFn.KEEP, seen, build.reshape(line, (*line.shape[:-1], 1, size)))
    if fn is ReduceFn.MAX:
        terms = build.binary(
            BinaryFn.ADD, terms, build.unary(UnaryFn.BIAS, build.cast(seen, terms.dtype))
        )
    found = build.reshape(build.reduce(fn, terms, (rank,)), line.shape)
    back = tuple(order.index(d) for d in range(rank))
    build.transpose(build.cast(found, op.result.dtype), back)
    return [*build.ops[:-1], replace(build.ops[-1], results=op.results)]
