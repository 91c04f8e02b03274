"""The analytic cost model: from the work of a kernel to its time.

A kernel is described by :class:`KernelFeatures`, whose fields are floats or NumPy arrays (one
entry for each choice of sizes, so that thousands of choices are costed at once). The estimate is
a roofline with the effects that decide at small sizes:

- DRAM time: compulsory bytes over the bandwidth that the bytes in flight can sustain (a small
  grid cannot);
- L2 time: all bytes that blocks read, the re-reads included, over L2's bandwidth and over what
  one SM takes in;
- SM time: matmul, arithmetic, special functions and shared-memory traffic of the busiest SM
  (whole waves count);
- chain: what one block does one after the other (latency of the first load, loop steps, dependent
  exchanges), times waves;
- launch, and for a grid-split reduction the dependent combine kernel.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from mirage.cost.cost_report import CostReport
from mirage.cost.dependent_work import ODD, dependent_clocks
from mirage.cost.ends import STORED, behind_loads, between_waves, last_stores, on_arrival
from mirage.cost.exchanged_totals import exchanged
from mirage.cost.first_bytes import HOT, from_memory, not_hidden
from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.kernel_kind import Kind, kind_of
from mirage.cost.memory_time import memory_times
from mirage.cost.occupancy import Occupancy, occupancy
from mirage.cost.queued_work import queued
from mirage.cost.read_again import behind_loop
from mirage.cost.ring_time import turns_of_rings
from mirage.cost.target import Target
from mirage.cost.uneven_blocks import crowded, tail, thin
from mirage.cost.uniform import is_zero, plus, somewhere, uniform, where

BESIDE, BETWEEN, BEFORE = 0.3, 0.2, 1.5
"""Arithmetic in loops of warpgroups other than products: the share of it that counts if several
groups take turns (all of it counts if one group is alone on its SM), the µs of a step for waits and
changes of turn, and the µs until all groups have had their first turn. From attention of 32 heads
and 4096 tokens with head sizes of 64, 128 and 256 (eight kernels), and of 2 to 32 heads, by blocks
of 64 or 128 rows in 2 to 32 steps (46 kernels)."""

LONE = 0.8
"""The share of a warpgroup's work that comes after its waits if it is alone on its SM."""


UNSORTED = 0.18
"""The share of the time of device memory by which blocks end later whose lengths are unknown when
their order is chosen, for one wave and as many steps in excess of the average as the average has:
once some multiprocessors are done, less is in flight. (32 sequences of up to 8192 keys in one, two
and four parts with steps in turns, without the kernel that adds them: 142.6, 135.8, 134.6 µs.)"""
FULL_RATE = 8.0
"""The warps that keep the lanes of an SM busy: two for each scheduler. The block that loads last is
alone there (softmax of 1024 columns: 5.9 µs with a row a warp, 6.3 with two, 7.6 with four)."""

FILLED = 16.0
"""The resident warps that keep the lanes of an SM busy if blocks that load all of their data at
once follow each other: with fewer, instructions wait for those before them, and loads for the
computation. (Cross-entropy by target, 128 elements a thread: 98 µs with eight warps on an SM, where
44 were predicted without this; 63 in a loop with 24 warps, on an H100.)"""

CLUSTER_START = 0.8
"""The additional µs of blocks in a cluster: until all of them have started and until all leave
together (products of 64 to 4096 rows in pairs, 0.9 to 2.1 µs more for 32 to 224 steps, with
``CLUSTER_STEP``)."""


def _starts(kind: Kind, o: Occupancy) -> Num:
    """Return how often a block's first load runs with nothing in parallel: at the start and, if
    blocks load all of their data at once, whenever a block follows another one that had its SM to
    itself."""
    if not somewhere(kind.streams):
        return 1.0
    return 1.0 + where(kind.streams, (o.waves - 1.0) / o.together, 0.0)


def _several(f: KernelFeatures, kind: Kind, together: Num) -> Num:
    """Return whether groups of warps of an SM work while others multiply."""
    in_turn = np.logical_not(np.asarray(f.serial, dtype=bool) | kind.meets)
    return kind.groups & (together * f.warps >= 8) & (in_turn | (together > 1))


def _turns(f: KernelFeatures, kind: Kind, together: Num) -> Num:
    """Return whether they do so in loops that compute functions in addition to products."""
    return _several(f, kind, together) & (np.asarray(f.sfu_step) > 0)


def _busy(f: KernelFeatures, kind: Kind, target: Target, together: Num) -> Num:
    """Return the µs that one block keeps the units of an SM busy, if ``together`` of them run at
    once."""
    groups = kind.groups
    some = somewhere(groups)
    rate = np.where(groups, target.mma_group, target.mma_half) if some else target.mma_half
    mma = plus(f.mma_once, f.mma_step, f.steps) / rate
    mma = mma + plus(f.mma32_once, f.mma32_step, f.steps) / target.mma_f32
    once = np.maximum(f.alu_once / target.alu, f.sfu_once / target.sfu)
    step = np.maximum(f.alu_step / target.alu, f.sfu_step / target.sfu) * f.steps
    move = plus(f.move_once + f.sums_once, f.move_step + f.sums_step, f.steps) / target.shared_bytes
    beside = 1.0
    if some:
        # a single warpgroup computes between products that depend on each other; several take turns
        # (or are in different blocks), but there are no products in parallel with the work after
        # the loop, unless they continue independently
        beside = where(_several(f, kind, together), BESIDE, 1.0)
    busy = np.maximum(mma, move) + once * where(f.apart, BESIDE, 1.0) + step * beside
    if not (is_zero(f.odd_once) and is_zero(f.odd_step)):
        busy = busy + ODD * (f.odd_once + f.odd_step * f.steps) / target.clock
    if some:
        busy = busy + where(_turns(f, kind, together), BETWEEN * f.steps, 0.0)
    return busy


def _shared_with(f: KernelFeatures, kind: Kind, o: Occupancy) -> Num:
    """Return the factor by which a block takes longer than if it had all units of its SM: the
    number of blocks that run at once or, if warps compute without multiplying, the number that
    keeps the SM busy. (Warpgroups take turns, and blocks that stream one after the other are at
    different places: while some compute, others load.)"""
    few = where(kind.multiplies, 1.0, FULL_RATE / np.minimum(f.warps, FULL_RATE))
    apart = kind.groups
    if somewhere(kind.streams):
        apart = apart | (kind.streams & (o.waves > 1))
    return where(apart, 1.0, np.maximum(o.together, few))


def _gaps(f: KernelFeatures, kind: Kind, o: Occupancy) -> Num:
    """Return the factor by which computation takes longer because too few warps are on an SM, in
    blocks that load all of their data at once and follow each other."""
    if not somewhere(kind.streams):
        return 1.0
    filled = np.maximum(1.0, FILLED / (o.together * f.warps))
    return where(kind.streams & (o.waves > 1), filled, 1.0)


def _lanes(f: KernelFeatures, target: Target) -> Num:
    """Return the µs for which a block's work without tensor cores keeps an SM busy."""
    alu = plus(f.alu_once, f.alu_step, f.steps) / target.alu
    sfu = plus(f.sfu_once, f.sfu_step, f.steps) / target.sfu
    return np.maximum(alu, sfu)


def _share_of_steps(f: KernelFeatures, target: Target) -> Num:
    """Return the share of a block's work without tensor cores that is in its steps."""
    step = np.maximum(f.alu_step / target.alu, f.sfu_step / target.sfu) * f.steps
    return step / np.maximum(_lanes(f, target), 1e-9)


@dataclass(frozen=True)
class _Work:
    """The work of one block."""

    busy: Num
    """The µs for which it keeps the units of an SM busy."""
    few: Num
    """The share of an SM's schedulers that have a warp."""
    many: Num
    """Whether each of them has two."""
    together: Num
    """The share of the µs of several blocks that is left if they run at once."""
    steps: Num
    """The clocks of dependent instructions, in all steps and outside of them."""
    once: Num


def _chain(
    f: KernelFeatures,
    kind: Kind,
    target: Target,
    o: Occupancy,
    work: _Work,
    latency: Num,
    memory: tuple[Num, Num],
) -> Num:
    """Return the µs of the sequential work of one block. If only products read the rings of its
    loop, all of it runs in parallel."""
    groups = kind.groups
    chain = latency + (work.steps + work.once) / target.clock + behind_loop(f, target)
    # half of a block's work overlaps with its waits, except that of a warpgroup that is alone
    part: Num = 0.5
    if somewhere(groups):
        many = work.many & ~(kind.meets & (o.together <= 1))
        part = where(many | ~groups, 0.5, LONE)
    busy, shared = work.busy / work.few, _shared_with(f, kind, o)
    loops = ~kind.multiplies & (np.asarray(f.steps) > 1)
    if somewhere(loops):
        looped = where(loops, busy * _share_of_steps(f, target), 0.0)
        busy = busy - looped
        alone, all_of_them = part * looped, work.together * looped * shared
        chain = chain + queued(alone, all_of_them, work.steps / target.clock)
    chain = chain + part * busy * shared
    # all data in L2 is requested at once, and then used step by step
    hot = ~kind.multiplies & (np.asarray(f.dram_read) <= 0)
    if somewhere(hot):
        chain = chain + where(hot, memory[1] / (o.waves * f.steps), 0.0)
    if somewhere(kind.rings):
        turns = turns_of_rings(f, o, work.busy * o.together, memory)
        chain = where(kind.rings, latency + turns + work.once / target.clock, chain)
    return chain


def _of_all_waves(f: KernelFeatures, target: Target, o: Occupancy, chain: Num, latency: Num) -> Num:
    """Return the µs of the blocks that an SM runs one after the other, each of which takes
    ``chain``. Resident blocks load the factors of their next tile while they store this one, and
    start once."""
    started = where(f.resident, o.together, o.per_sm)
    hidden = where(f.resident, (o.waves - 1.0) * latency, 0.0)
    warps = where(np.asarray(o.packed) > 1, 4.0, np.maximum(f.warps, 4.0))
    start = target.block_start * warps / 4.0 / o.packed
    start = start + where((f.cluster > 1) & (f.rounds <= 0), CLUSTER_START, 0.0)
    return o.waves * chain - hidden + started * start


def _last(f: KernelFeatures, kind: Kind, target: Target, work: _Work, lanes: Num, late: Num) -> Num:
    """Return the µs of the work of one block on its last loads, for which a share of its work of
    ``late`` waits."""
    slower = where(kind.multiplies, 0.0, FULL_RATE / np.minimum(f.warps, FULL_RATE) - 1.0)
    ending = late * plus(work.busy, slower, lanes)
    return (ending / work.few + work.steps / target.clock) / f.steps + work.once / target.clock


def _besides(f: KernelFeatures, kind: Kind, target: Target, o: Occupancy) -> Num:
    """Return the µs that nothing hides, in addition to launch, loads and work."""
    time: Num = 0.0
    if not is_zero(f.mma_once):
        time = where((f.steps <= 1) & (f.mma_once > 0), target.alone, 0.0)
    if somewhere(kind.groups):
        time = time + where(_turns(f, kind, o.together), BEFORE, 0.0)
    if not is_zero(f.rounds):
        time = time + exchanged(f, o)
    if f.known is not None:
        time = time + f.known.spilled * o.threads * f.blocks / target.spill_bytes
    return time


def estimate(f: KernelFeatures, target: Target) -> dict[str, Num]:
    """Return the time and its parts in µs; infinite if a limit of the target is exceeded."""
    kind = kind_of(f)
    f = copy(f)
    f.warpgroups, f.shifted = kind.groups, uniform(f.shifted)
    o = occupancy(f, target)
    load = plus(f.load_once, f.load_step, f.steps)
    at_end = last_stores(f, kind, target, o)
    dram, l2 = memory_times(f, kind, target, o, load, where(kind.rings, 0.0, at_end))
    # the longest blocks start first, and short ones fill up what is left
    rounds = np.maximum(1.0, f.blocks / (target.sms * o.together))
    if not is_zero(f.unsorted - 1.0):
        dram = dram * (1.0 + UNSORTED * (f.unsorted - 1.0) / rounds)
    if not is_zero(f.uneven - 1.0):
        f.steps = f.steps * (1.0 + (f.uneven - 1.0) / rounds)
    busy = _busy(f, kind, target, o.together)
    resident_warps = o.together * f.warps
    few = np.minimum(1.0, resident_warps / 4.0)  # four schedulers need a warp each
    # other warps fill the gaps; warpgroups leave none
    many = resident_warps >= 8
    hide = where(many & ~kind.groups, 0.75, 1.0)
    gaps = _gaps(f, kind, o)
    compute = o.per_sm * busy * hide / few * gaps

    steps, once = dependent_clocks(f, kind, target, o)
    first = where(np.asarray(f.dram_read) > 0, target.latency, HOT * target.latency)
    latency = where(np.asarray(load) > 0, first, 0.0)
    work = _Work(busy, few, many, hide, steps, once)
    chain = _chain(f, kind, target, o, work, latency, (dram, l2))
    rest = tail(f, target, o, np.maximum(dram, l2), chain)
    chain = _of_all_waves(f, target, o, chain, latency)
    # the work on the data that was loaded last is hidden only by blocks that still load
    lanes = _lanes(f, target)
    late = on_arrival(f, kind, o)
    last = _last(f, kind, target, work, lanes, late)
    rest = rest + between_waves(f, kind, o, latency + last)
    last = behind_loads(f, kind, o, last, late * compute / gaps)
    # blocks that continue load the next tile meanwhile, but device memory is no faster
    beside = last / where(f.resident, o.waves, 1.0)
    dram = dram + thin(f, target, o, dram) + crowded(f, target, o, lanes)
    # the first load and the last store are not hidden by the work of other blocks
    longest = np.maximum(dram + last, l2 + beside) + rest
    stores = at_end / (STORED * target.l2_bytes)
    chain = chain + stores
    longest = np.maximum(longest, compute) + where(kind.rings, 0.0, stores)
    longest = np.maximum(longest, chain)
    time = target.launch + latency * not_hidden(f) * _starts(kind, o) + longest
    time = where(o.feasible, time + _besides(f, kind, target, o), np.inf)
    return {
        "time": time,
        "dram": dram,
        "l2": l2,
        "compute": compute,
        "chain": chain,
        "launch": np.full_like(time, target.launch),
    }


def report(f: KernelFeatures, target: Target) -> CostReport:
    """Return the estimate for scalar features."""
    parts = {k: float(v) for k, v in estimate(f, target).items()}
    return CostReport(
        time=parts["time"],
        dram=parts["dram"],
        l2=parts["l2"],
        compute=parts["compute"],
        chain=parts["chain"],
        launch=parts["launch"],
        bytes_read=float(f.dram_read),
        bytes_written=float(f.dram_write),
        shared=int(f.shared),
        registers=int(f.registers),
        blocks=int(f.blocks),
        memory_first=bool(from_memory(f)),
    )
