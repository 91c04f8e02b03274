"""The cost model: properties that hold for any parameters, and a few absolute anchors."""

from __future__ import annotations

from dataclasses import replace
from math import inf

import numpy as np
import pytest
from example_programs.search_programs import attention, matmul, rms_linear
from mirage.cost import A100, H200, CheckError, KernelFeatures, check_launch, estimate, features_of
from mirage.cost.accountant import Accountant, Operands
from mirage.cost.dependent_work import ODD, ODD_WAIT, TURNED
from mirage.cost.kernel_features import Known
from mirage.search import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    Schedule,
    TensorType,
    Value,
)
from written_kernels.product_kernels import product_kernel


def copy_features(blocks: float, size: float) -> KernelFeatures:
    return KernelFeatures(
        blocks=blocks, warps=4.0, stages=1.0, dram_read=size, load_once=size / blocks,
        shared_once=size / blocks,
    )  # fmt: skip


def test_an_empty_kernel_costs_its_launch() -> None:
    time = float(estimate(KernelFeatures(), H200)["time"])
    assert H200.launch <= time < 1.2 * H200.launch


def test_what_is_only_written_waits_for_nothing() -> None:
    """A mask of positions, neighbouring rows of an embedding: no loads need to be in flight."""
    f = KernelFeatures(blocks=1024.0, warps=4.0, stages=1.0, dram_write=1e8)
    assert float(estimate(f, H200)["dram"]) == pytest.approx(1e8 / H200.dram_bytes)


def test_more_bytes_take_longer() -> None:
    times = [float(estimate(copy_features(1024.0, s), H200)["time"]) for s in (1e6, 1e7, 1e8)]
    assert times == sorted(times)
    assert times[-1] == pytest.approx(1e8 / H200.dram_bytes, rel=0.2)


def test_a_tiny_grid_cannot_saturate_bandwidth() -> None:
    def per_byte(blocks: float) -> float:
        f = KernelFeatures(blocks=blocks, steps=64.0, stages=3.0, load_step=16e3, shared_step=16e3)
        f.dram_read = blocks * 1e6
        return float(estimate(f, H200)["dram"]) / (blocks * 1e6)

    assert per_byte(4.0) > 10 * per_byte(264.0)
    assert per_byte(264.0) == pytest.approx(1 / H200.dram_bytes, rel=0.2)


def test_arrays_and_scalars_agree() -> None:
    blocks = np.array([64.0, 132.0, 1024.0])
    together = estimate(copy_features(blocks, 1e7), H200)["time"]  # pyright: ignore[reportArgumentType]
    apart = [float(estimate(copy_features(float(b), 1e7), H200)["time"]) for b in blocks]
    np.testing.assert_allclose(together, apart)


def test_shared_memory_is_limited() -> None:
    assert np.isinf(estimate(KernelFeatures(shared_once=300e3), H200)["time"])
    assert np.isfinite(estimate(KernelFeatures(shared_once=200e3), H200)["time"])
    assert np.isinf(estimate(KernelFeatures(shared_once=200e3), A100)["time"])


@pytest.mark.parametrize(
    "graph", [rms_linear(16, 4096, 6144), attention(2, 256, 4096, 64), matmul(1024, 1024, 1024)]
)
def test_features_of_launches_agree_with_the_prediction(graph: object) -> None:
    for candidate in superoptimize(graph, H200).candidates:  # pyright: ignore[reportArgumentType]
        for op in candidate.graph.ops:
            assert isinstance(op, Launch)
            f = features_of(op)
            assert f.dram_write == sum(v.type.bytes for v in op.results)
            assert np.isfinite(estimate(f, H200)["time"])


def test_spilled_registers_and_shared_contractions_cost_time() -> None:
    def time(spilled: float, sums: float, warps: float = 16.0) -> float:
        f = KernelFeatures(blocks=128.0, warps=warps, load_once=1e5, sums_once=sums)
        f.known = Known(64e3, 128.0, spilled)
        return float(estimate(f, H200)["time"])

    assert time(2000.0, 0.0) > time(0.0, 0.0) + 10.0
    assert time(0.0, 1e5) > time(0.0, 0.0)
    assert time(0.0, 1e5, 4.0) > time(0.0, 1e5, 16.0) - 1.0


def test_sectors_that_are_written_in_pieces_cost_time() -> None:
    def time(run: float) -> float:
        account = Accountant(copy_features(1024.0, 8e6))
        account.store(8e6, run)
        return float(estimate(account.features, H200)["time"])

    assert time(2.0) > time(8.0) > time(32.0) == time(256.0)
    # measured on an H200: 58 µs for runs of 2 bytes, 5 µs for whole rows
    assert time(2.0) - time(256.0) == pytest.approx(50.0, rel=0.3)


def test_a_transposed_result_is_written_in_whole_sectors() -> None:
    x, b = Value(TensorType((2048, 2048), DType.F16), "x"), Builder()
    y = b.unary(UnaryFn.EXP, b.transpose(x, (1, 0)))
    best = superoptimize(KernelGraph("g", (x,), tuple(b.ops), (y,)), H200).candidates[0]
    (launch,) = (op for op in best.graph.ops if isinstance(op, Launch))
    assert features_of(launch).pieces == 0.0


def test_more_stages_keep_more_in_flight() -> None:
    def time(stages: float) -> float:
        f = KernelFeatures(blocks=132.0, steps=64.0, stages=stages, load_step=8e3, shared_step=8e3)
        f.dram_read = 132.0 * 64.0 * 8e3
        return float(estimate(f, H200)["time"])

    assert time(2.0) > time(3.0) > time(4.0)


def test_streaming_programs_come_close_to_measured_times() -> None:
    # tuned kernels on an H200, cold L2: 13.2 to 18 µs
    assert 12.0 < superoptimize(rms_linear(2, 4096, 6144), H200).candidates[0].cost.time < 18.0
    # 61.7 µs is the time to read the operands
    assert 60.0 < superoptimize(attention(256, 16, 4096, 64), H200).candidates[0].cost.time < 80.0


def launch_of(tile: tuple[int, ...], parts: int = 4, warps: int = 4) -> Launch:
    source = Value(TensorType((64, 64), DType.F16), "x")
    param = Value(source.type, "x")
    b = Builder(in_block=True)
    x = b.load(param, (("m",), ()), tile)
    body = BlockGraph((param,), tuple(b.ops), (Output(x, (("m",), ())),))
    return Launch((source,), (Value(source.type),), (Axis("m", parts),), body, Schedule(warps))


def test_check_launch_accepts_and_refuses() -> None:
    check_launch(launch_of((16, 64)), H200)
    with pytest.raises(CheckError, match="4 parts of 8 to cover 64"):
        check_launch(launch_of((8, 64)), H200)
    with pytest.raises(CheckError, match="1 to 16 warps"):
        check_launch(launch_of((16, 64), warps=32), H200)


def test_check_launch_refuses_wide_tiles_and_large_matmuls() -> None:
    source = Value(TensorType((4, 4, 4), DType.F16))
    param = Value(source.type)
    b = Builder(in_block=True)
    x = b.load(param, ((), (), ()), (4, 4, 4))
    body = BlockGraph((param,), tuple(b.ops), (Output(x, ((), (), ())),))
    with pytest.raises(CheckError, match="at most 2 dimensions"):
        check_launch(Launch((source,), (Value(source.type),), (), body), H200)
    left, right = Value(TensorType((256, 16), DType.F16)), Value(TensorType((16, 16), DType.F16))
    params = (Value(left.type), Value(right.type))
    b = Builder(in_block=True)
    y = b.matmul(b.load(params[0], ((), ()), (256, 16)), b.load(params[1], ((), ()), (16, 16)))
    body = BlockGraph(params, tuple(b.ops), (Output(y, ((), ())),))
    result = Value(TensorType((256, 16), DType.F16))
    with pytest.raises(CheckError, match="128 x 256, got 256 x 16"):
        check_launch(Launch((left, right), (result,), (), body), H200)
    with pytest.raises(CheckError, match="warpgroups a loop with a product, got none"):
        check_launch(Launch((left, right), (result,), (), body, Schedule(8, 2, True)), H200)
    check_launch(product_kernel(256, 64, 64, (256, 64, 64), 2, 8), H200)
    check_launch(product_kernel(256, 136, 64, (256, 136, 64), 2, 8), H200)
    with pytest.raises(CheckError, match="144 x 256, got 256 x 152"):
        check_launch(product_kernel(256, 152, 64, (256, 152, 64), 2, 8), H200)


@pytest.mark.parametrize(
    ("tile", "stages", "warps", "measured"),
    [((128, 64, 64), 8, 4, 9.70), ((64, 128, 64), 8, 4, 9.83)],
)
def test_rows_that_two_lines_hold_are_read_twice(
    tile: tuple[int, int, int], stages: int, warps: int, measured: float
) -> None:
    """1000^3 on an H200, whose rows of 2000 bytes start anywhere in a line; 1024^3 takes 6 µs."""
    times = [
        float(estimate(features_of(product_kernel(n, n, n, tile, stages, warps)), H200)["time"])
        for n in (1000, 1024)
    ]
    assert times[0] > 1.35 * times[1]
    assert 0.85 < times[0] / measured < 1.15


def test_what_follows_a_loop_of_products_is_not_hidden() -> None:
    """Groups that take turns compute in parallel with each other's products in the loop; after it
    there are none. A gelu of 4096 x 4096 after its product took 25 µs."""
    launch = product_kernel(4096, 4096, 1024, (256, 128, 64), 4, 8)
    f = features_of(launch)
    before = float(estimate(f, H200)["time"])
    f.alu_once = np.asarray(f.alu_once) + 20.0 * 256 * 128
    work = np.ceil(512 / 132) * 20.0 * 256 * 128 / H200.alu
    assert float(estimate(f, H200)["time"]) - before > 0.95 * work
    assert 10.0 < work < 25.0
    apart = [
        features_of(product_kernel(4096, 4096, 1024, tile, 4, 8, resident=132)).apart
        for tile in ((256, 128, 64), (192, 128, 64), (128, 256, 64))
    ]
    assert apart == [False, False, True]


def test_rows_at_odd_elements_cost_the_threads_that_copy_them() -> None:
    """Element by element, and not ahead of time: further stages do not help."""

    def time(stages: float, odd: float) -> float:
        f = KernelFeatures(
            blocks=132.0, steps=64.0, warps=8.0, stages=stages, load_step=16e3, shared_step=16e3,
            odd_step=odd, mma_step=1e6,
        )  # fmt: skip
        return float(estimate(f, H200)["time"])

    assert time(4.0, 0.0) < time(2.0, 0.0)
    assert time(4.0, 8e3) == pytest.approx(time(2.0, 8e3), rel=0.01)
    assert time(4.0, 8e3) - time(4.0, 0.0) > 0.9 * 64 * ODD * 8e3 / H200.clock


def test_threads_wait_for_more_odd_elements_than_they_ask_for_at_once() -> None:
    """Decoding with 4095 keys on an H200: 48.5 µs with 128 of them for each thread, 40.1 with 32,
    and 71 with 64 at each of 16 steps."""

    def chain(elements: float, steps: float = 1.0) -> float:
        f = KernelFeatures(blocks=512.0, steps=steps, warps=4.0, load_once=1e4, odd_once=elements)
        if steps > 1:
            f = replace(f, load_once=0.0, load_step=1e4, odd_once=0.0, odd_step=elements)
        return chain_of(f)

    at_once = 32 * 128.0
    wait = ODD_WAIT / H200.clock
    assert chain(at_once) < chain(0.0) + 0.5 * wait
    assert chain(4 * at_once) > chain(at_once) + 3 * wait
    assert chain(2 * at_once, 16.0) > 16 * 2 * wait


def test_blocks_of_an_sm_share_its_units() -> None:
    """Two blocks of one wave work at the same time; a block of few warps without products uses half
    of the lanes."""

    def chain(blocks: float, warps: float, mma: float) -> float:
        f = KernelFeatures(blocks=blocks, warps=warps, stages=1.0, load_once=1e4, alu_once=2e5)
        f.mma_once = mma
        return chain_of(f)

    assert chain(264.0, 4.0, 1e5) > chain(132.0, 4.0, 1e5) + 0.4 * 2e5 / H200.alu
    assert chain(132.0, 4.0, 0.0) == pytest.approx(
        chain(132.0, 8.0, 0.0) + 0.5 * 2e5 / H200.alu, 0.1
    )


def test_few_warps_with_many_elements_leave_lanes_idle() -> None:
    """Cross-entropy by target, on an H100: 63 µs in loops of 24 warps an SM, 98 in blocks that load
    128 elements a thread, with 206 registers, at once, of which eight warps fit on an SM."""

    def time(registers: float) -> float:
        known = Known(shared=0.0, registers=registers, spilled=0.0)
        f = KernelFeatures(blocks=8032.0, warps=2.0, stages=1.0, load_once=16512.0, known=known)
        f.dram_read, f.alu_once, f.sfu_once = 131e6, 99352.0, 8192.0
        return float(estimate(f, H200)["time"])

    assert time(206.0) > 1.5 * time(100.0)
    assert time(100.0) == pytest.approx(time(60.0), 0.1)


def test_products_behind_a_loop_wait_for_factors_that_are_copied_there() -> None:
    """LoRA with 16 rows, 64 columns per block and 4 warps: 3.98 µs if the last factor is copied
    after the loop, and 3.25 before it, on an H100."""

    def graph(behind: bool) -> Launch:
        shapes = {"x": (16, 256), "w": (256, 64), "a": (256, 16), "b": (16, 64)}
        params = tuple(Value(TensorType(s, DType.F16), n) for n, s in shapes.items())
        x, w, a, b = params
        step, block = Builder(in_block=True), Builder(in_block=True)
        last = block.load(b, ((), ()), (16, 64))
        left = step.load(x, ((), ("k",)), (16, 128))
        wide = step.matmul(left, step.load(w, (("k",), ()), (128, 64)))
        low = step.matmul(left, step.load(a, (("k",), ()), (128, 16)))
        if not behind:
            low = step.matmul(step.cast(low, DType.F16), last)
        both = [Accumulator(AccumulateFn.SUM, v) for v in (wide, low)]
        first, second = block.loop(Axis("k", 2), tuple(step.ops), tuple(both))
        if behind:
            second = block.matmul(block.cast(second, DType.F16), last)
        y = block.binary(BinaryFn.ADD, first, second)
        body = BlockGraph(params, tuple(block.ops), (Output(y, ((), ())),))
        result = Value(TensorType((16, 64), DType.F16))
        return Launch(params, (result,), (), body, Schedule(4, 3))

    after, within = features_of(graph(True)), features_of(graph(False))
    assert (after.turned_once, within.turned_once) == (1.0, 0.0)
    clocks = TURNED / H200.clock
    fast = chain_of(replace(after, turned_once=0.0))
    assert chain_of(after) == pytest.approx(fast)
    assert after.known is not None
    late = replace(after, known=replace(after.known, first=inf))
    assert chain_of(late) == pytest.approx(fast + clocks)
    # four such blocks run at once on an SM, but not if no two of their tiles share memory
    many = replace(late, blocks=528.0, known=replace(after.known, first=60000.0))
    assert chain_of(many) > chain_of(replace(many, turned_once=0.0)) + 3 * clocks / 4


def test_warps_that_share_no_contraction_multiply_all_of_it() -> None:
    """One fragment of a result is the work of one warp, no matter how many there are; and f32
    factors use half as much of K at a time, in three products."""

    def clocks(warps: float, shared: float, half: bool = True) -> float:
        account = Accountant(KernelFeatures(warps=warps))
        account.matmul(16.0, 8.0, 512.0, Operands(half), False, shared)
        return float(account.features.clocks_once) - 60.0

    assert clocks(1.0, 1.0) == clocks(4.0, 1.0) == 4.0 * clocks(4.0, 4.0)
    assert clocks(4.0, 1.0, half=False) == 6.0 * clocks(4.0, 1.0)


def chain_of(f: KernelFeatures) -> float:
    return float(estimate(f, H200)["chain"])


def test_few_loads_do_not_slow_down_what_is_written() -> None:
    """A MB of indices, and 67 MB that are computed from them: 512 bytes of indices are loaded by a
    block, so few are on their way, but only they wait for that."""
    written = KernelFeatures(
        blocks=2048.0, warps=4.0, load_once=256.0, shared_once=256.0, live=4096.0,
        dram_read=256.0 * 2048, dram_write=32768.0 * 2048, alu_once=4096.0,
    )  # fmt: skip
    at_full_rate = 65536.0 * 1024 / H200.dram_bytes
    assert float(estimate(written, H200)["dram"]) < 1.05 * at_full_rate
    as_many = replace(written, dram_read=65536.0 * 1024, load_once=32768.0)
    assert float(estimate(as_many, H200)["dram"]) > 2.0 * at_full_rate


def test_threads_that_store_much_store_more_slowly() -> None:
    """67 MB of classes in 128 rows of a block, 1024 bytes a thread, 18.9 µs; in 32 rows 16.9."""

    def time(rows: float) -> float:
        blocks = 65536.0 / rows
        f = KernelFeatures(
            blocks=blocks, warps=4.0, load_once=8.0 * rows, shared_once=8.0 * rows,
            live=128.0 * rows, dram_read=8.0 * 65536, dram_write=1024.0 * 65536,
        )  # fmt: skip
        return float(estimate(f, H200)["time"])

    assert time(32.0) == pytest.approx(16.9, rel=0.03)
    assert time(128.0) == pytest.approx(18.9, rel=0.05)


def test_pieces_of_one_line_are_written_more_slowly_than_longer_ones() -> None:
    """Softmax of 512 rows of 262,144 f16: 213.6 µs in pieces of 128 bytes, 201.3 in 2048."""

    def written(run_bytes: float) -> float:
        account = Accountant(KernelFeatures())
        account.store(2.0 * 512 * 262144, run_bytes, 2.0 * 262144)
        return float(account.features.dram_write)

    assert written(128.0) == pytest.approx(1.04 * written(256.0))
    assert written(256.0) == written(2048.0)
