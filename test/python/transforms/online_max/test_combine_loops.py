"""Kernels that combine partial results in loops, and over several levels."""

from __future__ import annotations

from math import prod

import numpy as np
import pytest
from example_programs.attention_graphs import ceil, reference_attention, split_kv_attention, tensor
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Load,
    Loop,
    Output,
    RunningMax,
    Value,
    all_ops,
)
from mirage.transforms import Stabilized, stabilize
from thorough import some_of

SCALES = [1.0, 1e4, -1e4]
SUM = AccumulateFn.SUM


def launches(graph: KernelGraph) -> list[Launch]:
    return [op for op in graph.ops if isinstance(op, Launch)]


def check(graph: KernelGraph, scale: float, keys: int = 32) -> Stabilized:
    """Check that a graph is stabilised, without inf or NaN, and equal to softmax(QK)V in float64 up
    to rounding."""
    result = stabilize(graph)
    assert [e.reason for e in result.exponentials] == [""]
    check_graph(result.graph)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) for v in graph.inputs]
    inputs[0] = inputs[0] * scale
    (want,) = evaluate_floats(reference_attention(keys=keys), inputs)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        (exact,) = evaluate_floats(result.graph, inputs)
        (typed,) = evaluate_floats(result.graph, inputs, TypedFloat())
    np.testing.assert_allclose(exact, want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(typed, want, rtol=1e-4, atol=1e-5)
    again = stabilize(result.graph)
    assert again.graph is result.graph
    assert not again.unstable
    return result


def combined(first: Launch, inputs: tuple[Value, ...], kind: str, tile: int) -> KernelGraph:
    """``first`` stores numerators (splits, heads, rows, dim) and denominators; the second launch
    sums both over the splits, in the manner of ``kind``, and divides.
    """
    p_o, p_l = first.results
    splits, heads, rows, dim = p_o.shape
    go, gl = Value(p_o.type), Value(p_l.type)
    steps = ceil(splits, tile)
    b, body = Builder(in_block=True), Builder(in_block=True)

    def whole(x: Value) -> Value:
        tiles = b.load(x, ((), ("b",), (), ()), (splits, 1, *x.shape[2:]))
        return b.reduce(ReduceFn.SUM, tiles, (0,))

    def step(x: Value) -> Value:
        return body.load(x, (("u",), ("b",), (), ()), (tile, 1, *x.shape[2:]))

    def loop(*values: Value) -> tuple[Value, ...]:
        sums = tuple(Accumulator(SUM, v) for v in values)
        results = b.loop(Axis("u", steps), tuple(body.ops), sums)
        return tuple(b.reduce(ReduceFn.SUM, v, (0,)) for v in results)

    if kind == "numerators in a loop":
        (num,) = loop(step(go))
        y = b.binary(BinaryFn.DIV, num, whole(gl))
    elif kind == "denominators in a loop":
        (den,) = loop(step(gl))
        y = b.binary(BinaryFn.DIV, whole(go), den)
    elif kind == "quotients in a loop":
        scale = b.unary(UnaryFn.RECIPROCAL, whole(gl))
        (y,) = loop(body.binary(BinaryFn.MUL, step(go), scale))
    elif kind == "two loops":
        (num,) = loop(step(go))
        body = Builder(in_block=True)
        tiles = body.load(gl, (("v",), ("b",), (), ()), (1, 1, *gl.shape[2:]))
        (den,) = b.loop(Axis("v", splits), tuple(body.ops), (Accumulator(SUM, tiles),))
        y = b.binary(BinaryFn.DIV, num, den)
    else:
        num, den = loop(step(go), step(gl))
        y = b.binary(BinaryFn.DIV, num, den)
    out = tensor(heads, rows, dim)
    y = b.reshape(y, (1, rows, dim))
    block = BlockGraph((go, gl), tuple(b.ops), (Output(y, (("b",), (), ())),))
    second = Launch((p_o, p_l), (out,), (Axis("b", heads),), block)
    return KernelGraph("combined", inputs, (first, second), (out,))


@pytest.mark.parametrize("scale", some_of(SCALES))
@pytest.mark.parametrize("tile", [1, 2, 3])
@pytest.mark.parametrize(
    "kind",
    [
        "one loop",
        "numerators in a loop",
        "denominators in a loop",
        "quotients in a loop",
        "two loops",
    ],
)
def test_a_loop_over_the_splits(kind: str, tile: int, scale: float) -> None:
    """Also if tiles of splits overhang (tile 3 of 4), and if the maximum is taken first."""
    graph = split_kv_attention(splits=4)
    graph = combined(launches(graph)[0], graph.inputs, kind, tile)
    second = launches(check(graph, scale).graph)[1]
    assert not any(isinstance(op, RunningMax) for op in all_ops(second.body.ops))


def test_the_maximum_of_partial_results_is_taken_once() -> None:
    """Numerators in a loop and denominators outside share one maximum over the splits, which is
    loaded before the loop.
    """
    graph = split_kv_attention(splits=4)
    graph = combined(launches(graph)[0], graph.inputs, "numerators in a loop", 1)
    second = launches(stabilize(graph).graph)[1]
    outside = [op for op in second.body.ops if isinstance(op, Load)]
    (loop,) = [op for op in second.body.ops if isinstance(op, Loop)]
    shapes = sorted(prod(op.result.shape) for op in outside)
    assert shapes == [16, 16]  # denominators, and maxima of 4 splits x 4 rows
    assert second.body.ops.index(loop) > max(
        second.body.ops.index(op) for op in outside if op.operands[0] not in second.body.params[:2]
    )


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("looped", [False, True])
def test_two_levels_of_combination(looped: bool, scale: float) -> None:
    """Eight splits are summed to two groups, which a third launch sums."""
    graph = split_kv_attention(splits=8, tile=2, keys=29, mask="before")
    first = launches(graph)[0]
    p_o, p_l = first.results
    groups, per_group = 2, 4

    def group(b: Builder, x: Value) -> Value:
        shape = (1, 1, *x.shape[2:])
        if not looped:
            tiles = b.load(x, (("g",), ("b",), (), ()), (per_group, *shape[1:]))
            return b.reduce(ReduceFn.SUM, tiles, (0,))
        body = Builder(in_block=True)
        tile = body.load(x, (("g", f"u{len(b.ops)}"), ("b",), (), ()), shape)
        axis = Axis(f"u{len(b.ops)}", per_group)
        return b.loop(axis, tuple(body.ops), (Accumulator(SUM, tile),))[0]

    b = Builder(in_block=True)
    go, gl = Value(p_o.type), Value(p_l.type)
    outputs = tuple(Output(group(b, x), (("g",), ("b",), (), ())) for x in (go, gl))
    grouped = tensor(groups, *p_o.shape[1:]), tensor(groups, *p_l.shape[1:])
    grid = (Axis("b", p_o.shape[1]), Axis("g", groups))
    middle = Launch((p_o, p_l), grouped, grid, BlockGraph((go, gl), tuple(b.ops), outputs))
    last = launches(combined(middle, graph.inputs, "one loop", 1))[1]
    whole = KernelGraph("levels", graph.inputs, (first, middle, last), last.results)
    result = check(whole, scale, keys=29)
    assert [len(op.results) for op in launches(result.graph)] == [3, 3, 1]


class Split:
    """Attention in four parts; a test writes the second kernel, which combines them."""

    def __init__(self) -> None:
        self.inputs = (graph := split_kv_attention(splits=4)).inputs
        self.first = launches(graph)[0]
        self.params = tuple(Value(v.type) for v in self.first.results)

    def program(self, b: Builder, y: Value) -> KernelGraph:
        """With a second kernel that stores ``y``, of one head, which ``b`` has made."""
        _, heads, rows, dim = self.params[0].shape
        output = Output(b.reshape(y, (1, rows, dim)), (("b",), (), ()))
        block = BlockGraph(self.params, tuple(b.ops), (output,))
        out = tensor(heads, rows, dim)
        second = Launch(self.first.results, (out,), (Axis("b", heads),), block)
        return KernelGraph("split", self.inputs, (self.first, second), (out,))


def nested(maps: tuple[tuple[str, ...], tuple[str, ...]]) -> KernelGraph:
    """Numerators and denominators summed in two nested loops, cut along ``maps``."""
    split = Split()
    go, gl = split.params
    b, middle, body = (Builder(in_block=True) for _ in range(3))
    tiles = [
        body.load(x, (axes, ("b",), (), ()), (4 // 2 ** len(axes), 1, *x.shape[2:]))
        for x, axes in zip((go, gl), maps, strict=True)
    ]
    inner = middle.loop(Axis("v", 2), tuple(body.ops), tuple(Accumulator(SUM, t) for t in tiles))
    num, den = b.loop(Axis("u", 2), tuple(middle.ops), tuple(Accumulator(SUM, t) for t in inner))
    num, den = (b.reduce(ReduceFn.SUM, x, (0,)) for x in (num, den))
    return split.program(b, b.binary(BinaryFn.DIV, num, den))


@pytest.mark.parametrize("scale", SCALES)
def test_nested_loops_over_the_splits(scale: float) -> None:
    check(nested((("u", "v"), ("u", "v"))), scale)


def test_quotients_of_single_parts_are_refused() -> None:
    """A denominator of one split may vanish compared with the maximum over all of them."""
    split = Split()
    go, gl = split.params
    b, body = Builder(in_block=True), Builder(in_block=True)
    num = body.load(go, (("u",), ("b",), (), ()), (1, 1, *go.shape[2:]))
    den = body.load(gl, (("u",), ("b",), (), ()), (1, 1, *gl.shape[2:]))
    ratio = body.binary(BinaryFn.DIV, num, den)
    total, weights = b.loop(
        Axis("u", 4), tuple(body.ops), (Accumulator(SUM, ratio), Accumulator(SUM, num))
    )
    share = b.binary(BinaryFn.DIV, weights, b.reduce(ReduceFn.SUM, weights, (3,)))
    result = stabilize(split.program(b, b.binary(BinaryFn.ADD, total, share)))
    assert "part of a row" in result.unstable[0].reason


def test_sum_of_reciprocals_in_a_loop_is_refused() -> None:
    split = Split()
    go, gl = split.params
    b, body = Builder(in_block=True), Builder(in_block=True)
    den = body.load(gl, (("u",), ("b",), (), ()), (1, 1, *gl.shape[2:]))
    part = body.unary(UnaryFn.RECIPROCAL, den)
    (reciprocals,) = b.loop(Axis("u", 4), tuple(body.ops), (Accumulator(SUM, part),))
    num = b.load(go, ((), ("b",), (), ()), (4, 1, *go.shape[2:]))
    y = b.binary(BinaryFn.MUL, b.reduce(ReduceFn.SUM, num, (0,)), reciprocals)
    result = stabilize(split.program(b, y))
    assert "reciprocals" in result.unstable[0].reason
