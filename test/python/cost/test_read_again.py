"""Rows that a block reads again in a later loop come from L2 as long as it still has them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mirage.cost import H200, KernelFeatures, estimate, features_of
from mirage.cost.accountant import Accountant
from mirage.cost.kernel_features import Known
from mirage.cost.occupancy import occupancy
from mirage.cost.read_again import Readings, behind_loop, evicted
from mirage.mlir_io import graph_from_text
from mirage.semantics.ugraph import launches

ROWS, COLUMNS = 2048, 65536
BYTES = 2.0 * ROWS * COLUMNS


def moments(blocks: int, steps: int) -> KernelFeatures:
    """The mean of rows and, in a second loop, the sum of squares about it."""
    rows, columns = ROWS // blocks, COLUMNS // steps
    x, tile = f"tensor<{ROWS}x{COLUMNS}xf16>", f"!block.tile<{rows}x{columns}xf16>"
    wide, row = f"!block.tile<{rows}x{columns}xf32>", f"!block.tile<{rows}x1xf32>"
    text = f"""
    kernel.graph @moments(%x: {x}) -> tensor<{ROWS}x1xf32>
        attributes {{form = #kernel.form<selected>}} {{
      %0 = kernel.launch(%x) grid [m = {blocks}] schedule <warps = 4, stages = 4>
          : ({x}) -> tensor<{ROWS}x1xf32> {{
      ^bb0(%a: {x}):
        %mean = block.loop [n = {steps}] {{
          %t = block.load %a [[m], [n]] : {x} -> {tile}
          %c = block.reduce sum %t dims [1] : ({tile}) -> {row}
          block.accumulate sum %c : {row}
        }} : {row}
        %sum = block.loop [again = {steps}] {{
          %t = block.load %a [[m], [again]] : {x} -> {tile}
          %d = block.binary sub %t, %mean : ({tile}, {row}) -> {wide}
          %q = block.unary square %d : ({wide}) -> {wide}
          %c = block.reduce sum %q dims [1] : ({wide}) -> {row}
          block.accumulate sum %c : {row}
        }} : {row}
        block.store %sum [[m], []] : {row}
      }}
      kernel.return %0 : tensor<{ROWS}x1xf32>
    }}"""
    (launch,) = launches(graph_from_text(text).graph.ops)
    return features_of(launch)


def test_a_later_loop_over_the_same_rows_reads_them_again() -> None:
    f = moments(512, 128)
    assert f.dram_read == f.again_read == f.again_tensors == BYTES
    assert KernelFeatures().again_read == 0.0


def test_rows_that_l2_cannot_hold_come_from_device_memory_twice() -> None:
    """LayerNorm of 2048 rows of 65,536: its first kernel, in 512 blocks that all run at once, and
    its second one took 259.7 µs on an H200, of which the second took 131; 90 were predicted for the
    first."""
    f = moments(512, 128)
    assert evicted(f, H200, occupancy(f, H200)) == BYTES
    assert float(estimate(f, H200)["time"]) == pytest.approx(259.7 - 131, rel=0.1)


def test_rows_of_the_blocks_that_run_at_once_decide() -> None:
    """132 rows of 65,536 have 17 MB, of 50 in L2; with four blocks at once they have 69."""

    def again(together: float) -> float:
        known = Known(shared=220e3 / together, registers=32.0, spilled=0.0)
        f = KernelFeatures(blocks=2048.0, steps=64.0, warps=8.0, stages=2.0, known=known)
        f.again_read = f.again_tensors = BYTES
        return float(evicted(f, H200, occupancy(f, H200)))

    assert again(1.0) == 0.0
    assert 0.0 < again(2.0) < BYTES
    assert again(4.0) == BYTES


def test_what_blocks_store_meanwhile_takes_room_as_well() -> None:
    """132 rows of 128,256 have 34 MB; half of their results are stored between two readings of an
    element. Softmax takes 99 µs with one row on each SM as well as with two."""
    f = KernelFeatures(blocks=132.0, again_tensors=34e6, again_read=34e6)
    kept, stored = (
        float(evicted(g, H200, occupancy(g, H200))) for g in (f, replace(f, dram_write=34e6))
    )
    assert stored > kept + 0.4 * 34e6


def test_a_third_reading_holds_no_more() -> None:
    f = KernelFeatures(blocks=132.0, again_tensors=np.array([20e6, 40e6]), again_read=80e6)
    none, some = evicted(f, H200, occupancy(f, H200))
    assert none == 0.0
    assert 0.0 < some < 80e6


def softmax(
    columns: int, warps: int, gain: bool = False, steps: int = 8, stages: int = 4
) -> KernelFeatures:
    """Rows that are read for their maximum and sum in steps, and then whole; ``gain`` is
    loaded with the whole row, and multiplied."""
    rows, step = 2**27 // columns, columns // steps
    x, row = f"tensor<{rows}x{columns}xf16>", "!block.tile<1x1xf32>"
    part, wide = f"!block.tile<1x{step}xf32>", f"!block.tile<1x{columns}xf32>"
    halves, gains = f"!block.tile<1x{columns}xf16>", f"tensor<1x{columns}xf16>"
    with_gain = f"""
        %h = block.load %v [[], []] : {gains} -> {halves}
        %z = block.binary mul %p, %h : ({wide}, {halves}) -> {wide}"""
    text = f"""
    kernel.graph @softmax(%x: {x}, %g: {gains}) -> {x}
        attributes {{form = #kernel.form<selected>}} {{
      %0 = kernel.launch(%x, %g) grid [m = {rows}] schedule <warps = {warps}, stages = {stages}>
          : ({x}, {gains}) -> {x} {{
      ^bb0(%a: {x}, %v: {gains}):
        %sum:2 = block.loop [n = {steps}] {{
          %t = block.load %a [[m], [n]] : {x} -> !block.tile<1x{step}xf16>
          %c = block.cast %t : (!block.tile<1x{step}xf16>) -> {part}
          %r = block.reduce max %c dims [1] : ({part}) -> {row}
          %m = block.running_max %r : {row}
          %d = block.binary sub %c, %m : ({part}, {row}) -> {part}
          %e = block.unary exp %d : ({part}) -> {part}
          %s = block.reduce sum %e dims [1] : ({part}) -> {row}
          block.accumulate sum %s rescale %m, last %m : {row}, {row} rescale : {row}
        }} : {row}, {row}
        %w = block.load %a [[m], []] : {x} -> {halves}
        %c = block.cast %w : ({halves}) -> {wide}
        %d = block.binary sub %c, %sum#1 : ({wide}, {row}) -> {wide}
        %e = block.unary exp %d : ({wide}) -> {wide}
        %i = block.unary reciprocal %sum#0 : ({row}) -> {row}
        %p = block.binary mul %e, %i : ({wide}, {row}) -> {wide}{with_gain if gain else ""}
        block.store {"%z" if gain else "%p"} [[m], []] : {wide}
      }}
      kernel.return %0 : {x}
    }}"""
    (launch,) = launches(graph_from_text(text).graph.ops)
    return features_of(launch)


@pytest.mark.parametrize(
    ("columns", "warps", "gain", "measured"),
    [(32768, 8, False, 139.3), (65536, 16, False, 195.0), (65536, 16, True, 217.7)],
)
def test_rows_that_are_read_in_a_loop_and_then_whole_as_measured(
    columns: int, warps: int, gain: bool, measured: float
) -> None:
    """µs on an H200; the last one is RMSNorm, which takes no exponentials and loads its gain."""
    f = softmax(columns, warps, gain)
    assert f.again_once == 2.0 * columns
    assert f.again_read == f.again_tensors == BYTES
    assert float(evicted(f, H200, occupancy(f, H200))) == 0.0
    assert float(estimate(f, H200)["time"]) == pytest.approx(measured, rel=0.13)


def test_elements_that_are_loaded_behind_the_loop_need_few_registers() -> None:
    """Of 131,072 columns, a thread of 16 warps has 256, of which ptxas holds few at a time: 64
    registers, where 205 were expected. A thousand would be too much code."""
    f, longer = softmax(131072, 16), softmax(2**20, 16)
    assert float(f.registers) == pytest.approx(64, abs=4)
    assert f.known is not None
    assert float(f.known.spilled) == 0.0
    assert longer.known is not None
    assert float(longer.known.spilled) > 0.0
    searched = KernelFeatures(
        steps=8.0, warps=16.0, live=16384.0, live_once=131072.0, again_once=262144.0
    )
    assert float(searched.registers) == pytest.approx(64, abs=16)
    assert float(replace(searched, live_once=524288.0).registers) == 255.0
    assert float(replace(searched, again_once=0.0).registers) > 200.0


def test_few_threads_have_few_bytes_in_flight_behind_the_loop() -> None:
    """Softmax of rows of 128,256 in 8 steps takes 108.8 µs with 8 warps, 99.2 with 16."""
    few, many = (float(behind_loop(softmax(131072, warps), H200)) for warps in (8, 16))
    assert few > 1.5 * many
    assert many == pytest.approx(2 * 131072 / H200.sm_bytes)


STEPS = {  # columns: µs on an H200, by steps and slots, in one run
    32768: {
        (4, 2): 150.4, (4, 3): 146.7, (4, 4): 145.8, (8, 2): 171.9, (8, 3): 160.1, (8, 4): 157.2,
        (16, 4): 193.9, (32, 4): 271.7,
    },
    65536: {
        (4, 2): 192.3, (4, 3): 173.9, (4, 4): 174.7, (8, 2): 214.0, (8, 3): 195.1, (8, 4): 188.8,
        (16, 4): 235.4, (32, 4): 321.1,
    },
}  # fmt: skip


@pytest.mark.parametrize("columns", STEPS)
def test_the_choice_of_steps_and_slots_as_measured(columns: int) -> None:
    measured = STEPS[columns]
    predicted = {
        key: float(estimate(softmax(columns, columns // 4096, False, *key), H200)["time"])
        for key in measured
    }
    best = min(predicted, key=lambda key: predicted[key])
    assert measured[best] <= 1.01 * min(measured.values())
    assert predicted[best] == pytest.approx(measured[best], rel=0.13)
    slowest = [max(times, key=lambda key: times[key]) for times in (measured, predicted)]
    assert slowest[0] == slowest[1]


def test_a_block_waits_for_what_it_reads_again_behind_the_loop() -> None:
    f = softmax(65536, 16)
    before = replace(f, again_once=0.0)
    more = [float(estimate(g, H200)["chain"]) for g in (f, before)]
    rows = 16  # of each of 132 SMs, one after the other
    assert more[0] - more[1] == pytest.approx(rows * 131072 / H200.sm_bytes)


def test_tiles_that_are_loaded_before_the_loops_wait_for_nothing() -> None:
    readings, account = Readings(), Accountant()
    readings.count(account, "x", (8.0, 8.0), None, 8.0)
    readings.count(account, "x", (8.0, 8.0), 1, 4.0)
    assert account.features.again_once == 0.0
    assert account.features.again_read > 0.0
    readings.count(account, "x", (8.0, 8.0), 1, 4.0)
    assert account.features.again_read == account.features.again_tensors
