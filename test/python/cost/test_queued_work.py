"""Tests of the work of blocks that wait at different times."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.cost.kernel_features import KernelFeatures, Known
from mirage.cost.kernel_time import estimate
from mirage.cost.queued_work import queued
from mirage.cost.target import target_for

H200 = target_for("sm_90a")


def test_one_of_two_hides_the_other() -> None:
    """Long waits leave a block's own work, short ones all work but the wait."""
    assert queued(1.0, 6.0, 1e6) == pytest.approx(1.0, rel=1e-4)
    assert queued(1.0, 6.0, 0.0) == 6.0
    assert queued(0.0, 6.0, 2.0) == 4.0
    assert queued(0.0, 0.0, 3.0) == 0.0


def test_the_time_is_that_of_a_block_that_finds_others_waiting_or_working() -> None:
    own, together = np.array([1.0, 0.5, 2.0]), np.array([3.0, 4.0, 2.5])
    wait = np.array([1.0, 7.0, 3.0])
    time = queued(own, together, wait)
    waiting = wait / (wait + time)
    np.testing.assert_allclose(time, waiting * own + (1.0 - waiting) * together)


def cross_entropy(blocks: int, warps: int, elements: int, stages: int, registers: int) -> float:
    """Return the predicted µs of the larger of two kernels: 512 rows of 128,256 logits in parts, by
    blocks that take ``elements`` a step. In three slots, warps exchange values twice a step."""
    steps = 16.0 if stages == 4 else 8.0
    return float(
        estimate(
            KernelFeatures(
                blocks=float(blocks), steps=steps, warps=float(warps), stages=float(stages),
                dram_read=131338240.0, dram_write=384.0 * blocks, load_once=256.0,
                load_step=2.0 * elements, shared_once=256.0, shared_step=2.0 * elements,
                alu_step=12.2 * elements, sfu_step=1.005 * elements, move_step=6.0 * elements,
                clocks_once=300.0, clocks_step=130.0, rows_step=2.0,
                exchanges_step=1.0 if stages == 4 else 2.0,
                known=Known(2.0 * elements * stages, float(registers), 0.0),
            ),
            H200,
        )["time"]
    )  # fmt: skip


def test_few_warps_hide_each_other_less() -> None:
    """On an H200: 53.2, 59.1, 59.2 and 64.2 µs with a second kernel of 2.4."""
    times = [
        cross_entropy(1008, 8, 4096, 4, 64),
        cross_entropy(512, 8, 8192, 4, 112),
        cross_entropy(2016, 4, 4096, 3, 80),
        cross_entropy(1008, 8, 8192, 3, 80),
    ]
    assert times == sorted(times)
    np.testing.assert_allclose(times, [50.8, 56.7, 56.8, 61.8], rtol=0.12)
