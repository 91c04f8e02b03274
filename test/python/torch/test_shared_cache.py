"""A whole tiny model with a cache that is shared, full or not writable: it runs, and at most one
line says what was not kept."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from mirage.cache import Store, shared_store
from mirage.cache import store as store_module
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.torch.graph_compiler import backend
from stub_workshop import HANGS
from thorough import some_of

OPTIONS: dict[str, Any] = {
    "chip": "sm_90a", "candidates": 1, "finalists": 1, "jobs": 1, "cubin": False, "budget": 1000.0,
    "bounds": {"plans": 1, "cuts": 4, "columns": 20, "derivations": 1, "samples": 1},
}  # fmt: skip


class Tiny(torch.nn.Module):
    """A model of one layer."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.up, self.down = torch.nn.Linear(8, 16), torch.nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


X = torch.linspace(-1, 1, 16).reshape(2, 8)


def started() -> tuple[torch.Tensor, list[str]]:
    """Return the results of the model's kernels, and the remarks on its search."""
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    notes: list[str] = []

    def compiler(program: Any, options: Any) -> Any:
        found = optimize(program, OptimizeOptions.of(**options))
        notes.extend(found.report.notes)
        assert found.artifacts
        return partial(emulate, found)

    chosen = partial(backend, compiler=compiler, devices=("cpu",), options=OPTIONS)
    with torch.no_grad():
        return torch.compile(Tiny(), backend=chosen)(X), notes


def right(got: torch.Tensor) -> None:
    with torch.no_grad():
        torch.testing.assert_close(got, Tiny()(X), rtol=1e-4, atol=1e-5)


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MIRAGE_FRESH", raising=False)
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name.startswith("mirage")
            and r.levelno >= logging.WARNING]  # fmt: skip


@pytest.mark.parametrize("number", some_of([errno.ENOSPC, errno.EROFS], every=2))
def test_a_disk_that_takes_nothing(
    number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(store_module.tempfile, "mkstemp", fails)
    right(started()[0])
    (line,) = lines(caplog)
    assert "cannot be written" in line
    assert os.strerror(number) in line
    assert not list(shared_store().entries())


def test_a_disk_that_fills_up(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Half of a file is written, then the disk is full: no entry is incomplete."""
    real, count = os.fdopen, 0

    class Full:
        def __init__(self, handle: int, mode: str) -> None:
            self.file = real(handle, mode)

        def __enter__(self) -> Full:
            return self

        def __exit__(self, *_: object) -> None:
            self.file.close()

        def write(self, content: bytes) -> None:
            nonlocal count
            count += 1
            if count <= 2:
                self.file.write(content)
                return
            self.file.write(content[: len(content) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(store_module.os, "fdopen", Full)
        right(started()[0])
    assert count > 3
    (line,) = lines(caplog)
    assert "cannot be written" in line
    entries = list(shared_store().entries(headers=True))
    assert len(entries) == 2
    assert all(entry.header is not None for entry in entries)
    folder = shared_store().folder
    assert folder is not None
    assert not [path for path in folder.rglob("*") if path.suffix == ".part"]
    right(started()[0])  # with free space again
    assert len(lines(caplog)) == 1


def test_a_folder_that_is_only_read(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Results of an earlier run are used."""
    right(started()[0])
    monkeypatch.setattr(Store, "put_file", lambda *_: pytest.fail("wrote"))
    got, notes = started()
    right(got)
    assert any(note.startswith("found before") for note in notes)
    assert not lines(caplog)


def start(barrier: Any, answers: Any) -> None:
    """A process that starts the model together with others, and what it logs."""
    said: list[str] = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    logging.getLogger("mirage").addHandler(handler)
    barrier.wait()
    got, _ = started()
    answers.put((got.tolist(), said))


def test_two_processes_that_start_at_once(caplog: pytest.LogCaptureFixture) -> None:
    context = multiprocessing.get_context("fork")
    barrier, answers = context.Barrier(2), context.SimpleQueue()
    both = [context.Process(target=start, args=(barrier, answers)) for _ in range(2)]
    for process in both:
        process.start()
    for process in both:
        process.join(HANGS)
        assert process.exitcode == 0
    for _ in both:
        got, said = answers.get()
        right(torch.tensor(got))
        assert not said
    entries = list(shared_store().entries(headers=True))
    assert {"import", "program", "code"} <= {entry.kind for entry in entries}
    assert all(entry.header is not None for entry in entries)
    got, notes = started()
    right(got)
    assert any(note.startswith("found before") for note in notes)
    assert not lines(caplog)
