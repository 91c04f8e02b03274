"""Graphs with a dynamic size are imported by another process, one class of sizes at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from mirage.frontend.errors import DynamicShapeError
from mirage.pipeline.sized_source import SizedSource, sized_source
from mirage.torch import import_process, sized_graph
from mirage.torch.background import entries_in_memory
from mirage.torch.compiled_graph import Report
from mirage.torch.graph_compiler import backend
from mirage.torch.graph_message import GraphMessage, message_of
from mirage.torch.graph_rows import Rows, rows_of
from mirage.torch.kept_sizes import kept_sizes
from mirage.torch.sized_graph import SizedClass
from mirage.torch.sized_import import at_size, import_sized, sized_text
from mirage.torch.workshop import Job, Workshop
from torch.fx import GraphModule
from torch_programs.any_size import any_size

CHIP: dict[str, Any] = {"chip": "sm_90a"}
W = torch.randn(8, 4)

reports: list[Report] = []


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reports.clear()
    monkeypatch.delenv("MIRAGE_FRESH", raising=False)
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]


@pytest.fixture
def nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported in this process."""

    def never(*_: Any, **__: Any) -> Any:
        raise AssertionError("it is imported here")

    monkeypatch.setattr(sized_graph, "import_sized", never)


class Answers(Workshop):
    """The other process, which answers when the test says so."""

    def __init__(self) -> None:
        super().__init__(1, ("/bin/false",))
        self.asked: list[Job] = []

    def submit(self, job: Job) -> Job:
        self.asked.append(job)
        return job

    def answer(self, nothing: bool = False) -> None:
        (job,), self.asked = self.asked, []
        found: dict[str, Any] = {"entries": {}}
        if not nothing:
            found = import_process.answer(dict(job.request), None)
        job.entries, job.error = found.get("entries"), found.get("error", "")
        job.done(job)


class Kernels(Workshop):
    """The process that finds kernels, which it does at once."""

    def submit(self, job: Job) -> Job:
        job.entries = {}
        job.done(job)
        return job


def host(importer: Workshop, load: Any = any_size) -> Any:
    return partial(
        backend, devices=("cpu",), workshop=Kernels(), importer=importer, load_class=load,
        options=CHIP, watch=reports.append,
    )  # fmt: skip


def layer(x: torch.Tensor) -> Any:
    y = torch.special.i0e(x @ W) * torch.tensor([1.0, 2.0, 4.0, 8.0])
    start = W[:1].expand(x.shape[0], 1, 4)
    return torch.cat([start, y], 1).reshape(x.shape[0] * 4, 4), x[:, 1:]


def same(function: Callable[..., Any], fast: Callable[..., Any], n: int) -> None:
    x = torch.randn(n, 3, 8)
    got, want = fast(x), function(x)
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)
    many = isinstance(want, tuple)
    for a, b in zip(*(t if many else (t,) for t in (got, want)), strict=True):
        assert a.stride() == b.stride()


# ---- end to end


@pytest.mark.usefixtures("nowhere")
def test_a_class_is_imported_by_the_process_when_it_first_occurs() -> None:
    importer = Answers()
    fast = torch.compile(layer, backend=host(importer), dynamic=True)
    same(layer, fast, 5)  # PyTorch answers
    (report,) = reports
    assert report.job is importer.asked[0]
    assert report.compiled is None
    same(layer, fast, 6)
    assert len(importer.asked) == 1
    importer.answer()
    assert report.compiled is not None
    assert report.calls == ("aten.special_i0e",)
    assert report.sizes.endswith(" up to 8")
    for n in (5, 6, 7, 8):
        same(layer, fast, n)
    assert not importer.asked
    same(layer, fast, 9)
    assert len(importer.asked) == 1


@pytest.mark.usefixtures("nowhere")
def test_a_later_start_needs_no_process() -> None:
    first = Answers()
    same(layer, torch.compile(layer, backend=host(first), dynamic=True), 5)
    first.answer()
    reports.clear()
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    later = Answers()
    fast = torch.compile(layer, backend=host(later), dynamic=True)
    same(layer, fast, 7)
    assert reports[0].compiled is not None
    assert not later.asked
    same(layer, fast, 6)


def test_rows_that_depend_on_each_other_are_imported_at_each_size(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0)

    importer = Answers()
    fast = torch.compile(function, backend=host(importer), dynamic=True)
    same(function, fast, 5)
    importer.answer()
    assert "does not depend on the size" in reports[0].reason
    with caplog.at_level(logging.INFO, "mirage.torch"):
        same(function, fast, 5)
    assert "is compiled for each size, not for any s" in caplog.text
    (job,) = importer.asked
    assert job.request["graph"].rows is None
    same(function, fast, 6)
    assert len(importer.asked) == 2


def test_what_cannot_be_handed_over_is_imported_here() -> None:
    importer = Answers()
    fast = torch.compile(layer, backend=host(importer), dynamic=True)
    same(layer, fast, 5)
    importer.answer(nothing=True)
    assert reports[0].compiled is None
    same(layer, fast, 5)  # imports it
    assert reports[0].compiled is not None
    same(layer, fast, 7)


def test_sizes_below_the_least_of_the_smallest_class() -> None:
    """A class of sizes from 4 to 8; sizes up to 4 are usually a separate class."""
    found: list[SizedClass] = []

    def load(known: SizedClass, options: Any) -> Any:
        found.append(known)
        return any_size(known, options)

    importer = Answers()
    fast = torch.compile(layer, backend=host(importer, load))
    x = torch.randn(4, 3, 8)
    torch._dynamo.mark_dynamic(x, 0, min=4, max=64)  # pyright: ignore[reportPrivateUsage]
    fast(x)
    importer.answer()
    assert [(f.source.least, f.source.most) for f in found] == [(4, 8)]
    torch.testing.assert_close(fast(x), layer(x))


# ---- the message, and kept entries


def traced(function: Any, n: int = 5) -> tuple[GraphModule, Rows, list[Any]]:
    """The graph that TorchDynamo hands over, its rows, and inputs."""
    found: list[tuple[GraphModule, Rows, list[Any]]] = []

    def capture(module: GraphModule, inputs: list[Any], **_: Any) -> Any:
        rows = rows_of(module)
        assert rows is not None

        def call(*given: Any) -> Any:
            found.append((module, rows, list(given)))
            return module.forward(*given)

        return call

    with torch.no_grad():
        torch.compile(function, backend=capture, dynamic=True)(torch.randn(n, 3, 8))
    (one,) = found
    return one


def sent(module: GraphModule, rows: Rows, inputs: list[Any], most: int) -> GraphMessage:
    stated = at_size(rows, inputs, most)
    message = message_of(module, stated, sized_text(module, rows, stated), rows)
    assert message is not None
    return message


def test_the_process_imports_the_same_class() -> None:
    module, rows, inputs = traced(layer)
    message = sent(module, rows, inputs, 8)
    answered = import_process.answer({"graph": message, "kept": False}, None)
    made: list[torch.Tensor] = []
    with entries_in_memory(answered["entries"]):
        found = kept_sizes(message.text, module, rows, inputs, 8, made)
    mine = import_sized(module, rows, inputs)
    assert found is not None
    assert made
    assert (found.calls, found.reasons) == (mine.calls, mine.reasons)

    def computed(source: SizedSource, x: torch.Tensor) -> Any:
        tensors = tuple(i for i, x in enumerate(inputs) if isinstance(x, torch.Tensor))
        known = SizedClass(source, rows.name, Report(0), rows, tensors)
        given = [x if i in rows.tensors else y for i, y in enumerate(inputs) if i in tensors]
        return any_size(known, {})(*given)

    mine_at, found_at = (sized_source(s.sizes, 8) for s in (mine, found))
    assert mine_at.inputs == found_at.inputs
    assert mine_at.outputs == found_at.outputs
    assert len(mine_at.calls) == len(found_at.calls)
    for n in (5, 7, 8):
        x = torch.randn(n, 3, 8)
        torch.testing.assert_close(computed(found_at, x), computed(mine_at, x), rtol=0, atol=0)


def test_the_text_does_not_depend_on_the_first_size() -> None:
    texts: list[str] = []
    for n in (5, 7):
        torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
        texts.append(sent(*traced(layer, n), 8).text)
    assert texts[0] == texts[1]


def test_other_rows_have_another_text() -> None:
    module, rows, inputs = traced(layer)
    message = sent(module, rows, inputs, 8)
    other = Rows(rows.name, rows.least, rows.most + 1, rows.tensors, rows.numbers, rows.varying)
    assert sized_text(module, other, at_size(rows, inputs, 8)) != message.text
    assert sent(module, rows, inputs, 32).text != message.text
    assert message.is_told_by(module)


def test_an_entry_that_is_damaged_counts_as_absent() -> None:
    module, rows, inputs = traced(layer)
    message = sent(module, rows, inputs, 8)
    entries = import_process.answer({"graph": message, "kept": False}, None)["entries"]
    broken = {key: data.replace(b'"largest"', b'"smallest"') for key, data in entries.items()}
    assert broken != entries
    with entries_in_memory(broken):
        assert kept_sizes(message.text, module, rows, inputs, 8, []) is None


def test_regions_of_autocast_have_one_program_for_each_size() -> None:
    """Their casts are found by tracing, which fixes the size."""

    def function(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return x @ W

    module, rows, inputs = traced(function)
    with pytest.raises(DynamicShapeError, match="a region of autocast"):
        import_sized(module, rows, inputs)
