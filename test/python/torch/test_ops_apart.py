"""Ops that only PyTorch can run stay with it, between compiled graphs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from mirage.frontend.program import Program
from mirage.frontend.torch_import.capture.effects import NotAsEager, effects_of
from mirage.torch.compiled_graph import Report
from mirage.torch.graph_compiler import backend
from thorough import some_of
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention
from torch_programs.op_by_op import op_by_op

Tensor = torch.Tensor


def choice(x: Tensor, w: Tensor) -> Tensor:
    y = torch.softmax(x @ w, -1)
    z = torch.cond(y.sum() > x.sum(), lambda a, b: (a * 2) @ b, lambda a, b: a - b.sum(), (y, w))
    return torch.relu(z) + x


def two_choices(x: Tensor, w: Tensor) -> Tensor:
    return choice(choice(x, w) * 0.5, w + 1)


def nested(x: Tensor, w: Tensor) -> Tensor:
    def inside(a: Tensor) -> Tensor:
        return torch.cond(a.sum() > 3, lambda b: b * 3, lambda b: b + 1, (a * 2,)) - 1

    return torch.cond(x.sum() > 0, inside, lambda a: a.exp(), (x @ w,)) * 2


def loop(x: Tensor, w: Tensor) -> Tensor:
    def again(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, torch.tanh(y @ w)

    _, y = while_loop(lambda i, y: i < 3, again, (torch.tensor(0), x * 2))
    return y + x


def at_the_ends(x: Tensor, w: Tensor) -> Tensor:
    """There is nothing before or after the op."""
    return torch.cond(w[0, 0] > 0, lambda a, b: a @ b, lambda a, b: a - b[0], (x, w))


PROGRAMS: dict[str, tuple[Callable[..., Tensor], int]] = {
    "one choice": (choice, 4),
    "two choices": (two_choices, 7),
    "a choice in a choice": (nested, 5),
    "a loop": (loop, 2),
    "nothing around it": (at_the_ends, 3),
}
"""With the number of graphs that are compiled."""


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("name", some_of(PROGRAMS, every=2))
@pytest.mark.parametrize("sign", some_of([1, -1], 2))
def test_the_rest_is_compiled(name: str, sign: int) -> None:
    function, least = PROGRAMS[name]
    count = 0
    reports: list[Report] = []

    def compiled(program: Program, options: Mapping[str, Any]) -> Any:
        nonlocal count
        count += 1
        return op_by_op(program, options)

    host = partial(backend, compiler=compiled, devices=("cpu",), watch=reports.append)
    generator = torch.Generator().manual_seed(3)
    x, w = torch.randn(4, 4, generator=generator), torch.randn(4, 4, generator=generator)
    fast = torch.compile(function, backend=host)
    with torch.no_grad():
        for scale in (1.0, -1.0):
            given = x * sign * scale, w * scale
            torch.testing.assert_close(fast(*given), function(*given), rtol=1e-4, atol=1e-4)
    assert count >= least
    assert not any(report.reason for report in reports)


def stored(x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
    y = x * 2
    y[at] = x[0] + 1
    return torch.softmax(y, -1), y


def across(x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
    """An op with two results, one of which is read after the view."""
    first, second = (x * 2).split(2)
    view = first[at]
    view.mul_(3)
    return second.exp() + view, first


VIEWS: dict[str, tuple[Callable[..., Any], int]] = {
    "alone": (lambda x, at: (x[at], x * 2), 1),
    "between": (lambda x, at: torch.relu(x @ x)[:, at] * 2, 2),
    "stored": (stored, 2),
    "across": (across, 2),
    "a size": (lambda x, at: torch.nn.functional.pad(x * 2, (at, at)).exp() + at, 2),
}
"""With the number of graphs that are compiled."""


@pytest.mark.parametrize("name", VIEWS)
def test_an_index_in_a_tensor_selects_a_view(name: str) -> None:
    function, count = VIEWS[name]
    reports: list[Report] = []
    host = partial(backend, compiler=op_by_op, devices=("cpu",), watch=reports.append)
    x = torch.randn(4, 4)
    y, at = x.clone(), torch.tensor(1)
    with torch.no_grad():
        got, want = torch.compile(function, backend=host)(x, at), function(y, at)
    torch.testing.assert_close((got, x), (want, y))
    if name == "alone":
        assert got[0].untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    assert [report.reason for report in reports] == [""] * count


def cast(x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = torch.cond(x.sum() > 0, lambda a: a @ a, lambda a: a @ a + 1, (x,))
        z = x @ x
    return y, z, x @ z.float()


def without_gradients(x: Tensor, at: Tensor) -> tuple[Tensor, ...]:
    with torch.no_grad():
        y = (x * 2)[at]
    return y + x.exp(), y


def mapped(x: Tensor, at: Tensor) -> Tensor:
    """PyTorch cannot export it, and begins the region when it tries."""
    return torch.func.vmap(lambda i: x[i] * 2)(torch.stack([at, at])) + 1


@pytest.mark.parametrize("function", [cast, without_gradients, mapped])
def test_regions_are_not_cut(function: Callable[..., Any]) -> None:
    host = partial(backend, compiler=op_by_op, devices=("cpu",))
    x, at = torch.randn(4, 4), torch.tensor(1)
    got, want = torch.compile(function, backend=host)(x, at), function(x, at)
    torch.testing.assert_close(got, want, rtol=1e-2, atol=1e-2)
    assert torch.is_grad_enabled()
    assert not torch.is_autocast_enabled("cpu")


def test_each_device_has_graphs_of_its_own() -> None:
    def function(x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        y = torch.softmax(x, -1) + torch.arange(4)
        there = y.to("meta") * 2
        return y.exp(), there.t(), torch.zeros(3, device="meta")

    reports: list[Report] = []
    host = partial(backend, compiler=op_by_op, devices=("cpu",), watch=reports.append)
    x = torch.randn(4, 4)
    got, want = torch.compile(function, backend=host)(x), function(x)
    torch.testing.assert_close(got[0], want[0])
    assert [(y.device, y.stride()) for y in got] == [(y.device, y.stride()) for y in want]
    assert not reports[0].reason
    assert all("meta" in report.reason for report in reports if report.reason)


def test_a_graph_on_two_devices_is_not_compiled_as_one() -> None:
    graph = torch.fx.symbolic_trace(lambda x: (x * 2).to("meta"))  # without what it is like
    with pytest.raises(NotAsEager, match="on meta, expected cpu"):
        effects_of(graph, [torch.randn(4)])


BIAS = torch.tensor([0.5, -0.25])


def attend(q: Tensor, k: Tensor, v: Tensor, mask: BlockMask) -> Tensor:
    def score(s: Tensor, b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
        return torch.tanh(s / 3) * 3 + BIAS[h] * (j - i)

    return torch.relu(flex_attention(q * 2, k, v, score, mask))


def test_attention_of_functions_is_one_graph() -> None:
    mask = create_block_mask(lambda b, h, i, j: (i >= j) & (i - j < 9), None, None, 24, 24, "cpu")
    q, k, v = (torch.randn(2, 2, 24, 8) for _ in range(3))
    reports: list[Report] = []
    host = partial(backend, compiler=op_by_op, devices=("cpu",), watch=reports.append)
    with torch.no_grad():
        got = torch.compile(attend, backend=host)(q, k, v, mask)
        torch.testing.assert_close(got, attend(q, k, v, mask), rtol=1e-4, atol=1e-4)
    (report,) = reports
    assert not report.reason
    assert not report.calls
