"""The cost of waves that are not full, and of rows that become columns in registers."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mirage.cost import H200
from mirage.cost.features import features_of
from mirage.cost.kernel_features import KernelFeatures, Known
from mirage.cost.kernel_time import estimate
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    Launch,
    Output,
    Schedule,
    TensorType,
    Value,
)


def streaming(blocks: float, shared_step: float, stages: float) -> KernelFeatures:
    """Reads 256 MB in loops of steps that take a while each."""
    read = 256e6
    steps = read / blocks / shared_step
    return KernelFeatures(
        blocks=blocks, steps=steps, warps=4.0, stages=stages, dram_read=read,
        load_step=shared_step, shared_step=shared_step, clocks_step=1000.0, exchanges_step=1.0,
    )  # fmt: skip


def time(f: KernelFeatures) -> float:
    return float(estimate(f, H200)["time"])


def test_a_last_wave_of_few_blocks_takes_as_long_as_a_block() -> None:
    """Three blocks fit on an SM: 512 are a wave of 396 and one of 116 blocks, each alone on its SM;
    measured 80 µs, and 66 in 256 blocks that all run at once."""
    uneven, even = streaming(512.0, 16e3, 4.0), streaming(256.0, 32e3, 3.0)
    assert time(uneven) > 1.1 * time(even)
    full = replace(uneven, blocks=396.0, dram_read=uneven.dram_read * 396 / 512)
    assert time(uneven) - time(full) > 1.3 * (512 / 396 - 1) * time(full)


def test_many_waves_hide_the_last_one() -> None:
    """Small blocks fill the rest."""
    times = [time(streaming(blocks, 16e3, 4.0)) for blocks in (512.0, 2048.0, 8192.0)]
    assert times[0] > 1.05 * max(times[1:])


@pytest.mark.parametrize(("warps", "rows"), [(4, 8), (8, 16)])
def test_several_rows_a_warp_end_later(warps: int, rows: int) -> None:
    """The block that loads last is alone, and a warp processes its rows one after the other."""

    def softmax(rows: int) -> float:
        x, out = (Value(TensorType((4096, 1024), DType.F16)) for _ in range(2))
        b = Builder(in_block=True)
        tile = b.load(x, (("m",), ()), (rows, 1024))
        apart = b.binary(BinaryFn.SUB, tile, b.reduce(ReduceFn.MAX, tile, (1,)))
        powers = b.unary(UnaryFn.EXP, apart)
        result = b.binary(BinaryFn.DIV, powers, b.reduce(ReduceFn.SUM, powers, (1,)))
        body = BlockGraph((x,), tuple(b.ops), (Output(b.cast(result, DType.F16), (("m",), ())),))
        grid = (Axis("m", 4096 // rows),)
        return time(features_of(Launch((x,), (out,), grid, body, Schedule(warps, 1))))

    assert softmax(rows // 2) < softmax(rows) < softmax(2 * rows)


def softmax(shape: tuple[int, int], rows: int, warps: int) -> Launch:
    """Each block has ``rows`` rows."""
    x, out = (Value(TensorType(shape, DType.F16)) for _ in range(2))
    b = Builder(in_block=True)
    tile = b.load(x, (("m",), ()), (rows, shape[1]))
    powers = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, tile, b.reduce(ReduceFn.MAX, tile, (1,))))
    total = b.unary(UnaryFn.RECIPROCAL, b.reduce(ReduceFn.SUM, powers, (1,)))
    result = b.binary(BinaryFn.MUL, powers, total)
    body = BlockGraph((x,), tuple(b.ops), (Output(result, (("m",), ())),))
    return Launch((x,), (out,), (Axis("m", -(-shape[0] // rows)),), body, Schedule(warps, 1))


@pytest.mark.parametrize(
    ("shape", "measured"),
    [
        ((4096, 1024), {(4, 4): 5.96, (1, 1): 5.92, (1, 2): 5.94, (2, 4): 5.97, (8, 8): 5.97}),
        ((4096, 4096), {(4, 4): 18.76, (1, 2): 18.19, (1, 4): 18.38, (2, 8): 18.40}),
        ((583, 931), {(4, 4): 2.96, (1, 1): 2.85, (1, 2): 2.75, (1, 4): 2.70, (2, 8): 3.07}),
    ],
)
def test_rows_that_warps_share_as_measured(
    shape: tuple[int, int], measured: dict[tuple[int, int], float]
) -> None:
    """On an H200, cold: blocks with one load are in flight as a whole, and the exchange between
    warps for a row is hidden by other blocks."""
    predicted = {key: time(features_of(softmax(shape, *key))) for key in measured}
    for key, microseconds in measured.items():
        assert 0.9 < predicted[key] / microseconds < 1.32, key
    chosen = min(predicted, key=lambda key: predicted[key])
    assert measured[chosen] < 1.04 * min(measured.values())


def test_blocks_that_have_an_sm_to_themselves_wait_for_their_first_bytes() -> None:
    """Softmax of 4096 columns on an H200, cold: rows and warps of a block, registers as assembled.
    The fewer blocks an SM has at a time, the less is in flight while one block replaces another."""
    measured = {
        (8, 8, 158): 22.1, (4, 8, 90): 21.2, (4, 4, 156): 18.8, (2, 8, 46): 18.5, (1, 2, 80): 18.3
    }  # fmt: skip
    predicted: dict[tuple[int, int, int], float] = {}
    for rows, warps, registers in measured:
        f = features_of(softmax((4096, 4096), rows, warps))
        known = Known(shared=0.0, registers=float(registers), spilled=0.0)
        predicted[rows, warps, registers] = time(replace(f, known=known))
    for key, microseconds in measured.items():
        assert 0.93 < predicted[key] / microseconds < 1.12, key
    chosen = min(predicted, key=lambda key: predicted[key])
    assert measured[chosen] == min(measured.values())


def normalized(turned: bool) -> Launch:
    """``x - mean(x)`` of tiles of 16 rows, summed over rows or columns first."""
    x, out = (Value(TensorType((256, 16, 1024), DType.F32)) for _ in range(2))
    b = Builder(in_block=True)
    whole = b.load(x, (("m",), (), ()), (1, 16, 1024))
    tile = b.reshape(whole, (16, 1024))
    summed = b.transpose(tile, (1, 0)) if turned else tile
    mean = b.reduce(ReduceFn.SUM, b.reduce(ReduceFn.SUM, summed, (1,)), (0,))
    result = b.reshape(b.binary(BinaryFn.SUB, tile, mean), (1, 16, 1024))
    body = BlockGraph((x,), tuple(b.ops), (Output(result, (("m",), (), ())),))
    return Launch((x,), (out,), (Axis("m", 256),), body, Schedule(8, 1))


def test_rows_that_become_columns_in_registers_are_exchanged() -> None:
    plain, turned = (features_of(normalized(t)) for t in (False, True))
    assert time(turned) > time(plain) + 0.1
    assert float(turned.exchanges_once) == float(plain.exchanges_once) + 1


def test_products_read_columns_for_nothing() -> None:
    def product(turned: bool) -> KernelFeatures:
        x, w = (Value(TensorType((64, 64), DType.F16)) for _ in range(2))
        b = Builder(in_block=True)
        left, right = (b.load(v, ((), ()), (64, 64)) for v in (x, w))
        result = b.matmul(left, b.transpose(right, (1, 0)) if turned else right)
        body = BlockGraph((x, w), tuple(b.ops), (Output(result, ((), ())),))
        out = Value(TensorType((64, 64), DType.F16))
        return features_of(Launch((x, w), (out,), (), body, Schedule(4, 1)))

    assert time(product(True)) == time(product(False))
