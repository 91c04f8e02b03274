"""Extreme programs: sizes of one, primes, broadcasting in unusual places, nothing to do; and the
messages of refusals."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from example_programs.search_programs import graph, layer_norm_linear_gelu, matmul, softmax, tensor
from mirage.cost import H200
from mirage.search import LimitError, SearchLimits, StopReason, superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import External, KernelGraph, Launch, TensorType, Unary, Value
from thorough import some_of


def identity() -> KernelGraph:
    x = tensor("x", 4, 5)
    return KernelGraph("identity", (x,), (), (x,))


def constant() -> KernelGraph:
    x, b = tensor("x", 4, 5), Builder()
    return graph("constant", (x,), b, b.broadcast(b.constant(2.5), (3, 2)))


def scalars() -> KernelGraph:
    x, y, b = tensor("x"), tensor("y"), Builder()
    return graph("scalars", (x, y), b, b.binary(BinaryFn.MUL, b.unary(UnaryFn.EXP, x), y))


def scalar_factor() -> KernelGraph:
    x, s, b = tensor("x", 7, 11), tensor("s"), Builder()
    return graph("scalar_factor", (x, s), b, b.binary(BinaryFn.MUL, b.rms_norm(x), s))


def outer_sum() -> KernelGraph:
    x, y, b = tensor("x", 13, 1), tensor("y", 1, 17), Builder()
    return graph("outer", (x, y), b, b.unary(UnaryFn.TANH, b.binary(BinaryFn.ADD, x, y)))


def middle() -> KernelGraph:
    """Size 1 in the middle, missing leading dimensions, and a batch on one side only."""
    x, y, w, b = tensor("x", 3, 1, 7), tensor("y", 5, 1), tensor("w", 2, 1, 7, 3), Builder()
    return graph("middle", (x, y, w), b, b.matmul(b.binary(BinaryFn.SUB, x, y), w))


def batch_of_one() -> KernelGraph:
    x, w, b = tensor("x", 1, 4, 8), tensor("w", 6, 8, 5), Builder()
    return graph("batch_of_one", (x, w), b, b.matmul(x, w))


def reduced_ones() -> KernelGraph:
    x, b = tensor("x", 1, 9, 1), Builder()
    return graph("ones", (x,), b, b.reduce(ReduceFn.SUM, b.softmax(x, 2), (0, 1, 2)))


def twice() -> KernelGraph:
    x, b = tensor("x", 8, 16), Builder()
    y = b.softmax(x, 1)
    return graph("twice", (x,), b, y, y)


def square_of_itself() -> KernelGraph:
    x, b = tensor("x", 19, 19), Builder()
    return graph("square", (x,), b, b.matmul(b.matmul(x, x), b.transpose(x, (1, 0))))


def infinite() -> KernelGraph:
    x, b = tensor("x", 5, 9), Builder()
    low = b.binary(BinaryFn.MAX, x, b.constant(-math.inf))
    return graph("infinite", (x,), b, b.reduce(ReduceFn.MAX, low, (1,)))


def unused_input() -> KernelGraph:
    x, y, b = tensor("x", 5, 9), tensor("y", 3), Builder()
    b.unary(UnaryFn.EXP, y)
    return graph("unused", (x, y), b, b.rms_norm(x))


def every_type() -> KernelGraph:
    x, y = tensor("x", 8, 16, dtype=DType.BF16), tensor("y", 8, 16)
    w, b = tensor("w", 16, 8, dtype=DType.F32), Builder()
    return graph("types", (x, y, w), b, b.matmul(b.binary(BinaryFn.ADD, x, y), w))


EDGES: list[Callable[[], KernelGraph]] = [
    identity,
    constant,
    scalars,
    scalar_factor,
    outer_sum,
    middle,
    batch_of_one,
    reduced_ones,
    twice,
    square_of_itself,
    infinite,
    unused_input,
    every_type,
    lambda: matmul(1, 7919, 1),
    lambda: matmul(2, 1, 3),
    lambda: matmul(127, 131, 139),
    lambda: softmax(1, 1),
    lambda: softmax(1, 7919),
    lambda: layer_norm_linear_gelu(1, 1, 1),
    lambda: layer_norm_linear_gelu(3, 1009, 5),
]


@pytest.mark.parametrize(
    "build", some_of(EDGES, every=3), ids=lambda f: f().name + str(len(f().inputs[0].shape))
)
def test_edges_are_right(build: Callable[[], KernelGraph]) -> None:
    program = build()
    check_graph(program)
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(v.shape) for v in program.inputs]
    expected = evaluate_floats(program, inputs)
    result = superoptimize(program, H200, SearchLimits(candidates=4))
    assert result.candidates
    if not any(isinstance(op, Launch) for c in result.candidates for op in c.graph.ops):
        assert result.report.stop is StopReason.NOTHING
    for candidate in result.candidates:
        check_graph(candidate.graph)
        assert [v.type for v in candidate.graph.outputs] == [v.type for v in program.outputs]
        for got, want in zip(evaluate_floats(candidate.graph, inputs), expected, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


def test_a_call_to_the_framework_stays() -> None:
    x = tensor("x", 8, 16)
    y = Value(TensorType((8, 16), DType.F16))
    b = Builder()
    z = b.softmax(y, 1)
    program = KernelGraph("call", (x,), (External((x,), (y,), "aten.cumsum"), *b.ops), (z,))
    (best, *_) = superoptimize(program, H200).candidates
    assert [type(op) for op in best.graph.ops] == [External, Launch]


def test_cycles_are_refused() -> None:
    x = tensor("x", 8, 16)
    a, b = Value(x.type), Value(x.type)
    ops = (Unary((b,), (a,), UnaryFn.EXP), Unary((a,), (b,), UnaryFn.EXP))
    with pytest.raises(InvalidGraph, match="not defined before it is used"):
        superoptimize(KernelGraph("cycle", (x,), ops, (b,)), H200)


def test_wrong_types_are_refused() -> None:
    x = tensor("x", 8, 16)
    y = Value(TensorType((8, 17), DType.F16))
    with pytest.raises(InvalidGraph, match="C2"):
        superoptimize(KernelGraph("types", (x,), (Unary((x,), (y,), UnaryFn.EXP),), (y,)), H200)


def test_no_outputs_are_refused() -> None:
    x = tensor("x", 8, 16)
    with pytest.raises(InvalidGraph, match="at least one output"):
        superoptimize(KernelGraph("nothing", (x,), (), ()), H200)


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"budget": 0.0}, "expected a positive budget of seconds, got 0.0"),
        ({"budget": math.nan}, "expected a positive budget of seconds, got nan"),
        ({"candidates": 0}, "limit 'candidates' to be at least 1, got 0"),
        ({"columns": -3}, "limit 'columns' to be at least 1, got -3"),
        ({"cuts": -1}, "limit 'cuts' to be at least 1, got -1"),
        ({"seed": -1}, "limit 'seed' to be at least 0, got -1"),
    ],
)
def test_contradictory_limits_are_refused(limits: dict[str, float], message: str) -> None:
    with pytest.raises(LimitError, match=message.replace("(", r"\(")):
        SearchLimits(**limits)  # pyright: ignore[reportArgumentType]


def test_the_smallest_limits_find_something() -> None:
    limits = SearchLimits(
        candidates=1, cuts=1, plans=1, matmuls=1, outputs=1, derivations=1, goals=50, columns=1,
        samples=1,
    )  # fmt: skip
    result = superoptimize(softmax(4, 100), H200, limits)
    assert len(result.candidates) == 1
