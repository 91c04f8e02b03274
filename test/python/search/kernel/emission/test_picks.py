"""The choices of sizes at which a derivation takes the least time."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.search.kernel.emission.picks import fastest


@pytest.mark.parametrize("most", [1, 3, 8, 64, 1000])
def test_the_least_times_are_those_of_a_stable_sort(most: int) -> None:
    random = np.random.default_rng(most)
    times = random.integers(0, 40, 500).astype(float)  # many are equal
    times[random.integers(0, 500, 100)] = np.inf
    order = np.argsort(times, kind="stable")[:most]
    assert fastest(times, most).tolist() == order[np.isfinite(times[order])].tolist()


def test_there_may_be_none() -> None:
    assert fastest(np.full(9, np.inf), 4).tolist() == []
