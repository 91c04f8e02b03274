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

from dataclasses import replace

import numpy as np

from mirage.cost.cost_report import CostReport
from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.occupancy import RESERVED, Occupancy, occupancy
from mirage.cost.read_again import behind_loop, evicted
from mirage.cost.ring_time import turns_of_rings
from mirage.cost.target import Target
from mirage.cost.uneven_blocks import crowded, tail, thin

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

IN_STEP = 1.8
"""The factor by which boxes arrive faster if all blocks run at once: those that read the same ones
do so at the same time, and L2 serves them together."""

AGAIN_IN_STEP = 1.6
"""The factor of :data:`IN_STEP` if threads copy data that has been read before. 32 rows by 4096
columns of a weight in 128 blocks, 12.9 µs: 16.9 predicted without, 14.2 with it."""

TAKEN_IN_STEP = 1.15
"""The factor by which one SM receives more there: 786 KB of a projection of 32 rows in 12.8 µs.
With the two, and :func:`.thin`, the first choice among the 427 kernels of `fit` takes 3.7 % longer
than the best, without 4.9 %."""

SHIFTED_IN_WAVES = 0.17
"""The share of the additional cost of rows in two lines that remains if boxes are shifted and not
all blocks run at once: five sectors instead of four, without the second request. 4096 rows by 4096
columns, a depth of 4095: 225 µs in resident blocks and 230 without, 269 and 284 predicted if all of
it counts."""

EXCHANGE_ALONE = 2.5
"""The factor by which warps take longer to exchange values in a kernel that multiplies without a
loop, where nothing runs in parallel: one row of 256 times a matrix and two factors, 4.9 µs with
three sums, 3.7 with one. (Where blocks only stream, others load meanwhile: softmax of 583 rows
takes 2.70 µs with a row for four warps, 2.85 with a row a warp.)"""

ROW = 150.0
"""The clocks of a reduction of rows across the lanes of a warp, five shuffles, if only reductions
determine how warps share a tile: a warp has whole rows (or a thread whole columns)."""

TURNED = 400.0
"""The clocks of a product after a loop whose other factor is copied only then: all warps wait until
it is in shared memory, with nothing else to do. (LoRA with 16 rows: 3.95 µs with the last product
behind the loop, and 3.14 with its factor copied before the loop.)"""

ALONE_COPIED = 0.3
"""The share of :attr:`.Target.alone` if everything is copied at the start, and later products wait
for nothing. (Of the first eight candidates of 20 programs with few rows, the choice takes 3.6 %
longer than the best one on an H100, and 4.6 % with all of it.)"""

CLUSTER_START = 0.8
"""The additional µs of blocks in a cluster: until all of them have started and until all leave
together (products of 64 to 4096 rows in pairs, 0.9 to 2.1 µs more for 32 to 224 steps, with
``CLUSTER_STEP``)."""

ODD, ODD_WAIT = 0.15, 2500.0
"""Clocks of an SM for each element of a tile whose rows start at odd elements: it is loaded by
itself or as part of a word, shifted, and written to shared memory by the threads that compute
(matmul 4095^3: 0.19 with nothing hidden); and clocks that a thread waits for each 32 of them, at
which it asks for them (583x931x257 in two tilings; decoding with 4095 keys)."""


def _streams(f: KernelFeatures) -> Num:
    """Return whether blocks load all of their data at once and process it in any order: as one
    block ends, another one loads."""
    return (np.asarray(f.steps) <= 1) & ~f.multiplies


def _starts(f: KernelFeatures, o: Occupancy) -> Num:
    """Return how often a block's first load runs with nothing in parallel: at the start and, if
    blocks load all of their data at once, whenever a block follows another one that had its SM to
    itself."""
    return 1.0 + np.where(_streams(f), (o.waves - 1.0) / o.together, 0.0)


def _late(f: KernelFeatures, target: Target, o: Occupancy) -> Num:
    """Return whether copies outside of loops begin only where what they copy is needed, because
    fewer blocks would run at once if all began first."""
    return o.together * (f.first + RESERVED) > target.shared_sm


def _alone(f: KernelFeatures, target: Target, o: Occupancy) -> Num:
    """Return the additional µs of blocks that multiply without a loop."""
    waits = np.where(_late(f, target, o), 1.0, ALONE_COPIED)
    return np.where((f.steps <= 1) & (f.mma_once > 0), target.alone * waits, 0.0)


def _steps_ahead(f: KernelFeatures) -> Num:
    """Return how many steps of a loop are loaded ahead: one less than there are slots, or all of
    them if each step has a slot of its own."""
    whole = (f.stages > 1) & (f.stages >= f.steps) & ~np.asarray(f.warpgroups, dtype=bool)
    return np.where(whole, f.steps, f.stages - 1.0)


def _memory(f: KernelFeatures, target: Target, o: Occupancy, load: Num) -> tuple[Num, Num]:
    """Return the µs of device memory and of L2 for blocks that ``load`` this number of bytes
    each."""
    streams = _streams(f)
    # blocks that run together are in different phases: half of them wait for what they loaded
    # outside the loop
    staged = f.shared_step * np.maximum(_steps_ahead(f), 0.5) + np.where(
        (o.waves > 1) & ~streams, 0.5, 1.0
    ) * (f.load_once - f.again_once)
    flight = o.active * o.together * np.maximum(np.minimum(staged, load), 1.0)
    flight = np.where(streams, np.minimum(flight, f.blocks * load + 1.0), flight)
    # bandwidth of what is in flight; near saturation more in flight still helps a little
    # (what is only written waits for nothing)
    missing = np.where(load > 0, np.minimum(target.flight_total / flight, 1e3), 0.0)
    moved = f.dram_read + evicted(f, target, o) + f.dram_write
    dram = moved / target.dram_bytes * np.sqrt(1.0 + missing**2)
    together = o.waves <= 1
    boxes = np.where(together, IN_STEP, 1.0)
    split = f.split_once + f.split_step * f.steps
    load = (
        load
        + np.where(np.asarray(f.shifted, dtype=bool) & (o.waves > 1), SHIFTED_IN_WAVES, 1.0) * split
    )
    # tiles that another block of the cluster copies are read from L2 once
    read = f.blocks * (load - (f.given_step + f.given_split_step) * f.steps)
    first = np.minimum(f.dram_read, read)
    plain = np.where(together, first + (read - first) / AGAIN_IN_STEP, read) / target.l2_bytes
    l2 = np.where(f.warpgroups, read / (boxes * target.box_l2_bytes), plain)
    copied = np.where(together, TAKEN_IN_STEP, 1.0) * target.sm_bytes
    taken = np.where(f.warpgroups, boxes * target.box_sm_bytes, copied)
    # what another block of the cluster asks for, this one receives without asking twice
    asked = load - f.given_split_step * f.steps
    l2 = np.maximum(l2, o.per_sm * asked / taken)
    return dram, l2 + f.pieces / (0.5 * target.l2_bytes)


def _busy(f: KernelFeatures, target: Target, together: Num) -> Num:
    """Return the µs that one block keeps the units of an SM busy, if ``together`` of them run at
    once."""
    rate = np.where(f.warpgroups, target.mma_group, target.mma_half)
    mma = (f.mma_once + f.mma_step * f.steps) / rate
    mma = mma + (f.mma32_once + f.mma32_step * f.steps) / target.mma_f32
    once = np.maximum(f.alu_once / target.alu, f.sfu_once / target.sfu)
    step = np.maximum(f.alu_step / target.alu, f.sfu_step / target.sfu) * f.steps
    move = (f.move_once + f.sums_once + (f.move_step + f.sums_step) * f.steps) / target.shared_bytes
    # one warpgroup alone computes between products that depend on each other; several take turns
    # (or are in different blocks), but have no products beside what they do behind the loop, unless
    # they go on apart
    in_turn = np.logical_not(np.asarray(f.serial, dtype=bool) | _meet(f))
    several = (together * f.warps >= 8) & (in_turn | (together > 1))
    beside = np.where(f.warpgroups & several, BESIDE, 1.0)
    busy = np.maximum(mma, move) + once * np.where(f.apart, BESIDE, 1.0) + step * beside
    busy = busy + ODD * (f.odd_once + f.odd_step * f.steps) / target.clock
    return busy + np.where(f.warpgroups & (np.asarray(f.sfu_step) > 0), BETWEEN * f.steps, 0.0)


def _meet(f: KernelFeatures) -> Num:
    """Return whether groups share rows and exchange values at each step: none can work while
    another multiplies."""
    return np.asarray(f.warpgroups, dtype=bool) & (np.asarray(f.exchanges_step) > 0)


def _shared_with(f: KernelFeatures, o: Occupancy) -> Num:
    """Return the factor by which a block takes longer than if it had all units of its SM: the
    number of blocks that run at once or, if warps compute without multiplying, the number that
    keeps the SM busy. (Warpgroups take turns, and blocks that stream one after the other are at
    different places: while some compute, others load.)"""
    few = np.where(f.multiplies, 1.0, FULL_RATE / np.minimum(f.warps, FULL_RATE))
    apart = f.warpgroups | (_streams(f) & (o.waves > 1))
    return np.where(apart, 1.0, np.maximum(o.together, few))


def _gaps(f: KernelFeatures, o: Occupancy) -> Num:
    """Return the factor by which computation takes longer because too few warps are on an SM, in
    blocks that load all of their data at once and follow each other."""
    filled = np.maximum(1.0, FILLED / (o.together * f.warps))
    return np.where(_streams(f) & (o.waves > 1), filled, 1.0)


def _lanes(f: KernelFeatures, target: Target) -> Num:
    """Return the µs in which what a block computes without tensor cores keeps an SM busy."""
    alu = (f.alu_once + f.alu_step * f.steps) / target.alu
    sfu = (f.sfu_once + f.sfu_step * f.steps) / target.sfu
    return np.maximum(alu, sfu)


def _dependent(f: KernelFeatures, target: Target, o: Occupancy) -> tuple[Num, Num]:
    """Return the clocks of the dependent work of one block: of all steps, and outside the loop."""
    threads = o.threads
    barrier = target.step + target.step_warp * f.warps
    barrier = np.where(f.warpgroups, target.ring_step, barrier)
    exchange = target.exchange + target.exchange_warp * f.warps
    multiplies = f.multiplies
    row = np.where(multiplies, exchange, ROW * target.chain)
    gather = target.gather / (8.0 * threads)  # for each byte of sums, half of which are read
    copied = ODD_WAIT / (32.0 * threads)
    beside = np.where((f.steps > 1) | ~multiplies, 1.0, EXCHANGE_ALONE)
    once = f.clocks_once * target.chain + beside * f.exchanges_once * exchange
    once = once + f.sums_once * gather
    once = once + f.rows_once * row
    once = once + np.where((f.steps > 1) & _late(f, target, o), TURNED * f.turned_once, 0.0)
    step = f.clocks_step * target.chain + f.exchanges_step * exchange + f.sums_step * gather
    step = step + f.rows_step * row
    once, step = once + f.copied_once * copied, step + f.copied_step * copied
    # so do elements that go to registers: the first ones of a block, which it waits for anyway, and
    # those of each step, which are not asked for ahead
    once = once + np.maximum((f.odd_once - f.copied_once) * copied - ODD_WAIT, 0.0)
    straight = f.odd_step - f.copied_step
    step = step + np.where(straight > 0, np.maximum(straight * copied, ODD_WAIT), 0.0)
    # loads are issued as many steps ahead as there are further stages; the first ones' latency
    # counts by itself
    steps = f.steps * (step + f.in_turn * barrier * (f.steps > 1))
    ahead = np.where(np.asarray(f.odd_step) > 0, 0.0, np.maximum(_steps_ahead(f), 0.0))
    wait = np.where(f.load_step > 0, target.step_latency * target.clock, 0.0)
    waits = wait * f.in_turn * np.maximum(f.steps - np.maximum(ahead, 1.0), 0.0)
    steps = np.where(ahead > 0, np.maximum(steps, waits / np.maximum(ahead, 1.0)), steps + waits)
    # a loop inside of another one starts its copies again at each of the other's steps
    return steps + np.where(ahead > 0, wait * (f.runs * f.in_turn - 1.0), 0.0), once


def _of_all_waves(f: KernelFeatures, target: Target, o: Occupancy, chain: Num, latency: Num) -> Num:
    """Return the µs of the blocks that an SM runs one after the other, each of which takes
    ``chain``. Resident blocks load the factors of their next tile while they store this one, and
    start once."""
    started = np.where(f.resident, o.together, o.per_sm)
    hidden = np.where(f.resident, (o.waves - 1.0) * latency, 0.0)
    start = target.block_start * np.maximum(f.warps, 4.0) / 4.0
    start = start + CLUSTER_START * (np.asarray(f.cluster) > 1)
    return o.waves * chain - hidden + started * start


def estimate(f: KernelFeatures, target: Target) -> dict[str, Num]:
    """Return the time and its parts in µs; infinite if a limit of the target is exceeded."""
    o = occupancy(f, target)
    load = f.load_once + f.load_step * f.steps
    dram, l2 = _memory(f, target, o, load)
    # the longest blocks start first, and short ones fill up what is left
    rounds = np.maximum(1.0, f.blocks / (target.sms * o.together))
    f = replace(f, steps=f.steps * (1.0 + (f.uneven - 1.0) / rounds))
    busy = _busy(f, target, o.together)
    few = np.minimum(1.0, o.together * f.warps / 4.0)  # four schedulers need a warp each
    # other warps fill the gaps; warpgroups leave none
    many = o.together * f.warps >= 8
    hide = np.where(many & ~np.asarray(f.warpgroups, dtype=bool), 0.75, 1.0)
    gaps = _gaps(f, o)
    compute = o.per_sm * busy * hide / few * gaps

    steps, once = _dependent(f, target, o)
    first = np.where(np.asarray(f.dram_read) > 0, target.latency, HOT * target.latency)
    latency = np.where(load > 0, first, 0.0)
    chain = latency + (steps + once) / target.clock + behind_loop(f, target)
    # half of a block's work is beside what it waits for; not that of a warpgroup which is alone
    many = many & ~(_meet(f) & (o.together <= 1))
    part = np.where(many | ~np.asarray(f.warpgroups, dtype=bool), 0.5, 1.0)
    chain = chain + part * busy / few * _shared_with(f, o)
    # rings that nothing but products reads: all of that goes on side by side
    rings = f.warpgroups & (np.asarray(f.sfu_step) == 0) & (np.asarray(f.stages) > 1)
    some = np.any(rings)
    if some:
        turns = turns_of_rings(f, o, busy * o.together, (dram, l2))
        chain = np.where(rings, latency + turns + once / target.clock, chain)
    rest = tail(f, target, o, np.maximum(dram, l2), chain)
    chain = _of_all_waves(f, target, o, chain, latency)
    if some:  # blocks that multiply in step store in step, and nothing is beside that
        at_end = np.minimum(1.0, target.sms * o.together / f.blocks) * f.dram_write
        chain = chain + np.where(rings, at_end / (0.5 * target.l2_bytes), 0.0)
    # the work on what was loaded last is hidden only by blocks that still load
    lanes = _lanes(f, target)
    slower = np.where(f.multiplies, 0.0, FULL_RATE / np.minimum(f.warps, FULL_RATE) - 1.0)
    ending = busy + lanes * slower
    last = (ending / few + steps / target.clock) / f.steps + once / target.clock
    last = last / np.minimum(o.per_sm, 3.0) + 0.1 * compute / gaps
    # blocks that go on load the next tile meanwhile, which device memory gives no sooner
    beside = last / np.where(f.resident, o.waves, 1.0)
    dram = dram + thin(f, target, o, dram) + crowded(f, target, o, lanes)
    # the first load and the last store are not hidden by the work of other blocks
    longest = np.maximum(dram + last, l2 + beside) + rest
    longest = np.maximum(np.maximum(longest, compute), chain)
    time = target.launch + _alone(f, target, o) + latency * FIRST_LOAD * _starts(f, o) + longest
    if f.known is not None:
        time = time + f.known.spilled * o.threads * f.blocks / target.spill_bytes
    time = np.where(o.feasible, time, np.inf)
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
