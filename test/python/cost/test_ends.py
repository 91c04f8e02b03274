"""Times at the ends of blocks that nothing overlaps, and kernels that follow others."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mirage.cost import A100, H200, KernelFeatures, estimate
from mirage.cost.cost_report import CostReport
from mirage.cost.ends import GAP, STORED
from mirage.cost.first_bytes import FIRST_LOAD, HOT, after_another
from mirage.cost.kernel_time import report


def product(blocks: float, **other: float) -> KernelFeatures:
    """Warps that multiply tiles of 64 KB of weights in a loop of eight steps."""
    looped = KernelFeatures(
        blocks=blocks, steps=8.0, warps=4.0, stages=4.0, load_step=8192.0, shared_step=8192.0,
        dram_read=65536.0 * blocks, mma_step=2e5,
    )  # fmt: skip
    return replace(looped, **other)


def time(features: KernelFeatures) -> float:
    return float(estimate(features, H200)["time"])


def test_blocks_that_start_together_store_together() -> None:
    """A MB of sums: 0.3 µs after all loads, and the same in one wave of few blocks."""
    for blocks in (32.0, 128.0):
        stored = time(product(blocks, dram_write=1e6)) - time(product(blocks))
        assert stored == pytest.approx(1e6 / (STORED * H200.l2_bytes), rel=0.1)


def test_blocks_of_many_waves_store_beside_loads() -> None:
    many = 100.0 * H200.sms
    stored = time(product(many, dram_write=1e8)) - time(product(many))
    assert stored < 0.75 * 1e8 / (STORED * H200.l2_bytes)


def test_an_sm_loads_nothing_between_blocks_that_are_alone() -> None:
    """One block per SM at a time, in three waves: twice the gap, in addition to the time of the
    bytes."""
    alone = {"steps": 1.0, "stages": 1.0, "mma_step": 0.0, "mma_once": 2e5, "shared_once": 150e3}
    one, three = (time(product(n * H200.sms, **alone)) for n in (1.0, 3.0))
    assert three - 3.0 * one > 2.0 * GAP * H200.latency - 3.0 * (H200.launch + 2 * H200.latency)
    crowd = {**alone, "shared_once": 30e3}
    assert time(product(3.0 * H200.sms, **crowd)) < three - GAP * H200.latency


def test_blocks_of_different_lengths_leave_no_gap() -> None:
    """While one ends and the next one on its SM has no data yet, others load."""
    size, blocks = 40960.0, 2.0 * H200.sms
    alone = product(blocks, load_step=size, shared_step=size, dram_read=8.0 * size * blocks)
    assert time(replace(alone, uneven=1.01)) < time(alone) - 0.9 * GAP * H200.latency


def test_warps_that_multiply_have_no_other_work_behind_their_loads() -> None:
    """Twice as many multiplications in each of eight steps: an eighth of them comes after the loads
    of the last step, and no further share of all."""
    lean, rich = (product(H200.sms, mma_step=flop) for flop in (2e5, 4e5))
    more = 2e5 / H200.mma_half
    assert time(rich) - time(lean) == pytest.approx(more, rel=0.05)


def test_a_kernel_that_starts_early_is_ready_when_its_turn_comes() -> None:
    """Except for data that it requests from L2: scores that the previous kernel has stored, next to
    a mask."""
    early, first = H200.combine - H200.launch, FIRST_LOAD * H200.latency
    assert after_another(H200) == pytest.approx(early - first)
    assert after_another(H200, memory=False) == pytest.approx(early - (1.0 - HOT) * first)
    late = replace(H200, abilities=H200.abilities - {"dependent_launch"})
    assert after_another(A100) == A100.combine > 0
    assert after_another(late) == H200.combine > 0
    one = report(product(132.0), H200)
    scores = report(product(132.0, dram_read=1e5), H200)
    assert one.memory_first
    assert not scores.memory_first
    for other in (one, scores):
        behind = after_another(H200, other.memory_first)
        pair = CostReport.sequence((one, other), H200)
        assert pair.time == pytest.approx(one.time + other.time + behind)
        triple = CostReport.sequence((one, CostReport.sequence((other, one), H200)), H200)
        assert triple.time == pytest.approx(pair.time + one.time + after_another(H200))


def test_few_blocks_wait_once_for_what_is_in_l2() -> None:
    """512 sums of f32 become one in 1.49 µs on an H200; after the kernel that stores them, this
    takes 0.95 to 1.02 µs more."""
    one = KernelFeatures(
        blocks=1.0,
        warps=4.0,
        stages=1.0,
        load_once=2048.0,
        shared_once=2048.0,
        alu_once=640.0,
        clocks_once=100.0,
        exchanges_once=1.0,
    )
    assert time(one) == pytest.approx(1.49, rel=0.15)
    assert time(one) + after_another(H200, memory=False) == pytest.approx(1.0, rel=0.2)
    assert time(replace(one, blocks=4.0)) == pytest.approx(time(one), abs=0.01)
    waited = FIRST_LOAD * HOT * H200.latency
    for more in (replace(one, blocks=9.0), replace(one, blocks=5.0)):
        assert time(more) - time(one) == pytest.approx(waited, rel=0.2)


def test_what_is_in_l2_arrives_before_it_is_computed_with() -> None:
    """Partial sums that a kernel has just stored: the additional time for twice as many is that of
    L2."""
    hot = KernelFeatures(blocks=256.0, warps=2.0, stages=1.0, load_once=8192.0, alu_once=1e3)
    twice = replace(hot, load_once=16384.0)
    longer = estimate(twice, H200)["l2"] - estimate(hot, H200)["l2"]
    assert time(twice) - time(hot) == pytest.approx(float(longer), rel=0.05)


def test_a_loop_over_what_is_in_l2_waits_for_its_first_step() -> None:
    """Then it adds the data that has arrived while the rest arrives."""
    whole = KernelFeatures(blocks=256.0, warps=2.0, stages=1.0, load_once=65536.0, alu_once=1e3)
    looped = replace(whole, load_once=0.0, load_step=16384.0, steps=4.0, stages=4.0)
    assert estimate(looped, H200)["chain"] < estimate(whole, H200)["chain"] - 0.5


def test_sums_are_added_as_their_data_arrives() -> None:
    """67 MB of f16 in 512 blocks take 17.7 µs and of f32 17.6 on an H200, with a second
    kernel: additions do not wait for all of a block's data. The functions of a softmax do."""
    sums = KernelFeatures(
        blocks=512.0, steps=1.0, warps=8.0, stages=1.0, load_once=131072.0,
        dram_read=67108864.0, alu_once=40960.0, clocks_once=100.0, exchanges_once=1.0,
    )  # fmt: skip
    halves = replace(sums, alu_once=139264.0, move_once=131072.0)
    assert time(sums) < 16.9
    assert time(halves) - time(sums) < 0.1
    rows = replace(sums, live=32768.0), replace(halves, live=32768.0)
    assert time(rows[1]) - time(rows[0]) > 0.5


def test_sums_by_few_threads_wait_for_memory() -> None:
    """The mean of 512 rows of 262,144 by two warps each takes 10 µs more than in a loop of more."""
    sums = KernelFeatures(
        blocks=512.0, steps=1.0, warps=16.0, stages=1.0, load_once=524288.0, dram_read=268435456.0,
        alu_once=557056.0, clocks_once=100.0, exchanges_once=1.0,
    )  # fmt: skip
    assert 5.0 < time(replace(sums, warps=2.0)) - time(sums) < 15.0
