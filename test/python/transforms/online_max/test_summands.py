"""Logarithms of sums of exponentials: where the maximum is added back, and the resulting
accuracy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from example_programs.attention_graphs import one_launch, tensor
from example_programs.stability_graphs import two_passes
from mirage.cost import H200
from mirage.frontend.torch_import import from_torch
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.transforms import stabilize
from mirage.verify import Kind, VerifyOptions, verify

Array = np.ndarray[Any, Any]
F32 = torch.float32


def rows(what: str, size: tuple[int, int] = (4, 32)) -> KernelGraph:
    """Logarithms of the sums ``s`` of ``exp(x)`` over the rows of X, used as ``what`` says."""

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        x = b.load(params[0], ((), ()), size)
        e = b.unary(UnaryFn.EXP, x)
        s = b.reduce(ReduceFn.SUM, e, (1,))
        log = b.unary(UnaryFn.LOG, s)
        match what:
            case "log-softmax":
                return b.binary(BinaryFn.SUB, x, log)
            case "negative":
                return b.binary(BinaryFn.ADD, b.unary(UnaryFn.NEG, log), x)
            case "loss":
                return b.binary(BinaryFn.SUB, log, x)
            case "sum":
                return b.broadcast(log, size)
            case "half":  # log s^1/2 = 1/2 log s
                half = b.unary(UnaryFn.LOG, b.unary(UnaryFn.SQRT, s))
                return b.binary(BinaryFn.SUB, b.binary(BinaryFn.MUL, x, b.constant(0.5)), half)
            case "scaled":
                return b.binary(BinaryFn.MUL, x, log)
            case "cancels":  # the logarithm of a probability's share in the row
                squares = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, e), (1,))
                twice = b.unary(UnaryFn.LOG, b.unary(UnaryFn.SQUARE, s))
                both = b.binary(BinaryFn.SUB, b.unary(UnaryFn.LOG, squares), twice)
                return b.broadcast(both, size)
            case "twice":  # used in two ways
                return b.binary(
                    BinaryFn.ADD, b.binary(BinaryFn.SUB, x, log), b.unary(UnaryFn.TANH, log)
                )
            case "exp":
                return b.binary(BinaryFn.DIV, e, b.unary(UnaryFn.EXP, log))
            case _:
                raise AssertionError(what)

    return one_launch((tensor(*size),), (), tensor(*size), ((), ()), build)


def meaning(what: str, x: Array) -> Array:
    t = torch.tensor(x, dtype=torch.float64)
    log = torch.logsumexp(t, 1, keepdim=True)
    found = {
        "log-softmax": t - log,
        "negative": t - log,
        "loss": log - t,
        "sum": log + 0 * t,
        "half": (t - log) / 2,
        "scaled": t * log,
        "cancels": torch.logsumexp(2 * t, 1, keepdim=True) - 2 * log + 0 * t,
        "twice": t - log + torch.tanh(log),
    }
    return found[what].numpy()


EXACT = ["log-softmax", "negative", "loss", "half", "cancels"]


@pytest.mark.parametrize("scale", [1.0, 1e4])
@pytest.mark.parametrize("what", [*EXACT, "sum", "scaled", "twice"])
def test_logarithms(what: str, scale: float) -> None:
    graph = rows(what)
    result = stabilize(graph)
    assert not result.unstable
    check_graph(result.graph)
    x = np.random.default_rng(0).standard_normal((4, 32)) * scale
    want = meaning(what, x)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        (exact,) = evaluate_floats(result.graph, [x])
        (typed,) = evaluate_floats(result.graph, [x], TypedFloat())
    np.testing.assert_allclose(exact, want, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(typed, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("what", EXACT)
def test_large_scores_that_are_near_each_other(what: str) -> None:
    """Scores around 1e4: their spacing in f32 is 1e-3, and so is the error of any value to which
    the maximum is added back. If it cancels, there is no such error.
    """
    x = 1e4 + np.random.default_rng(0).standard_normal((4, 32))
    x = x.astype(np.float32).astype(np.float64)
    (typed,) = evaluate_floats(stabilize(rows(what)).graph, [x], TypedFloat())
    want = meaning(what, x)
    np.testing.assert_allclose(typed, want, rtol=1e-6, atol=1e-6)
    if what != "cancels":
        naive = np.float32(x) - np.float32(meaning("sum", x))
        assert np.abs(np.abs(naive) - np.abs(meaning("log-softmax", x))).max() > 1e-4


@pytest.mark.parametrize("scale", [1.0, 1e2, 1e4])
@pytest.mark.parametrize("tiles", [(8, 8), (8, 16), (12, 8)], ids=str)
def test_cross_entropy_has_the_error_of_torch(tiles: tuple[int, int], scale: float) -> None:
    """One pass for the sum, one for the loss against probabilities."""
    graph = two_passes(rows=16, tiles=tiles, what="cross entropy")
    result = stabilize(graph)
    assert not result.unstable
    check_graph(result.graph)
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((16, 32)) * scale).astype(np.float32)
    y = rng.dirichlet(np.ones(32), 16).astype(np.float32)

    def loss(dtype: torch.dtype) -> Array:
        logs = torch.log_softmax(torch.tensor(x, dtype=dtype), 1)
        return -(torch.tensor(y, dtype=dtype) * logs).sum(1, keepdim=True).double().numpy()

    want, torch_like = loss(torch.float64), loss(F32)
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        (typed,) = evaluate_floats(result.graph, [x.astype(float), y.astype(float)], TypedFloat())
    allowed = 2 * np.linalg.norm(torch_like - want) + 1e-7
    assert np.linalg.norm(typed - want) <= allowed


@pytest.mark.parametrize("what", ["log-softmax", "negative", "cancels", "sum"])
def test_verified(what: str) -> None:
    graph = rows(what)
    verdict = verify(graph, stabilize(graph).graph, VerifyOptions(seed=1))
    assert verdict.kind is Kind.PROVED, verdict


def test_exponential_of_a_logarithm() -> None:
    """It is a separate exponential: its argument no longer depends on the maximum."""
    result = stabilize(rows("exp"))
    assert not all(e.stable for e in result.exponentials)


def test_a_loop_takes_the_logarithm_of_parts_of_stored_sums() -> None:
    """A kernel sums over all rows in steps: the maxima of all rows are known before its loop, and
    each step subtracts its own."""
    rows, columns = 512, 4096

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return ((torch.log_softmax(a, -1) - b) * b).sum()

    graph = from_torch(program, torch.randn(rows, columns), torch.randn(rows, columns)).graph
    found = superoptimize(graph, H200, SearchLimits(budget=20.0)).candidates
    draw = np.random.default_rng(0)
    inputs = [100.0 + draw.standard_normal((rows, columns)), draw.random((rows, columns))]
    (expected,) = evaluate_floats(graph, inputs)
    for candidate in found:
        result = stabilize(candidate.graph)
        check_graph(result.graph)
        if candidate in found[::6]:
            (got,) = evaluate_floats(result.graph, inputs)
            np.testing.assert_allclose(got, expected, rtol=1e-9)
