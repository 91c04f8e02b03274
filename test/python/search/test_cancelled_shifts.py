"""Shifts of exponentials on which no result depends, and those that stay."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from example_programs.search_programs import tensor
from mirage.cost import H200
from mirage.frontend.torch_import import from_torch
from mirage.search import SearchLimits, superoptimize
from mirage.search.program.cancelled_shifts import without_cancelled_shifts
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Reduce, Value, launches

X = (4, 96)


def exp_of(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    most = x.amax(1, keepdim=True)
    return torch.exp(x - most), most


def softmax(x: torch.Tensor) -> torch.Tensor:
    e, _ = exp_of(x)
    return e / e.sum(1, keepdim=True)


def log_sum(x: torch.Tensor) -> torch.Tensor:
    e, most = exp_of(x)
    return (e.sum(1, keepdim=True).log() + most)[:, 0]


def guarded(x: torch.Tensor) -> torch.Tensor:
    return torch.logsumexp(x, 1)


def base_two(x: torch.Tensor) -> torch.Tensor:
    y = x * 0.125
    e = torch.exp(0.5 * (y - y.amax(1, keepdim=True)))
    return e / e.sum(1, keepdim=True)


def attention(x: torch.Tensor) -> torch.Tensor:
    e, _ = exp_of(x @ x.t())
    return e @ x / e.sum(1, keepdim=True)


def two_parts(x: torch.Tensor) -> torch.Tensor:
    """A running maximum over two halves of a row, written out."""
    a, b = x[:, :48], x[:, 48:]
    first = a.amax(1, keepdim=True)
    most = torch.maximum(first, b.amax(1, keepdim=True))
    total = torch.exp(a - first).sum(1, keepdim=True) * torch.exp(first - most)
    total = total + torch.exp(b - most).sum(1, keepdim=True)
    return torch.exp(b - most) / total


CANCEL: dict[str, Callable[[torch.Tensor], Any]] = {
    "softmax": softmax,
    "log of the sum": log_sum,
    "logsumexp": guarded,
    "log_softmax": lambda x: torch.log_softmax(x, 1),
    "scaled": base_two,
    "attention": attention,
    "two parts": two_parts,
    "the maximum is a result as well": lambda x: (softmax(x), exp_of(x)[1]),
}


def has_maximum(graph: KernelGraph) -> bool:
    return any(isinstance(op, Reduce) and op.fn is ReduceFn.MAX for op in graph.ops)


def imported(function: Callable[[torch.Tensor], Any]) -> KernelGraph:
    return decompose(from_torch(function, torch.randn(*X)).graph)


@pytest.mark.parametrize("name", CANCEL)
def test_shifts_that_cancel_are_left_out(name: str) -> None:
    graph = imported(CANCEL[name])
    found = without_cancelled_shifts(graph)
    check_graph(found)
    assert has_maximum(graph)
    assert has_maximum(found) == ("result" in name)
    x = np.random.default_rng(0).standard_normal(X)
    for got, want in zip(evaluate_floats(found, [x]), evaluate_floats(graph, [x]), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-12)
    again = without_cancelled_shifts(found)
    assert again is found


STAY: dict[str, Callable[[torch.Tensor], Any]] = {
    "exponentials are a result": lambda x: exp_of(x)[0],
    "something is added to the sum": lambda x: exp_of(x)[0] / (exp_of(x)[0].sum(1)[:, None] + 1.0),
    "the logarithm keeps the shift": lambda x: exp_of(x)[0].sum(1).log(),
    "added twice": lambda x: exp_of(x)[0].sum(1).log() + 2.0 * exp_of(x)[1][:, 0],
    "another power": lambda x: exp_of(x)[0].square() / exp_of(x)[0].sum(1, keepdim=True),
    "summed over rows": lambda x: exp_of(x)[0] / exp_of(x)[0].sum(0, keepdim=True),
    "clamped": lambda x: exp_of(x)[0].clamp(max=0.5) / exp_of(x)[0].sum(1, keepdim=True),
    "an exponential of the result": lambda x: torch.log_softmax(x, 1).exp(),
    "the shift does not vary less": lambda x: torch.exp(x - x.square()),
}


@pytest.mark.parametrize("name", STAY)
def test_other_shifts_stay(name: str) -> None:
    graph = imported(STAY[name])
    assert without_cancelled_shifts(graph) is graph


def test_values_that_do_not_change_remain_the_same() -> None:
    """They are claimed to be equal when the result is verified piece by piece."""
    x, b = tensor("x", *X, dtype=DType.F32), Builder()
    most = b.reduce(ReduceFn.MAX, x, (1,))
    e = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, x, most))
    weights = b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,)))
    y = b.binary(BinaryFn.ADD, weights, x)
    found = without_cancelled_shifts(KernelGraph("g", (x,), tuple(b.ops), (y,)))
    results: set[Value] = {v for op in found.ops for v in op.results}
    assert weights in results
    assert y in results
    assert e not in results
    assert most not in results


def test_rows_are_read_once_to_sum_their_exponentials() -> None:
    """With the maximum in a kernel of its own, they were read twice."""
    program = from_torch(guarded, torch.randn(64, 65536, dtype=torch.float16)).graph
    best = superoptimize(program, H200, SearchLimits(budget=20.0)).candidates[0]
    assert best.cost.bytes_read < 1.1 * program.inputs[0].type.bytes
    assert sum(program.inputs[0] in op.operands for op in launches(best.graph.ops)) == 1
