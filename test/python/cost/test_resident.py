"""Blocks that compute several tiles one after the other, as a choice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mirage.cost import H200
from mirage.cost.features import features_of
from mirage.cost.kernel_time import estimate
from mirage.cost.resident import with_resident_blocks
from mirage.cost.shared_memory_bound import shared_bytes
from mirage.semantics.ugraph import Launch, Schedule
from written_kernels.product_kernels import product_kernel


def time(launch: Launch) -> float:
    return float(estimate(features_of(launch), H200)["time"])


def with_resident(launch: Launch, blocks: int) -> Launch:
    return replace(launch, schedule=replace(launch.schedule, resident=blocks))


def test_large_products_have_as_many_blocks_as_run_at_a_time() -> None:
    launch = product_kernel(4096, 4096, 4096, (128, 256, 64), 4, 8)
    chosen = with_resident_blocks(launch, H200)
    assert chosen.schedule == Schedule(8, 4, True, 132)
    assert time(chosen) < time(launch)


def test_small_blocks_share_a_multiprocessor() -> None:
    launch = product_kernel(4096, 4096, 4096, (64, 64, 64), 4, 4)
    chosen = with_resident_blocks(launch, H200)
    assert chosen.schedule.resident % 132 == 0
    assert chosen.schedule.resident > 132


@pytest.mark.parametrize(
    ("m", "tile", "stages"),
    [
        (1024, (128, 256, 64), 4),  # one wave
        (4096, (256, 128, 64), 4),  # 64 KB to store through do not fit beside the rings
    ],
)
def test_a_block_for_each_tile_otherwise(m: int, tile: tuple[int, int, int], stages: int) -> None:
    launch = product_kernel(m, 4096, 4096, tile, stages, 8)
    assert with_resident_blocks(launch, H200) is launch


def test_other_engines_have_a_block_for_each_tile() -> None:
    launch = product_kernel(4096, 4096, 4096, (64, 64, 64), 3, 4)
    launch = replace(launch, schedule=Schedule(4, 3))
    assert with_resident_blocks(launch, H200) is launch


@pytest.mark.parametrize(
    ("tile", "more"),
    [((128, 256, 64), 2 * 16384), ((128, 224, 64), 2 * 8192), ((64, 64, 64), 8192)],
)
def test_what_results_leave_through_is_beside_the_rings(
    tile: tuple[int, int, int], more: int
) -> None:
    launch = product_kernel(1792, 1792, 1024, tile, 3, 4)
    whole, longer = shared_bytes(launch), shared_bytes(with_resident(launch, 132))
    assert longer.staged == whole.staged + more
    assert longer.total == whole.total + more


def test_rows_at_odd_places_leave_through_a_whole_tile() -> None:
    """Threads store them, since a buffer does not fit next to large rings."""
    launch = product_kernel(4096, 4095, 4096, (128, 256, 64), 4, 8)
    assert with_resident_blocks(launch, H200) is launch
    small = product_kernel(4096, 4095, 4096, (128, 128, 64), 3, 8)
    more = shared_bytes(with_resident(small, 132)).staged - shared_bytes(small).staged
    assert more >= 128 * 128 * 2
