"""Results with the elements of an input, in separate memory as in PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from mirage.frontend.torch_import import export_program, from_torch
from mirage.pipeline.commands.interface import interface_of
from mirage.semantics.ugraph import Cast
from mirage.torch.graph_compiler import backend
from torch_programs.op_by_op import op_by_op

host = partial(backend, compiler=op_by_op, devices=("cpu",))

COPIES: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "one tensor joined": lambda x: torch.cat([x]),
    "repeated once": lambda x: x.repeat(1, 1),
    "a copy to the same type": lambda x: x.to(torch.float32, copy=True),
    "one row, reversed": lambda x: x.flip(0),
    "no padding": lambda x: torch.nn.functional.pad(x, (0, 0)),
    "the maximum of one number": lambda x: x[0, 0].max(),
    "a view of a join": lambda x: torch.cat([x]).t(),
}


@pytest.mark.parametrize("name", COPIES)
def test_no_memory_is_shared_that_pytorch_does_not_share(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    copy = COPIES[name]

    def model(x: torch.Tensor) -> Any:
        y = x * 2
        return copy(x), copy(x), y, copy(y), y.view(-1)

    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    x = torch.randn(1, 8)
    want, got = model(x), torch.compile(model, backend=host)(x)
    assert [y.stride() for y in got] == [y.stride() for y in want]
    for results in (want, got):
        for number, y in enumerate(results[:4]):
            y.fill_(number)
    torch.testing.assert_close(got, want)
    assert not (x == 0).any()
    assert "PyTorch" not in caplog.text


@pytest.mark.parametrize("name", COPIES)
def test_an_import_alone_does_not_share_it_either(name: str) -> None:
    copy = COPIES[name]

    def model(x: torch.Tensor) -> Any:
        y = x * 2
        return copy(x), copy(x), y, copy(y)

    x = torch.randn(1, 8)
    before, want = x.clone(), model(x)
    got = op_by_op(from_torch(model, x).program, {})(x)
    for results in (want, got):
        for number, y in enumerate(results):
            y.fill_(number)
    for a, b in zip(got, want, strict=True):
        torch.testing.assert_close(a, b)
    torch.testing.assert_close(x, before)


def test_an_import_hands_out_what_pytorch_hands_out() -> None:
    """Results that are an input's memory, or a weight's, take no copies."""
    linear = torch.nn.Linear(8, 8)

    def model(x: torch.Tensor) -> Any:
        return x, x.view(-1), linear(x), x.contiguous()

    graph = from_torch(model, torch.randn(1, 8)).graph
    assert not [op for op in graph.ops if isinstance(op, Cast)]
    assert [i for i, v in enumerate(graph.outputs) if v in graph.inputs] == [0, 3]


def test_a_result_beside_its_update_has_memory_of_its_own() -> None:
    def model(cache: torch.Tensor, at: torch.Tensor, x: torch.Tensor) -> Any:
        cache.index_copy_(0, at, x)
        return cache, torch.cat([cache])

    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    inputs = torch.zeros(4, 8), torch.tensor([2]), torch.randn(1, 8)
    same, copy = torch.compile(model, backend=host)(*inputs)
    assert same.data_ptr() == inputs[0].data_ptr()
    torch.testing.assert_close(copy, inputs[0])
    copy.fill_(7.0)
    assert not (inputs[0] == 7.0).any()


def test_results_of_an_export_are_no_inputs() -> None:
    def model(x: torch.Tensor) -> Any:
        return torch.cat([x]), x.flip(0), x, x.t()

    exported = export_program(model, [torch.randn(1, 8)])
    program, _ = interface_of(exported, from_torch(exported))
    assert len(program.graph.outputs) == 2
    assert not set(program.graph.outputs).intersection(program.graph.inputs)
