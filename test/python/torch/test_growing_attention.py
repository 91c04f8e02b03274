"""Attention to a cache that grows with each token: one program for many lengths."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.program import Program
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Optimized
from mirage.torch.compiled_graph import Report
from mirage.torch.graph_compiler import backend
from mirage.torch.growing_attention import attention_apart, rows_and_length
from mirage.torch.room_to_grow import LEAST, joined
from thorough import some_of
from torch import nn
from torch_programs.growing_caches import grown, same
from torch_programs.op_by_op import op_by_op

Tensor = torch.Tensor
WIDTH, HEADS, SHARED = 16, 4, 2


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


class Counted:
    """A backend that counts the calls of the programs by their number of keys."""

    def __init__(self) -> None:
        self.reports: list[Report] = []
        self.calls: list[int] = []
        self.backend = partial(
            backend, compiler=self._compiled, devices=("cpu",), watch=self.reports.append
        )

    def _compiled(self, program: Program, options: Mapping[str, Any]) -> Any:
        run, number = op_by_op(program, options), len(self.calls)
        self.calls.append(0)

        def call(*tensors: Tensor) -> Any:
            self.calls[number] += 1
            return run(*tensors)

        return call

    @property
    def attention(self) -> list[str]:
        return [r.sizes for r in self.reports if "keys" in r.sizes]


class Layer(nn.Module):
    """A token's keys and values are appended to a cache, to which its query attends."""

    def __init__(self, attend: Callable[[Tensor, Tensor, Tensor, Tensor | None], Tensor]) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.attend = attend
        self.q, self.o = (nn.Linear(WIDTH, WIDTH) for _ in range(2))
        self.k, self.v = (nn.Linear(WIDTH, WIDTH * SHARED // HEADS) for _ in range(2))

    def forward(
        self, x: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        h = F.rms_norm(x, (WIDTH,))
        q, k, v = (
            y.view(2, 1, -1, WIDTH // HEADS).transpose(1, 2)
            for y in (self.q(h) * 0.5, torch.tanh(self.k(h)), self.v(h))
        )
        keys, values = torch.cat((keys, k), 2), torch.cat((values, v), dim=-2)
        seen = self.attend(q, keys, values, mask).transpose(1, 2).reshape(2, 1, WIDTH)
        h = torch.relu(self.o(seen) + x)
        h = x + h * torch.sigmoid(h) - h.square() / 3 + 1
        return torch.exp(-torch.relu(h)) * torch.tanh(h) + torch.sigmoid(h) / 2 - 1, keys, values


def grouped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True, scale=0.3)


def repeated(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    def often(x: Tensor) -> Tensor:
        x = x[:, :, None].expand(2, SHARED, HEADS // SHARED, x.shape[2], x.shape[3])
        return x.reshape(2, HEADS, x.shape[3], x.shape[4])

    return F.scaled_dot_product_attention(q, often(k), often(v), mask)


def written(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    k, v = (x[:, :, None].expand(2, SHARED, HEADS // SHARED, -1, -1) for x in (k, v))
    k, v = (x.reshape(2, HEADS, -1, WIDTH // HEADS) for x in (k, v))
    scores = torch.tanh(torch.matmul(q, k.transpose(2, 3)) * 0.3 / 2) * 2
    if mask is not None:
        scores = scores + (mask if mask.is_floating_point() else torch.where(mask, 0.0, -1e9))
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(F.dropout(weights, 0.1, training=False), v)


def added(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    q, k, v = q.flatten(0, 1)[: 2 * SHARED], k.flatten(0, 1), v.flatten(0, 1)
    bias = torch.zeros(1, 1, k.shape[1]) if mask is None else mask[1:, 0].float()
    scores = bias.baddbmm(batch1=q, batch2=k.transpose(-1, -2), beta=0.5, alpha=0.3)
    return torch.bmm(F.softmax(scores, dim=-1), v).repeat(2, 1, 1).view(2, HEADS, 1, -1)


def divided(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Scores that are divided by a number for each key, which does not exist beyond the last
    key."""
    q, k, v = q.flatten(0, 1)[: 2 * SHARED], k.flatten(0, 1), v.flatten(0, 1)
    by = torch.arange(k.shape[1]) * 0.25 + 1
    scores = torch.matmul(q, k.transpose(1, 2)) / by
    return torch.matmul(scores.softmax(-1), v).repeat(2, 1, 1).view(2, HEADS, 1, -1)


def newest(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
    """Attention to a part whose start depends on the length."""
    return F.scaled_dot_product_attention(q, k[:, :, 2:], v[:, :, 2:], enable_gqa=True)


def masks(kind: str, length: int) -> Tensor | None:
    seen = torch.ones(2, 1, 1, length, dtype=torch.bool)
    seen[0, ..., :3] = False
    if kind == "blind":
        seen[1] = False
    return {"none": None, "added": torch.where(seen, 0.1, -torch.inf)}.get(kind, seen)


def steps_of(
    model: Callable[..., Any], steps: int = 6, kind: str = "none", start: int = 5
) -> list[Tensor]:
    generator = torch.Generator().manual_seed(2)
    shape = 2, SHARED, start, WIDTH // HEADS
    caches = [torch.randn(shape, generator=generator) for _ in range(2)]
    return grown(model, steps, caches, WIDTH, lambda length: (masks(kind, length),))


@pytest.mark.parametrize("attend", some_of([grouped, repeated, written, added, divided], 8))
@pytest.mark.parametrize("kind", some_of(["none", "seen", "blind", "added"], 2))
def test_one_program_for_many_lengths(attend: Any, kind: str) -> None:
    made, layer = Counted(), Layer(attend)
    same(steps_of(torch.compile(layer, backend=made.backend), 9, kind), steps_of(layer, 9, kind))
    assert not any(r.reason for r in made.reports)
    assert made.attention == [f"for up to {LEAST} keys"]
    assert max(made.calls) >= 6


@pytest.mark.parametrize("kind", some_of(["none", "seen", "written"], every=3))
def test_the_kernels(kind: str) -> None:
    """The kernels for half-precision numbers, emulated at several lengths, far from the capacity
    and near it."""
    heads, width = 2, 16
    options = OptimizeOptions(chip="h200", budget=20.0, use_cache=False)
    found, calls = list[Optimized](), list[int]()

    def compiler(program: Program, _: Mapping[str, Any]) -> Any:
        if any(op.names_rows is not None for op in program.graph.ops):
            found.append(optimize(program, options))
            return lambda *tensors: calls.append(len(tensors)) or emulate(found[-1], *tensors)
        return op_by_op(program, {})

    def function(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        k, v = torch.cat((k, k[:, :, :1] / 2), 2), torch.cat((v, v[:, :, :1] / 3), 2)
        q = torch.tanh(torch.relu(q * 2) + q) * 2 - torch.sigmoid(q) + q.square() / 4 - 1
        if kind == "written":
            k, v = (x.repeat_interleave(2, 1) for x in (k, v))
            y = torch.softmax(torch.tanh(q @ k.transpose(2, 3)), -1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        return torch.tanh(torch.relu(y * 2) + y) * 2 - torch.sigmoid(y) + y.square() / 4 - 1

    fast = torch.compile(function, backend=partial(backend, compiler=compiler, devices=("cpu",)))
    for length in (5, 7, LEAST - 1, 11):
        q = torch.randn(2, 2 * heads, 1, width).half()
        k, v = (torch.randn(2, heads, length, width).half() for _ in range(2))
        mask = masks("none" if kind == "written" else kind, length + 1)
        for x, dim in ((k, 2), (v, 2), *(() if mask is None else ((mask, 3),))):
            torch._dynamo.mark_dynamic(x, dim)  # pyright: ignore
        got, want = (f(q, k, v, mask) for f in (fast, function))
        torch.testing.assert_close(got, want, rtol=5e-3, atol=5e-3)
    assert len(found) == 1
    assert found[0].artifacts
    assert len(calls) == 3  # all except the first one, which is compiled as a whole


def test_more_keys_than_there_is_room_for() -> None:
    made, layer = Counted(), Layer(grouped)
    run = partial(steps_of, steps=9, start=LEAST - 5)
    same(run(torch.compile(layer, backend=made.backend)), run(layer))
    assert made.attention == [f"for up to {n} keys" for n in (LEAST, 2 * LEAST)]


@pytest.mark.parametrize("written_to", some_of([False, True], every=2))
def test_what_is_written_between(written_to: bool) -> None:
    """Heads are repeated before keys are written to, so the copies do not change."""

    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        k, v = (x[:, :, None].expand(2, SHARED, HEADS // SHARED, -1, -1) for x in (k, v))
        copies = [x.reshape(2, HEADS, -1, WIDTH // HEADS) for x in (k, v)]
        if written_to:
            k.select(2, 0).mul_(3)
        return F.scaled_dot_product_attention(q, *copies)

    made, layer = Counted(), Layer(attend)
    same(steps_of(torch.compile(layer, backend=made.backend)), steps_of(layer))
    assert bool(made.attention) is not written_to


def test_parts_that_depend_on_the_length_stay() -> None:
    made, layer = Counted(), Layer(newest)
    same(steps_of(torch.compile(layer, backend=made.backend)), steps_of(layer))
    assert not made.attention


def test_only_plain_joins_get_room_to_grow() -> None:
    """A join with a given result writes to it."""

    def step(x: Tensor, keys: Tensor, to: Tensor) -> Tensor:
        seen = torch.cat((keys, x), 2, out=to)
        return F.scaled_dot_product_attention(x, seen, seen)

    x, keys = torch.ones(1, 1, 1, 4), torch.ones(1, 1, 3, 4)
    graphs: list[torch.fx.GraphModule] = []

    def seen_by(module: torch.fx.GraphModule, _: list[Tensor]) -> Any:
        graphs.append(attention_apart(module)[0])
        return module

    for tensor in (keys, to := torch.empty(1, 1, 4, 4)):
        torch._dynamo.mark_dynamic(tensor, 2)  # pyright: ignore
    torch.compile(step, backend=seen_by)(x, keys, to)
    joins = [n.target for g in graphs for n in g.graph.nodes if n.target in (torch.cat, joined)]
    assert joins == [torch.cat]


def test_the_last_row_stands_for_those_beyond() -> None:
    rows, length = rows_and_length(2, 3, 5, torch.device("cpu"))
    assert rows.tolist() == [0, 1, 2, 2, 2, 3, 4, 5, 5, 5]
    assert length.tolist() == [3]
