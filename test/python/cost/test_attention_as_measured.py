"""Attention to parts of the keys, compared with measurements on an H200, cold, with tiles set by
hand."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pytest
from mirage.cost import H200, estimate, features_of
from written_kernels.attention_kernels import partial_attention


@dataclass(frozen=True)
class Run:
    """Heads, rows, size of a head and keys; rows of a block, keys of a step and parts of the keys;
    slots, warps and µs. No multiprocessor has two of the blocks."""

    sizes: tuple[int, int, int, int]
    tile: tuple[int, int, int]
    stages: int
    warps: int
    measured: float

    @cached_property
    def predicted(self) -> float:
        launch = partial_attention(*self.sizes, self.tile, self.stages, self.warps)
        return float(estimate(features_of(launch), H200)["time"])


RUNS = (
    Run((2, 256, 64, 4096), (64, 64, 8), 5, 4, 7.40),
    Run((2, 256, 64, 4096), (64, 64, 16), 5, 4, 5.68),
    Run((2, 256, 64, 4096), (64, 128, 8), 3, 4, 6.73),
    Run((2, 256, 64, 4096), (64, 128, 16), 3, 4, 5.30),
    Run((2, 256, 64, 4096), (128, 64, 8), 5, 8, 9.35),
    Run((2, 256, 64, 4096), (128, 64, 16), 5, 8, 7.05),
    Run((2, 256, 64, 4096), (128, 64, 32), 5, 8, 6.08),
    Run((2, 256, 64, 4096), (128, 128, 8), 3, 8, 8.66),
    Run((2, 256, 64, 4096), (128, 128, 16), 3, 8, 6.69),
    Run((2, 256, 64, 8192), (64, 64, 16), 5, 4, 7.80),
    Run((2, 256, 64, 8192), (64, 128, 16), 3, 4, 7.02),
    Run((2, 256, 64, 8192), (128, 64, 16), 5, 8, 9.78),
    Run((2, 256, 64, 8192), (128, 64, 32), 5, 8, 7.69),
    Run((2, 256, 64, 8192), (128, 128, 16), 3, 8, 8.97),
    Run((2, 256, 64, 8192), (128, 128, 32), 3, 8, 7.37),
    Run((4, 256, 64, 4096), (64, 64, 8), 5, 4, 7.83),
    Run((4, 256, 64, 4096), (64, 128, 8), 3, 4, 7.08),
    Run((4, 256, 64, 4096), (128, 64, 8), 5, 8, 9.76),
    Run((4, 256, 64, 4096), (128, 128, 8), 3, 8, 8.97),
    Run((8, 128, 128, 4096), (64, 64, 8), 5, 4, 10.43),
    Run((8, 128, 128, 4096), (64, 128, 8), 3, 4, 10.09),
    Run((8, 128, 128, 4096), (128, 64, 8), 5, 8, 12.60),
    Run((8, 128, 128, 4096), (128, 64, 16), 5, 8, 11.38),
    Run((8, 128, 128, 4096), (128, 128, 8), 3, 8, 12.49),
    Run((8, 128, 128, 4096), (128, 128, 16), 3, 8, 11.99),
    Run((8, 512, 64, 2048), (64, 64, 1), 5, 4, 20.44),
    Run((8, 512, 64, 2048), (64, 64, 2), 5, 4, 11.98),
    Run((8, 512, 64, 2048), (64, 128, 1), 3, 4, 16.62),
    Run((8, 512, 64, 2048), (64, 128, 2), 3, 4, 10.34),
    Run((8, 512, 64, 2048), (128, 64, 1), 5, 8, 26.08),
    Run((8, 512, 64, 2048), (128, 64, 2), 5, 8, 15.22),
    Run((8, 512, 64, 2048), (128, 128, 1), 3, 8, 21.55),
    Run((8, 512, 64, 2048), (128, 128, 2), 3, 8, 13.15),
    Run((16, 256, 64, 4096), (64, 64, 2), 5, 4, 20.47),
    Run((16, 256, 64, 4096), (64, 128, 2), 3, 4, 17.18),
    Run((16, 256, 64, 4096), (128, 64, 2), 5, 8, 26.37),
    Run((16, 256, 64, 4096), (128, 64, 4), 5, 8, 15.93),
    Run((16, 256, 64, 4096), (128, 128, 2), 3, 8, 21.94),
    Run((16, 256, 64, 4096), (128, 128, 4), 3, 8, 13.97),
    Run((16, 1024, 64, 1024), (128, 64, 1), 5, 8, 16.31),
    Run((16, 1024, 64, 1024), (128, 128, 1), 3, 8, 14.21),
    Run((32, 512, 128, 512), (128, 64, 1), 5, 8, 14.28),
    Run((32, 512, 128, 512), (128, 128, 1), 3, 8, 14.19),
)


def test_one_group_of_warps_works_beside_its_own_products() -> None:
    """A group that is alone on its multiprocessor used to be predicted up to 1.39 times too slow,
    and two groups in few steps at 0.7 of their time, since nothing overlaps the stores of their
    sums."""
    for run in RUNS:
        assert 0.85 < run.predicted / run.measured < 1.19
    errors = [abs(np.log(run.predicted / run.measured)) for run in RUNS]
    assert np.mean(errors) < 0.04


@pytest.mark.parametrize("sizes", sorted({run.sizes for run in RUNS}))
def test_the_first_choice_is_nearly_the_best(sizes: tuple[int, int, int, int]) -> None:
    """Of two heads with 256 rows and 4096 keys, 64 rows by one group take 5.3 µs and 128 rows by
    two, which were chosen, 6.7."""
    runs = [run for run in RUNS if run.sizes == sizes]
    first = min(runs, key=lambda run: run.predicted)
    assert first.measured <= 1.05 * min(run.measured for run in runs)
