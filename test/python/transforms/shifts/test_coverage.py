"""Exponentials that are recomputed in a kernel other than the one that sums them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from example_programs.attention_graphs import SUM, tensor
from example_programs.stability_graphs import block
from mirage.cost import H200
from mirage.search import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Accumulator, Axis, KernelGraph, Launch, Value
from mirage.transforms import stabilize
from mirage.verify import Kind, VerifyOptions, verify
from mirage.workloads import get
from thorough import some_of

Array = np.ndarray[Any, Any]
KEYS, DIM = 32, 8


def row_sums(q: Value, k: Value, kind: str) -> tuple[Launch, ...]:
    """Kernels that compute the sums over keys of ``exp(q k)``; the last one stores them, as parts
    (parts, rows) or (rows, 1).
    """
    rows = q.shape[0]
    gq, gk = Value(q.type), Value(k.type)
    b, x = Builder(in_block=True), Builder(in_block=True)
    split = kind in ("parts", "combined", "looped parts")
    columns = ("s", "t") if split else ("t",)
    grid = (Axis("m", 2), *([Axis("s", 4)] if split else []))
    steps = 2 if split else 4
    size = KEYS // (steps * (4 if split else 1))
    if kind == "contraction in a loop":
        inner = Builder(in_block=True)
        tq = inner.load(gq, (("m",), ("c",)), (rows // 2, DIM // 2))
        tk = inner.load(gk, (("c",), columns), (DIM // 2, size))
        s = Accumulator(SUM, inner.matmul(tq, tk))
        (s,) = x.loop(Axis("c", 2), tuple(inner.ops), (s,))
    else:
        tq = x.load(gq, (("m",), ()), (rows // 2, DIM))
        tk = x.load(gk, ((), columns), (DIM, size))
        if kind == "transposed":
            s = x.matmul(x.transpose(tk, (1, 0)), x.transpose(tq, (1, 0)))
        else:
            s = x.matmul(tq, tk)
    if kind == "other scores":
        s = x.binary(BinaryFn.MUL, s, x.constant(0.5))
    dim = 0 if kind == "transposed" else 1
    total = x.reduce(ReduceFn.SUM, x.unary(UnaryFn.EXP, s), (dim,))
    (d,) = b.loop(Axis("t", steps), tuple(x.ops), (Accumulator(SUM, total),))
    if not split:
        d = b.reshape(d, (rows // 2, 1))
        out = tensor(rows, 1)
        return (block((q, k), grid, (gq, gk), b, ((d, (("m",), ()), out),)),)
    d = b.reshape(d, (1, rows // 2))
    parts = tensor(4, rows)
    first = block((q, k), grid, (gq, gk), b, ((d, (("s",), ("m",)), parts),))
    if kind != "combined":
        return (first,)
    gp, c, out = Value(parts.type), Builder(in_block=True), tensor(rows, 1)
    loaded = c.transpose(c.load(gp, ((), ("n",)), (4, rows // 4)), (1, 0))
    total = c.reduce(ReduceFn.SUM, loaded, (1,))
    second = block((parts,), (Axis("n", 4),), (gp,), c, ((total, (("n",), ()), out),))
    return (first, second)


def two_kernels(kind: str) -> KernelGraph:
    """``softmax(q k)`` (8, KEYS): sums in one kernel (or two), exponentials again in another."""
    rows = 8
    q, k = tensor(rows, DIM), tensor(DIM, KEYS)
    sums = row_sums(q, k, kind)
    (d,) = sums[-1].results
    gq, gk, gd = (Value(v.type) for v in (q, k, d))
    b = Builder(in_block=True)
    height = rows // 4
    tq = b.load(gq, (("m",), ()), (height, DIM))
    tk = b.load(gk, ((), ("n",)), (DIM, KEYS // 8))
    e = b.unary(UnaryFn.EXP, b.matmul(tq, tk))  # before the sums are loaded
    if kind == "looped parts":
        x = Builder(in_block=True)
        tile = x.load(gd, (("u",), ("m",)), (1, height))
        (td,) = b.loop(Axis("u", 4), tuple(x.ops), (Accumulator(SUM, tile),))
        td = b.reshape(td, (height, 1))
    elif kind == "parts":
        td = b.reduce(ReduceFn.SUM, b.load(gd, ((), ("m",)), (4, height)), (0,))
        td = b.reshape(td, (height, 1))
    else:
        td = b.load(gd, (("m",), ()), (height, 1))
    y, out = b.binary(BinaryFn.DIV, e, td), tensor(rows, KEYS)
    grid = (Axis("m", 4), Axis("n", 8))
    last = block((q, k, d), grid, (gq, gk, gd), b, ((y, (("m",), ("n",)), out),))
    return KernelGraph(kind.replace(" ", "_"), (q, k), (*sums, last), (out,))


def reference() -> KernelGraph:
    q, k, b = tensor(8, DIM), tensor(DIM, KEYS), Builder()
    y = b.softmax(b.matmul(q, k), 1)
    return KernelGraph("reference", (q, k), tuple(b.ops), (y,))


KINDS = ["rows", "transposed", "contraction in a loop", "parts", "looped parts", "combined"]


@pytest.mark.parametrize("kind", some_of(KINDS, every=2))
def test_the_stored_maximum_serves(kind: str) -> None:
    graph = two_kernels(kind)
    result = stabilize(graph)
    assert [e.reason for e in result.exponentials] == ["", ""]
    check_graph(result.graph)
    rng = np.random.default_rng(0)
    q, k = rng.standard_normal((8, DIM)), rng.standard_normal((DIM, KEYS))
    for scale in (1.0, 1e4):
        (want,) = evaluate_floats(reference(), [q * scale, k])
        with np.errstate(over="raise", invalid="raise", divide="raise"):
            (exact,) = evaluate_floats(result.graph, [q * scale, k])
            (typed,) = evaluate_floats(result.graph, [q * scale, k], TypedFloat())
        # scores that are summed in another order differ by their rounding errors
        np.testing.assert_allclose(exact, want, rtol=1e-14 * scale + 1e-12, atol=1e-12)
        np.testing.assert_allclose(typed, want, rtol=3e-6 * scale + 1e-5, atol=1e-5)
    verdict = verify(reference(), result.graph, VerifyOptions(seed=1))
    assert verdict.kind is Kind.PROVED, verdict


def test_other_scores_do_not_use_it() -> None:
    result = stabilize(two_kernels("other scores"))
    assert len(result.unstable) == 2


@pytest.mark.parametrize("diagonal", [True, False])
def test_blocks_on_the_diagonal_have_not_seen_the_row(diagonal: bool) -> None:
    """Both dimensions are cut by the same axis: each row is combined with only a part of the
    columns."""
    x, d = tensor(8, 8), tensor(8, 1)
    gx, b = Value(x.type), Builder(in_block=True)
    width = 4 if diagonal else 8
    tile = b.load(gx, (("s",), ("s",) if diagonal else ()), (4, width))
    row = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, tile), (1,))
    first = block((x,), (Axis("s", 2),), (gx,), b, ((row, (("s",), ()), d),))
    gx, gd, b = Value(x.type), Value(d.type), Builder(in_block=True)
    e = b.unary(UnaryFn.EXP, b.load(gx, (("m",), ()), (2, 8)))
    y = b.binary(BinaryFn.DIV, e, b.load(gd, (("m",), ()), (2, 1)))
    out = tensor(8, 8)
    second = block((x, d), (Axis("m", 4),), (gx, gd), b, ((y, (("m",), ()), out),))
    result = stabilize(KernelGraph("blocks", (x,), (first, second), (out,)))
    assert len(result.unstable) == (2 if diagonal else 0)


def test_exponentials_of_single_elements_are_no_divisors() -> None:
    """``exp(x) / exp(x)`` relative to a stored row maximum: both may vanish, although each by
    itself would not.
    """
    q, k = tensor(8, DIM), tensor(DIM, KEYS)
    (first,) = row_sums(q, k, "rows")
    (d,) = first.results
    gq, gk, gd = (Value(v.type) for v in (q, k, d))
    b = Builder(in_block=True)
    s = b.matmul(b.load(gq, (("m",), ()), (4, DIM)), b.load(gk, ((), ()), (DIM, KEYS)))
    e, again = b.unary(UnaryFn.EXP, s), b.unary(UnaryFn.EXP, s)
    y, out = b.binary(BinaryFn.DIV, e, again), tensor(8, KEYS)
    unused = b.load(gd, (("m",), ()), (4, 1))
    y = b.binary(BinaryFn.MUL, y, b.binary(BinaryFn.DIV, unused, unused))
    grid = (Axis("m", 2),)
    last = block((q, k, d), grid, (gq, gk, gd), b, ((y, (("m",), ()), out),))
    result = stabilize(KernelGraph("ratio", (q, k), (first, last), (out,)))
    assert not result.unstable
    rng = np.random.default_rng(0)
    inputs = [1e3 * rng.standard_normal((8, DIM)), rng.standard_normal((DIM, KEYS))]
    (got,) = evaluate_floats(result.graph, inputs, TypedFloat())
    np.testing.assert_allclose(got, np.ones((8, KEYS)), rtol=1e-5)


def test_columns_of_a_loop_beside_the_maximum_of_the_row_are_no_divisors() -> None:
    """The loop adds tiles element by element, and their row sums too: a column of the former may
    vanish compared with the maximum of the row.
    """
    x = tensor(3, 16)
    gx, b, body = Value(x.type), Builder(in_block=True), Builder(in_block=True)
    e = body.unary(UnaryFn.EXP, body.load(gx, ((), ("t",)), (3, 4)))
    sums = (Accumulator(SUM, e), Accumulator(SUM, body.reduce(ReduceFn.SUM, e, (1,))))
    columns, row = b.loop(Axis("t", 4), tuple(body.ops), sums)
    y = b.binary(BinaryFn.DIV, b.binary(BinaryFn.MUL, columns, columns), columns)
    y, out = b.binary(BinaryFn.DIV, y, row), tensor(3, 4)
    launch = block((x,), (), (gx,), b, ((y, ((), ()), out),))
    result = stabilize(KernelGraph("columns", (x,), (launch,), (out,)))
    assert [e.reason for e in result.exponentials] == [
        "a division by a part of a row, which may vanish beside the row's maximum"
    ]


@pytest.mark.parametrize("name", ["softmax_n16384", "softmax_v128256", "prefill"])
def test_candidates_of_long_rows(name: str) -> None:
    """Rows that no block holds: their sums are a separate kernel. Candidates that take more
    than twice the time of the best one may be left out as unstable."""
    candidates = superoptimize(get(name).graph(), H200).candidates
    candidates = [c for c in candidates if c.cost.time <= 2 * candidates[0].cost.time]
    assert candidates
    for candidate in candidates:
        result = stabilize(candidate.graph)
        assert not result.unstable, [str(e) for e in result.unstable]
        check_graph(result.graph)
