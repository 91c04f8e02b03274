"""The special registers of PTX: places in the grid, masks of lanes, sizes, clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mirage.emulator.machine.cohort import Array

if TYPE_CHECKING:
    from mirage.emulator.machine.machine import Machine


class SpecialRegisters:
    """The special registers of all rows of a machine, by name."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._known: dict[str, Array] = {}

    def __call__(self, name: str) -> Array:
        """Return the values of a special register, int64, [rows, 32], [rows, 1] or [1, 1]."""
        if name.startswith(("clock", "globaltimer")):
            return np.asarray(self._values(name), np.int64)
        known = self._known.get(name)
        if known is None:
            known = self._known[name] = np.asarray(self._values(name), np.int64)
        return known

    def _values(self, name: str) -> Array:
        m = self._machine
        root, _, axis_name = name.partition(".")
        axis = "xyz".find(axis_name) if axis_name else 0
        blocks = m.coordinates[m.block_of_row]
        in_cluster = [blocks[:, i : i + 1] % m.cluster[i] for i in range(3)]
        lane = np.arange(32)[None, :]
        rank = (m.block_of_row % m.cluster_blocks)[:, None]
        scalar = {
            "ntid": m.block[axis],
            "nctaid": m.grid[axis],
            "nwarpid": m.warps_per_block,
            "smid": 0,
            "nsmid": 132,
            "gridid": 0,
            "clock": m.counters.instructions,
            "clock64": m.counters.instructions,
            "clock_hi": 0,
            "globaltimer": m.counters.instructions,
            "globaltimer_lo": m.counters.instructions,
            "globaltimer_hi": 0,
            "cluster_nctaid": m.cluster[axis],
            "cluster_nctarank": m.cluster_blocks,
            "nclusterid": m.grid[axis] // m.cluster[axis],
            "is_explicit_cluster": int(m.cluster_blocks > 1),
            "total_smem_size": m.shared.size if hasattr(self, "shared") else 0,
            "aggr_smem_size": m.shared.size if hasattr(self, "shared") else 0,
            "dynamic_smem_size": m.dynamic_bytes,
        }
        if root in scalar:
            return np.full((1, 1), scalar[root])
        if root == "tid":
            x, y, _ = m.block
            return (
                m.threads_of_rows % x,
                m.threads_of_rows // x % y,
                m.threads_of_rows // (x * y),
            )[axis]
        table: dict[str, Array] = {
            "ctaid": blocks[:, axis : axis + 1],
            "laneid": lane,
            "warpid": m.warp_of_row[:, None],
            "clusterid": blocks[:, axis : axis + 1] // m.cluster[axis],
            "cluster_ctaid": in_cluster[axis],
            "cluster_ctarank": rank,
            "lanemask_eq": 1 << lane,
            "lanemask_lt": (1 << lane) - 1,
            "lanemask_le": (2 << lane) - 1,
            "lanemask_gt": 0xFFFFFFFF ^ ((2 << lane) - 1),
            "lanemask_ge": 0xFFFFFFFF ^ ((1 << lane) - 1),
        }
        return table[root]
