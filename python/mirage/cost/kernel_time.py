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
from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.memory_time import memory_times
from mirage.cost.occupancy import Occupancy, occupancy
from mirage.cost.read_again import behind_loop
from mirage.cost.ring_time import turns_of_rings
from mirage.cost.target import Target
from mirage.cost.uneven_blocks import crowded, tail, thin
from mirage.cost.uniform import is_zero, plus, somewhere, uniform, where

BESIDE, BETWEEN = 0.3, 0.2
"""Arithmetic in loops of warpgroups other than products: the share of it that counts if several
groups take turns (all of it counts if one group is alone on its SM), and the µs of a step for waits
and changes of turn. From attention of 32 heads and 4096 tokens with head sizes of 64, 128 and 256
(eight kernels, within 0.86 to 1.10 times)."""


FULL_RATE = 8.0
"""The warps that keep the lanes of an SM busy: two for each scheduler. The block that loads last is
alone there (softmax of 1024 columns: 5.9 µs with a row a warp, 6.3 with two, 7.6 with four)."""

FILLED = 16.0
"""The resident warps that keep the lanes of an SM busy if blocks that load all of their data at
once follow each other: with fewer, instructions wait for those before them, and loads for the
computation. (Cross-entropy by target, 128 elements a thread: 98 µs with eight warps on an SM, where
44 were predicted without this; 63 in a loop with 24 warps, on an H100.)"""

FIRST_LOAD = 0.6
"""The share of the time until the first byte arrives that nothing hides. Blocks that load all of
their data at once wait one after the other: softmax of 4096 columns takes 22.1 µs with one block of
eight rows on an SM at a time, 21.2 with two, 18.8 with three of four rows, 18.3 with twelve of one
row by two warps (a copy takes 18.0)."""

HOT = 0.6
"""The share of the time until the first byte arrives if the data is in L2."""

EXCHANGE_ALONE = 2.5
"""The factor by which warps take longer to exchange values in a kernel that multiplies without a
loop, where nothing runs in parallel: one row of 256 times a matrix and two factors, 4.9 µs with
three sums, 3.7 with one. (Where blocks only stream, others load meanwhile: softmax of 583 rows
takes 2.70 µs with a row for four warps, 2.85 with a row a warp.)"""

ROW = 150.0
"""The clocks of a reduction of rows across the lanes of a warp, five shuffles, if only reductions
determine how warps share a tile: a warp has whole rows (or a thread whole columns)."""

TURNED = 400.0
"""The clocks of a product after a loop with a factor that the block has computed: all warps wait
until it is in shared memory, with nothing else to do. (LoRA with 16 rows: 3.9 µs with the last
product behind the loop, 3.4 in each of its two steps.)"""

CLUSTER_START = 0.8
"""The additional µs of blocks in a cluster: until all of them have started and until all leave
together (products of 64 to 4096 rows in pairs, 0.9 to 2.1 µs more for 32 to 224 steps, with
``CLUSTER_STEP``)."""

ODD, ODD_WAIT = 0.15, 2500.0
"""Clocks of an SM for each element of a tile whose rows start at odd elements: it is loaded by
itself or as part of a word, shifted, and written to shared memory by the threads that compute
(matmul 4095^3: 0.19 with nothing hidden); and clocks that a thread waits for each 32 of them, at
which it asks for them (583x931x257 in two tilings; decoding with 4095 keys)."""


@dataclass(frozen=True)
class _Kind:
    """What decides which terms a kernel's time has, each a condition for each choice of sizes."""

    groups: Num
    """Whether warpgroups multiply."""
    multiplies: Num
    streams: Num
    """Whether blocks load all of their data at once and process it in any order: as one block ends,
    another one loads."""
    meets: Num
    """Whether groups share rows and exchange values at each step: none can work while another
    multiplies."""


def _kind_of(f: KernelFeatures) -> _Kind:
    groups, multiplies = uniform(f.warpgroups), uniform(f.multiplies)
    streams = uniform((np.asarray(f.steps) <= 1) & ~multiplies)
    meets = groups
    if somewhere(groups):
        meets = groups & (np.asarray(f.exchanges_step) > 0)
    return _Kind(groups, multiplies, streams, meets)


def _starts(kind: _Kind, o: Occupancy) -> Num:
    """Return how often a block's first load runs with nothing in parallel: at the start and, if
    blocks load all of their data at once, whenever a block follows another one that had its SM to
    itself."""
    if not somewhere(kind.streams):
        return 1.0
    return 1.0 + where(kind.streams, (o.waves - 1.0) / o.together, 0.0)


def _busy(f: KernelFeatures, kind: _Kind, target: Target, together: Num) -> Num:
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
        # one warpgroup alone computes between products that depend on each other; several take
        # turns (or are in different blocks), but have no products beside what they do behind the
        # loop, unless they go on apart
        in_turn = np.logical_not(np.asarray(f.serial, dtype=bool) | kind.meets)
        several = (together * f.warps >= 8) & (in_turn | (together > 1))
        beside = where(groups & several, BESIDE, 1.0)
    busy = np.maximum(mma, move) + once * where(f.apart, BESIDE, 1.0) + step * beside
    if not (is_zero(f.odd_once) and is_zero(f.odd_step)):
        busy = busy + ODD * (f.odd_once + f.odd_step * f.steps) / target.clock
    if some:
        busy = busy + where(groups & (np.asarray(f.sfu_step) > 0), BETWEEN * f.steps, 0.0)
    return busy


def _shared_with(f: KernelFeatures, kind: _Kind, o: Occupancy) -> Num:
    """Return the factor by which a block takes longer than if it had all units of its SM: the
    number of blocks that run at once or, if warps compute without multiplying, the number that
    keeps the SM busy. (Warpgroups take turns, and blocks that stream one after the other are at
    different places: while some compute, others load.)"""
    few = where(kind.multiplies, 1.0, FULL_RATE / np.minimum(f.warps, FULL_RATE))
    apart = kind.groups
    if somewhere(kind.streams):
        apart = apart | (kind.streams & (o.waves > 1))
    return where(apart, 1.0, np.maximum(o.together, few))


def _gaps(f: KernelFeatures, kind: _Kind, o: Occupancy) -> Num:
    """Return the factor by which computation takes longer because too few warps are on an SM, in
    blocks that load all of their data at once and follow each other."""
    if not somewhere(kind.streams):
        return 1.0
    filled = np.maximum(1.0, FILLED / (o.together * f.warps))
    return where(kind.streams & (o.waves > 1), filled, 1.0)


def _lanes(f: KernelFeatures, target: Target) -> Num:
    """Return the µs in which what a block computes without tensor cores keeps an SM busy."""
    alu = plus(f.alu_once, f.alu_step, f.steps) / target.alu
    sfu = plus(f.sfu_once, f.sfu_step, f.steps) / target.sfu
    return np.maximum(alu, sfu)


def _dependent(f: KernelFeatures, kind: _Kind, target: Target, threads: Num) -> tuple[Num, Num]:
    """Return the clocks of the dependent work of one block: of all steps, and outside the loop."""
    looped = f.steps > 1
    barrier = where(kind.groups, target.ring_step, target.step + target.step_warp * f.warps)
    exchange = target.exchange + target.exchange_warp * f.warps
    row = where(kind.multiplies, exchange, ROW * target.chain)
    gather = target.gather / (8.0 * threads)  # for each byte of sums, half of which are read
    once, step = f.clocks_once * target.chain, f.clocks_step * target.chain
    if not is_zero(f.exchanges_once):
        beside = where(looped | ~kind.multiplies, 1.0, EXCHANGE_ALONE)
        once = once + beside * f.exchanges_once * exchange
    once = plus(plus(once, f.sums_once, gather), f.rows_once, row)
    if not is_zero(f.turned_once):
        once = once + where(looped, TURNED * f.turned_once, 0.0)
    step = plus(plus(step, f.exchanges_step, exchange), f.sums_step, gather)
    step = plus(step, f.rows_step, row)
    once, step = _with_odd_rows(f, threads, once, step)
    # loads are issued as many steps ahead as there are further stages; the first ones' latency
    # counts by itself
    steps = f.steps * (step + f.in_turn * barrier * looped)
    ahead = np.maximum(f.stages - 1.0, 0.0)
    if not is_zero(f.odd_step):
        ahead = where(f.odd_step > 0, 0.0, ahead)
    wait = where(f.load_step > 0, target.step_latency * target.clock, 0.0)
    each = np.maximum(ahead, 1.0)
    waits = wait * f.in_turn * np.maximum(f.steps - each, 0.0)
    steps = where(ahead > 0, np.maximum(steps, waits / each), steps + waits)
    anew = f.runs * f.in_turn - 1.0
    if not is_zero(anew):
        # a loop inside of another one starts its copies again at each of the other's steps
        steps = steps + where(ahead > 0, wait * anew, 0.0)
    return steps, once


def _with_odd_rows(f: KernelFeatures, threads: Num, once: Num, step: Num) -> tuple[Num, Num]:
    """Return the clocks outside the loop and those of a step with those of rows that start at odd
    elements. Threads wait for what they copy, and also for elements that go to registers: the
    first ones of a block, for which it waits anyway, and those of each step, which are not asked
    for ahead."""
    if all(map(is_zero, (f.copied_once, f.copied_step, f.odd_once, f.odd_step))):
        return once, step
    copied = ODD_WAIT / (32.0 * threads)
    once, step = once + f.copied_once * copied, step + f.copied_step * copied
    once = once + np.maximum((f.odd_once - f.copied_once) * copied - ODD_WAIT, 0.0)
    straight = f.odd_step - f.copied_step
    return once, step + where(straight > 0, np.maximum(straight * copied, ODD_WAIT), 0.0)


def _of_all_waves(f: KernelFeatures, target: Target, o: Occupancy, chain: Num, latency: Num) -> Num:
    """Return the µs of the blocks that an SM runs one after the other, each of which takes
    ``chain``. Resident blocks load the factors of their next tile while they store this one, and
    start once."""
    started = where(f.resident, o.together, o.per_sm)
    hidden = where(f.resident, (o.waves - 1.0) * latency, 0.0)
    start = target.block_start * np.maximum(f.warps, 4.0) / 4.0
    start = start + where(f.cluster > 1, CLUSTER_START, 0.0)
    return o.waves * chain - hidden + started * start


def estimate(f: KernelFeatures, target: Target) -> dict[str, Num]:
    """Return the time and its parts in µs; infinite if a limit of the target is exceeded."""
    kind = _kind_of(f)
    f = copy(f)
    f.warpgroups, f.shifted = kind.groups, uniform(f.shifted)
    o = occupancy(f, target)
    load = plus(f.load_once, f.load_step, f.steps)
    dram, l2 = memory_times(f, target, o, load, kind.streams)
    # the longest blocks start first, and short ones fill up what is left
    if not is_zero(f.uneven - 1.0):
        rounds = np.maximum(1.0, f.blocks / (target.sms * o.together))
        f.steps = f.steps * (1.0 + (f.uneven - 1.0) / rounds)
    groups, some = kind.groups, somewhere(kind.groups)
    busy = _busy(f, kind, target, o.together)
    resident_warps = o.together * f.warps
    few = np.minimum(1.0, resident_warps / 4.0)  # four schedulers need a warp each
    # other warps fill the gaps; warpgroups leave none
    many = resident_warps >= 8
    hide = where(many & ~groups, 0.75, 1.0)
    gaps = _gaps(f, kind, o)
    compute = o.per_sm * busy * hide / few * gaps

    steps, once = _dependent(f, kind, target, o.threads)
    first = where(np.asarray(f.dram_read) > 0, target.latency, HOT * target.latency)
    latency = where(np.asarray(load) > 0, first, 0.0)
    chain = latency + (steps + once) / target.clock + behind_loop(f, target)
    # half of a block's work is beside what it waits for; not that of a warpgroup which is alone
    part = 0.5
    if some:
        many = many & ~(kind.meets & (o.together <= 1))
        part = where(many | ~groups, 0.5, 1.0)
    chain = chain + part * busy / few * _shared_with(f, kind, o)
    # rings that nothing but products reads: all of that goes on side by side
    rings = groups & (np.asarray(f.sfu_step) == 0) & (np.asarray(f.stages) > 1) if some else groups
    some = somewhere(rings)
    if some:
        turns = turns_of_rings(f, o, busy * o.together, (dram, l2))
        chain = where(rings, latency + turns + once / target.clock, chain)
    rest = tail(f, target, o, np.maximum(dram, l2), chain)
    chain = _of_all_waves(f, target, o, chain, latency)
    if some:  # blocks that multiply in step store in step, and nothing is beside that
        at_end = np.minimum(1.0, target.sms * o.together / f.blocks) * f.dram_write
        chain = chain + where(rings, at_end / (0.5 * target.l2_bytes), 0.0)
    # the work on what was loaded last is hidden only by blocks that still load
    lanes = _lanes(f, target)
    slower = where(kind.multiplies, 0.0, FULL_RATE / np.minimum(f.warps, FULL_RATE) - 1.0)
    ending = plus(busy, slower, lanes)
    last = (ending / few + steps / target.clock) / f.steps + once / target.clock
    last = last / np.minimum(o.per_sm, 3.0) + 0.1 * compute / gaps
    # blocks that go on load the next tile meanwhile, which device memory gives no sooner
    beside = last / where(f.resident, o.waves, 1.0)
    dram = dram + thin(f, target, o, dram) + crowded(f, target, o, lanes)
    alone: Num = 0.0
    if not is_zero(f.mma_once):
        alone = where((f.steps <= 1) & (f.mma_once > 0), target.alone, 0.0)
    # the first load and the last store are not hidden by the work of other blocks
    longest = np.maximum(dram + last, l2 + beside) + rest
    longest = np.maximum(np.maximum(longest, compute), chain)
    time = target.launch + alone + latency * FIRST_LOAD * _starts(kind, o) + longest
    if f.known is not None:
        time = time + f.known.spilled * o.threads * f.blocks / target.spill_bytes
    time = where(o.feasible, time, np.inf)
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
    )
