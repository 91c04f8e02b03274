"""The clocks of the work of a block in which each instruction waits for those before it."""

from __future__ import annotations

import numpy as np

from mirage.cost.early_copies import late, steps_ahead
from mirage.cost.kernel_features import KernelFeatures, Num
from mirage.cost.kernel_kind import Kind
from mirage.cost.occupancy import Occupancy
from mirage.cost.target import Target
from mirage.cost.uniform import is_zero, plus, where

EXCHANGE_ALONE = 2.5
"""The factor by which warps take longer to exchange values in a kernel that multiplies without a
loop, where nothing runs in parallel: one row of 256 times a matrix and two factors, 4.9 µs with
three sums, 3.7 with one. (Where blocks only stream, others load meanwhile: softmax of 583 rows
takes 2.70 µs with a row for four warps, 2.85 with a row a warp.)"""

ROW = 150.0
"""The clocks of a reduction of rows across the lanes of a warp, five shuffles, if only reductions
determine how warps share a tile: a warp has whole rows (or a thread whole columns)."""

TURNED = 400.0
"""The clocks of a product after a loop whose other factor is copied only then: all warps wait idly
until it is in shared memory. (LoRA with 16 rows: 3.95 µs with the last product behind the loop, and
3.14 with its factor copied before the loop.)"""

ODD, ODD_WAIT = 0.15, 2500.0
"""Clocks of an SM for each element of a tile whose rows start at odd elements: it is loaded alone
or as part of a word, shifted, and written to shared memory by the threads that compute (matmul
4095^3: 0.19 with nothing hidden); and clocks that a thread waits for each 32 of these elements,
when it requests them (583x931x257 in two tilings; decoding with 4095 keys)."""


def dependent_clocks(
    f: KernelFeatures, kind: Kind, target: Target, o: Occupancy
) -> tuple[Num, Num]:
    """Return the clocks of the dependent work of one block: of all steps, and outside the loop."""
    looped, threads = f.steps > 1, o.threads
    barrier = where(kind.groups, target.ring_step, target.step + target.step_warp * f.warps)
    exchange = target.exchange + target.exchange_warp * f.warps
    row = where(kind.multiplies, exchange, ROW * target.chain)
    gather = target.gather / (8.0 * threads)  # per byte of sums, half of which are read
    once, step = f.clocks_once * target.chain, f.clocks_step * target.chain
    if not is_zero(f.exchanges_once):
        beside = where(looped | ~kind.multiplies, 1.0, EXCHANGE_ALONE)
        once = once + beside * f.exchanges_once * exchange
    once = plus(plus(once, f.sums_once, gather), f.rows_once, row)
    if not is_zero(f.turned_once):
        once = once + where(looped & late(f, target, o), TURNED * f.turned_once, 0.0)
    step = plus(plus(step, f.exchanges_step, exchange), f.sums_step, gather)
    step = plus(step, f.rows_step, row)
    once, step = _with_odd_rows(f, threads, once, step)
    # loads are issued as many steps ahead as there are further stages; the latency of the first
    # ones counts separately
    steps = f.steps * (step + f.in_turn * barrier * looped)
    ahead = np.maximum(steps_ahead(f), 0.0)
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
    elements. Threads wait for elements that they copy, and also for elements that go to registers:
    the first ones of a block, for which it waits anyway, and those of each step, which are not
    requested ahead."""
    if all(map(is_zero, (f.copied_once, f.copied_step, f.odd_once, f.odd_step))):
        return once, step
    copied = ODD_WAIT / (32.0 * threads)
    once, step = once + f.copied_once * copied, step + f.copied_step * copied
    once = once + np.maximum((f.odd_once - f.copied_once) * copied - ODD_WAIT, 0.0)
    straight = f.odd_step - f.copied_step
    return once, step + where(straight > 0, np.maximum(straight * copied, ODD_WAIT), 0.0)
