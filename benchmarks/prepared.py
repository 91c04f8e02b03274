"""Inputs of programs, made in advance by other processes.

For large inputs, NumPy takes longer to make random numbers than the GPU takes for the measurement.
Other processes make the inputs of the next programs while one is measured; they are kept in files
until they are needed.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from types import TracebackType

import torch
from mirage.workloads import get

Inputs = tuple[torch.Tensor, ...]
AHEAD = 2
"""The number of programs whose inputs are made in advance."""


class PreparedInputs:
    """The inputs of ``names``, in this order, for each of ``seeds``, on ``device``."""

    def __init__(self, names: Sequence[str], seeds: Sequence[int], device: str = "cuda") -> None:
        self._names, self._seeds, self._device = list(names), tuple(seeds), device
        self._made: dict[tuple[str, int], Future[None]] = {}

    def __enter__(self) -> PreparedInputs:
        self._folder = tempfile.TemporaryDirectory(prefix="mirage-inputs-")
        processes = max(1, min(len(self._seeds) * AHEAD, (os.cpu_count() or 1) - 2))
        self._pool = ProcessPoolExecutor(processes, mp_context=get_context("spawn"))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, e: BaseException | None, at: TracebackType | None
    ) -> None:
        self._pool.shutdown(cancel_futures=True)
        self._folder.cleanup()

    def of(self, name: str) -> dict[int, Inputs]:
        """Return the inputs for a seed, and start making those of the next programs."""
        at = self._names.index(name)
        for other in self._names[at : at + 1 + AHEAD]:
            for seed in self._seeds:
                if (other, seed) not in self._made:
                    path = self._path(other, seed)
                    self._made[other, seed] = self._pool.submit(make, other, seed, path)
        return {seed: self._take(name, seed) for seed in self._seeds}

    def _take(self, name: str, seed: int) -> Inputs:
        self._made[name, seed].result()
        path = self._path(name, seed)
        tensors = torch.load(path, weights_only=True)
        path.unlink()
        return tuple(x.to(self._device) for x in tensors)

    def _path(self, name: str, seed: int) -> Path:
        return Path(self._folder.name) / f"{name}-{seed}.pt"


def make(name: str, seed: int, path: Path) -> None:
    """Write the inputs of a program; runs in a separate process."""
    torch.save(get(name).torch_inputs(seed), path)
