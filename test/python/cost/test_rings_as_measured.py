"""Products over rings, compared with measurements on an H200, cold, with tiles set by hand."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from mirage.cost import H200, estimate, features_of
from written_kernels.product_kernels import product_kernel


@dataclass(frozen=True)
class Run:
    """Rows, columns and depth of a product; those of a tile; slots, warps and µs."""

    sizes: tuple[int, int, int]
    tile: tuple[int, int, int]
    stages: int
    warps: int
    measured: float

    @property
    def predicted(self) -> float:
        launch = product_kernel(*self.sizes, self.tile, self.stages, self.warps)
        return float(estimate(features_of(launch), H200)["time"])


RUNS = (
    Run((64, 4096, 4096), (64, 32, 128), 8, 4, 11.39),
    Run((64, 4096, 4096), (64, 32, 128), 6, 4, 12.00),
    Run((64, 4096, 4096), (64, 32, 256), 4, 4, 11.82),
    Run((64, 4096, 4096), (64, 32, 64), 8, 4, 13.19),
    Run((64, 4096, 4096), (64, 32, 64), 12, 4, 13.71),
    Run((64, 4096, 4096), (64, 64, 128), 6, 4, 12.43),
    Run((64, 4096, 14336), (64, 32, 128), 8, 4, 32.58),
    Run((64, 4096, 14336), (64, 64, 128), 6, 4, 34.82),
    Run((64, 6144, 4096), (64, 64, 128), 6, 4, 15.66),
    Run((64, 28672, 4096), (64, 224, 64), 6, 4, 60.33),
    Run((256, 4096, 4096), (128, 64, 64), 8, 8, 16.64),
    Run((256, 4096, 4096), (128, 64, 64), 8, 4, 16.04),
    Run((256, 4096, 4096), (128, 64, 64), 6, 8, 20.40),
    Run((256, 4096, 4096), (128, 64, 128), 4, 8, 19.27),
    Run((256, 4096, 14336), (128, 64, 64), 8, 4, 49.9),
    Run((256, 6144, 4096), (128, 96, 64), 8, 8, 20.56),
    Run((256, 6144, 4096), (128, 96, 128), 3, 8, 30.90),
    Run((256, 6144, 4096), (128, 96, 128), 4, 4, 22.16),
    Run((512, 4096, 4096), (128, 128, 64), 3, 8, 38.1),
    Run((512, 4096, 4096), (128, 128, 64), 4, 8, 28.2),
    Run((512, 4096, 4096), (128, 128, 64), 5, 8, 27.2),
    Run((512, 4096, 4096), (128, 128, 64), 6, 8, 27.0),
    Run((512, 4096, 4096), (128, 128, 128), 3, 8, 33.1),
    Run((512, 4096, 4096), (64, 256, 64), 4, 8, 29.2),
    Run((512, 4096, 4096), (64, 256, 64), 5, 8, 27.1),
    Run((512, 4096, 4096), (256, 64, 64), 5, 8, 31.6),
    Run((512, 4096, 4096), (192, 96, 64), 6, 4, 29.5),
    Run((512, 4096, 14336), (128, 128, 64), 3, 8, 133.7),
    Run((512, 4096, 14336), (128, 128, 64), 4, 8, 92.7),
    Run((512, 4096, 14336), (128, 128, 64), 5, 8, 100.7),
    Run((512, 4096, 14336), (128, 128, 64), 6, 8, 102.0),
    Run((512, 4096, 14336), (128, 128, 128), 3, 8, 110.6),
    Run((512, 4096, 14336), (64, 256, 64), 3, 8, 139.3),
    Run((512, 4096, 14336), (64, 256, 64), 4, 8, 97.9),
    Run((512, 4096, 14336), (64, 256, 64), 5, 8, 93.1),
    Run((512, 4096, 14336), (64, 256, 128), 2, 8, 215.0),
    Run((512, 4096, 14336), (192, 96, 64), 6, 4, 96.66),
    Run((512, 6144, 4096), (128, 192, 64), 4, 8, 41.9),
    Run((256, 4096, 8192), (128, 64, 64), 8, 4, 29.43),
    Run((256, 4096, 8192), (128, 64, 64), 8, 8, 31.94),
    Run((256, 4096, 8192), (128, 64, 64), 6, 8, 38.23),
    Run((512, 4096, 8192), (128, 128, 64), 4, 8, 51.42),
    Run((512, 4096, 8192), (128, 128, 64), 5, 8, 53.29),
    Run((512, 4096, 8192), (128, 128, 64), 6, 8, 53.40),
    Run((1024, 1024, 1024), (128, 64, 64), 8, 4, 6.12),
    Run((1024, 1024, 1024), (128, 64, 64), 8, 8, 6.50),
    Run((2048, 2048, 2048), (128, 256, 64), 4, 8, 26.56),
    Run((2048, 2048, 2048), (128, 256, 64), 2, 8, 50.4),
    Run((2048, 28672, 4096), (128, 256, 64), 4, 8, 765.0),
    Run((2048, 28672, 4096), (256, 128, 64), 4, 8, 768.0),
    Run((2048, 28672, 4096), (128, 256, 128), 2, 8, 1096.0),
)


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_shallow_rings_wait_for_their_slots_and_deep_ones_for_device_memory(run: Run) -> None:
    assert 0.85 < run.predicted / run.measured < 1.17


def test_errors_are_small() -> None:
    """With a wait of 1.25 µs wherever all blocks start at once, their mean would be 0.13."""
    errors = [abs(np.log(run.predicted / run.measured)) for run in RUNS]
    assert np.mean(errors) < 0.07


@pytest.mark.parametrize(
    ("tile", "depth"),
    [
        ((128, 128, 64), 4096),
        ((128, 128, 64), 8192),
        ((128, 128, 64), 14336),
        ((64, 256, 64), 4096),
        ((64, 256, 64), 14336),
    ],
)
def test_the_first_choice_of_slots_is_nearly_the_best(
    tile: tuple[int, int, int], depth: int
) -> None:
    """Fewer slots than the wait needs cost a third and more; further ones a tenth, if the depth is
    large."""
    runs = [r for r in RUNS if r.tile == tile and r.sizes == (512, 4096, depth)]
    first = min(runs, key=lambda run: run.predicted)
    assert first.measured <= 1.055 * min(run.measured for run in runs)


@pytest.mark.parametrize("sizes", [(256, 4096, 8192), (1024, 1024, 1024)])
def test_one_group_multiplies_small_tiles_faster_than_two(sizes: tuple[int, int, int]) -> None:
    one, two = (r for r in RUNS if r.sizes == sizes and r.stages == 8)
    assert (one.warps, two.warps) == (4, 8)
    assert one.measured < two.measured
    assert one.predicted < two.predicted


def test_four_slots_are_enough_for_long_loops() -> None:
    runs = [r for r in RUNS if r.sizes == (512, 4096, 14336)]
    assert min(runs, key=lambda run: run.predicted) == min(runs, key=lambda run: run.measured)
