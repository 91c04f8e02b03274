"""Floats of a program that change from call to call: one compiled graph serves all of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from mirage.frontend.program import Program
from mirage.torch.graph_compiler import backend
from mirage.torch.settled_numbers import MOST
from thorough import some_of
from torch_programs.op_by_op import op_by_op

count = 0
Function = Callable[..., Any]


def compiled(program: Program, options: Mapping[str, Any]) -> Any:
    global count
    count += 1
    return op_by_op(program, options)


host = partial(backend, compiler=compiled, devices=("cpu",))


@pytest.fixture(autouse=True)
def fresh() -> None:
    global count
    count = 0
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


def randn(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(4, 6, generator=torch.Generator().manual_seed(1)).to(dtype)


PROGRAMS: dict[str, tuple[Function, torch.Tensor]] = {
    "a temperature": (lambda x, t: torch.softmax(torch.relu(x) / t, -1), randn()),
    "of f16": (lambda x, t: (x * t).relu() * 2.0, randn(torch.float16)),
    "of f64": (lambda x, t: (x * t).relu() - t, randn(torch.float64)),
    "of integers": (lambda x, t: x * t + 1, torch.arange(12).reshape(3, 4)),
    "a number made of it": (lambda x, t: x * (2.0 * t + 1.0) - x.exp() / (1.0 - t * t), randn()),
    "small differences": (lambda x, t: x * (1.0 - (1.0 - 1e-9 * t)) * 1e9, randn()),
    "a choice": (lambda x, t: torch.where(x > t, x, t) + x.clamp(min=-0.1), randn()),
    "a store": (lambda x, t: x.clone().mul_(t).add_(t), randn()),
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, every=3))
def test_one_graph_for_all_numbers(name: str) -> None:
    function, x = PROGRAMS[name]
    fast = torch.compile(function, backend=host)
    for t in (0.5, 0.7, 0.9, -3.0):
        got, want = fast(x, t), function(x, t)
        assert got.dtype is want.dtype
        torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)
    assert count == 2  # one for the first number only, and one for any number


def test_two_numbers_and_a_module() -> None:
    class Scaled(torch.nn.Module):
        scale, shift = 0.5, 1.0

        def forward(self, x: torch.Tensor, t: float) -> torch.Tensor:
            return torch.tanh(x * (self.scale * t)) + self.shift / t

    model, x = Scaled(), randn()
    fast = torch.compile(model, backend=host)
    for t, scale in ((1.0, 0.5), (2.0, 0.25), (3.0, 0.75)):
        model.scale = scale
        torch.testing.assert_close(fast(x, t), model(x, t), rtol=1e-3, atol=1e-4)


def test_a_number_that_has_another_type_as_a_tensor_is_compiled_for_some() -> None:
    def model(x: torch.Tensor, t: float) -> torch.Tensor:
        return x.sum() * t

    x, fast = randn(torch.float16), torch.compile(model, backend=host)
    for t in (0.5, 0.7, 0.9):
        torch.testing.assert_close(fast(x, t), model(x, t))
    assert count == 3  # the first one is a constant


def test_a_number_of_an_op_with_several_results(caplog: pytest.LogCaptureFixture) -> None:
    attention = torch.nn.MultiheadAttention(8, 2, batch_first=True).eval().requires_grad_(False)
    fast = torch.compile(attention, backend=host, dynamic=True)
    for rows in (3, 5):
        x = torch.randn(1, rows, 8)
        torch.testing.assert_close(fast(x, x, x), attention(x, x, x), rtol=1e-3, atol=1e-4)
    assert "stays with PyTorch" not in caplog.text
    assert count


def test_rows_and_a_number_that_change() -> None:
    def function(x: torch.Tensor, t: float) -> torch.Tensor:
        return torch.softmax(x / t, -1) + math.pi

    fast = torch.compile(function, backend=host, dynamic=True)
    for rows, t in ((2, 0.5), (5, 0.7), (3, 2.0)):
        x = torch.randn(rows, 4)
        torch.testing.assert_close(fast(x, t), function(x, t), rtol=1e-3, atol=1e-4)


def test_a_number_that_is_too_large_is_infinite() -> None:
    def model(x: torch.Tensor, scale: float) -> torch.Tensor:
        return x + scale

    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    x, compiled = torch.randn(2, 3), torch.compile(model, backend=host)
    for scale in (0.5, 0.75, 1e300, -1e300, float("inf"), float("nan")):
        torch.testing.assert_close(compiled(x, scale), model(x, scale), equal_nan=True)


def test_what_takes_no_tensor_is_compiled_for_some_numbers() -> None:
    def model(x: torch.Tensor, t: float, shift: float) -> torch.Tensor:
        return torch.nn.functional.softplus(x, beta=t * 2.0) * shift

    x, fast = randn(), torch.compile(model, backend=host)
    for t in (0.5, 0.7, 0.9, 0.7, 0.25, 2.0, 3.0, 4.0):
        torch.testing.assert_close(fast(x, t, t + 1), model(x, t, t + 1), rtol=1e-3, atol=1e-4)
    assert count == 1 + MOST


@pytest.mark.parametrize("training", [False, True])
def test_the_eps_of_norms(training: bool, caplog: pytest.LogCaptureFixture) -> None:
    layers = (torch.nn.LayerNorm(6), torch.nn.Dropout(0.5), torch.nn.RMSNorm(6, eps=0.1))
    model = torch.nn.Sequential(torch.nn.Linear(6, 6), *layers).train(training)
    model.requires_grad_(False)
    fast = torch.compile(model, backend=host, dynamic=True)
    for rows in (2, 5, 3):
        x = torch.randn(rows, 6)
        torch.manual_seed(0)
        want = model(x)
        torch.manual_seed(0)
        torch.testing.assert_close(fast(x), want, rtol=1e-3, atol=1e-4)
    layers[0].eps = 0.5
    layers[2].eps = 0.25
    torch.manual_seed(0)
    want = model(x)
    torch.manual_seed(0)
    torch.testing.assert_close(fast(x), want, rtol=1e-3, atol=1e-4)
    assert "stays with PyTorch" not in caplog.text
    assert count
