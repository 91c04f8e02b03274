"""Sizes that depend on data or on the caller's numbers: rows of an expert, windows of a tensor.
TorchDynamo breaks a graph there, or makes the size dynamic; results are those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from mirage.frontend.program import Program
from mirage.torch.graph_compiler import backend
from thorough import some_of
from torch_programs.op_by_op import op_by_op

count = 0


def compiled(program: Program, options: Mapping[str, Any]) -> Any:
    global count
    count += 1
    return op_by_op(program, options)


host = partial(backend, compiler=compiled, devices=("cpu",))
EXPERTS, TOKENS, WIDTH = 3, 24, 8
ROUTERS = (
    torch.arange(TOKENS) % EXPERTS,
    torch.arange(TOKENS) % 2,  # no token for the last expert
    (torch.arange(TOKENS) == 5) * 2,  # one token for one, and none for another
    torch.zeros(TOKENS, dtype=torch.int64),
)


@pytest.fixture(autouse=True)
def fresh() -> None:
    global count
    count = 0
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


class Experts(torch.nn.Module):
    """Each expert computes the rows of the tokens that are routed to it."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(EXPERTS))

    def one(self, out: torch.Tensor, x: torch.Tensor, router: torch.Tensor, e: int) -> None:
        rows = (router == e).nonzero().squeeze(-1)
        out[rows] = torch.relu(self.layers[e](x[rows]))

    def forward(self, x: torch.Tensor, router: torch.Tensor) -> torch.Tensor:
        raise NotImplementedError


class Loop(Experts):
    def forward(self, x: torch.Tensor, router: torch.Tensor) -> torch.Tensor:
        y = x * 2 + 1
        out = torch.zeros_like(x)
        for e in range(EXPERTS):
            self.one(out, y, router, e)
        return torch.softmax(out + x, -1)


class LoopOfSums(Experts):
    def forward(self, x: torch.Tensor, router: torch.Tensor) -> torch.Tensor:
        out = x * 2
        for e, layer in enumerate(self.layers):
            rows = torch.where(router == e)[0]
            out.index_add_(0, rows, layer(x[rows]) * 0.5)
        return out


class Unrolled(Experts):
    def forward(self, x: torch.Tensor, router: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(x)
        self.one(out, x, router, 0)
        self.one(out, x, router, 2)
        return torch.softmax(out + x, -1)


class Masked(Experts):
    def forward(self, x: torch.Tensor, router: torch.Tensor) -> torch.Tensor:
        out = x * 2
        mine = router == 1
        out[mine] = torch.relu(self.layers[1](x[mine]))
        return out + x


@pytest.mark.parametrize(
    ("kind", "captured", "graphs"),
    some_of(
        [
            (Loop, False, True),  # the function called in the loop is a graph
            (LoopOfSums, False, False),  # TorchDynamo skips a function with a graph break in a loop
            (Unrolled, False, True),
            (Masked, False, True),
            (Unrolled, True, True),
            (Masked, True, True),
        ],
        6,
    ),
)
def test_experts_by_data(kind: type[Experts], captured: bool, graphs: bool) -> None:
    """With the setting, sizes that depend on data are in the graph, which remains with PyTorch."""
    model = kind().eval()
    with (
        torch.no_grad(),
        torch._dynamo.config.patch(capture_dynamic_output_shape_ops=captured),  # pyright: ignore
    ):
        run = torch.compile(model, backend=host)
        for seed, router in enumerate(ROUTERS):
            x = torch.randn(TOKENS, WIDTH, generator=torch.Generator().manual_seed(seed))
            torch.testing.assert_close(run(x, router), model(x, router), atol=2e-5, rtol=1e-4)
    assert (count > 0) == graphs


WINDOWS: dict[str, Callable[[torch.Tensor, int, int], torch.Tensor]] = {
    "read": lambda x, a, b: torch.relu(x[a:b]) * 2 + 1,
    "read along the last dimension": lambda x, a, b: torch.softmax(x[:, a:b] * 2, -1),
    "summed": lambda x, a, b: (x[a:b] * 2).sum(0),
    "narrowed": lambda x, a, b: x.narrow(0, a, b - a) - 1,
}


@pytest.mark.parametrize("name", some_of(WINDOWS, every=2))
def test_windows_with_both_ends_at_the_call(name: str) -> None:
    window = WINDOWS[name]
    run = torch.compile(window, backend=host)
    x = torch.randn(20, 20, generator=torch.Generator().manual_seed(0))
    for a, b in ((2, 9), (3, 10), (3, 15), (0, 20), (7, 8), (7, 7), (5, 11)):
        torch.testing.assert_close(run(x, a, b), window(x, a, b), atol=1e-5, rtol=1e-5)
    assert count > 0


def test_a_window_of_numbers_in_tensors() -> None:
    def window(x: torch.Tensor, ends: torch.Tensor) -> torch.Tensor:
        a, b = ends.tolist()
        return torch.relu(x[a:b]) * 2

    run = torch.compile(window, backend=host)
    x = torch.randn(20, 6, generator=torch.Generator().manual_seed(0))
    for a, b in ((2, 9), (3, 10), (0, 20), (7, 8), (7, 7)):
        ends = torch.tensor((a, b))
        torch.testing.assert_close(run(x, ends), window(x, ends))
    assert count > 0
