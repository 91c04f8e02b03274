"""Processes that share the work: forks, new interpreters if this process cannot be forked, and none
if there is no memory for any."""

from __future__ import annotations

import errno
import logging
import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import mirage
import pytest
from mirage.pipeline import worker_processes as module
from mirage.pipeline.worker_processes import worker_processes


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """This process uses so much memory that there is room for one copy of it, but not for two."""
    fork, started = os.fork, list[int]()

    def once() -> int:
        started.append(0)
        if len(started) > 1:
            raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))
        return fork()

    monkeypatch.setattr(os, "fork", once)
    return started


def test_a_process_that_cannot_be_copied_starts_new_ones(
    large: list[int], caplog: pytest.LogCaptureFixture
) -> None:
    before = set(multiprocessing.active_children())
    with caplog.at_level("INFO", "mirage.pipeline"), worker_processes(2) as pool:
        assert pool is not None
        assert os.getpid() not in {pool.submit(os.getpid).result() for _ in range(8)}
    assert len(large) > 1
    assert "this process cannot be copied (Cannot allocate memory): new ones" in caplog.text
    for worker in set(multiprocessing.active_children()) - before:
        end = time.monotonic() + 120.0  # it may still be starting
        while worker.is_alive() and time.monotonic() < end:
            worker.join(0.1)  # a thread of the pool may be the one that is notified of the end
        assert not worker.is_alive()


def test_a_large_process_optimizes_in_full(large: list[int]) -> None:
    """Its workers find the same as a single process."""
    del large[:]
    graph = mirage.new_kernel_graph()
    graph.mark_output(graph.rms_norm(graph.new_input((16, 64), mirage.float16)))
    options: dict[str, Any] = {
        "chip": "sm_90a", "candidates": 1, "finalists": 1, "use_cache": False, "compile": False,
        "verify_seed": 0,
    }  # fmt: skip
    alone, shared = (graph.superoptimize(jobs=jobs, **options) for jobs in (1, 2))
    assert len(large) > 1
    assert shared.mlir == alone.mlir
    assert not shared.report.notes


SCRIPT = """
import errno, os, sys
from mirage.pipeline.worker_processes import worker_processes

def fork():
    raise OSError(errno.ENOMEM, os.strerror(errno.ENOMEM))

print("the script")
os.fork = fork
with worker_processes(2) as pool:
    print(pool.submit(os.getppid).result() == os.getpid())
print(sys.modules["__main__"].__file__ == __file__)
"""


def test_new_processes_do_not_run_the_script(tmp_path: Path) -> None:
    """It has no guard."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    ran = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=60, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines() == ["the script", "True", "True"]


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.ENOSPC])
def test_without_room_for_workers(
    number: int, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def no_pool(*_: object, **__: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(module, "_Workers", no_pool)
    with worker_processes(3) as pool:
        assert pool is None
    said = f"no processes can be started to share the work ({os.strerror(number)}): one does it all"
    assert said in caplog.text


def _warns() -> bool:
    return logging.getLogger("mirage.cache").isEnabledFor(logging.WARNING)


def test_their_parent_says_what_is_wrong_with_the_cache() -> None:
    assert _warns()
    with worker_processes(2) as pool:
        if pool is not None:
            assert not pool.submit(_warns).result()
