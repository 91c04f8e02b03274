"""A full disk, simulated by the limit of file sizes: programs run, and one line says why something
is missing."""

from __future__ import annotations

import errno
import resource
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import mirage
import pytest
from mirage.compiler import compile as compile_module

FULL = OSError(errno.ENOSPC, "No space left on device")


@contextmanager
def no_room() -> Generator[None]:
    """No file grows in this block. A fixture would last too long: pytest reports that a test passed
    before it ends its fixtures, and its output may be a file."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def graph() -> Any:
    builder = mirage.new_kernel_graph()
    x = builder.new_input((16, 64), mirage.float16)
    builder.mark_output(builder.rms_norm(x))
    return builder


def test_a_program_is_optimized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path / "cache"))
    compile_module._warn_once.cache_clear()  # pyright: ignore[reportPrivateUsage]
    with no_room():
        optimized = graph().superoptimize(
            chip="sm_90a", candidates=1, finalists=1, jobs=1, check_kernels=False
        )
    assert optimized.kernels == 1
    (kept,) = (r for r in caplog.records if r.name == "mirage.cache")
    assert "results are not kept" in kept.getMessage()


@pytest.mark.parametrize("when", ["before it starts", "while it writes"])
def test_without_room_for_the_assembler(
    when: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_folder(*_: object, **__: object) -> None:
        raise FULL

    def cut_off(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        if "-o" in command:  # except if it is asked for its version
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
