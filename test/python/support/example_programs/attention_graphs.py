"""µGraphs like those that the search emits: plain exponentials, no maximum."""

from __future__ import annotations

from collections.abc import Callable

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    TensorType,
    Value,
)

SUM = AccumulateFn.SUM


def tensor(*shape: int, dtype: DType = DType.F32, name: str = "") -> Value:
    return Value(TensorType(shape, dtype), name)


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def split_kv_attention(
    *,
    heads: int = 2,
    rows: int = 4,
    dim: int = 8,
    keys: int = 32,
    splits: int = 2,
    tile: int = 4,
    dtype: DType = DType.F32,
    mask: str = "none",
    column_blocks: int = 1,
    squeeze_denominator: bool = False,
    combine_loop: bool = False,
) -> KernelGraph:
    """softmax(QK)V: launch 1 sums over the keys of a split, launch 2 over the splits.

    ``mask``: "none", "after" (zero beyond the keys after the exponential) or "before" (minus
    infinity before it). ``column_blocks`` cuts the columns of V over the grid.
    """
    q, k, v = (
        tensor(heads, rows, dim, dtype=dtype),
        tensor(heads, dim, keys, dtype=dtype),
        tensor(heads, keys, dim, dtype=dtype),
    )
    steps = ceil(keys, splits * tile)
    grid = (Axis("b", heads), Axis("s", splits), Axis("c", column_blocks))
    columns = dim // column_blocks
    gq, gk, gv = (Value(x.type) for x in (q, k, v))
    outer, inner = Builder(in_block=True), Builder(in_block=True)
    tq = outer.load(gq, (("b",), (), ()), (1, rows, dim))
    tk = inner.load(gk, (("b",), (), ("s", "t")), (1, dim, tile))
    tv = inner.load(gv, (("b",), ("s", "t"), ("c",)), (1, tile, columns))
    scores = inner.matmul(tq, tk)
    if mask == "before":
        scores = inner.mask(scores, 2, ("s", "t"), keys, float("-inf"))
    e = inner.unary(UnaryFn.EXP, scores)
    if mask == "after":
        e = inner.mask(e, 2, ("s", "t"), keys, 0.0)
    o = inner.matmul(e, tv)
    total = inner.reduce(ReduceFn.SUM, e, (2,))
    acc_o, acc_l = outer.loop(
        Axis("t", steps), tuple(inner.ops), (Accumulator(SUM, o), Accumulator(SUM, total))
    )
    part_o = outer.reshape(acc_o, (1, 1, rows, columns))
    part_l = outer.reshape(acc_l, (1, 1, rows) if squeeze_denominator else (1, 1, rows, 1))
    rank = 3 if squeeze_denominator else 4
    outputs = (
        Output(part_o, (("s",), ("b",), (), ("c",))),
        Output(part_l, (("s",), ("b",), (), ())[:rank]),
    )
    p_o, p_l = tensor(splits, heads, rows, dim), tensor(*(splits, heads, rows, 1)[:rank])
    first = Launch((q, k, v), (p_o, p_l), grid, BlockGraph((gq, gk, gv), tuple(outer.ops), outputs))
    out = tensor(heads, rows, dim, dtype=dtype)
    second = _quotient_of_sums(p_o, p_l, out, combine_loop)
    return KernelGraph("attention", (q, k, v), (first, second), (out,))


def _quotient_of_sums(p_o: Value, p_l: Value, out: Value, in_loop: bool) -> Launch:
    """Numerators divided by denominators, both added over the splits."""
    splits, heads, rows, dim = p_o.shape
    rank = len(p_l.shape)
    go, gl = Value(p_o.type), Value(p_l.type)
    b = Builder(in_block=True)
    if in_loop:
        body = Builder(in_block=True)
        to = body.load(go, (("u",), ("b",), (), ()), (1, 1, rows, dim))
        tl = body.load(gl, (("u",), ("b",), (), ())[:rank], (1, 1, rows, 1)[:rank])
        to = body.reshape(to, (1, rows, dim))
        tl = body.reshape(tl, (1, rows, 1))
        accumulators = (Accumulator(SUM, to), Accumulator(SUM, tl))
        num, den = b.loop(Axis("u", splits), tuple(body.ops), accumulators)
    else:
        to = b.load(go, ((), ("b",), (), ()), (splits, 1, rows, dim))
        tl = b.load(gl, ((), ("b",), (), ())[:rank], (splits, 1, rows, 1)[:rank])
        num = b.reshape(b.reduce(ReduceFn.SUM, to, (0,)), (1, rows, dim))
        den = b.reshape(b.reduce(ReduceFn.SUM, tl, (0,)), (1, rows, 1))
    outputs = (Output(b.binary(BinaryFn.DIV, num, den), (("b",), (), ())),)
    body = BlockGraph((go, gl), tuple(b.ops), outputs)
    return Launch((p_o, p_l), (out,), (Axis("b", heads),), body)


def reference_attention(
    *, heads: int = 2, rows: int = 4, dim: int = 8, keys: int = 32, dtype: DType = DType.F32
) -> KernelGraph:
    q, k, v = (
        tensor(heads, rows, dim, dtype=dtype),
        tensor(heads, dim, keys, dtype=dtype),
        tensor(heads, keys, dim, dtype=dtype),
    )
    b = Builder()
    y = b.matmul(b.softmax(b.matmul(q, k), -1), v)
    return KernelGraph("reference", (q, k, v), tuple(b.ops), (y,))


def one_launch(
    inputs: tuple[Value, ...],
    grid: tuple[Axis, ...],
    result: Value,
    result_map: tuple[tuple[str, ...], ...],
    build: Callable[[Builder, tuple[Value, ...]], Value],
) -> KernelGraph:
    """A graph of one launch that stores one tile."""
    params = tuple(Value(x.type) for x in inputs)
    b = Builder(in_block=True)
    y = build(b, params)
    launch = Launch(
        inputs, (result,), grid, BlockGraph(params, tuple(b.ops), (Output(y, result_map),))
    )
    return KernelGraph("one", inputs, (launch,), (result,))
