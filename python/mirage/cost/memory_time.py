"""The time that a kernel's blocks need from device memory and from L2."""

from __future__ import annotations

import numpy as np

from mirage.cost.accountant import WRITTEN_AT_ONCE
from mirage.cost.early_copies import steps_ahead
from mirage.cost.ends import on_the_way
from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.kernel_kind import Kind
from mirage.cost.occupancy import Occupancy
from mirage.cost.read_again import evicted
from mirage.cost.target import Target
from mirage.cost.uniform import is_zero, plus, somewhere, where

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

HELD_BYTES, HELD = 256.0, 0.09
"""The bytes that a thread stores, and the additional cost of all stores if it stores more: 67 MB of
i64, classes of indices, in blocks of 4096 to 32,768, take 17.5 µs on an H200 (16.9 to 18.1) with up
to 256 bytes a thread, and 18.9 (18.9 to 19.1) with 512 and 1024."""


def memory_times(
    f: KernelFeatures, kind: Kind, target: Target, o: Occupancy, load: Num, at_end: Num
) -> tuple[Num, Num]:
    """Return the µs of device memory and of L2 for blocks that ``load`` this number of bytes each.
    The bytes that are stored ``at_end``, when nothing is loaded, do not count."""
    together, streams = o.waves <= 1, kind.streams
    # blocks that run together are in different phases: half of them wait for their loads outside
    # the loop
    staged = f.shared_step * np.maximum(steps_ahead(f), 0.5)
    outside = f.load_once - f.again_once
    if not is_zero(outside):
        outside = outside * on_the_way(f, kind, o)
        staged = staged + where(~together & ~streams, 0.5, 1.0) * outside
    flight = o.active * o.together * np.maximum(np.minimum(staged, load), 1.0)
    if somewhere(streams):
        flight = where(streams, np.minimum(flight, f.blocks * load + 1.0), flight)
    # bandwidth of what is in flight; near saturation more in flight still helps a little (stores do
    # not wait)
    missing = where(np.asarray(load) > 0, np.minimum(target.flight_total / flight, 1e3), 0.0)
    missing = missing * _loaded(f, o, load)
    moved = f.dram_read + evicted(f, target, o) + f.dram_write - at_end
    moved = moved + _held_stores(f, load)
    dram = moved / target.dram_bytes * np.sqrt(1.0 + np.square(missing))
    return dram, _l2(f, kind, target, o, load) + f.pieces / (0.5 * target.l2_bytes)


def _held_stores(f: KernelFeatures, load: Num) -> Num:
    """Return the additional bytes as which the stores of threads that hold much count, in kernels
    that load something, but less than they write."""
    if not somewhere(f.dram_write > WRITTEN_AT_ONCE):
        return 0.0
    each = f.dram_write / (32.0 * f.blocks * f.warps)
    some = (each > HELD_BYTES) & (f.dram_write > WRITTEN_AT_ONCE) & (np.asarray(load) > 0)
    rest = np.maximum(f.dram_write - f.blocks * load, 0.0)
    return where(some, HELD * rest, 0.0)


def _loaded(f: KernelFeatures, o: Occupancy, load: Num) -> Num:
    """Return the share of the time in which what is on its way limits the rate: loads that are few
    beside what is written keep only themselves waiting. Warps of packed blocks only copy, so others
    store meanwhile: of two warps a tile of 16 x 16 f16 or one, 9408 tiles take 4.03 and 3.93 µs,
    and 37,632 tiles of 8 x 8 f32 6.13."""
    loaded = f.blocks * load
    share = np.minimum(1.0, loaded / np.maximum(f.dram_write, 1.0))
    between = loaded / np.maximum(loaded + f.dram_write, 1.0)
    return where(np.asarray(o.packed) > 1, between, share)


def _l2(f: KernelFeatures, kind: Kind, target: Target, o: Occupancy, load: Num) -> Num:
    """Return the µs in which blocks read from L2, or in which an SM receives the data if that is
    longer."""
    together, groups = o.waves <= 1, f.warpgroups
    split = plus(f.split_once, f.split_step, f.steps)
    if not is_zero(split):
        load = load + where(f.shifted & ~together, SHIFTED_IN_WAVES, 1.0) * split
    # tiles that another block of the cluster copies are read from L2 once
    given = f.given_step + f.given_split_step
    read = f.blocks * (load if is_zero(given) else load - given * f.steps)
    first = np.minimum(f.dram_read, read)
    l2 = where(together, first + (read - first) / AGAIN_IN_STEP, read) / target.l2_bytes
    taken = where(together & kind.multiplies, TAKEN_IN_STEP, 1.0) * target.sm_bytes
    if somewhere(groups):
        boxes = np.where(together, IN_STEP, 1.0)
        l2 = where(groups, read / (boxes * target.box_l2_bytes), l2)
        taken = where(groups, boxes * target.box_sm_bytes, taken)
    # this block receives what another block of the cluster requests, without a second request
    asked = load if is_zero(f.given_split_step) else load - f.given_split_step * f.steps
    return np.maximum(l2, o.per_sm * asked / taken)
