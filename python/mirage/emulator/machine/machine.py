"""The state of the blocks that are executed in parallel: registers, memories, clocks, wait
lists."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from mirage.emulator.counters import Counters
from mirage.emulator.errors import EmulatorError, Thread
from mirage.emulator.launch_order import Waits
from mirage.emulator.machine.barriers import BlockBarriers, ClusterBarriers
from mirage.emulator.machine.cohort import Array, Cohort
from mirage.emulator.machine.flags import all_of, any_of
from mirage.emulator.machine.local_memory import LocalMemory
from mirage.emulator.machine.mbarriers import Mbarriers
from mirage.emulator.machine.memory import GlobalMemory
from mirage.emulator.machine.resident_memory import SharedMemory
from mirage.emulator.machine.scheduler import Scheduler
from mirage.emulator.machine.special_registers import SpecialRegisters
from mirage.emulator.machine.wgmma_state import WgmmaState
from mirage.emulator.ptx.syntax import Register

if TYPE_CHECKING:
    from mirage.emulator.compiled_kernel import Program
    from mirage.emulator.launch_limits import Limits
    from mirage.emulator.tensor_map import TensorMap

Triple = tuple[int, int, int]


class Machine:
    """Blocks of the grid by their `numbers` in cluster order, in whole clusters. Rows of all
    per-warp arrays are block * warps_per_block + warp, where blocks are counted in this order."""

    def __init__(
        self,
        program: Program,
        *,
        grid: Triple,
        block: Triple,
        cluster: Triple,
        numbers: Array,
        shared_bytes: int,
        dynamic_bytes: int,
        memory: GlobalMemory,
        parameters: Array,
        tensor_maps: dict[int, TensorMap],
        limits: Limits,
        checks: bool,
        stats: bool,
        counters: Counters,
        waits: Waits,
    ) -> None:
        self.program = program
        self.grid, self.block, self.cluster = grid, block, cluster
        self.cluster_blocks = cluster[0] * cluster[1] * cluster[2]
        self.numbers, self.blocks = numbers, len(numbers)
        self.threads = block[0] * block[1] * block[2]
        self.warps_per_block = -(-self.threads // 32)
        self.warps = self.blocks * self.warps_per_block
        self.checks, self.stats, self.limits, self.counters = checks, stats, limits, counters
        self.memory, self.parameters, self.tensor_maps = memory, parameters, tensor_maps
        self.dynamic_bytes = dynamic_bytes
        self._number_rows()
        self.step_index = self.events = 0
        self.pattern_cache: dict[bytes, int] = {}
        self.coordinates = self._coordinates()
        self.special = SpecialRegisters(self)

        self._number_agents(program.features)
        self.clocks = np.zeros((self.warps, 2 * self.agents), np.int32)
        self.clocks[np.arange(self.warps), self.agent_of_row] = 1
        self.generic_agent = self._generic_agents()
        self.copy_group = np.ones(self.warps, np.int32)
        self.copy_bytes: list[list[int]] = [[0] for _ in range(self.warps)]
        self.bulk_group = np.ones(self.warps, np.int32)
        self.bulk_issued = np.zeros(self.warps, np.int32)
        self.bulk_step = np.zeros(self.warps, np.int32)
        self.waits, self.waited = waits, np.zeros((self.warps, 32), bool)

        self.registers_of_row = np.full(self.warps, program.registers_per_thread(self.threads))
        self.free_registers = np.zeros(self.blocks, np.int64)
        self.register_waits: list[tuple[Cohort, int, int]] = []

        granule = program.shared_granule if checks else 16
        self.shared = SharedMemory(self, shared_bytes, granule, self.copy_agent)
        self.local = LocalMemory(self, program.local_bytes)
        self.barriers = BlockBarriers(self)
        self.cluster_barriers = ClusterBarriers(self)
        self.mbarriers = Mbarriers(self)
        self.scheduler = Scheduler(self)
        self._make_registers()
        self.wgmma = WgmmaState(self, program.wgmma_registers)

    def _number_rows(self) -> None:
        """Record where each row's warp is: in its block, and in its cluster."""
        rows = np.arange(self.warps)
        self.block_of_row = rows // self.warps_per_block
        self.warp_of_row = rows % self.warps_per_block
        self.domain_of_row = self.block_of_row // self.cluster_blocks
        self.unit_of_row = self.numbers[self.block_of_row] // self.cluster_blocks
        self.domain_warps = self.cluster_blocks * self.warps_per_block
        self.agent_of_row = rows % self.domain_warps
        self.threads_of_rows = self.warp_of_row[:, None] * 32 + np.arange(32)
        self.live = self.threads_of_rows < self.threads
        self.valid = self.live.copy()

    def _number_agents(self, uses: Collection[str]) -> None:
        """Number the agents that access memory in addition to the warps of a domain, as far as the
        program has them: bulk stores that read shared memory, wgmma, copies, bulk stores that write
        global memory, and the copies that an mbarrier waits for."""
        self.bulk_agent = self.domain_warps
        self.wgmma_agent = self.bulk_agent + self.domain_warps * ("bulk_store" in uses)
        readers = self.wgmma_agent + self.domain_warps * ("wgmma" in uses)
        self.copy_agent = readers
        self.bulk_write_agent = readers + self.domain_warps * ("cp_async" in uses)
        bulk_writers = np.arange(self.domain_warps * ("bulk_store" in uses))
        self.mbarrier_agent = self.bulk_write_agent + len(bulk_writers)
        self.writers = np.concatenate(
            [np.arange(self.domain_warps), self.bulk_write_agent + bulk_writers]
        )
        self.agents = self.mbarrier_agent + 8 * self.cluster_blocks * ("mbarrier" in uses)

    def _make_registers(self) -> None:
        """Make the registers of all rows, filled with values that no program intends."""
        program, shape = self.program, (self.warps, 32)
        by_size: dict[int, list[Register]] = {}  # 0: predicates
        for register in program.kernel.registers:
            size = 0 if register.type == "pred" else min(8, register.bytes)
            by_size.setdefault(size, []).append(register)
            register.written = np.zeros(shape, bool) if register.tracked else None
            register.async_state = None
        # one array for all registers: there may be thousands
        for size, registers in by_size.items():
            whole = (len(registers), *shape)
            data = (
                np.full(whole, (1 << 8 * size) - 1, f"u{size}") if size else np.zeros(whole, bool)
            )
            for register, part in zip(registers, data, strict=True):
                register.data = part

    # -- clocks ---------------------------------------------------------------------------------

    def _generic_agents(self) -> Array:
        generic = np.zeros(self.agents, bool)
        generic[: self.domain_warps] = True
        generic[self.copy_agent : self.bulk_write_agent] = True
        return generic

    def bump(self, rows: Array) -> None:
        """Advance clocks after a release: a warp's later accesses follow what it published."""
        self.clocks[rows, self.agent_of_row[rows]] += 1

    def grow_agents(self, count: int) -> None:
        """Make room for `count` agents in all; agents are only ever added at the end."""
        extra = count - self.agents
        left, right = self.clocks[:, : self.agents], self.clocks[:, self.agents :]
        pad = np.zeros((self.warps, extra), np.int32)
        self.clocks = np.concatenate([left, pad, right, pad], axis=1)
        before, self.agents = self.agents, count
        for owner in (self.barriers, self.cluster_barriers, self.mbarriers):
            owner.grow_agents(before, count)
        self.generic_agent = self._generic_agents()

    def agent_name(self, c: Cohort, agent: int) -> str:
        """Describe an agent of the cluster that the cohort's first row is in."""
        warp = agent % self.domain_warps if agent < self.mbarrier_agent else 0
        block, warp = divmod(warp, self.warps_per_block)
        where = f" of block {self.block_coordinates(self._domain_first(c) + block)}"
        where = where if self.cluster_blocks > 1 else ""
        if agent < self.domain_warps:
            return f"warp {warp}{where}"
        if agent < self.mbarrier_agent:
            kind = "cp.async copies"
            if agent < self.wgmma_agent:
                kind = "bulk copies"
            elif agent < self.copy_agent:
                kind = "a wgmma"
            return f"{kind} of warp {warp}{where}"
        return self.mbarriers.agent_name(int(self.domain_of_row[c.rows[0]]), agent)

    def _domain_first(self, c: Cohort) -> int:
        return int(self.domain_of_row[c.rows[0]]) * self.cluster_blocks

    def note_in_flight(self, c: Cohort) -> None:
        """Update the peak of bytes that asynchronous copies of one block have not yet been waited
        for."""
        first = self.warps_per_block
        for block in np.unique(self.block_of_row[c.rows]).tolist():
            rows = range(block * first, (block + 1) * first)
            amount = sum(sum(self.copy_bytes[row]) for row in rows)
            low, high = block * self.shared.stride, (block + 1) * self.shared.stride
            amount += sum(
                b.in_flight for b in self.mbarriers.table.values() if low <= b.flat < high
            )
            if amount > self.counters.peak_bytes_in_flight_per_block:
                self.counters.peak_bytes_in_flight_per_block = amount

    def change_registers(self, c: Cohort, pc: int, count: int) -> int | None:
        """Apply setmaxnreg: return registers, or take them once the block has enough free."""
        self.register_waits.append((c, pc, count))
        self._serve_registers()
        return None

    def _serve_registers(self) -> None:
        progress = True
        while progress:
            progress = False
            for entry in list(self.register_waits):
                waiting, pc, count = entry
                blocks = self.block_of_row[waiting.rows]
                extra = (count - self.registers_of_row[waiting.rows]) * 32
                demand = np.zeros(self.blocks, np.int64)
                np.add.at(demand, blocks, extra)
                good = (demand <= self.free_registers)[blocks]
                if not any_of(good):
                    continue
                progress = True
                self.register_waits.remove(entry)
                if not all_of(good):
                    self.register_waits.append((waiting.keep(~good), pc, count))
                ready = waiting.keep(good)
                np.subtract.at(self.free_registers, blocks[good], extra[good])
                self.registers_of_row[ready.rows] = count
                self.events += 1
                self.scheduler.push(pc + 1, ready.rows, ready.mask)

    # -- identity -------------------------------------------------------------------------------

    def _coordinates(self) -> Array:
        """Return (x, y, z) of each resident block; blocks of a cluster are consecutive."""
        per_axis = [g // c for g, c in zip(self.grid, self.cluster, strict=True)]
        cluster, rank = np.divmod(self.numbers, self.cluster_blocks)
        table = np.zeros((self.blocks, 3), np.int64)
        for axis in range(3):
            table[:, axis] = (cluster % per_axis[axis]) * self.cluster[axis] + (
                rank % self.cluster[axis]
            )
            cluster, rank = cluster // per_axis[axis], rank // self.cluster[axis]
        return table

    def block_coordinates(self, block: int) -> Triple:
        """Return the grid coordinates of a resident block."""
        x, y, z = (int(v) for v in self.coordinates[block])
        return (x, y, z)

    def thread(self, row: int, lane: int | None = None) -> Thread:
        """Return the thread of a row and lane, for messages."""
        return Thread(
            self.block_coordinates(int(self.block_of_row[row])), int(self.warp_of_row[row]), lane
        )

    # -- errors ---------------------------------------------------------------------------------

    def site_of(self, step: int) -> str:
        """Return `ptx line N: ...` for an instruction."""
        return str(self.program.kernel.body[step].site)

    def fail(
        self,
        error: type[EmulatorError],
        message: str,
        c: Cohort,
        bad: Array | None = None,
        address: Array | None = None,
    ) -> NoReturn:
        """Raise `error` for the first lane of `bad` [n, 32] (default: the active lanes).
        `{address:#x}` in the message is filled in from `address`."""
        bad = c.active() if bad is None else np.broadcast_to(bad, (c.n, 32))
        row, lane = (int(v[0]) for v in np.nonzero(bad)) if any_of(bad) else (0, 0)
        value: int | None = None
        if address is not None:
            value = int(np.broadcast_to(address, (c.n, 32))[row, lane])
            message = message.replace("{address:#x}", f"{value:#x}")
        site = self.program.kernel.body[self.step_index].site
        who = self.thread(int(c.rows[row]), lane)
        raise error(message, site=site, thread=who, address=value)

    def note(self, **amounts: Any) -> None:
        """Add to counters."""
        for name, amount in amounts.items():
            setattr(self.counters, name, getattr(self.counters, name) + int(amount))
