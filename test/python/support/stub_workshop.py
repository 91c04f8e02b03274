"""Compile processes that tests control, and callers that wait for events instead of time."""

from __future__ import annotations

import fcntl
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirage.torch.workshop import Workshop

HANGS = 1800.0
"""Seconds after which a test counts as hanging; no expected event takes this long on any
machine."""


def until(what: Callable[[], object]) -> None:
    end = time.monotonic() + HANGS
    while not what():
        assert time.monotonic() < end, "it hangs"
        time.sleep(0.01)


def settled(graph: Any) -> None:
    """Wait until a graph has kernels, or will not get any."""
    job = graph.job
    assert job is None or job.finished.wait(HANGS)
    assert graph.compiled is not None or graph.reason


def idle() -> None:
    """Wait until no thread has a job."""
    for thread in threading.enumerate():
        if thread.name == "mirage-compile":
            thread.join(HANGS)


class Gate:
    """Compile processes that execute ``code`` wait there until the gate is open."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self.code = f"import fcntl; fcntl.flock(open({str(path)!r}), fcntl.LOCK_SH)"

    def open(self) -> None:
        self._file.close()


# A compile process without a search: its command contains its answer.
STUB = """
import os, signal, sys, time
from mirage.pipeline.commands import compile_process as c
requests, answers = sys.stdin.buffer, os.fdopen(os.dup(1), "wb")
os.dup2(2, 1)
number = 0
while True:
    try:
        request = c.read_message(requests)
    except EOFError:
        break
    number += 1
    {what}
    c.write_message(answers, {{"entries": {{}}}})
"""


def stub(what: str = "pass", processes: int = 1) -> Workshop:
    return Workshop(processes, (sys.executable, "-c", STUB.format(what=what)))
