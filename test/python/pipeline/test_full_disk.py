"""A disk that is full, as the limit of file sizes pretends: programs run, and one line says why
something is missing."""

from __future__ import annotations

import errno
import multiprocessing
import os
import resource
import subprocess
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import mirage
import pytest
from mirage.compiler import compile as compile_module
from mirage.pipeline import options as pipeline_options
from mirage.pipeline.options import OptimizeOptions

FULL = OSError(errno.ENOSPC, "No space left on device")


@pytest.fixture
def full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    compile_module._warn_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def graph() -> Any:
    builder = mirage.new_kernel_graph()
    x = builder.new_input((16, 64), mirage.float16)
    builder.mark_output(builder.rms_norm(x))
    return builder


@pytest.mark.usefixtures("full")
def test_a_program_is_optimized(caplog: pytest.LogCaptureFixture) -> None:
    optimized = graph().superoptimize(
        chip="sm_90a", candidates=1, finalists=1, jobs=1, check_kernels=False
    )
    assert optimized.kernels == 1
    (kept,) = (r for r in caplog.records if r.name == "mirage.cache")
    assert "what is found and compiled is not kept" in kept.getMessage()


@pytest.mark.parametrize("when", ["before it starts", "while it writes"])
def test_without_room_for_the_assembler(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_folder(*_: object, **__: object) -> None:
        raise FULL

    def cut_off(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "-o" in command:  # not where it is asked for its version
            Path(command[-1]).write_bytes(b"\x7fELF")
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr("mirage.compiler.compile.find_ptxas", lambda: "ptxas")
    monkeypatch.setattr("mirage.compiler.ptxas.find_ptxas", lambda: "ptxas")
    monkeypatch.setattr("mirage.compiler.compile.ptxas_version", lambda path: "0.0")
    if when == "before it starts":
        monkeypatch.setattr(tempfile, "TemporaryDirectory", no_folder)
    else:
        monkeypatch.setattr(subprocess, "run", cut_off)
    compile_module._warn_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    text = (
        graph()
        .superoptimize(chip="sm_90a", candidates=1, finalists=1, jobs=1, compile=False)
        .mlir["selected"]
    )
    for _ in range(2):
        compiled = compile_module.compile_text(text, compile_module.CompileOptions("sm_90a"))
        assert not compiled.from_cache
        assert "the driver compiles it on loading" in compiled.notes[0]
        assert compiled.artifact.manifest.modules[0].cubin is None
    (said,) = (r for r in caplog.records if r.name == "mirage.compiler")
    assert "ptxas has no room for its files (" in said.getMessage()


def test_without_memory_for_all_workers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A process that holds much memory may have too little for copies of itself."""
    fork, started = os.fork, list[int]()

    def once() -> int:
        if started:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        started.append(0)
        return fork()

    monkeypatch.setattr(os, "fork", once)
    before = set(multiprocessing.active_children())
    with OptimizeOptions(jobs=3, chip="sm_90a").workers() as pool:
        assert pool is None
    assert started
    assert "no processes can be started to share the work (Cannot allocate memory" in caplog.text
    for worker in set(multiprocessing.active_children()) - before:
        worker.join(5.0)
        assert not worker.is_alive()


def test_without_room_for_workers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_pool(*_: object, **__: object) -> None:
        raise FULL

    monkeypatch.setattr(pipeline_options, "_Workers", no_pool)
    with OptimizeOptions(jobs=3, chip="sm_90a").workers() as pool:
        assert pool is None
    assert "no processes can be started to share the work (No space left" in caplog.text
