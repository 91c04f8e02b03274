"""µGraphs with plain exponentials that need one maximum in several places."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    Value,
)

from example_programs.attention_graphs import SUM, ceil, tensor

Sums = tuple[Value, Value]
"""A numerator (1, rows, dim) and its denominator (1, rows, 1)."""


def block(
    inputs: tuple[Value, ...],
    grid: tuple[Axis, ...],
    params: tuple[Value, ...],
    b: Builder,
    outputs: tuple[tuple[Value, tuple[tuple[str, ...], ...], Value], ...],
) -> Launch:
    """A launch that stores tiles; ``outputs`` are (tile, map, tensor)."""
    stores = tuple(Output(tile, where) for tile, where, _ in outputs)
    results = tuple(result for *_, result in outputs)
    return Launch(inputs, results, grid, BlockGraph(params, tuple(b.ops), stores))


def _exponentials(b: Builder, q: Value, keys: Value, values: Value) -> Sums:
    e = b.unary(UnaryFn.EXP, b.matmul(q, keys))
    return b.matmul(e, values), b.reduce(ReduceFn.SUM, e, (2,))


def _looped(b: Builder, q: Value, k: Value, v: Value, axis: str, tile: int) -> Sums:
    """Sums over all keys in a loop over ``axis``."""
    x = Builder(in_block=True)
    _, keys, dim = v.shape
    tk = x.load(k, (("b",), (), (axis,)), (1, dim, tile))
    tv = x.load(v, (("b",), (axis,), ()), (1, tile, dim))
    sums = tuple(Accumulator(SUM, y) for y in _exponentials(x, q, tk, tv))
    num, den = b.loop(Axis(axis, ceil(keys, tile)), tuple(x.ops), sums)
    return num, den


def _whole(b: Builder, q: Value, k: Value, v: Value) -> Sums:
    """Sums over all keys at once."""
    tk = b.load(k, (("b",), (), ()), (1, *k.shape[1:]))
    tv = b.load(v, (("b",), (), ()), (1, *v.shape[1:]))
    return _exponentials(b, q, tk, tv)


def attention_inputs(
    heads: int, rows: int, dim: int, parts: tuple[int, ...], dtype: DType = DType.F32
) -> tuple[Value, ...]:
    """Queries, and keys and values of each part."""
    pairs = [((heads, dim, n), (heads, n, dim)) for n in parts]
    shapes = [(heads, rows, dim), *(shape for pair in pairs for shape in pair)]
    return tuple(tensor(*shape, dtype=dtype) for shape in shapes)


def joined_reference(
    heads: int, rows: int, dim: int, parts: tuple[int, ...], dtype: DType = DType.F32
) -> KernelGraph:
    """Attention over joined keys and values."""
    q, *cached = attention_inputs(heads, rows, dim, parts, dtype)
    b = Builder()
    keys, values = b.concat(tuple(cached[::2]), 2), b.concat(tuple(cached[1::2]), 1)
    y = b.matmul(b.softmax(b.matmul(q, keys), -1), values)
    return KernelGraph("reference", (q, *cached), tuple(b.ops), (y,))


def joined_attention(
    *,
    kind: str = "one kernel",
    heads: int = 2,
    rows: int = 4,
    dim: int = 8,
    parts: tuple[int, ...] = (24, 1),
    tile: int = 4,
    dtype: DType = DType.F32,
) -> KernelGraph:
    """Attention over parts of keys and values that are not joined; the first part in a loop.

    ``kind``: "one kernel"; "one loop" (all parts, of equal sizes, in the same loop); "normalised"
    (each part is divided by the whole denominator before it is added); "any order" (numerators and
    denominators are added in opposite orders); "partial results" (a kernel for each part, and one
    that adds); "split" (in addition, the first part's kernel is split over the grid).
    """
    inputs = attention_inputs(heads, rows, dim, parts, dtype)
    if kind in ("partial results", "split"):
        return _of_partial_results(kind, inputs, tile)
    out, where = tensor(heads, rows, dim, dtype=dtype), (("b",), (), ())
    params = tuple(Value(x.type) for x in inputs)
    gq, *cached = params
    pairs = list(zip(cached[::2], cached[1::2], strict=True))
    b = Builder(in_block=True)
    tq = b.load(gq, where, (1, rows, dim))
    if kind == "one loop":
        x = Builder(in_block=True)
        found: list[Sums] = []
        for k, v in pairs:
            tk = x.load(k, (("b",), (), ("t",)), (1, dim, tile))
            tv = x.load(v, (("b",), ("t",), ()), (1, tile, dim))
            found.append(_exponentials(x, tq, tk, tv))
        added = tuple(_add(x, [sums[i] for sums in found]) for i in (0, 1))
        steps = Axis("t", ceil(parts[0], tile))
        num, den = b.loop(steps, tuple(x.ops), tuple(Accumulator(SUM, v) for v in added))
        y = b.binary(BinaryFn.DIV, num, den)
    else:
        (k, v), *others = pairs
        found = [_looped(b, tq, k, v, "t", tile), *(_whole(b, tq, *pair) for pair in others)]
        numerators, denominators = ([sums[i] for sums in found] for i in (0, 1))
        if kind == "any order":
            denominators.reverse()
        den = _add(b, denominators)
        if kind == "normalised":
            y = _add(b, [b.binary(BinaryFn.DIV, num, den) for num in numerators])
        else:
            y = b.binary(BinaryFn.DIV, _add(b, numerators), den)
    launch = block(inputs, (Axis("b", heads),), params, b, ((y, where, out),))
    return KernelGraph(kind.replace(" ", "_"), inputs, (launch,), (out,))


def _of_partial_results(kind: str, inputs: tuple[Value, ...], tile: int) -> KernelGraph:
    """A kernel for each part, and one that adds."""
    q, *cached = inputs
    pairs = zip(cached[::2], cached[1::2], strict=True)
    partial = [
        _partial(q, k, v, tile, 2 if kind == "split" and i == 0 else 1)
        for i, (k, v) in enumerate(pairs)
    ]
    tensors = tuple(r for launch in partial for r in launch.results)
    params = tuple(Value(x.type) for x in tensors)
    b = Builder(in_block=True)
    sums = [_over_splits(b, p, f"u{i}") for i, p in enumerate(params)]
    y = b.binary(BinaryFn.DIV, _add(b, sums[::2]), _add(b, sums[1::2]))
    y = b.reshape(y, (1, *q.shape[1:]))
    out = Value(q.type)
    last = block(tensors, (Axis("b", q.shape[0]),), params, b, ((y, (("b",), (), ()), out),))
    return KernelGraph(kind.replace(" ", "_"), inputs, (*partial, last), (out,))


def _over_splits(b: Builder, partial: Value, axis: str) -> Value:
    """The sum of the partial results (splits, heads, rows, n) of a head."""
    x = Builder(in_block=True)
    tile = x.load(partial, ((axis,), ("b",), (), ()), (1, 1, *partial.shape[2:]))
    return b.loop(Axis(axis, partial.shape[0]), tuple(x.ops), (Accumulator(SUM, tile),))[0]


def _partial(q: Value, k: Value, v: Value, tile: int, splits: int) -> Launch:
    """Stores numerators (splits, heads, rows, dim) and denominators of a part of the keys."""
    heads, rows, dim = q.shape
    keys = v.shape[1]
    gq, gk, gv = (Value(x.type) for x in (q, k, v))
    b, x = Builder(in_block=True), Builder(in_block=True)
    tq = b.load(gq, (("b",), (), ()), (1, rows, dim))
    tile = min(tile, keys)
    tk = x.load(gk, (("b",), (), ("s", "t")), (1, dim, tile))
    tv = x.load(gv, (("b",), ("s", "t"), ()), (1, tile, dim))
    sums = tuple(Accumulator(SUM, y) for y in _exponentials(x, tq, tk, tv))
    found = b.loop(Axis("t", ceil(keys, tile * splits)), tuple(x.ops), sums)
    stores = tuple(
        (b.reshape(y, (1, *y.shape)), (("s",), ("b",), (), ()), tensor(splits, heads, rows, n))
        for y, n in zip(found, (dim, 1), strict=True)
    )
    return block((q, k, v), (Axis("b", heads), Axis("s", splits)), (gq, gk, gv), b, stores)


def _add(b: Builder, values: list[Value]) -> Value:
    total, *others = values
    for value in others:
        total = b.binary(BinaryFn.ADD, total, value)
    return total


def two_passes(
    rows: int = 3, columns: int = 32, tiles: tuple[int, int] = (8, 8), *, what: str = "softmax"
) -> KernelGraph:
    """The rows of X (rows, columns) in two loops: one that sums, and one that uses the sums.

    ``what``: "softmax" stores ``exp(x) / s``, which a third launch need not know; "average" sums
    ``x exp(x) / s``; "entropy" sums ``-p log p``; "cross entropy" sums ``(log s - x) y`` with
    targets y; "shifted scores" computes the exponentials of other scores in the second loop.
    """
    x, y = tensor(rows, columns), tensor(rows, columns)
    gx, gy = Value(x.type), Value(y.type)
    b, first, second = (Builder(in_block=True) for _ in range(3))

    def load(body: Builder, source: Value, axis: str, tile: int) -> Value:
        return body.load(source, (("m",), (axis,)), (1, tile))

    one = first.unary(UnaryFn.EXP, load(first, gx, "t", tiles[0]))
    if columns % tiles[0]:
        one = first.mask(one, 1, ("t",), columns, 0.0)
    total = first.reduce(ReduceFn.SUM, one, (1,))
    (s,) = b.loop(Axis("t", ceil(columns, tiles[0])), tuple(first.ops), (Accumulator(SUM, total),))
    score = load(second, gx, "u", tiles[1])
    if what == "shifted scores":
        score = second.binary(BinaryFn.ADD, score, load(second, gy, "u", tiles[1]))
    if what == "cross entropy":
        logs = second.binary(BinaryFn.SUB, second_log(b, s), score)
        used = second.binary(BinaryFn.MUL, logs, load(second, gy, "u", tiles[1]))
    else:
        p = second.binary(BinaryFn.DIV, second.unary(UnaryFn.EXP, score), s)
        if columns % tiles[1]:
            p = second.mask(p, 1, ("u",), columns, 0.0)
        used = p
        if what == "average":
            used = second.binary(BinaryFn.MUL, p, score)
        if what == "entropy":
            logs = second.binary(BinaryFn.SUB, second_log(b, s), score)
            used = second.binary(BinaryFn.MUL, p, logs)
    partial = second.reduce(ReduceFn.SUM, used, (1,))
    (result,) = b.loop(
        Axis("u", ceil(columns, tiles[1])), tuple(second.ops), (Accumulator(SUM, partial),)
    )
    out = tensor(rows, 1)
    launch = block((x, y), (Axis("m", rows),), (gx, gy), b, ((result, (("m",), ()), out),))
    return KernelGraph(what.replace(" ", "_"), (x, y), (launch,), (out,))


def second_log(b: Builder, s: Value) -> Value:
    """``log s``, before the second loop."""
    return b.unary(UnaryFn.LOG, s)
