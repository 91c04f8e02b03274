"""The work of one block of a kernel, as numbers or as arrays with one entry for each choice of
sizes."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import reduce
from operator import or_
from typing import Any

import numpy as np

from mirage.cost.uniform import is_zero, uniform, where

Num = Any
"""A float or a float array."""

REGISTERS_MAX = 190
"""The f32 values per thread that a block may hold (accumulators and one intermediate tile)."""

IN_PLACE = 0.25
"""The share of a tile's registers that ops on the result of a warpgroups' loop add: they replace it
element by element (ptxas: 154 registers without, 168 with a bias and silu)."""

OTHERS, FEWEST_AHEAD, MOST_AHEAD = 16, 4, 32
"""The registers of a thread besides those of elements that are kept as they were loaded
(``kOthers``), and the fewest and the most of those that are loaded before they are needed
(``kFewestAhead``)."""

WARPS_BESIDE, OTHERS_BESIDE = 32, 8
"""The warps for which an SM has room where blocks wait for the others of their cluster, and the
further registers of a thread in these (``kWarpsBeside``, ``kOthersBeside``)."""

MOST_LATE = 512
"""The most elements of a thread that are loaded so: all of their loads and stores are written one
after the other, and code for a thousand takes more than a second to compile."""

MOST_REGISTERS, REGISTERS_SM = 255, 65536
"""The registers that the instruction set can address, and those of a multiprocessor."""

BASE, PER_ACCUMULATOR, PER_LIVE = 30.0, 0.93, 0.7
"""The registers of a thread for addresses and counters, and for each f32 value that it sums or
computes (:mod:`mirage.cost.registers` says what they are fitted to)."""


@dataclass(frozen=True)
class Known:
    """The resources of a block, known from its ops or from the assembler."""

    shared: Num
    registers: Num
    spilled: Num
    """The bytes that a thread writes to local memory and reads back."""
    first: Num = np.inf
    """The bytes of shared memory if all copies outside of loops begin before everything else;
    infinite if they begin where what they copy is needed."""


@dataclass
class KernelFeatures:
    """The work of one block of a kernel; ``_step`` is per loop step, ``_once`` outside the loop."""

    blocks: Num = 1.0
    steps: Num = 1.0
    uneven: Num = 1.0  # steps of the block with the most steps, over the average of all blocks
    unsorted: Num = 1.0  # the same for loops of which it is unknown which blocks take the most
    runs: Num = 1.0  # times that these steps start anew: the steps of a loop around the loop
    in_turn: Num = 1.0  # consecutive loops with the same number of steps
    warps: Num = 4.0
    stages: Num = 2.0
    warpgroups: Num = False  # whether four warps together multiply tiles in shared memory
    cluster: Num = 1.0  # blocks that copy tiles for each other, or share one row
    rounds: Num = 0.0  # times that these exchange totals, one after the other
    resident: Num = False  # whether blocks continue with another tile while they store one
    apart: Num = False  # whether groups of warps of such blocks own rows, which they store apart
    shifted: Num = False  # whether loops begin before their tiles' first elements, for boxes
    serial: Num = False  # whether groups do not take turns where products depend on each other
    dram_read: Num = (
        # each input byte once, except for bytes that a kernel has just written (and L2 still holds)
        0.0
    )
    dram_write: Num = 0.0
    again_tensors: Num = 0.0  # bytes of the tensors of which a block reads its part more than once
    again_read: Num = 0.0  # bytes of all these readings except the first ones
    again_once: Num = 0.0  # bytes of these tensors that a block loads at once, beside its loops
    pieces: Num = 0.0  # bytes of the sectors that are written in pieces, except for the first piece
    load_once: Num = 0.0  # bytes, in units that account for partly used 32-byte sectors
    load_step: Num = 0.0
    given_step: Num = 0.0  # the part of these and of the next that other blocks of the cluster copy
    given_split_step: Num = 0.0
    split_once: Num = 0.0  # additional bytes of tiles whose rows are in two cache lines
    split_step: Num = 0.0
    odd_once: Num = 0.0  # elements of loads that go element by element, and through registers
    odd_step: Num = 0.0
    copied_once: Num = 0.0  # those of them that threads copy to shared memory
    copied_step: Num = 0.0
    shared_once: Num = 0.0  # bytes of shared memory that stay for the whole block
    shared_step: Num = 0.0  # bytes of one pipeline stage
    scratch: Num = 0.0  # bytes in which warps exchange values while those tiles exist
    mma_once: Num = 0.0  # flop, half-precision operands, padded to whole fragments
    mma_step: Num = 0.0
    mma32_once: Num = 0.0  # flop, f32 operands
    mma32_step: Num = 0.0
    alu_once: Num = 0.0
    alu_step: Num = 0.0
    sfu_once: Num = 0.0
    sfu_step: Num = 0.0
    move_once: Num = 0.0  # bytes read from shared memory into fragments
    move_step: Num = 0.0
    clocks_once: Num = 0.0  # latency of dependent instructions and exchanges, in clocks
    clocks_step: Num = 0.0
    exchanges_once: Num = 0.0  # reductions across the lanes and warps of the block
    exchanges_step: Num = 0.0
    rows_once: Num = 0.0  # those for which no warp needs values of another one
    rows_step: Num = 0.0
    sums_once: Num = 0.0  # bytes that warps which share a contraction exchange
    sums_step: Num = 0.0
    turned_once: Num = 0.0  # products behind a loop, of one factor computed and one copied there
    accumulators: Num = 0.0  # f32 elements held over the loop
    live: Num = 0.0  # elements of the largest tile that a step computes
    live_once: Num = 0.0  # and of the largest one that is computed outside of loops
    known: Known | None = None  # known only for a written launch

    @classmethod
    def only(cls, **given: Num) -> KernelFeatures:
        """Return features whose variables (``vars``) are only those that are ``given``, and those
        that are set later; all others have their initial values."""
        features = cls.__new__(cls)
        vars(features).update(given)
        return features

    @property
    def shared(self) -> Num:
        """The bytes of shared memory of a block."""
        if self.known is not None:
            return self.known.shared
        return self.shared_once + self.shared_step * self.stages + self.scratch

    @property
    def first(self) -> Num:
        """The bytes of shared memory if no two tiles outside of loops share them."""
        return self.shared if self.known is None else self.known.first

    @property
    def registers(self) -> Num:
        """The registers of a thread."""
        if self.known is not None:
            return self.known.registers
        held = PER_ACCUMULATOR * self.accumulators + PER_LIVE * self.largest
        alone = BASE + held / (32.0 * self.warps)
        return np.minimum(255.0, where(uniform(self.multiplies), 40.0 + self.values, alone))

    @property
    def multiplies(self) -> Num:
        """Whether the kernel has matrix products."""
        products = (self.mma_once, self.mma_step, self.mma32_once, self.mma32_step)
        some = [np.asarray(amount) > 0 for amount in products if not is_zero(amount)]
        return reduce(or_, some) if some else np.False_

    @property
    def values(self) -> Num:
        """The f32 values per thread."""
        live = where(self.warpgroups, IN_PLACE * self.largest, self.largest)
        return (self.accumulators + live) / (32.0 * self.warps)

    @property
    def late(self) -> Num:
        """Whether elements of what is loaded again behind a loop are loaded just before they are
        needed, since there are no registers for all of them (:mod:`mirage.cost.kept_pairs`)."""
        if is_zero(self.again_once):
            return np.False_
        threads = 32.0 * self.warps
        most = np.minimum(MOST_REGISTERS, REGISTERS_SM / threads) - OTHERS
        late = (self.live_once > 2.0 * threads * most) & (self.live_once <= MOST_LATE * threads)
        return late & (self.again_once > 0) & ~self.multiplies

    @property
    def largest(self) -> Num:
        """The elements of the largest computed tile that a block holds at once."""
        held = np.maximum(self.live, MOST_AHEAD * 32.0 * self.warps)
        return where(self.late, held, np.maximum(self.live, self.live_once))

    def at(self, index: int) -> KernelFeatures:
        """Return one entry of the arrays."""
        picked: dict[str, Any] = {}
        for f in fields(self):
            x = getattr(self, f.name)
            if f.name == "known":
                continue
            value = np.broadcast_to(x, (index + 1,))[index] if np.ndim(x) == 0 else x[index]
            flag = f.name in ("warpgroups", "resident", "apart", "shifted", "serial")
            picked[f.name] = bool(value) if flag else float(value)
        return KernelFeatures(**picked)
