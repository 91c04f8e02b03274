"""Recomputed exponentials use the maximum of the first pass."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from example_programs.attention_graphs import SUM, one_launch, tensor
from example_programs.stability_graphs import two_passes
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Accumulator,
    Axis,
    KernelGraph,
    Launch,
    Loop,
    RunningMax,
    Value,
)
from mirage.transforms import stabilize
from mirage.verify import Kind, VerifyOptions, verify

Array = np.ndarray[Any, Any]


def meaning(what: str, x: Array, y: Array) -> Array:
    """Return the result of :func:`two_passes`, in float64 with the row maximum."""
    shifted = x - x.max(axis=1, keepdims=True)
    e = np.exp(shifted)
    p, logs = e / e.sum(axis=1, keepdims=True), shifted - np.log(e.sum(axis=1, keepdims=True))
    used = {"softmax": p, "average": p * x, "entropy": -p * logs, "cross entropy": -logs * y}[what]
    return used.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("tiles", [(8, 8), (8, 16), (12, 8), (8, 12)], ids=str)
@pytest.mark.parametrize("what", ["softmax", "average", "entropy"])
def test_two_passes(what: str, tiles: tuple[int, int], scale: float) -> None:
    """Tiles of different sizes, also ones that overhang in one of the passes."""
    graph = two_passes(tiles=tiles, what=what)
    result = stabilize(graph)
    assert [e.reason for e in result.exponentials] == ["", ""]
    check_graph(result.graph)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) for v in graph.inputs]
    inputs[0] = inputs[0] * scale
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        (exact,) = evaluate_floats(result.graph, inputs)
        (typed,) = evaluate_floats(result.graph, inputs, TypedFloat())
    again = stabilize(result.graph)
    assert again.graph is result.graph
    assert not again.unstable
    want = meaning(what, *inputs)
    np.testing.assert_allclose(exact, want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(typed, want, rtol=1e-5, atol=1e-6)


def test_the_second_pass_takes_no_maximum() -> None:
    (launch,) = stabilize(two_passes()).graph.ops
    assert isinstance(launch, Launch)
    first, second = (op for op in launch.body.ops if isinstance(op, Loop))
    assert any(isinstance(op, RunningMax) for op in first.body)
    assert not any(isinstance(op, RunningMax) for op in second.body)


@pytest.mark.parametrize("what", ["softmax", "average"])
def test_verified(what: str) -> None:
    graph = two_passes(what=what)
    verdict = verify(graph, stabilize(graph).graph, VerifyOptions(seed=1))
    assert verdict.kind is Kind.PROVED, verdict


def test_other_scores_do_not_use_it() -> None:
    """They may be larger than all those of the first pass."""
    graph = two_passes(what="shifted scores")
    result = stabilize(graph)
    assert result.graph is graph
    assert all("output 0 is proportional" in e.reason for e in result.exponentials)


def passes(first: tuple[str, ...], second: tuple[str, ...], tile: int) -> KernelGraph:
    """Two loops of four steps over tiles of X (4, 32) with maps ``first`` and ``second`` along the
    columns; the exponentials of the second are divided by the sum of the first.
    """

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        one, two = Builder(in_block=True), Builder(in_block=True)
        e = one.unary(UnaryFn.EXP, one.load(params[0], ((), first), (4, 8 if first else 32)))
        row = one.reduce(ReduceFn.SUM, e, (1,))
        (s,) = b.loop(Axis("t", 4), tuple(one.ops), (Accumulator(SUM, row),))
        e = two.unary(UnaryFn.EXP, two.load(params[0], ((), second), (4, tile)))
        p = two.reduce(ReduceFn.SUM, two.binary(BinaryFn.DIV, e, s), (1,))
        return b.loop(Axis("u", 4), tuple(two.ops), (Accumulator(SUM, p),))[0]

    return one_launch((tensor(4, 32),), (), tensor(4, 1), ((), ()), build)


@pytest.mark.parametrize(
    ("first", "second", "tile"),
    [
        (("t",), ("u",), 8),
        (("t",), (), 32),  # the second pass sees the whole row in each step
        ((), ("u",), 8),  # the first one does
        ((), (), 32),
    ],
)
def test_what_the_first_pass_covers(
    first: tuple[str, ...], second: tuple[str, ...], tile: int
) -> None:
    graph = passes(first, second, tile)
    result = stabilize(graph)
    assert not result.unstable
    x = np.random.default_rng(0).standard_normal((4, 32)) * 1e4
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        (got,) = evaluate_floats(result.graph, [x])
    steps = 4 if not second else 1
    np.testing.assert_allclose(got * (1 if first else 4), steps * np.ones((4, 1)), rtol=1e-12)


def test_a_part_of_the_row_does_not_cover_the_rest() -> None:
    """The first pass stops half-way: larger scores may follow."""

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        one, two = Builder(in_block=True), Builder(in_block=True)
        e = one.unary(UnaryFn.EXP, one.load(params[0], ((), ("g", "t")), (4, 8)))
        row = one.reduce(ReduceFn.SUM, e, (1,))
        (s,) = b.loop(Axis("t", 2), tuple(one.ops), (Accumulator(SUM, row),))
        e = two.unary(UnaryFn.EXP, two.load(params[0], ((), ("u",)), (4, 8)))
        p = two.reduce(ReduceFn.SUM, two.binary(BinaryFn.DIV, e, s), (1,))
        return b.loop(Axis("u", 4), tuple(two.ops), (Accumulator(SUM, p),))[0]

    graph = one_launch((tensor(4, 32),), (Axis("g", 2),), tensor(4, 2), ((), ("g",)), build)
    result = stabilize(graph)
    assert result.graph is graph
    assert not any(e.stable for e in result.exponentials)


def test_each_pass_may_do_on_its_own() -> None:
    """The second pass computes its own sums, and its values need no other maximum."""

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        found: list[Value] = []
        for axis in ("t", "u"):
            x = Builder(in_block=True)
            s = x.load(params[0], ((), (axis,)), (4, 8))
            e = x.unary(UnaryFn.EXP, s)
            weighted = x.reduce(ReduceFn.SUM, x.binary(BinaryFn.MUL, e, s), (1,))
            sums = tuple(Accumulator(SUM, v) for v in (weighted, x.reduce(ReduceFn.SUM, e, (1,))))
            found.append(b.binary(BinaryFn.DIV, *b.loop(Axis(axis, 4), tuple(x.ops), sums)))
        return b.binary(BinaryFn.ADD, *found)

    result = stabilize(one_launch((tensor(4, 32),), (), tensor(4, 1), ((), ()), build))
    assert not result.unstable
    x = np.random.default_rng(0).standard_normal((4, 32)) * 1e4
    p = np.exp(x - x.max(axis=1, keepdims=True))
    want = 2 * (p * x).sum(axis=1, keepdims=True) / p.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(evaluate_floats(result.graph, [x])[0], want, rtol=1e-12)


def test_probabilities_of_one_of_two_parts() -> None:
    """``exp(x) / (sum exp(x) + sum exp(y))`` in a second pass: the maximum of the first pass over
    X, brought to that of the group.
    """

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        totals: list[Value] = []
        for axis, param in zip(("t", "u"), params, strict=True):
            x = Builder(in_block=True)
            e = x.unary(UnaryFn.EXP, x.load(param, ((), (axis,)), (4, 8)))
            row = x.reduce(ReduceFn.SUM, e, (1,))
            totals.extend(b.loop(Axis(axis, 4), tuple(x.ops), (Accumulator(SUM, row),)))
        total = b.binary(BinaryFn.ADD, *totals)
        x = Builder(in_block=True)
        s = x.load(params[0], ((), ("v",)), (4, 16))
        p = x.binary(BinaryFn.DIV, x.unary(UnaryFn.EXP, s), total)
        weighted = x.reduce(ReduceFn.SUM, x.binary(BinaryFn.MUL, p, s), (1,))
        return b.loop(Axis("v", 2), tuple(x.ops), (Accumulator(SUM, weighted),))[0]

    graph = one_launch((tensor(4, 32), tensor(4, 32)), (), tensor(4, 1), ((), ()), build)
    result = stabilize(graph)
    assert [e.reason for e in result.exponentials] == ["", "", ""]
    x, y = 1e3 * np.random.default_rng(0).standard_normal((2, 4, 32))
    both = np.concatenate([x, y], axis=1)
    p = np.exp(both - both.max(axis=1, keepdims=True))
    p = p[:, :32] / p.sum(axis=1, keepdims=True)
    (got,) = evaluate_floats(result.graph, [x, y], TypedFloat())
    np.testing.assert_allclose(got, (p * x).sum(axis=1, keepdims=True), rtol=1e-5, atol=1e-6)
    assert verify(graph, result.graph, VerifyOptions(seed=1)).kind is Kind.PROVED
