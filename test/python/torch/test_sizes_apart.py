"""Caches that grow with each token: the parts with fixed sizes are compiled once, for any
length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from mirage.frontend.program import Program
from mirage.torch.compiled_graph import Report
from mirage.torch.graph_compiler import MOST_SIZES, OFTEN, backend
from torch import nn
from torch_programs.growing_caches import grown, same
from torch_programs.op_by_op import op_by_op

Tensor = torch.Tensor
WIDTH = 16


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


class Counted:
    """A backend that counts the programs that it compiles."""

    def __init__(self) -> None:
        self.programs = 0
        self.reports: list[Report] = []
        self.backend = partial(
            backend, compiler=self._compiled, devices=("cpu",), watch=self.reports.append
        )

    def _compiled(self, program: Program, options: Mapping[str, Any]) -> Any:
        self.programs += 1
        return op_by_op(program, options)


class Layer(nn.Module):
    """A token's keys and values are appended to a cache, to which its query attends."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, x: Tensor, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        h = torch.nn.functional.rms_norm(x, (WIDTH,))
        q, k, v = self.q(h) * 0.5, torch.tanh(self.k(h)), self.v(h)
        keys, values = torch.cat((keys, k), 1), torch.cat((values, v), 1)
        seen = torch.softmax(q @ keys.transpose(1, 2), -1) @ values
        h = torch.relu(self.o(seen) + x)
        return x + h * torch.sigmoid(h) - h.square() / 3 + 1, keys, values


def steps_of(model: Callable[..., Any], steps: int) -> list[Tensor]:
    return grown(model, steps, (torch.zeros(2, 1, WIDTH), torch.ones(2, 1, WIDTH)), WIDTH)


def test_a_growing_cache_has_a_bounded_number_of_programs() -> None:
    made, layer = Counted(), Layer()
    steps = MOST_SIZES + 24
    same(steps_of(torch.compile(layer, backend=made.backend), steps), steps_of(layer, steps))
    # the first length, and the first variable one, as a whole; before the cache, after it, and
    # attention to it
    assert made.programs == 5
    assert not any(r.reason for r in made.reports)
    assert sum(r.sizes == "for any size of the rest" for r in made.reports) == 2


def test_sizes_that_occur_often_are_compiled_as_a_whole() -> None:
    made, layer = Counted(), Layer()
    fast = torch.compile(layer, backend=made.backend)
    for _ in range(OFTEN + 2):
        same(steps_of(fast, 4), steps_of(layer, 4))
    assert made.programs == 4 + 3  # lengths 2, 3 and 4


def test_other_strides_than_the_traced_ones_are_seen() -> None:
    """A result of PyTorch whose strides differ from those at tracing."""

    @torch.library.custom_op("test_sizes_apart::sums", mutates_args=())
    def sums(x: Tensor) -> Tensor:
        return x.sum(1).t().contiguous().t() if x.shape[1] > 3 else x.sum(1)

    @sums.register_fake
    def _(x: Tensor) -> Tensor:
        return x.new_empty(x.shape[0], x.shape[2])

    def function(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        y = torch.tanh(torch.relu(y * 2) + 1)
        z = sums(x)
        return z.t(), torch.relu(torch.sigmoid(z * 3 + y) - 0.5) * 2

    made = Counted()
    fast = torch.compile(function, backend=made.backend)
    with torch.no_grad():
        for n in range(2, 9):
            x, y = torch.randn(3, n, 5), torch.randn(3, 5)
            for a, b in zip(fast(x, y), function(x, y), strict=True):
                torch.testing.assert_close(a, b)


def test_what_is_written_between_is_seen() -> None:
    """A buffer that pieces on both sides of a cache write and read."""

    def function(x: Tensor, state: Tensor, cache: Tensor) -> tuple[Tensor, Tensor]:
        state.mul_(0.5)
        state.add_(torch.relu(x * 2) + torch.tanh(x))
        cache = torch.cat((cache, state[None]))
        y = torch.sigmoid(cache.sum(0) + x)
        state.copy_(torch.relu(y - state) + 1)
        return torch.exp(-(y * state + x)) / 2, cache

    made = Counted()
    fast = torch.compile(function, backend=made.backend)

    def run(model: Callable[..., Any]) -> list[Tensor]:
        generator = torch.Generator().manual_seed(1)
        state, cache = torch.zeros(6), torch.ones(1, 6)
        found: list[Tensor] = []
        for _ in range(8):
            y, cache = model(torch.randn(6, generator=generator), state, cache)
            found += [y, state.clone(), cache]
        return found

    with torch.no_grad():
        same(run(fast), run(function))
    assert made.programs < 6
