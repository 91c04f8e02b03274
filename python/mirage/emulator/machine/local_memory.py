"""Memory of each thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.emulator.errors import (
    MisalignedAccessError,
    OutOfBoundsError,
    UninitialisedReadError,
)
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import any_of

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine

from mirage.emulator.machine.memory import CARRIER


class LocalMemory:
    """Per-thread memory, [rows * 32 threads, bytes]."""

    def __init__(self, machine: Machine, size: int) -> None:
        self.size = -(-size // 16) * 16
        self.data = np.full(machine.warps * 32 * self.size, 0xFF, np.uint8)
        self.written = np.zeros(machine.warps * 32 * self.size, bool)

    def _index(self, c: Cohort, address: Array, size: int) -> Array:
        bad = (address < 0) | (address > self.size - size)
        _fail_where(c, bad, address, OutOfBoundsError, "local", f"within {self.size} bytes", size)
        bad = (address & (size - 1)) != 0
        _fail_where(c, bad, address, MisalignedAccessError, "local", f"a multiple of {size}", size)
        thread = c.rows[:, None] * 32 + np.arange(32)
        return np.where(c.active(), thread * self.size + address, 0)

    def load(self, c: Cohort, address: Array, size: int) -> Array:
        """Return carriers [n, 32]."""
        index = self._index(c, address, size)
        if c.machine.checks:
            bad = np.zeros(index.shape, bool)
            for byte in range(size):
                bad |= ~self.written[index + byte]
            _fail_where(
                c, bad, address, UninitialisedReadError, "local", "written before the read", size
            )
        return self.data.view(CARRIER[size])[index // size]

    def store(self, c: Cohort, address: Array, value: Array, size: int) -> None:
        """Write carriers [n, 32] of the active lanes."""
        index = self._index(c, address, size)
        active = c.active()
        flat = index[active]
        self.data.view(CARRIER[size])[flat // size] = value[active]
        for byte in range(size):
            self.written[flat + byte] = True


def _fail_where(
    c: Cohort, bad: Array, address: Array, error: type[Any], space: str, expected: str, size: int
) -> None:
    if c.mask is not None:
        bad = bad & c.mask
    if any_of(bad):
        c.machine.fail(
            error,
            f"expected {space} memory {expected}, got {size} bytes at {{address:#x}}",
            c,
            bad,
            address,
        )
