"""Inputs and buffers that a model updates: stores are in place, and write only the stored
elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mirage as mi
import pytest
import torch
from mirage.frontend.program import Program
from mirage.pipeline.make_plan import plan_of_pieces
from mirage.runtime.dispatch.plan import Call
from mirage.runtime.errors import InterruptedUpdateError
from mirage.runtime.launching.run_plan import Steps
from mirage.torch.compiled_graph import CompiledGraph
from mirage.torch.graph_compiler import backend
from mirage.transforms.partition.calls import calls_of
from mirage.transforms.partition.partition import Part, partition
from thorough import some_of
from torch_programs.op_by_op import op_by_op
from torch_programs.written_bytes import WrittenBytes
from whole_models import model as whole_model

programs: list[Program] = []


def compiled(program: Program, options: Mapping[str, Any]) -> Any:
    programs.append(program)
    return op_by_op(program, options)


host = partial(backend, compiler=compiled, devices=("cpu",))


counted = WrittenBytes()


@pytest.fixture(autouse=True)
def fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts the writes of compiled graphs: in a mode that is active around the call, TorchDynamo
    would leave everything eager."""
    run = CompiledGraph.__call__

    def counting(self: CompiledGraph, *inputs: Any) -> Any:
        with counted:
            return run(self, *inputs)

    monkeypatch.setattr(CompiledGraph, "__call__", counting)
    counted.by_op.clear()
    programs.clear()
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


ROWS, LENGTH, WIDTH = 4, 32, 8
Update = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], Any]


def index_copy(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    return cache.index_copy_(1, at, x).sum(1)


def index_put(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[:, at] = x
    return cache.sum(1)


def scatter(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache.scatter_(1, at.view(1, 1, 1).expand(ROWS, 1, WIDTH), x * 2)
    return cache.sum(1)


def scatter_add(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache.scatter_add_(1, at.view(1, 1, 1).expand(ROWS, 1, WIDTH), x * 2)
    return cache.sum(1)


def a_slice(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[:, 5:6] = x * 2
    return cache.sum(1)


def one_place(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[:, 5] = x[:, 0]
    return cache.sum(1)


def a_part_of_a_part(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[1, 5:6] = x[0]
    return cache.sum(1)


def into_a_view(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[2].index_copy_(0, at, x[0])
    return cache.sum(1)


def into_slots(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    slots = at + LENGTH * torch.arange(ROWS)
    cache.view(-1, WIDTH).index_copy_(0, slots, x[:, 0] * 2)
    return cache.sum(1)


def put_into_slots(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache.flatten(0, 1)[at + LENGTH * torch.arange(ROWS)] = x[:, 0] * 2
    return cache.sum(1)


def twice(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache.index_copy_(1, at, x)
    y = cache.sum(1, keepdim=True)
    cache.index_copy_(1, at + 1, y)  # earlier reads depend only on the first one
    return y + cache[:, 0:1]


def from_the_old(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    y = cache[:, 7:8] + x
    cache.index_copy_(1, at, y)
    return y


def a_result(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> Any:
    cache.index_copy_(1, at, x)
    return cache, cache[:, 3:], x + 1


IN_PLACE: list[Update] = [
    index_copy, index_put, scatter, scatter_add, a_slice, one_place, a_part_of_a_part, into_a_view,
    into_slots, put_into_slots, twice, from_the_old, a_result,
]  # fmt: skip


def some_inputs() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    cache = torch.randn(ROWS, LENGTH, WIDTH)
    return cache, torch.tensor([3]), torch.randn(ROWS, 1, WIDTH)


@pytest.mark.parametrize("function", some_of(IN_PLACE, every=3))
def test_a_store_writes_what_it_stores(function: Update) -> None:
    cache, at, x = some_inputs()
    mine = cache.clone()
    fast = torch.compile(function, backend=host)
    got = fast(mine, at, x)
    torch.testing.assert_close((got, mine), (function(cache, at, x), cache))
    assert len(programs) == 1
    most = 2 * x.numel() * x.element_size() + 8 * ROWS * WIDTH  # indices of scatter among them
    assert counted.wrote <= most, counted.by_op


# ---- tensors that must stay separate


def the_old_one_is_read(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    old = cache.clone()
    cache.index_copy_(1, at, x)
    return old * 2 - cache


def the_old_one_is_returned(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> Any:
    old = cache.clone()
    cache.index_copy_(1, at, x)
    return old, old[:, 2:5], cache.sum()


def a_row_is_moved(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    cache[:, 1:4] = cache[:, 0:3].clone()
    return cache + x


def the_old_part_is_read(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    before = cache[2].clone()
    cache[2].index_copy_(0, at, x[0])
    return torch.special.i0e(before) + cache[2]


def another_part_is_written(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> Any:
    stored = torch.index_copy(cache[2], 0, at, x[0])
    cache[1] = stored
    return cache.sum(1)


def both(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    first = cache.index_copy(1, at, x)
    second = cache.index_copy(1, at + 1, x)
    cache.copy_(first + second)
    return cache


def a_looked_up_row(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    row = cache[:, at].clone()
    cache.index_copy_(1, at, x)
    return row + cache.sum(1, keepdim=True)


def a_view_that_is_read_late(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> Any:
    top = cache.flatten(1)[:, :9].clone()
    cache.index_copy_(1, at - 3, x)
    return torch.special.i0e(top) + cache.flatten(1)[:, :9]


APART: list[Update] = [
    the_old_one_is_read, the_old_one_is_returned, a_row_is_moved, the_old_part_is_read,
    another_part_is_written, both, a_looked_up_row, a_view_that_is_read_late,
]  # fmt: skip


@pytest.mark.parametrize("function", some_of(APART, every=3))
def test_what_is_read_later_is_not_overwritten(function: Update) -> None:
    cache, at, x = some_inputs()
    mine = cache.clone()
    for _ in range(2):
        got = torch.compile(function, backend=host)(mine, at, x)
        torch.testing.assert_close((got, mine), (function(cache, at, x), cache))
    assert len(programs) == 1


def test_a_buffer_that_a_function_holds_is_updated() -> None:
    held = torch.zeros(6, 4)

    def function(at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return held.index_copy_(0, at, x) * 2

    imported = mi.from_torch(Module(held), torch.tensor([1]), torch.ones(1, 4), allow_updates=True)
    assert imported.updates == (2,)
    run = op_by_op(imported.program, {})
    new, got = run(torch.tensor([1]), torch.ones(1, 4))
    assert new is held
    torch.testing.assert_close(got, function(torch.tensor([1]), torch.ones(1, 4)))


class Module(torch.nn.Module):
    def __init__(self, held: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("held", held, persistent=False)

    def forward(self, at: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return self.held.index_copy_(0, at, x) * 2


# ---- plans


def test_only_updated_inputs_are_written_to() -> None:
    for function in IN_PLACE:
        imported = mi.from_torch(function, *some_inputs(), allow_updates=True, allow_fallback=True)
        graph = imported.graph
        pieces = [
            piece
            for step in partition(graph)
            for piece in ([step.graph] if isinstance(step, Part) else calls_of(step))
        ]
        plan = plan_of_pieces(graph, pieces, imported.updates)
        assert plan.writes
        apart = plan_of_pieces(graph, pieces)
        assert not apart.writes
        assert not any(s.in_place for s in apart.steps if isinstance(s, Call))


def test_overlapping_inputs_are_left_to_pytorch() -> None:
    whole = torch.randn(ROWS + 1, LENGTH, WIDTH)
    other = whole.clone()

    def function(cache: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        cache[:, 2:3] = x[:, 0:1] * 2
        return x + cache

    with torch.no_grad():
        got = torch.compile(function, backend=host)(whole[:ROWS], whole[1:])
    torch.testing.assert_close(got, function(other[:ROWS], other[1:]))
    torch.testing.assert_close(whole, other)


def test_a_failure_after_an_update_is_no_silent_repetition() -> None:
    cache, at, x = some_inputs()

    def failing(program: Program, options: Mapping[str, Any]) -> Any:
        graph = program.graph
        pieces = [
            piece
            for step in partition(graph)
            for piece in ([step.graph] if isinstance(step, Part) else calls_of(step))
        ]
        steps = Steps(plan_of_pieces(graph, pieces, program.updates))

        def fail(part: int, tensors: list[torch.Tensor], follows: bool) -> list[torch.Tensor]:
            raise RuntimeError("out of memory")

        return lambda *tensors: steps(tensors, fail, write=True)

    mine = cache.clone()
    with pytest.raises(InterruptedUpdateError, match=r"begun to update its inputs.*out of memory"):
        torch.compile(index_copy, backend=partial(host, compiler=failing))(mine, at, x)
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    mine = cache.clone()  # if nothing is written before, PyTorch does everything
    got = torch.compile(from_the_old, backend=partial(host, compiler=failing))(mine, at, x)
    torch.testing.assert_close((got, mine), (from_the_old(cache, at, x), cache))


# ---- a decoding step


def bytes_of_a_step(length: int) -> tuple[int, int, dict[str, int]]:
    """For a small Llama with a cache of a given length, return the bytes that calls write in a
    decoding step, the bytes of the cache, and the calls."""
    cache_of = pytest.importorskip("transformers").StaticCache
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    module = whole_model("llama3").build()
    fast = torch.compile(module.forward, backend=host)
    ids = torch.randint(3, 90, (2, 1))
    caches = [cache_of(config=module.config, max_cache_len=length) for _ in range(2)]
    for step, cache in enumerate(caches):
        with torch.no_grad():
            for at in range(3):
                place = torch.tensor([at])
                named = {"past_key_values": cache, "cache_position": place, "use_cache": True}
                named["position_ids"] = place[None]
                counted.by_op.clear()
                got = (fast if step else module)(input_ids=ids, **named).logits
                if not step and at == 2:
                    expected = got
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    layers = [(layer.keys, layer.values) for layer in caches[1].layers]
    for mine, theirs in zip(layers, [(x.keys, x.values) for x in caches[0].layers], strict=True):
        torch.testing.assert_close(mine, theirs)
    held = sum(x.numel() * x.element_size() for pair in layers for x in pair)
    return counted.wrote, held, dict(counted.by_op)


def test_a_decoding_step_does_not_copy_its_cache() -> None:
    short, _, _ = bytes_of_a_step(16)
    long, held, calls = bytes_of_a_step(64)
    assert sum(count for name, count in calls.items() if "index_copy_" in name) > 0, calls
    assert "aten.index_copy.default" not in calls
    assert long - short < held / 8, calls  # masks grow with the length
