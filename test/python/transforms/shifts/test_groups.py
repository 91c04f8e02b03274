"""Exponentials that are added get one maximum: attention over parts of keys that are not joined."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from example_programs.attention_graphs import one_launch, tensor
from example_programs.stability_graphs import joined_attention, joined_reference
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch, RunningMax, Value, all_ops
from mirage.transforms import stabilize
from mirage.verify import Kind, VerifyOptions, verify
from thorough import some_of

Array = np.ndarray[Any, Any]
CASES = [
    ("one kernel", (24, 1)),
    ("one kernel", (24, 3, 2)),
    ("any order", (24, 3, 2)),
    ("normalised", (24, 3, 2)),
    ("one loop", (24, 24, 24)),
    ("partial results", (24, 4)),
    ("split", (24, 4, 8)),
]


@pytest.mark.parametrize("scale", [1.0, 1e4, -1e4])
@pytest.mark.parametrize(("kind", "parts"), CASES, ids=str)
def test_joined_attention(kind: str, parts: tuple[int, ...], scale: float) -> None:
    graph = joined_attention(kind=kind, parts=parts)
    result = stabilize(graph)
    assert [e.reason for e in result.exponentials] == [""] * len(parts)
    check_graph(result.graph)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) for v in graph.inputs]
    inputs[0] = inputs[0] * scale
    reference = joined_reference(2, 4, 8, parts)
    (want,) = evaluate_floats(reference, inputs)
    (torch_like,) = evaluate_floats(reference, inputs, TypedFloat())
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        (exact,) = evaluate_floats(result.graph, inputs)
        (typed,) = evaluate_floats(result.graph, inputs, TypedFloat())
    np.testing.assert_allclose(exact, want, rtol=1e-12, atol=1e-12)
    allowed = 2 * np.abs(torch_like - want).max() + 1e-7
    assert np.abs(typed - want).max() <= allowed
    again = stabilize(result.graph)
    assert again.graph is result.graph
    assert not again.unstable


@pytest.mark.parametrize("largest", [0, 1, 2])
def test_one_part_has_all_the_weight(largest: int) -> None:
    """The other parts vanish beside it, whichever it is; none of them makes NaN."""
    parts = (24, 4, 3)
    graph = stabilize(joined_attention(parts=parts)).graph
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(v.shape) for v in graph.inputs]
    inputs[0] = np.abs(inputs[0]) * 1e2
    for part in range(len(parts)):
        sign = 1 if part == largest else -1
        inputs[1 + 2 * part] = sign * np.abs(inputs[1 + 2 * part]) * 1e2
    (want,) = evaluate_floats(joined_reference(2, 4, 8, parts), inputs)
    (typed,) = evaluate_floats(graph, inputs, TypedFloat())
    np.testing.assert_allclose(typed, want, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("kind", "parts"), some_of(CASES, every=4), ids=str)
def test_verified(kind: str, parts: tuple[int, ...]) -> None:
    graph = stabilize(joined_attention(kind=kind, parts=parts)).graph
    verdict = verify(joined_reference(2, 4, 8, parts), graph, VerifyOptions(seed=1))
    assert verdict.kind is Kind.PROVED, verdict


def test_half_precision() -> None:
    parts = (24, 5)
    result = stabilize(joined_attention(parts=parts, dtype=DType.F16))
    assert not result.unstable
    rng = np.random.default_rng(0)
    inputs = [DType.F16.round(rng.standard_normal(v.shape)) for v in result.graph.inputs]
    inputs[0] = DType.F16.round(inputs[0] * 1e3)
    (want,) = evaluate_floats(joined_reference(2, 4, 8, parts), inputs)
    (typed,) = evaluate_floats(result.graph, inputs, TypedFloat())
    np.testing.assert_allclose(typed, want, rtol=1e-2, atol=1e-2)


def test_the_maximum_of_a_group_is_taken_once() -> None:
    """Numerators and denominators share it; the loop keeps its own running maximum."""
    (launch,) = stabilize(joined_attention(parts=(24, 4))).graph.ops
    assert isinstance(launch, Launch)
    assert sum(isinstance(op, RunningMax) for op in all_ops(launch.body.ops)) == 1
    exps = [e for e in all_ops(launch.body.ops) if getattr(e, "fn", None) is UnaryFn.EXP]
    assert len(exps) == 4  # the exponentials of the program, and one factor for each part


def sums(kind: str) -> KernelGraph:
    """Sums of exponentials of X and Y (4, 8) that no maximum makes safe, or that one does."""

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        x, y = (b.load(p, ((), ()), (4, 8)) for p in params)
        a, e = b.unary(UnaryFn.EXP, x), b.unary(UnaryFn.EXP, y)
        a_sum, e_sum = (b.reduce(ReduceFn.SUM, v, (1,)) for v in (a, e))
        if kind == "reciprocals":
            both = b.binary(
                BinaryFn.ADD, b.unary(UnaryFn.RECIPROCAL, a_sum), b.unary(UnaryFn.RECIPROCAL, e_sum)
            )
            return b.binary(BinaryFn.DIV, b.unary(UnaryFn.RECIPROCAL, a_sum), both)
        if kind == "powers":
            both = b.binary(BinaryFn.ADD, a_sum, b.unary(UnaryFn.SQUARE, e_sum))
            return b.binary(BinaryFn.DIV, a, both)
        if kind == "products":
            z = b.unary(UnaryFn.EXP, b.binary(BinaryFn.ADD, x, y))
            both = b.binary(BinaryFn.ADD, b.binary(BinaryFn.MUL, a, e), z)
            return b.binary(BinaryFn.DIV, both, b.reduce(ReduceFn.SUM, both, (1,)))
        if kind == "rows and columns":
            columns = b.reduce(ReduceFn.SUM, e, (0,))
            both = b.binary(BinaryFn.ADD, a_sum, columns)
            return b.binary(BinaryFn.DIV, b.binary(BinaryFn.ADD, a, e), both)
        if kind == "smaller":  # the ratio of one sum to the other
            return b.binary(BinaryFn.DIV, a, e_sum)
        if kind == "element by element":
            both = b.binary(BinaryFn.ADD, a, e)
            return b.binary(BinaryFn.DIV, both, b.reduce(ReduceFn.SUM, both, (1,)))
        if kind == "difference":
            both = b.binary(BinaryFn.SUB, a_sum, e_sum)
            return b.binary(BinaryFn.DIV, both, b.binary(BinaryFn.ADD, a_sum, e_sum))
        if kind == "maximum":
            return b.binary(BinaryFn.DIV, a, b.binary(BinaryFn.MAX, a_sum, e_sum))
        if kind == "squares":
            both = b.binary(BinaryFn.ADD, a_sum, e_sum)
            squares = b.binary(BinaryFn.ADD, b.unary(UnaryFn.SQUARE, a), b.unary(UnaryFn.SQUARE, e))
            return b.binary(BinaryFn.DIV, squares, b.unary(UnaryFn.SQUARE, both))
        raise AssertionError(kind)

    shape = (4, 1) if kind == "difference" else (4, 8)
    return one_launch((tensor(4, 8), tensor(4, 8)), (), tensor(*shape), ((), ()), build)


@pytest.mark.parametrize("kind", ["element by element", "difference", "maximum", "squares"])
def test_sums_of_two_exponentials(kind: str) -> None:
    graph = sums(kind)
    result = stabilize(graph)
    assert [e.reason for e in result.exponentials] == ["", ""]
    check_graph(result.graph)
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 4, 8))
    (want,) = evaluate_floats(graph, [x, y])
    np.testing.assert_allclose(evaluate_floats(result.graph, [x, y])[0], want, rtol=1e-12)
    # the same rows 1e4 higher: the results are of degree 0
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        (high,) = evaluate_floats(result.graph, [x + 1e4, y + 1e4])
    np.testing.assert_allclose(high, want, rtol=1e-10)
    if kind != "maximum":  # the verifier does not know that a maximum is homogeneous
        assert verify(graph, result.graph, VerifyOptions(seed=3)).kind is Kind.PROVED


@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("reciprocals", "reciprocals of different exponentials"),
        ("powers", "powers 1 and 2 of different exponentials"),
        ("products", "products or quotients of different exponentials"),
        ("rows and columns", "a division by a part of a row"),
        ("smaller", "output 0 is proportional to power"),
    ],
)
def test_refused_with_the_reason(kind: str, reason: str) -> None:
    graph = sums(kind)
    result = stabilize(graph)
    assert result.graph is graph
    assert any(reason in e.reason for e in result.unstable), [str(e) for e in result.exponentials]
