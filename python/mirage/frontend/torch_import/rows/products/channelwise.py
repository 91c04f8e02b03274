"""Convolutions that treat each channel separately (depthwise ones), as sums of shifted products.

An output depends on few elements, so a kernel computes it together with what follows. Its operands
are looked up by their places, which are functions of the output's place; places outside count as
zero. Channels come last, so that each row of the table of places has all channels of one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import reduce
from itertools import product

from mirage.frontend.torch_import.rows.lowering import Lowering, wide
from mirage.semantics.indexing.relations import Same
from mirage.semantics.positions import gather, iota
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import Boundary, Elementwise, Op, Source, TensorType, Value, View


@dataclass(frozen=True)
class Steps:
    """One dimension of space: the outputs, the places of the kernel, the steps between outputs and
    between places, and the zeros before the first input."""

    count: int
    kernel: int
    stride: int
    padding: int
    dilation: int


def channelwise(b: Lowering, x: Value, weight: Value, dims: Sequence[Steps]) -> Value | None:
    """Return the convolution of ``x`` ``[N, C, …]`` with ``weight`` ``[C, 1, …]``, as
    ``[N, C, …]``; None if channels would first have to be moved."""
    batch, channels, *sizes = x.shape
    rank = len(x.shape)
    lines = _reordered(b, x, (0, *range(2, rank), 1))
    if lines is None:
        return None
    table = _rows(b, lines)
    factors = wide(b, b.reshape(weight, (channels, weight.type.size // channels)))
    shape = (batch, *(d.count for d in dims))
    terms: list[Value] = []
    for number, place in enumerate(product(*(range(d.kernel) for d in dims))):
        row, inside = _row_at(b, shape, sizes, dims, place)
        read = b.permuted(gather(b, table, row), (0, rank - 1, *range(1, rank - 1)))
        for condition in inside:
            read = b.binary(BinaryFn.KEEP, condition, read)
        factor = b.reshape(b.cut(factors, 1, number, 1), (channels, *(1 for _ in dims)))
        terms.append(b.binary(BinaryFn.MUL, wide(b, read), factor))
    return reduce(lambda u, v: b.binary(BinaryFn.ADD, u, v), terms)


def _reordered(b: Lowering, x: Value, order: tuple[int, ...]) -> Value | None:
    """Return ``x`` with its dimensions in another order, if it is a view of a tensor that has this
    order, or of one that kernels compute, which can write it in this order."""
    if order == tuple(range(len(order))):
        return x
    op = _definition(b, x)
    if op is None or isinstance(op, Boundary | Source):
        return None
    if not isinstance(op, View):
        return _computed(b, op, order) or b.permuted(x, order)
    (source,) = op.operands
    if op.cut_at is not None:
        cut = tuple(zip(op.cut_at, x.shape, strict=True))
        starts, sizes = zip(*(cut[d] for d in order), strict=True)
        found = _reordered(b, source, order)
        return None if found is None else b.slice(found, starts, sizes)
    dims = [r.dim for r in op.relations() or () if isinstance(r, Same)]
    if sorted(dims) != list(range(len(order))) or len(source.shape) != len(order):
        return None
    return _reordered(b, source, tuple(dims[d] for d in order))


def _computed(b: Lowering, op: Op, order: tuple[int, ...]) -> Value | None:
    """Return the result of an elementwise op in another order, computed from operands in that
    order; None if one does not have it."""
    if not isinstance(op, Elementwise) or any(v.shape != op.result.shape for v in op.operands):
        return None
    operands = [_reordered(b, v, order) for v in op.operands]
    found = tuple(v for v in operands if v is not None)
    if len(found) < len(operands):
        return None
    result = TensorType(tuple(op.result.shape[d] for d in order), op.result.dtype)
    b.ops.append(replace(op, operands=found, results=(Value(result, op.result.name),)))
    return b.ops[-1].result


def _rows(b: Lowering, x: Value) -> Value:
    """Return ``x`` as consecutive rows of channels. The rows of a slice of channels are slices of
    rows, which are not copied."""
    op = _definition(b, x)
    if op is not None and op.cut_at is not None:
        (source,) = op.operands
        if source.shape[:-1] == x.shape[:-1]:
            return b.cut(_rows(b, source), 1, op.cut_at[-1], x.shape[-1])
    return b.reshape(x, (x.type.size // x.shape[-1], x.shape[-1]))


def _definition(b: Lowering, x: Value) -> Op | None:
    return next((op for op in reversed(b.ops) if x in op.results), None)


def _row_at(
    b: Lowering, shape: tuple[int, ...], sizes: Sequence[int], dims: Sequence[Steps],
    place: Sequence[int],
) -> tuple[Value, list[Value]]:  # fmt: skip
    """Return the row of the table that each output (of ``shape``) reads at a place of the kernel,
    and conditions for it to be inside; any row stands for one outside."""
    row, inside = iota(b, shape, 0), list[Value]()
    for i, (size, d, at) in enumerate(zip(sizes, dims, place, strict=True)):
        line = tuple(n if k == i + 1 else 1 for k, n in enumerate(shape))
        index = _input_at(b, line, i + 1, d, at)
        first = at * d.dilation - d.padding
        last = first + (d.count - 1) * d.stride
        if first < 0:
            inside.append(b.combine(BinaryFn.LE, 0, _input_at(b, line[1:], i, d, at)))
            index = b.combine(BinaryFn.MAX, index, 0)
        if last >= size:
            inside.append(b.combine(BinaryFn.LT, _input_at(b, line[1:], i, d, at), size))
            index = b.combine(BinaryFn.MIN, index, size - 1)
        row = b.binary(BinaryFn.ADD, b.combine(BinaryFn.MUL, row, size), index)
    return row, inside


def _input_at(b: Lowering, shape: tuple[int, ...], dim: int, d: Steps, place: int) -> Value:
    """Return the input that each output along ``dim`` reads at a place of the kernel."""
    index = b.combine(BinaryFn.MUL, iota(b, shape, dim), d.stride)
    return b.combine(BinaryFn.ADD, index, place * d.dilation - d.padding)
