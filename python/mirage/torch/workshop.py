"""Graphs are imported and programs are optimized in separate processes while PyTorch answers calls.

A process is a new interpreter, never a fork of one that may use CUDA. Their number is small,
whatever the number of graphs; each process answers one request after the other and ends when no
work is left. If one is killed or fails, only its current request is lost. All end with this
process.
"""

from __future__ import annotations

import atexit
import logging
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import mirage
from mirage.errors import MirageError
from mirage.pipeline.commands.compile_process import Entries, read_message, write_message

COMMAND = (sys.executable, "-m", "mirage.pipeline.commands.compile_process")
PROCESSES = 1
"""The number of processes at a time; each searches with all processors."""
PATIENCE = 600.0
"""The seconds that an answer may take, in addition to ten times the budget of a search."""
GRACE = 60.0
"""The seconds that a process may take to end once it has no more requests."""


class CompileProcessError(MirageError):
    """A compile process failed; the message says how."""


@dataclass(eq=False)
class Job:
    """A request that another process answers within ``patience`` seconds. ``doing`` describes the
    current activity, which is ``begins`` at first; at the end there are ``entries`` of the cache,
    or an ``error``."""

    request: Mapping[str, Any]
    done: Callable[[Job], None]
    patience: float = PATIENCE
    begins: str = "is optimized"
    doing: str = "waits for a compile process"
    started: float = field(default_factory=time.monotonic)
    entries: Entries | None = None
    error: str = ""
    finished: threading.Event = field(default_factory=threading.Event)

    @property
    def seconds(self) -> float:
        """The seconds since the job was submitted."""
        return time.monotonic() - self.started


class Workshop:
    """At most ``processes`` processes, each started by ``command``. The environment variable
    ``MIRAGE_COMPILE_PROCESSES`` gives the default number. A process ends if there has been no work
    for ``linger`` seconds."""

    def __init__(
        self,
        processes: int | None = None,
        command: Sequence[str] = COMMAND,
        linger: float = 0.0,
    ) -> None:
        self.processes = _processes() if processes is None else processes
        self.command = tuple(command)
        self.linger = linger
        self.closed = False
        """Whether this process ends."""
        self._lock = threading.Condition()
        self._idle = 0  # threads that wait for work
        self._jobs: deque[Job] = deque()
        self._workers: set[threading.Thread] = set()
        self._children: set[subprocess.Popen[bytes]] = set()
        self._owner = os.getpid()
        atexit.register(self.close)

    def submit(self, job: Job) -> Job:
        """Submit a job, and return it. Its ``done`` is called in another thread when it is
        finished."""
        with self._lock:
            if self._owner != os.getpid():  # this process is a fork of the one that had the threads
                self._workers, self._children, self._idle = set(), set(), 0
                self._jobs.clear()
                self._owner = os.getpid()
            self._jobs.append(job)
            self._lock.notify()
            if self._idle < len(self._jobs) and len(self._workers) < self.processes:
                worker = threading.Thread(target=self._work, name="mirage-compile", daemon=True)
                self._workers.add(worker)
                worker.start()
        return job

    def close(self) -> None:
        """End all processes; their current jobs are not finished."""
        if self._owner != os.getpid():
            return
        with self._lock:
            self.closed = True
            self._jobs.clear()
            self._lock.notify_all()
            children = list(self._children)
        for child in children:
            child.kill()

    def _next(self) -> Job | None:
        with self._lock:
            if not self._jobs and self.linger:
                self._idle += 1
                self._lock.wait_for(lambda: bool(self._jobs) or self.closed, self.linger)
                self._idle -= 1
            if self._jobs:
                return self._jobs.popleft()
            self._workers.discard(threading.current_thread())
            return None

    def _work(self) -> None:
        """Process jobs with one process until there are none left."""
        child: _Child | None = None
        while (job := self._next()) is not None:
            try:
                if child is None:
                    child = _Child(self.command)
                    with self._lock:
                        self._children.add(child.process)
                child.answer(job)
            except (OSError, EOFError, CompileProcessError) as error:
                how = child.end() if child is not None else str(error)
                job.error = f"the compile process ended ({how})"
                if isinstance(error, CompileProcessError):
                    job.error = error.message
                self._forget(child)
                child = None
            except Exception as error:  # the request or the reply is not a valid message
                job.error = f"{type(error).__name__}: {error}"
                if child is not None:
                    child.end()
                self._forget(child)
                child = None
            try:
                if not self.closed:
                    job.done(job)
            finally:
                job.finished.set()
        if child is not None:
            child.end()
            self._forget(child)

    def _forget(self, child: _Child | None) -> None:
        if child is not None:
            with self._lock:
                self._children.discard(child.process)


class _Child:
    """One process, and its output."""

    def __init__(self, command: Sequence[str]) -> None:
        self.printed = tempfile.TemporaryFile()  # noqa: SIM115  (closed by `end`)
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.printed,
            env=environment(),
        )

    def answer(self, job: Job) -> None:
        """Let the process do a job. Raises ``OSError`` and ``EOFError`` if it ends before that, and
        :class:`CompileProcessError` if it takes too long."""
        requests: Any = self.process.stdin
        answers: Any = self.process.stdout
        too_long = threading.Event()

        def stop() -> None:
            too_long.set()
            self.process.kill()

        watchdog = threading.Timer(job.patience, stop)
        watchdog.daemon = True
        watchdog.start()
        job.doing = job.begins
        try:
            write_message(requests, dict(job.request))
            while "progress" in (message := read_message(answers)):
                job.doing = str(message["progress"])
        except (OSError, EOFError):
            if not too_long.is_set():
                raise
            raise CompileProcessError(
                f"the compile process gave no answer within {job.patience:.0f} s"
            ) from None
        finally:
            watchdog.cancel()
        _tell(message.get("said", ()))
        job.error = str(message.get("error", ""))
        job.entries = message.get("entries")

    def end(self) -> str:
        """End the process and describe how it ended: its exit code or signal, and the last line
        that it printed."""
        for pipe in (self.process.stdin, self.process.stdout):
            with suppress(OSError):
                if pipe is not None:
                    pipe.close()
        try:
            code = self.process.wait(GRACE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            code = self.process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        with self.printed as file:
            file.seek(0)
            lines = file.read().decode(errors="replace").strip().splitlines()
        return f"{how}: {lines[-1].strip()}" if lines and code else how


_told: set[tuple[str, str]] = set()


def _tell(said: Iterable[tuple[str, str]]) -> None:
    """Repeat warnings of other processes in the logs of this one, each of them once."""
    for name, text in said:
        if (name, text) not in _told:
            _told.add((name, text))
            logging.getLogger(name).warning("%s", text)


def environment() -> dict[str, str]:
    """Return the environment of a compile process: it finds this package, and it sees no GPU."""
    found = dict(os.environ)
    roots = [str(Path(root).parent) for root in mirage.__path__]
    paths = [*roots, *filter(None, found.get("PYTHONPATH", "").split(os.pathsep))]
    found["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(paths))
    found["CUDA_VISIBLE_DEVICES"] = ""
    return found


def _processes() -> int:
    text = os.environ.get("MIRAGE_COMPILE_PROCESSES", "")
    return max(1, int(text)) if text.isdecimal() else PROCESSES


_shared: list[Workshop] = []
_lock = threading.Lock()


def shared_workshop() -> Workshop:
    """Return the workshop of this process's graphs."""
    with _lock:
        if not _shared:
            _shared.append(Workshop())
        return _shared[0]
