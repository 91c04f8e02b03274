"""The granules of shared memory: the smallest accesses of a kernel, and the last write and reads of
each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np

from mirage.emulator.errors import EmulatorError
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.memory import SHARED_RESERVED

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine


SEVERAL = -1
"""In place of a lane: several lanes, or lanes that access memory for each other."""


@dataclass(frozen=True, eq=False)
class Access:
    """The N accesses of one instruction: positions of their rows in the cohort [N], granules [N,
    k], rows of the machine [N]; `verb` describes the instruction in messages."""

    cohort: Cohort
    position: Array
    granule: Array
    rows: Array
    verb: str


class Granules:
    """The state of each of `granules` granules of `granule` bytes of every resident block;
    `readers` agents may read."""

    def __init__(self, machine: Machine, granules: int, granule: int, readers: int) -> None:
        self.machine = machine
        self.granule = granule
        self.granules = granules
        total = machine.blocks * granules if machine.checks else 0
        self.write_agent = np.zeros(total, np.int16)
        self.write_clock = np.zeros(total, np.int32)
        self.write_step = np.zeros(total, np.int32)
        self.read_clock = np.zeros((readers, total), np.int32)

    def spread(self, c: Cohort, flat: Array, size: int) -> tuple[Array, Array]:
        """Return (positions in the cohort [N], granules [N, k]) of the active lanes' accesses of
        `size` bytes at byte index `flat` [n, 32]."""
        if c.mask is None:
            position = np.repeat(np.arange(c.n), 32)
            flat = flat.reshape(-1)
        else:
            position = np.nonzero(c.mask)[0]
            flat = flat[c.mask]
        first = flat // self.granule
        count = max(1, size // self.granule)
        return position, first[:, None] + np.arange(count) if count > 1 else first[:, None]

    def lanes(self, c: Cohort, *, collective: bool) -> Array:
        """Return the lanes [N] of the active lanes' accesses, in the order of :meth:`spread`."""
        if collective:
            return np.full(c.n * 32 if c.mask is None else int(c.mask.sum()), SEVERAL)
        return np.tile(np.arange(32), c.n) if c.mask is None else np.nonzero(c.mask)[1]

    def range(self, flat: int, size: int) -> Array:
        """Return the granules [1, k] of `size` bytes at byte index `flat`."""
        return np.arange(flat // self.granule, (flat + size) // self.granule)[None, :]

    def last_write(self, access: Access, bad: Array) -> tuple[int, str, str]:
        """Return the agent, its name and the instruction of the last write of the first bad
        granule."""
        index = access.granule[first_of(bad)]
        agent = int(self.write_agent[index])
        earlier = self.machine.site_of(int(self.write_step[index]))
        return agent, self.machine.agent_name(access.cohort, agent), earlier

    def fail(
        self, access: Access, bad: Array, error: type[EmulatorError], message: str
    ) -> NoReturn:
        """Raise an error for the first bad granule [N, k], naming its lane and address."""
        c = access.cohort
        at, column = first_of(bad)
        block, offset = divmod(int(access.granule[at, column]), self.granules)
        address = offset * self.granule
        row = int(access.position[at])
        lanes = np.zeros((c.n, 32), bool)
        nth = int((access.position[:at] == row).sum())
        active = np.nonzero(c.active()[row])[0]
        lanes[row, int(active[min(nth, len(active) - 1)]) if len(active) else 0] = True
        where = f"; address {address:#x} ({address - SHARED_RESERVED} bytes into shared memory"
        if self.machine.cluster_blocks > 1:
            where += f" of block {self.machine.block_coordinates(block)}"
        self.machine.fail(error, f"{message}{where})", c, lanes, np.full((c.n, 32), address))


def first_of(bad: Array) -> tuple[int, int]:
    """Return the access and column of the first true element of [N, k]."""
    at = int(np.argmax(bad.any(axis=1)))
    return at, int(np.argmax(bad[at]))
