"""Several processes on one GPU: they prepare at the same time, and measure one after the other."""

from __future__ import annotations

import fcntl
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path


class Turns:
    """The turns of the processes that share a lock ``file``; a process without one is alone."""

    def __init__(self, file: Path | None) -> None:
        self._file = file

    @contextmanager
    def prepares(self) -> Generator[None]:
        """Use the GPU at the same time as others, while none measures."""
        with self._locked(fcntl.LOCK_SH):
            yield

    @contextmanager
    def measures(self) -> Generator[None]:
        """Use the GPU alone. A process that prepares must not call this."""
        with self._locked(fcntl.LOCK_EX):
            yield

    @contextmanager
    def _locked(self, how: int) -> Generator[None]:
        if self._file is None:
            yield
            return
        with self._file.open("a") as file:
            fcntl.flock(file, how)  # until the file is closed
            yield
