"""Bytes that kernels write next to a row of a tensor are noticed."""

from __future__ import annotations

import numpy as np
from mirage.emulator.launch_arguments import Uninitialised
from mirage.pipeline.checks.kernel_memory import stray_bytes


def test_bytes_beside_the_row_count() -> None:
    memory = np.zeros((3, 4, 8), np.float16)
    written = np.zeros(memory.nbytes, bool)
    row = Uninitialised(memory[:, 2], written)
    flags = written.reshape(3, 4, 8, 2)
    flags[:, 2] = True
    assert stray_bytes([row]) == 0
    flags[1, 3, 0] = True
    assert stray_bytes([row]) == 2
    flags[:, 2] = False
    assert stray_bytes([row]) == 2
    assert stray_bytes([Uninitialised(memory)]) == 0


def test_results_that_share_memory_are_not_beside_each_other() -> None:
    memory = np.zeros((4, 3), np.float16)
    written = np.zeros(memory.nbytes, bool)
    both = [Uninitialised(memory[:, 0], written), Uninitialised(memory[:, 1], written)]
    flags = written.reshape(4, 3, 2)
    flags[:, :2] = True
    assert stray_bytes(both) == 0
    assert stray_bytes(both[:1]) == 8
    flags[1, 2] = True
    assert stray_bytes(both) == 2
