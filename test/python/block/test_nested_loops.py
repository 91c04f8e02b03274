"""Nested loops: the PTX of hand-written µGraphs, executed with all checks."""

from __future__ import annotations

from math import ceil, inf

import pytest
from example_programs import graphs
from lowering import check_graph, with_schedule
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Output,
    Value,
)
from thorough import some_of

F16, F32 = DType.F16, DType.F32
CHIPS = ["sm_80", "sm_90a"]
SUM, MAX, LAST = AccumulateFn.SUM, AccumulateFn.MAX, AccumulateFn.LAST


def kernel(
    inputs: tuple[Value, ...], grid: tuple[Axis, ...], params: tuple[Value, ...], b: Builder,
    value: Value, where: tuple[tuple[str, ...], ...], result: Value,
) -> KernelGraph:  # fmt: skip
    body = BlockGraph(params, tuple(b.ops), (Output(value, where),))
    launch = graphs.launch(inputs, grid, body, (result.type,))
    return KernelGraph("nested", inputs, (launch,), launch.results)


def mlp(
    m: int, k: int, h: int, n: int, *, blocks: int, steps: tuple[int, int], gated: bool = False,
    norm: bool = False, dtype: DType = F16,
) -> graphs.Pair:  # fmt: skip
    """``silu(X W1) W2``: the outer loop runs over the hidden axis, the inner one over the
    contraction. ``gated``: times ``X W3``; ``norm``: rows of X have norm 1, by sums in the inner
    loop.
    """
    x, w1 = graphs.tensor(m, k, dtype=dtype), graphs.tensor(k, h, dtype=dtype)
    w3, w2 = graphs.tensor(k, h, dtype=dtype), graphs.tensor(h, n, dtype=dtype)
    inputs = (x, w1, w3, w2) if gated else (x, w1, w2)
    b = Builder()
    source = b.rms_norm(x) if norm else x
    hidden = b.unary(UnaryFn.SILU, b.matmul(source, w1))
    if gated:
        hidden = b.binary(BinaryFn.MUL, hidden, b.matmul(source, w3))
    y = b.matmul(hidden, w2)
    reference = KernelGraph("mlp", inputs, tuple(b.ops), (y,))

    px, *between, p2 = params = graphs.params_of(inputs)
    tk, th, tn = graphs.cut(k, steps[1]), graphs.cut(h, steps[0]), graphs.cut(n, blocks)
    inner, outer, top = (Builder(in_block=True) for _ in range(3))
    tx = inner.load(px, ((), ("k",)), (m, tk))
    products = [inner.matmul(tx, inner.load(p, (("k",), ("j",)), (tk, th))) for p in between]
    sums = [Accumulator(SUM, p) for p in products]
    if norm:
        squares = inner.reduce(ReduceFn.SUM, inner.unary(UnaryFn.SQUARE, tx), (1,))
        sums.append(Accumulator(SUM, squares))
    results = list(outer.loop(Axis("k", steps[1]), tuple(inner.ops), tuple(sums)))
    if norm:
        mean = outer.binary(BinaryFn.MUL, results.pop(), outer.constant(1.0 / k))
        scale = outer.unary(UnaryFn.RSQRT, outer.binary(BinaryFn.ADD, mean, outer.constant(1e-6)))
        results = [outer.binary(BinaryFn.MUL, r, scale) for r in results]
    part = outer.unary(UnaryFn.SILU, results[0])
    if gated:
        part = outer.binary(BinaryFn.MUL, part, results[1])
    product = outer.matmul(outer.cast(part, dtype), outer.load(p2, (("j",), ("n",)), (th, tn)))
    (total,) = top.loop(Axis("j", steps[0]), tuple(outer.ops), (Accumulator(SUM, product),))
    graph = kernel(inputs, (Axis("n", blocks),), params, top, total, ((), ("n",)), y)
    return graphs.Pair(reference, {"nested": graph})


def check(pair: graphs.Pair, chip: str, warps: int = 4, stages: int = 2) -> None:
    graph = with_schedule(pair.candidates["nested"], warps, stages)
    check_graph(graph, pair.reference, chip=chip)


@pytest.mark.parametrize(
    ("chip", "norm", "gated"),
    [
        (CHIPS[0], False, False),
        (CHIPS[0], True, True),
        (CHIPS[1], False, True),
        (CHIPS[1], True, False),
    ],
)
def test_mlp(gated: bool, norm: bool, chip: str) -> None:
    check(mlp(16, 64, 96, 48, blocks=2, steps=(3, 4), gated=gated, norm=norm), chip)


@pytest.mark.parametrize(
    ("stages", "warps"), some_of([(1, 4), (2, 1), (2, 8), (3, 4), (3, 8), (4, 1), (4, 4)], every=2)
)
def test_schedules(stages: int, warps: int) -> None:
    check(mlp(8, 64, 64, 32, blocks=2, steps=(4, 4)), "sm_90a", warps, stages)


@pytest.mark.parametrize(
    ("m", "k", "h", "n", "chip"),
    some_of(
        [
            (1, 48, 40, 24, CHIPS[0]),
            (3, 50, 37, 21, CHIPS[0]),
            (3, 50, 37, 21, CHIPS[1]),
            (20, 33, 70, 9, CHIPS[1]),
        ],
        every=2,
    ),
)
def test_odd_sizes(m: int, k: int, h: int, n: int, chip: str) -> None:
    check(mlp(m, k, h, n, blocks=2, steps=(3, 2)), chip)
    check(mlp(m, k, h, n, blocks=1, steps=(2, 3), dtype=F32, norm=True), chip)


@pytest.mark.parametrize("steps", [(1, 1), (1, 4), (4, 1)])
def test_single_steps(steps: tuple[int, int]) -> None:
    check(mlp(8, 32, 32, 16, blocks=1, steps=steps), "sm_80", stages=3)


def attention(s: int, t: int, d: int, *, steps: tuple[int, int]) -> graphs.Pair:
    """Softmax of scores, times V: the outer loop runs over keys with a running maximum, the inner
    one sums scores over parts of the heads' dimension.
    """
    q, k, v = graphs.tensor(s, d), graphs.tensor(d, t), graphs.tensor(t, d)
    b = Builder()
    y = b.matmul(b.softmax(b.matmul(q, k), 1), v)
    reference = KernelGraph("attention", (q, k, v), tuple(b.ops), (y,))
    pq, pk, pv = params = graphs.params_of((q, k, v))
    tt, td = graphs.cut(t, steps[0]), graphs.cut(d, steps[1])
    inner, outer, top = (Builder(in_block=True) for _ in range(3))
    product = inner.matmul(
        inner.load(pq, ((), ("d",)), (s, td)), inner.load(pk, (("d",), ("t",)), (td, tt))
    )
    (scores,) = outer.loop(Axis("d", steps[1]), tuple(inner.ops), (Accumulator(SUM, product),))
    scores = outer.mask(scores, 1, ("t",), t, -inf)
    top_score = outer.running_max(outer.reduce(ReduceFn.MAX, scores, (1,)))
    e = outer.unary(UnaryFn.EXP, outer.binary(BinaryFn.SUB, scores, top_score))
    weighted = outer.matmul(outer.cast(e, F16), outer.load(pv, (("t",), ()), (tt, d)))
    sums = (
        Accumulator(SUM, weighted, top_score),
        Accumulator(SUM, outer.reduce(ReduceFn.SUM, e, (1,)), top_score),
    )
    o, l = top.loop(Axis("t", steps[0]), tuple(outer.ops), sums)
    out = top.binary(BinaryFn.DIV, o, l)
    graph = kernel((q, k, v), (), params, top, out, ((), ()), y)
    return graphs.Pair(reference, {"nested": graph})


@pytest.mark.parametrize(
    ("s", "t", "d", "chip"),
    some_of(
        [
            (16, 64, 64, CHIPS[1]),
            (5, 50, 24, CHIPS[0]),
            (5, 50, 24, CHIPS[1]),
            (32, 96, 32, CHIPS[0]),
        ],
        every=2,
    ),
)
def test_running_maximum_of_the_outer_loop(s: int, t: int, d: int, chip: str) -> None:
    check(attention(s, t, d, steps=(3, 2)), chip)
    check(attention(s, t, d, steps=(2, 4)), chip, stages=3)


@pytest.mark.parametrize("chip", some_of(CHIPS, every=2))
@pytest.mark.parametrize("stages", [1, 2, 3])
def test_two_inner_loops_and_values_of_the_outer_one(stages: int, chip: str) -> None:
    """Rows of A, centred by the first inner loop, meet B in the second one; a column of the outer
    loop's step is used in the second inner loop, and each loop accumulates in its own way.
    """
    m, k, h = 12, 40, 24
    a, c, g = graphs.tensor(m, k), graphs.tensor(k, h), graphs.tensor(m, h)
    b = Builder()
    centred = b.binary(
        BinaryFn.SUB,
        a,
        b.binary(BinaryFn.MUL, b.reduce(ReduceFn.SUM, a, (1,)), b.constant(1.0 / k)),
    )
    product = b.matmul(centred, c)
    gated = b.binary(BinaryFn.MAX, product, g)
    y = b.reduce(ReduceFn.MAX, gated, (1,))
    reference = KernelGraph("centred", (a, c, g), tuple(b.ops), (y,))
    pa, pc, pg = params = graphs.params_of((a, c, g))
    first, second, outer, top = (Builder(in_block=True) for _ in range(4))
    tile = first.load(pa, ((), ("i",)), (m, ceil(k / 3)))
    total = Accumulator(SUM, first.reduce(ReduceFn.SUM, tile, (1,)))
    (row,) = outer.loop(Axis("i", 3), tuple(first.ops), (total,))
    mean = outer.binary(BinaryFn.MUL, row, outer.constant(1.0 / k))
    gate = outer.load(pg, ((), ("j",)), (m, ceil(h / 2)))
    left = second.load(pa, ((), ("k",)), (m, ceil(k / 4)))
    difference = second.mask(second.binary(BinaryFn.SUB, left, mean), 1, ("k",), k, 0.0)
    right = second.load(pc, (("k",), ("j",)), (ceil(k / 4), ceil(h / 2)))
    accumulators = (
        Accumulator(SUM, second.matmul(second.cast(difference, F16), right)),
        Accumulator(LAST, second.unary(UnaryFn.NEG, gate)),
    )
    products, negated = outer.loop(Axis("k", 4), tuple(second.ops), accumulators)
    either = outer.binary(BinaryFn.MAX, products, outer.unary(UnaryFn.NEG, negated))
    largest = Accumulator(MAX, outer.reduce(ReduceFn.MAX, either, (1,)))
    (out,) = top.loop(Axis("j", 2), tuple(outer.ops), (largest,))
    graph = kernel((a, c, g), (), params, top, out, ((), ()), y)
    check(graphs.Pair(reference, {"nested": graph}), chip, stages=stages)


def test_three_loops() -> None:
    """``sum_i (sum_j (sum_k A[i, k] B[k, j])^2) C[i]``, every sum a loop."""
    a, b_, c = graphs.tensor(24, 32), graphs.tensor(32, 16), graphs.tensor(24, 1)
    b = Builder()
    squares = b.unary(UnaryFn.SQUARE, b.matmul(a, b_))
    rows = b.reduce(ReduceFn.SUM, squares, (1,))
    y = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.MUL, rows, c), (0,))
    reference = KernelGraph("three", (a, b_, c), tuple(b.ops), (y,))
    pa, pb, pc = params = graphs.params_of((a, b_, c))
    inner, middle, outer, top = (Builder(in_block=True) for _ in range(4))
    product = inner.matmul(
        inner.load(pa, (("i",), ("k",)), (8, 8)), inner.load(pb, (("k",), ("j",)), (8, 8))
    )
    (part,) = middle.loop(Axis("k", 4), tuple(inner.ops), (Accumulator(SUM, product),))
    square = middle.reduce(ReduceFn.SUM, middle.unary(UnaryFn.SQUARE, part), (1,))
    (row,) = outer.loop(Axis("j", 2), tuple(middle.ops), (Accumulator(SUM, square),))
    scaled = outer.binary(BinaryFn.MUL, row, outer.load(pc, (("i",), ()), (8, 1)))
    column = Accumulator(SUM, outer.reduce(ReduceFn.SUM, scaled, (0,)))
    (out,) = top.loop(Axis("i", 3), tuple(outer.ops), (column,))
    graph = kernel((a, b_, c), (), params, top, out, ((), ()), y)
    check(graphs.Pair(reference, {"nested": graph}), "sm_90a", stages=3)
