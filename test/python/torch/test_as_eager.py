"""torch.compile(backend="mirage") behaves like PyTorch: memory, updates, sizes, failures. The
imported program is computed op by op, without a search, since the tests are about the code around
it."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import mirage.torch
import pytest
import torch
from mirage.frontend.errors import GraphTypeError
from mirage.frontend.program import Program
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Measurement
from mirage.torch.compiled_graph import Report
from mirage.torch.graph_compiler import MOST_SIZES, backend
from thorough import some_of
from torch._dynamo.exc import BackendCompilerFailed
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_programs.op_by_op import op_by_op

count = 0


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


def same(got: Any, want: Any) -> None:
    torch.testing.assert_close(got, want, rtol=1e-3, atol=1e-4)


# ---- strides and memory


STRIDED: dict[str, Callable[[torch.Tensor], Any]] = {
    "a transposed result": lambda x: x.t() * 2,
    "a permuted result": lambda x: x.reshape(2, 2, 6).permute(2, 0, 1) + 1.0,
    "a view of an input": lambda x: (x.t(), x[1:, ::2], x * 2),
    "an input": lambda x: (x, x + 1),
    "two views of one result": lambda x: ((y := x * 2), y.t(), y[1:]),
    "parts of a result": lambda x: tuple((x * 2).split(2, dim=1)),
    "a broadcast result": lambda x: (x.sum(1, keepdim=True) * 2).expand(4, 3),
}


@pytest.mark.parametrize("name", some_of(STRIDED, every=2))
def test_results_lie_as_pytorch_lays_them(name: str, caplog: pytest.LogCaptureFixture) -> None:
    x = torch.randn(4, 6)
    got, want = (f(x) for f in (torch.compile(STRIDED[name], backend=host), STRIDED[name]))
    same(got, want)
    got, want = ([r] if isinstance(r, torch.Tensor) else list(r) for r in (got, want))
    assert [y.stride() for y in got] == [y.stride() for y in want]
    for results in (got, want):
        results[-1].fill_(7.0) if 0 not in results[-1].stride() else None
    same(got, want)  # the same tensors share memory in both
    for y, z in zip(got, want, strict=True):
        inside = y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        assert inside == (z.untyped_storage().data_ptr() == x.untyped_storage().data_ptr())
    assert "stays" not in caplog.text


LONG_IN_ONE_DIMENSION: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "a row that becomes a column": lambda x: x[:1].t() * 2,
    "a column": lambda x: x[:, :1] * 2,
    "a sum that keeps its dimension": lambda x: x.sum(1, keepdim=True) + 1,
    "a new dimension in the middle": lambda x: (x * 2).unsqueeze(1).transpose(0, 1),
}


@pytest.mark.parametrize("name", LONG_IN_ONE_DIMENSION)
def test_strides_of_dimensions_of_size_1_are_those_of_fake_tensors(name: str) -> None:
    """Eager ops leave strides there that mean nothing; PyTorch's own compiler does not keep them
    either, but what it plans with are the strides of fake tensors."""
    function = LONG_IN_ONE_DIMENSION[name]
    for x in (torch.randn(4, 6), torch.randn(12, 4).t()[:, ::2]):
        torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
        got, want = torch.compile(function, backend=host)(x), function(x)
        same(got, want)
        with FakeTensorMode() as mode:
            assert got.stride() == function(mode.from_tensor(x)).stride()
        strides = zip(got.shape, got.stride(), want.stride(), strict=True)
        assert all(a == b for size, a, b in strides if size != 1)


INPUTS: dict[str, Callable[[], torch.Tensor]] = {
    "transposed": lambda: torch.randn(6, 4).t(),
    "expanded": lambda: torch.randn(4, 1).expand(4, 6),
    "not aligned": lambda: torch.randn(25)[1:].view(4, 6),
    "with a step": lambda: torch.randn(4, 12)[:, ::2],
}


@pytest.mark.parametrize("name", INPUTS)
def test_inputs_may_lie_anyhow(name: str) -> None:
    x = INPUTS[name]()

    def function(t: torch.Tensor) -> torch.Tensor:
        return torch.softmax(t * 2, dim=-1)

    same(torch.compile(function, backend=host)(x), function(x))
    assert count == 1


# ---- updates


def add_in_place(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y * 2)
    return x * y


def write_a_part(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x[1:3] = y[:2]
    return x, x[1] + 1


def only_write(x: torch.Tensor, y: torch.Tensor) -> None:
    x.mul_(y)


@pytest.mark.parametrize("function", [add_in_place, write_a_part, only_write])
def test_inputs_that_are_written_to(function: Callable[..., Any]) -> None:
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    mine, theirs = x.clone(), x.clone()
    same(torch.compile(function, backend=host)(mine, y), function(theirs, y))
    same(mine, theirs)
    assert count == 1
    if function is not add_in_place:
        return
    with torch.no_grad():  # and which of them share memory
        mine, theirs = x.clone(), x.clone()
        got = torch.compile(function, backend=host)(mine[:2], mine[1:3])
        same(got, function(theirs[:2], theirs[1:3]))
        same(mine, theirs)


class Counter(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(6))
        self.weight = torch.nn.Parameter(torch.ones(6))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += x.sum(0)
        return x * self.weight + self.seen


def test_buffers_are_updated_and_parameters_may_be_replaced() -> None:
    mine, theirs = Counter().requires_grad_(False), Counter().requires_grad_(False)
    fast = torch.compile(mine, backend=host)
    for step in range(3):
        x = torch.randn(4, 6)
        same(fast(x), theirs(x))
        same(mine.seen, theirs.seen)
        for model in (mine, theirs):
            model.weight = torch.nn.Parameter(torch.full((6,), 2.0 + step), requires_grad=False)
    assert count > 0


# ---- sizes


def test_other_sizes_are_compiled_too(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x * 2, dim=-1).reshape(-1, x.shape[0])

    fast = torch.compile(function, backend=host)
    for rows in (4, 5, 7, 5, 4):
        x = torch.randn(rows, 6)
        same(fast(x), function(x))
    assert "stays" not in caplog.text
    assert count == 4  # once unchanged, then for each size of the graph with an unknown one
    assert MOST_SIZES > 4


# ---- failures


def test_whatever_fails_pytorch_does_it(caplog: pytest.LogCaptureFixture) -> None:
    def broken(program: Program, options: Mapping[str, Any]) -> Any:
        raise ZeroDivisionError("by accident")

    def later(program: Program, options: Mapping[str, Any]) -> Any:
        def call(*inputs: torch.Tensor) -> Any:
            raise RuntimeError("no such kernel")

        return call

    for compiler, message in (
        (broken, "a graph of 2 ops stays with PyTorch: ZeroDivisionError: by accident"),
        (later, "a compiled graph continues in PyTorch: RuntimeError: no such kernel"),
    ):
        torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
        x, y = torch.randn(4, 6), torch.randn(4, 6)
        mine, theirs = x.clone(), x.clone()

        def function(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return x.add_(y)

        def twice(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return function(x, y) * 2

        fast = torch.compile(twice, backend=partial(host, compiler=compiler))
        for _ in range(2):
            same(fast(mine, y), twice(theirs, y))
        same(mine, theirs)
        assert caplog.text.count(message) == 1


@pytest.mark.parametrize("named", [{"options": {"candidatse": 3}}, {"mode": "fast"}])
def test_a_misspelled_option_is_an_error(named: dict[str, Any]) -> None:
    with pytest.raises(BackendCompilerFailed, match=r"expected (options|a mode) among"):
        torch.compile(lambda x: x * 2, backend=host, **named)(torch.randn(4))


@pytest.mark.parametrize("mode", ["reduce-overhead", "max-autotune"])
def test_modes_are_accepted(mode: str) -> None:
    x = torch.randn(4, 6)
    same(torch.compile(lambda t: t * 2, backend=host, mode=mode, fullgraph=True)(x), x * 2)
    assert count == 1


def test_autocast_stays_eager(caplog: pytest.LogCaptureFixture) -> None:
    x, w = torch.randn(4, 6), torch.randn(6, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        got = torch.compile(lambda a, b: a @ b, backend=host)(x, w)
    assert got.dtype is torch.bfloat16
    assert "autocast is on" in caplog.text


def test_inference_mode() -> None:
    x = torch.randn(4, 6)
    with torch.inference_mode():
        same(torch.compile(lambda t: torch.softmax(t, -1), backend=host)(x), torch.softmax(x, -1))
    assert count == 1


# ---- explanations


@pytest.mark.parametrize(
    ("model", "got"), [(torch.nn.Tanh, "the class Tanh; pass an object of it"), (3, "got int")]
)
def test_explain_what_is_no_model(model: object, got: str) -> None:
    with pytest.raises(GraphTypeError, match=got) as found:
        mirage.torch.explain(model, torch.ones(2))
    assert found.value.location is not None


def test_explain(caplog: pytest.LogCaptureFixture) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        y = torch.special.i0e(torch.softmax(x, -1))
        torch._dynamo.graph_break()  # pyright: ignore[reportPrivateUsage]
        return y * 2

    x = torch.randn(4, 6)
    found = mirage.torch.explain(model, x, compiler=compiled, devices=("cpu",))
    assert len(found.graphs) == 2
    first, why, second, between = str(found).splitlines()
    assert first == "graph 0: 2 ops, compiled; calls of PyTorch: special_i0e"
    assert why == "  special_i0e: an op without a meaning in Mirage"
    assert second == "graph 1: 1 op, compiled"
    assert between.startswith("between graphs: ")
    assert "stays with PyTorch: input 0 is on cpu" in str(mirage.torch.explain(model, x))
    with caplog.at_level(logging.WARNING):
        again = mirage.torch.explain(model, x, compiler=optimized, devices=("cpu",))
    assert re.search(
        r"graph 1: 1 op, 1 kernel, (\S+) µs predicted \(each op a kernel: \S+, fused ops: \S+\)",
        str(again),
    )
    assert "not expected to be faster" in str(again).splitlines()[-2]  # it is one op
    assert "measured" not in str(again)
    for graph in again.graphs:
        report = graph.compiled.optimized.report  # pyright: ignore
        report.measured = Measurement("an imagined GPU", ((0, 12.5), (1, 13.0)))
    assert str(again).count("12.5 µs measured on an imagined GPU") == 2


def optimized(program: Program, options: Mapping[str, Any]) -> Any:
    found = optimize(program, OptimizeOptions.of(candidates=1, jobs=1, **options))
    return _Emulated(found)


class _Emulated:
    def __init__(self, found: Any) -> None:
        self.optimized = found

    def __call__(self, *inputs: torch.Tensor) -> Any:
        return emulate(self.optimized, *inputs)


def test_strides_that_change_are_those_of_each_call(caplog: pytest.LogCaptureFixture) -> None:
    def model(x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x.mean((2, 3), keepdim=True))

    compiled = torch.compile(model, backend=host)
    for layout in (torch.contiguous_format, torch.channels_last, torch.contiguous_format):
        x = torch.randn(2, 8, 4, 4).to(memory_format=layout)
        got, want = compiled(x), model(x)
        same(got, want)
        assert got.stride() == want.stride()
    x = torch.randn(2, 8, 4, 16)[..., ::4]
    assert compiled(x).stride() == model(x).stride()
    assert "stays" not in caplog.text


def test_sizes_that_change_in_inference_mode(caplog: pytest.LogCaptureFixture) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.GELU())
    compiled = torch.compile(module, backend=host)
    with torch.inference_mode():
        for rows in (3, 5, 6):
            x = torch.randn(rows, 8)
            got = compiled(x)
            same(got, module(x))
            assert got.is_inference()
    assert "stays" not in caplog.text


def test_results_may_be_complex() -> None:
    def function(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        turn = torch.polar(torch.ones_like(x), x * 2.0)
        return turn, turn.transpose(0, 1), (turn * turn)[:, None]

    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    reports: list[Report] = []
    host = partial(backend, compiler=op_by_op, devices=("cpu",), watch=reports.append)
    x = torch.randn(2, 3, 4)
    for got, want in zip(torch.compile(function, backend=host)(x), function(x), strict=True):
        torch.testing.assert_close(got, want)
        assert got.stride() == want.stride()
    assert [report.reason for report in reports] == [""]
