"""Order between blocks: releases and acquires of gpu scope.

A *unit* is a cluster, or a block if there are no clusters. Within a unit, the clocks of the warps
decide whether an access is ordered after another (:mod:`mirage.emulator.machine.races`). Between
units, a warp knows what it has *acquired*: a release publishes, at an address, the clocks of the
warp that executes it, together with everything that it has acquired itself; an acquire that reads
from this address takes these over. What a warp of a unit has acquired is also known to warps that
are ordered after it.

The *writers* of a unit are those whose accesses to global memory are distinguished: its warps, and
the bulk copies of each of them (``Machine.writers`` has their agents).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from mirage.emulator.machine.cohort import Array, Cohort

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine

Knowledge = dict[int, Array]
"""The known clocks of each unit's writers."""


@dataclass(frozen=True)
class Sync:
    """The effect of a strong access to global memory, or of a fence, on order between blocks."""

    acquires: bool = False
    releases: bool = False


@dataclass(frozen=True)
class _Acquired:
    """The knowledge of another unit that a warp of a unit took over at its ``clock``."""

    warp: int
    clock: int
    known: Array


class Releases:
    """The published and the acquired clocks of all blocks of a launch, resident or not."""

    def __init__(self) -> None:
        self._published: dict[int, Knowledge] = {}  # by address
        self._acquired: dict[int, dict[int, list[_Acquired]]] = {}  # by unit, by unit known of
        self._fenced: dict[tuple[int, int], Knowledge] = {}  # by unit and warp
        self._seen: dict[tuple[int, int], list[Knowledge]] = {}

    def knows(self, machine: Machine, row: int, unit: int, writer: int, clock: int) -> bool:
        """Return whether a row is ordered after the accesses of a writer of another unit at
        ``clock``."""
        return any(known[writer] >= clock for known in self._visible(machine, row, unit))

    def _visible(self, machine: Machine, row: int, unit: int) -> Iterator[Array]:
        own = int(machine.agent_of_row[row])
        for entry in self._acquired.get(int(machine.unit_of_row[row]), {}).get(unit, ()):
            if entry.warp == own or machine.clocks[row, entry.warp] >= entry.clock:
                yield entry.known

    def fence(self, c: Cohort) -> None:
        """Execute a fence of gpu scope: relaxed accesses before it acquire, and those after it
        release."""
        machine = c.machine
        for row in c.rows.tolist():
            who = self._who(machine, row)
            for known in self._seen.pop(who, ()):
                self._acquire(machine, row, known)
            self._fenced[who] = self._knowledge(machine, row)
        machine.bump(c.rows)

    def strong(self, c: Cohort, address: Array, sync: Sync, *, reads: bool, writes: bool) -> None:
        """Record a strong access to global memory at ``address`` [n, 32] of the active lanes,
        before its value is written."""
        if not (sync.releases or sync.acquires or self._published or self._fenced):
            return
        machine = c.machine
        released: list[int] = []
        for i, row in enumerate(c.rows.tolist()):
            who = self._who(machine, row)
            places = np.unique(address[i][c.active()[i]]).tolist()
            published = self._fenced.get(who)
            if reads:
                for place in places:
                    known = self._published.get(place)
                    if known is not None and sync.acquires:
                        self._acquire(machine, row, known)
                    elif known is not None:
                        seen = self._seen.setdefault(who, [])
                        seen[:] = [*(k for k in seen if k is not known), known][-_SEEN:]
            if not writes:
                continue
            if sync.releases:
                published = self._knowledge(machine, row)
                released.append(row)
            for place in places:
                # a read-modify-write keeps earlier releases at the address
                before = self._published.get(place, {}) if reads else {}
                if before or published:
                    self._published[place] = _joined(before, published or {})
                elif not reads:
                    self._published.pop(place, None)
        if released:
            machine.bump(np.array(released))

    @staticmethod
    def _who(machine: Machine, row: int) -> tuple[int, int]:
        return int(machine.unit_of_row[row]), int(machine.agent_of_row[row])

    def _knowledge(self, machine: Machine, row: int) -> Knowledge:
        """Return everything that a row knows."""
        own = int(machine.unit_of_row[row])
        known: Knowledge = {own: machine.clocks[row, machine.writers]}
        for unit in self._acquired.get(own, {}):
            parts = list(self._visible(machine, row, unit))
            if parts:
                known[unit] = np.maximum.reduce(parts)
        return known

    def _acquire(self, machine: Machine, row: int, known: Knowledge) -> None:
        own, warp = self._who(machine, row)
        for unit, clocks in known.items():
            if unit == own:
                mine = machine.clocks[row, machine.writers]
                machine.clocks[row, machine.writers] = np.maximum(mine, clocks)
                continue
            seen: Any = list(self._visible(machine, row, unit))
            if seen and (np.maximum.reduce(seen) >= clocks).all():
                continue
            entries = self._acquired.setdefault(own, {}).setdefault(unit, [])
            entries.append(_Acquired(warp, int(machine.clocks[row, warp]), clocks))


_SEEN = 64
"""The most relaxed reads that a fence turns into acquires."""


def _joined(first: Knowledge, second: Knowledge) -> Knowledge:
    joined = dict(first)
    for unit, clocks in second.items():
        joined[unit] = np.maximum(joined[unit], clocks) if unit in joined else clocks
    return joined
