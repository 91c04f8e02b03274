"""Graphs that cannot be imported as a whole: what can be is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from mirage.frontend.torch_import.capture.kept_state import kept_state
from mirage.torch import import_once, import_process
from mirage.torch.compiled_graph import Report
from mirage.torch.graph_compiler import backend
from mirage.torch.workshop import Job, Workshop
from stub_workshop import stub
from thorough import thorough
from torch.autograd import forward_ad
from torch.fx import GraphModule
from torch_programs.op_by_op import op_by_op

Tensor = torch.Tensor
X = torch.randn(4, 6, generator=torch.Generator().manual_seed(5))


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRAGE_FRESH", raising=False)
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


def mapped(x: Tensor) -> Tensor:
    y = torch.relu(x) * 2
    return torch.func.vmap(lambda i: y[i] * 2)(torch.arange(3)) + x.exp().sum()


def gradient(x: Tensor) -> Tensor:
    return torch.func.grad(lambda y: (y * y).sum())(x * 2) + x.exp()


def jacobian(x: Tensor) -> Tensor:
    """Its gradients are computed in a second region, from tensors of the first."""
    return torch.func.jacrev(torch.sin)(x[0] * 2) + x.exp().sum()


def hessian(x: Tensor) -> Tensor:
    return torch.func.hessian(lambda y: (y**3).sum())(x[0] * 2) + x.exp().sum()


def quantized(x: Tensor) -> Tensor:
    y = torch.quantize_per_tensor(x * 2, 0.1, 10, torch.quint8)
    return y.dequantize().exp() + x


def lists(x: Tensor) -> Tensor:
    first, second = torch._foreach_add([x.exp(), x * 2], 1.0)
    return first[:, :3] @ second[:3] + 1


def of_spectra(x: Tensor) -> Tensor:
    window = torch.hann_window(8)
    found = torch.stft(x.reshape(1, -1), 8, return_complex=True, window=window)
    return torch.istft(found * 2, 8, window=window).exp()


PROGRAMS: list[Any] = [
    (mapped, 2),
    (gradient, 2),
    (quantized, 2),
    (lists, 2),
    thorough(jacobian, 2),
    thorough(hessian, 2),
    thorough(of_spectra, 2),
]
"""With the number of graphs that are compiled."""


@pytest.mark.parametrize(("function", "compiled"), PROGRAMS)
def test_the_rest_is_compiled(function: Callable[[Tensor], Tensor], compiled: int) -> None:
    reports: list[Report] = []
    host = partial(backend, compiler=op_by_op, devices=("cpu",), watch=reports.append)
    with torch.no_grad():
        got, want = torch.compile(function, backend=host)(X), function(X)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-4)
    assert got.stride() == want.stride()
    assert sum(report.compiled is not None for report in reports) == compiled
    assert sum(bool(report.reason) for report in reports) == 1


def test_sizes_of_data_are_not_tried() -> None:
    def chosen(x: Tensor) -> Tensor:
        y = (x * 2).exp()
        return y[y > 1].sum() + y.tanh()

    reports: list[Report] = []
    host = partial(backend, compiler=op_by_op, devices=("cpu",), watch=reports.append)
    captured = torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True)  # pyright: ignore
    with captured:
        torch.testing.assert_close(torch.compile(chosen, backend=host)(X), chosen(X))
    assert [bool(report.compiled) for report in reports] == [True, False, True]


def test_what_cannot_be_imported_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    imported: list[GraphModule] = []
    real = import_once.import_graph

    def counted(module: GraphModule, *rest: Any) -> Any:
        imported.append(module)
        return real(module, *rest)

    monkeypatch.setattr(import_once, "import_graph", counted)
    host = partial(backend, compiler=op_by_op, devices=("cpu",))
    for left in (True, False):
        torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
        torch.testing.assert_close(torch.compile(mapped, backend=host)(X), mapped(X))
        assert bool(imported) is left
        imported.clear()


def test_a_combination_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each op can be imported alone; the graph is cut in halves until all pieces are imported."""
    real = import_once.import_graph

    def picky(module: GraphModule, inputs: Sequence[Any]) -> Any:
        if {"exp", "tanh"} <= {str(n.target) for n in module.graph.nodes}:
            raise ZeroDivisionError("by accident")
        return real(module, inputs)

    monkeypatch.setattr(import_once, "import_graph", picky)
    reports: list[Report] = []
    host = partial(backend, compiler=op_by_op, devices=("cpu",), watch=reports.append)

    def function(x: Tensor) -> Tensor:
        return (x.exp() * 2).relu().tanh() + x

    torch.testing.assert_close(torch.compile(function, backend=host)(X), function(X))
    assert [bool(report.compiled) for report in reports] == [True, True]


class Here:
    """Does in this process what another one does for a :class:`Workshop`."""

    def submit(self, job: Job) -> Job:
        answered = import_process.answer(dict(job.request), None)
        job.entries, job.error = answered.get("entries"), answered.get("error", "")
        job.done(job)
        job.finished.set()
        return job


def test_another_process_says_what_cannot_be_imported() -> None:
    def loaded(program: Any, options: Mapping[str, Any]) -> Any:
        return op_by_op(program, options)

    reports: list[Report] = []
    host = partial(
        backend, devices=("cpu",), workshop=stub(), importer=cast(Workshop, Here()), load=loaded,
        watch=reports.append, options={"chip": "sm_90a"},
    )  # fmt: skip
    fast = torch.compile(mapped, backend=host)
    for _ in range(3):
        torch.testing.assert_close(fast(X), mapped(X))
    whole, *pieces = reports
    assert "vmap" in whole.cut
    assert [bool(report.reason) for report in pieces] == [False, True, False]


def test_regions_of_forward_gradients_end_with_an_error() -> None:
    @kept_state
    def fails() -> None:
        forward_ad.enter_dual_level()
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fails()
    with forward_ad.dual_level():  # it would be nested in the first
        assert forward_ad.make_dual(X, X) is not None
