"""The online-maximum rewrite, executed in float64 and as a GPU would round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from example_programs.attention_graphs import (
    ceil,
    one_launch,
    reference_attention,
    split_kv_attention,
    tensor,
)
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    KernelGraph,
    Launch,
    RunningMax,
    Value,
    all_ops,
)
from mirage.transforms import Stabilized
from mirage.transforms import stabilize as rewrite

Array = np.ndarray[Any, Any]


def stabilize(graph: KernelGraph) -> Stabilized:
    """Run the rewrite; its result must obey all structural rules."""
    result = rewrite(graph)
    check_graph(result.graph)
    return result


def random_inputs(graph: KernelGraph, scale: float, seed: int = 0) -> list[Array]:
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal(v.shape) for v in graph.inputs]
    inputs[0] = inputs[0] * scale
    return [v.dtype.round(x) for v, x in zip(graph.inputs, inputs, strict=True)]


def check(
    graph: KernelGraph, reference: KernelGraph, scale: float, tolerance: float = 1e-12
) -> None:
    inputs = random_inputs(graph, scale)
    (want,) = evaluate_floats(reference, inputs)
    (got,) = evaluate_floats(graph, inputs)
    assert np.isfinite(want).all()
    np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
    (typed,) = evaluate_floats(graph, inputs, TypedFloat())
    half = graph.outputs[0].dtype.is_half
    np.testing.assert_allclose(
        typed, want, rtol=1e-2 if half else 1e-4, atol=1e-2 if half else 1e-5
    )


@pytest.mark.parametrize("scale", [1.0, 1e4, -1e4])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"mask": "after", "keys": 27},
        {"mask": "before", "keys": 27},
        {"mask": "after", "keys": 9, "splits": 4},  # the last split has no keys
        {"mask": "before", "keys": 9, "splits": 4},
        {"column_blocks": 2},
        {"squeeze_denominator": True},
        {"combine_loop": True},
        {"combine_loop": True, "mask": "before", "keys": 9, "splits": 4},
        {"rows": 1, "heads": 1},
        {"splits": 1, "tile": 32},
        {"dtype": DType.F16},
    ],
    ids=str,
)  # fmt: skip
def test_split_kv_attention(options: dict[str, Any], scale: float) -> None:
    graph = split_kv_attention(**options)
    result = stabilize(graph)
    assert [e.reason for e in result.exponentials] == [""]
    sizes = {k: v for k, v in options.items() if k in ("heads", "rows", "keys", "dtype")}
    if options.get("dtype") is DType.F16:
        scale = min(abs(scale), 1e3)
    reference = reference_attention(**sizes)
    check(result.graph, reference, scale, 2e-3 if "dtype" in options else 1e-12)


def test_without_the_rewrite_large_scores_overflow() -> None:
    graph = split_kv_attention()
    with np.errstate(all="ignore"):
        (got,) = evaluate_floats(graph, random_inputs(graph, 1e4))
    assert not np.isfinite(got).all()


def test_partial_maxima_are_stored_once_and_shared() -> None:
    first, second = (
        op for op in stabilize(split_kv_attention()).graph.ops if isinstance(op, Launch)
    )
    assert len(first.results) == 3
    assert first.results[2].shape == (2, 2, 4)  # split, head, row
    assert len(second.operands) == 3
    assert sum(isinstance(op, RunningMax) for op in all_ops(first.body.ops)) == 1


def test_stable_graphs_are_left_alone() -> None:
    once = stabilize(split_kv_attention(combine_loop=True))
    twice = stabilize(once.graph)
    assert twice.graph is once.graph
    assert not twice.unstable


def test_additive_mask_of_minus_infinity() -> None:
    """A program's own mask may remove whole tiles of keys; torch gives finite results as long as
    one key is left.
    """
    keys, tile = 16, 4
    q, bias = tensor(4, 16), tensor(4, keys)

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        x = Builder(in_block=True)
        s = x.load(params[0], ((), ("t",)), (4, tile))
        m = x.load(params[1], ((), ("t",)), (4, tile))
        e = x.unary(UnaryFn.EXP, x.binary(BinaryFn.ADD, s, m))
        total = x.reduce(ReduceFn.SUM, e, (1,))
        weighted = x.reduce(ReduceFn.SUM, x.binary(BinaryFn.MUL, e, s), (1,))
        sums = (Accumulator(AccumulateFn.SUM, weighted), Accumulator(AccumulateFn.SUM, total))
        num, den = b.loop(Axis("t", keys // tile), tuple(x.ops), sums)
        return b.binary(BinaryFn.DIV, num, den)

    graph = one_launch((q, bias), (), tensor(4, 1), ((), ()), build)
    result = stabilize(graph)
    assert not result.unstable
    s = np.random.default_rng(1).standard_normal((4, keys)) * 1e4
    mask = np.zeros((4, keys))
    mask[0, :8] = mask[1, 4:] = mask[2, 0::2] = -np.inf
    p = np.exp(s + mask - (s + mask).max(axis=1, keepdims=True))
    want = (p * s).sum(axis=1, keepdims=True) / p.sum(axis=1, keepdims=True)
    for domain in (None, TypedFloat()):
        (got,) = evaluate_floats(result.graph, [s, mask], domain)
        np.testing.assert_allclose(got, want, rtol=1e-5)


def softmax_rows(rows: int, columns: int, *, tail: str = "") -> KernelGraph:
    """A whole row in one tile; ``tail`` names the use of the quotient."""
    tile = 32 * ceil(columns, 32)

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        x = b.load(params[0], (("m",), ()), (1, tile))
        e = b.unary(UnaryFn.EXP, x)
        if columns != tile:
            e = b.mask(e, 1, (), columns, 0.0)
        total = b.reduce(ReduceFn.SUM, e, (1,))
        if tail == "unnormalised":
            return b.binary(BinaryFn.MUL, e, b.constant(0.5))
        if tail == "epsilon":
            total = b.binary(BinaryFn.ADD, total, b.constant(1e-6))
        if tail == "sigmoid":
            return b.unary(UnaryFn.RECIPROCAL, b.binary(BinaryFn.ADD, b.constant(1.0), e))
        if tail == "silu":
            return b.unary(UnaryFn.SILU, e)
        if tail == "logsumexp":
            return b.binary(BinaryFn.SUB, x, b.unary(UnaryFn.LOG, total))
        if tail == "half power":
            return b.binary(
                BinaryFn.MUL,
                b.unary(UnaryFn.SQUARE, e),
                b.binary(BinaryFn.POW, total, b.constant(-2.0)),
            )
        return b.binary(BinaryFn.MUL, e, b.unary(UnaryFn.RECIPROCAL, total))

    return one_launch(
        (tensor(rows, columns),), (Axis("m", rows),), tensor(rows, columns), (("m",), ()), build
    )


@pytest.mark.parametrize("columns", [32, 50])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_row_softmax(columns: int, scale: float) -> None:
    result = stabilize(softmax_rows(3, columns))
    assert not result.unstable
    x = tensor(3, columns)
    b = Builder()
    y = b.softmax(x, 1)
    check(result.graph, KernelGraph("reference", (x,), tuple(b.ops), (y,)), scale)


@pytest.mark.parametrize("columns", [32, 50])
def test_log_turns_the_factor_into_a_summand(columns: int) -> None:
    result = stabilize(softmax_rows(3, columns, tail="logsumexp"))
    assert not result.unstable
    (x,) = random_inputs(result.graph, 1e4)
    (got,) = evaluate_floats(result.graph, [x])
    top = x.max(axis=1, keepdims=True)
    np.testing.assert_allclose(
        got, x - top - np.log(np.exp(x - top).sum(axis=1, keepdims=True)), rtol=1e-12
    )


def test_squares_count_twice() -> None:
    result = stabilize(softmax_rows(3, 32, tail="half power"))
    assert not result.unstable
    (x,) = random_inputs(result.graph, 1e3)
    p = np.exp(x - x.max(axis=1, keepdims=True))
    (got,) = evaluate_floats(result.graph, [x])
    np.testing.assert_allclose(got, (p / p.sum(axis=1, keepdims=True)) ** 2, rtol=1e-12)


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        ("unnormalised", "output 0 is proportional to power 1"),
        ("epsilon", "powers 1 and 0"),
        ("sigmoid", "powers 0 and 1"),
        ("silu", "silu of a value"),
    ],
)
def test_refused_with_the_reason(tail: str, reason: str) -> None:
    graph = softmax_rows(2, 32, tail=tail)
    result = stabilize(graph)
    assert result.graph is graph
    assert len(result.unstable) == 1
    assert reason in result.unstable[0].reason


def test_unmasked_padding_is_refused() -> None:
    graph = split_kv_attention(keys=27)
    result = stabilize(graph)
    assert result.graph is graph
    assert "beyond 27" in result.unstable[0].reason


def test_divisor_of_a_part_of_the_row_is_refused() -> None:
    """e / sum over half a row / sum over the row, multiplied back: legal on real numbers, but
    halves may vanish.
    """

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        e = b.unary(UnaryFn.EXP, b.load(params[0], ((), ()), (4, 8)))
        columns, everything = b.reduce(ReduceFn.SUM, e, (0,)), b.reduce(ReduceFn.SUM, e, (0, 1))
        return b.binary(
            BinaryFn.ADD, b.binary(BinaryFn.DIV, e, columns), b.binary(BinaryFn.DIV, e, everything)
        )

    result = stabilize(one_launch((tensor(4, 8),), (), tensor(4, 8), ((), ()), build))
    assert "may vanish" in result.unstable[0].reason


def test_one_of_two_exponentials_is_refused() -> None:
    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        x = b.load(params[0], ((), ()), (4, 8))
        e = b.unary(UnaryFn.EXP, x)
        p = b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,)))
        gate = b.binary(
            BinaryFn.ADD, b.constant(1.0), b.unary(UnaryFn.EXP, b.unary(UnaryFn.NEG, x))
        )
        return b.binary(BinaryFn.DIV, p, gate)

    result = stabilize(one_launch((tensor(4, 8),), (), tensor(4, 8), ((), ()), build))
    assert [e.stable for e in result.exponentials] == [True, False]
    x = np.random.default_rng(0).standard_normal((4, 8)) * 1e4
    p = np.exp(x - x.max(axis=1, keepdims=True))
    with np.errstate(over="ignore"):
        want = p / p.sum(axis=1, keepdims=True) / (1 + np.exp(-x))
    np.testing.assert_allclose(evaluate_floats(result.graph, [x])[0], want, atol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_sum_along_the_row_after_the_loop(scale: float) -> None:
    """The loop adds tiles element by element, so each column has its own running maximum until the
    row is summed.
    """

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        x = Builder(in_block=True)
        s = x.load(params[0], ((), ("t",)), (3, 4))
        e = x.unary(UnaryFn.EXP, s)
        sums = (
            Accumulator(AccumulateFn.SUM, x.binary(BinaryFn.MUL, e, s)),
            Accumulator(AccumulateFn.SUM, e),
        )
        num, den = b.loop(Axis("t", 4), tuple(x.ops), sums)
        return b.binary(
            BinaryFn.DIV, b.reduce(ReduceFn.SUM, num, (1,)), b.reduce(ReduceFn.SUM, den, (1,))
        )

    result = stabilize(one_launch((tensor(3, 16),), (), tensor(3, 1), ((), ()), build))
    assert not result.unstable
    (s,) = random_inputs(result.graph, scale)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    want = (p * s).sum(axis=1, keepdims=True) / p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(evaluate_floats(result.graph, [s])[0], want, rtol=1e-12)


@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_nested_loops_and_transposed_accumulators(scale: float) -> None:
    """Sums of squares (power 2) over two nested loops, one of the accumulators transposed."""

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        middle, x = Builder(in_block=True), Builder(in_block=True)
        s = x.load(params[0], ((), ("u", "t")), (3, 4))
        e = x.unary(UnaryFn.EXP, s)
        one = x.transpose(x.reduce(ReduceFn.SUM, e, (1,)), (1, 0))
        two = x.reduce(ReduceFn.SUM, x.unary(UnaryFn.SQUARE, e), (1,))
        sums = (Accumulator(AccumulateFn.SUM, one), Accumulator(AccumulateFn.SUM, two))
        inner = middle.loop(Axis("t", 2), tuple(x.ops), sums)
        outer = tuple(Accumulator(AccumulateFn.SUM, v) for v in inner)
        one, two = b.loop(Axis("u", 3), tuple(middle.ops), outer)
        return b.binary(BinaryFn.DIV, two, b.unary(UnaryFn.SQUARE, b.transpose(one, (1, 0))))

    result = stabilize(one_launch((tensor(3, 24),), (), tensor(3, 1), ((), ()), build))
    assert [e.reason for e in result.exponentials] == [""]
    (s,) = random_inputs(result.graph, scale)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    want = (p * p).sum(axis=1, keepdims=True) / p.sum(axis=1, keepdims=True) ** 2
    np.testing.assert_allclose(evaluate_floats(result.graph, [s])[0], want, rtol=1e-12)


def test_elements_stored_with_a_maximum_each() -> None:
    """Exponentials that are stored individually: the launch that reads them takes the maximum of
    the row.
    """

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        return b.unary(UnaryFn.EXP, b.load(params[0], ((), ("n",)), (4, 4)))

    def normalise(b: Builder, params: tuple[Value, ...]) -> Value:
        e = b.load(params[0], ((), ()), (4, 8))
        return b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,)))

    x, e = tensor(4, 8), tensor(4, 8)
    one = one_launch((x,), (Axis("n", 2),), e, ((), ("n",)), build)
    two = one_launch((e,), (), tensor(4, 8), ((), ()), normalise)
    result = stabilize(KernelGraph("g", (x,), (*one.ops, *two.ops), two.outputs))
    assert not result.unstable
    (s,) = random_inputs(result.graph, 1e4)
    p = np.exp(s - s.max(axis=1, keepdims=True))
    np.testing.assert_allclose(
        evaluate_floats(result.graph, [s])[0], p / p.sum(axis=1, keepdims=True), atol=1e-12
    )


def test_blocks_that_would_need_a_common_maximum_are_refused() -> None:
    """The columns of the result distinguish the blocks, but eight of them belong to one maximum."""

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        e = b.unary(UnaryFn.EXP, b.load(params[0], ((), ("n",)), (4, 4)))
        return b.matmul(e, b.load(params[1], (("n",), ()), (4, 8)))

    graph = one_launch(
        (tensor(4, 8), tensor(8, 8)), (Axis("n", 2),), tensor(4, 16), ((), ("n",)), build
    )
    result = stabilize(graph)
    assert result.graph is graph
    assert "common maximum" in result.unstable[0].reason
