"""Tensors that hold functions of positions: masks and biases that were computed in advance.

A causal mask may be computed where it is used, or held as a buffer of truth values, or of zeros and
minus infinities. The contents of a buffer are fixed. So a buffer that only one of two programs has
may be replaced by ops that give exactly the same elements at its sizes: comparisons of rows and
columns, and linear functions of both. Then both programs use positions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.positions import Iota
from mirage.semantics.scalar import Array, BinaryFn, DType, UnaryFn
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, Op

_LEAST = 3
"""The fewest positions along one dimension: any two numbers are a linear function."""


@dataclass(frozen=True)
class Between:
    """The places where the column minus the row (the column alone, unless ``of_rows``) is at least
    ``low`` and at most ``high``, if these are given; with ``inverted``, all other places."""

    of_rows: bool
    low: int | None
    high: int | None
    inverted: bool = False


@dataclass(frozen=True)
class Held:
    """The tensor ``row * i + column * j + number`` in row ``i`` and column ``j``, and minus
    infinity outside of ``seen``; a tensor of truth values is ``seen`` itself, and so is one of ones
    and zeros (``of_truths``)."""

    seen: Between | None = None
    row: Fraction = Fraction(0)
    column: Fraction = Fraction(0)
    number: Fraction = Fraction(0)
    of_truths: bool = False


def with_positions_written(graph: KernelGraph, foreign: Mapping[int, Held]) -> KernelGraph:
    """Replace tensors of the graph by the functions of positions that give their elements."""
    read_here = {v for op in graph.ops for v in op.operands} | set(graph.outputs)
    ops: list[Op] = []
    names: dict[Value, Value] = {}
    for i, held in foreign.items():
        if graph.inputs[i] in read_here:
            b = Builder()
            names[graph.inputs[i]] = _written(b, held, graph.inputs[i])
            ops.extend(b.ops)
    if not names:
        return graph
    renamed = rename_graph(KernelGraph(graph.name, (), graph.ops, graph.outputs), names)
    return KernelGraph(graph.name, graph.inputs, (*ops, *renamed.ops), renamed.outputs)


# ---- reading


def read(content: Array, dtype: DType) -> Held | None:
    """Return the function of positions that gives these elements; None if no known function
    does."""
    shape = content.shape
    if not shape or any(n != 1 for n in shape[:-2]) or dtype.is_eight_bits:
        return None
    x = np.asarray(content, dtype=np.float64).reshape((-1, shape[-1]))
    if x.shape[1] < _LEAST or 1 < x.shape[0] < _LEAST:
        return None
    if dtype is DType.I1:
        seen = _between(x != 0)
        return None if seen is None else Held(seen)
    if ((x == 0) | (x == 1)).all() and (seen := _between(x != 0)) is not None:
        return Held(seen, of_truths=True)
    least = x == -np.inf
    seen = _between(~least) if least.any() else None
    if (least.any() and seen is None) or not np.isfinite(x[~least]).all():
        return None
    return _linear(x, ~least, seen)


def _between(seen: Array) -> Between | None:
    """Return the interval of columns, or of differences of columns and rows, that is (or is not)
    seen; None if there is none."""
    if seen.all() or not seen.any():
        return None
    rows, columns = seen.shape
    if (seen == seen[:1]).all():
        return _interval(False, seen[0], 0)
    along = np.concatenate([seen[:0:-1, 0], seen[0]])  # by the difference, from 1 - rows on
    difference = np.arange(columns) - np.arange(rows)[:, None]
    if not (along[difference + rows - 1] == seen).all():
        return None
    return _interval(True, along, 1 - rows)


def _interval(of_rows: bool, along: Array, first: int) -> Between | None:
    for inverted, those in ((False, along), (True, ~along)):
        (at,) = np.nonzero(those)
        if at[-1] - at[0] + 1 != len(at):
            continue
        low = None if at[0] == 0 else int(at[0]) + first
        high = None if at[-1] == len(along) - 1 else int(at[-1]) + first
        return Between(of_rows, low, high, inverted)
    return None


def _linear(x: Array, there: Array, seen: Between | None) -> Held | None:
    """Return a linear function of row and column that gives the elements in ``there`` exactly, in
    f32 at each step."""
    column, row = (_slope(v, t) for v, t in ((x, there), (x.T, there.T)))
    i, j = (int(k[0]) for k in np.nonzero(there))
    number = x[i, j] - row * i - column * j
    parts = (row * np.arange(x.shape[0]))[:, None], column * np.arange(x.shape[1]), number
    with np.errstate(over="ignore", invalid="ignore"):  # otherwise the parts are not exact
        single = [np.asarray(p, dtype=np.float32) for p in parts]
        total = (single[0] + single[1]) + single[2]
    exact = all((s == p).all() for s, p in zip(single, parts, strict=True))
    if not exact or not (total == x)[there].all() or not (row or column or seen):
        return None
    slopes = (Fraction(float(v)) for v in (row, column))
    return Held(seen, *slopes, number=Fraction(float(number)))


def _slope(x: Array, there: Array) -> float:
    """Return the difference of two neighbouring elements of a row in ``there``; zero if there are
    none."""
    rows, columns = np.nonzero(there[:, 1:] & there[:, :-1])
    return float(x[rows[0], columns[0] + 1] - x[rows[0], columns[0]]) if len(rows) else 0.0


# ---- writing


def _written(b: Builder, held: Held, value: Value) -> Value:
    columns = value.shape[-1]
    rows = value.shape[-2] if len(value.shape) > 1 else 1
    at = _positions(b, rows, (rows, 1)), _positions(b, columns, (1, columns))
    seen = None if held.seen is None else _seen(b, held.seen, *at)
    found = seen
    if held.of_truths and seen is not None:
        found = b.cast(seen, value.dtype)
    elif value.dtype is not DType.I1:
        parts = list(_parts(b, held, *at))
        found = parts[0] if parts else None
        for part in parts[1:]:
            assert found is not None
            found = b.binary(BinaryFn.ADD, found, part)
        if found is not None and value.dtype is not DType.F32:
            found = b.cast(found, value.dtype)
        if seen is not None:
            mask = b.unary(UnaryFn.BIAS, b.cast(seen, value.dtype))
            found = mask if found is None else b.binary(BinaryFn.ADD, found, mask)
    assert found is not None
    if found.shape != (rows, columns):
        found = b.broadcast(found, (rows, columns))
    return found if found.shape == value.shape else b.reshape(found, value.shape)


def _positions(b: Builder, count: int, shape: tuple[int, ...]) -> Value:
    op = Iota((), (Value(TensorType((count,), DType.I64)),), 0)
    b.ops.append(op)
    return b.reshape(op.result, shape)


def _seen(b: Builder, seen: Between, row: Value, column: Value) -> Value:
    start = row if seen.of_rows else None
    found: Value | None = None
    for number, below in ((seen.low, True), (seen.high, False)):
        if number is None:
            continue
        part = _compared(b, start, column, number, below)
        found = part if found is None else b.binary(BinaryFn.AND, found, part)
    assert found is not None
    return b.unary(UnaryFn.NOT, found) if seen.inverted else found


def _compared(b: Builder, row: Value | None, column: Value, number: int, below: bool) -> Value:
    """Compare the column (relative to the row) with a number: whether the number is at most the
    column (``below``), or at least."""
    if row is None:
        end = b.constant(Fraction(number), DType.I64)
        return b.binary(BinaryFn.LE, *((end, column) if below else (column, end)))
    strict = number == (1 if below else -1)
    if number and not strict:
        side = b.constant(Fraction(abs(number)), DType.I64)
        if number > 0:
            row = b.binary(BinaryFn.ADD, row, side)
        else:
            column = b.binary(BinaryFn.ADD, column, side)
    pair = (row, column) if below else (column, row)
    return b.binary(BinaryFn.LT if strict else BinaryFn.LE, *pair)


def _parts(b: Builder, held: Held, row: Value, column: Value) -> Iterator[Value]:
    """Write the summands of a linear function, in f32."""
    for slope, at in ((held.row, row), (held.column, column)):
        if slope:
            x = b.cast(at, DType.F32)
            yield x if slope == 1 else b.binary(BinaryFn.MUL, x, b.constant(slope, DType.F32))
    if held.number:
        yield b.constant(held.number, DType.F32)
