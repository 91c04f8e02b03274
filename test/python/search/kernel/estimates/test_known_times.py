"""Known times are used only for equal features."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.cost import TARGETS
from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.kernel_time import estimate
from mirage.search.kernel.estimates import known_times
from mirage.search.kernel.estimates.known_times import KnownTimes

H100 = TARGETS["sm_90a"]


def features(*loaded: float) -> KernelFeatures:
    return KernelFeatures(blocks=np.full(len(loaded), 64.0), load_once=np.array(loaded))


def test_equal_features_are_predicted_once(monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownTimes()
    first = known.of(features(1e3, 2e3, 3e3), H100)
    monkeypatch.delattr(known_times, "estimate")
    assert known.of(features(1e3, 2e3, 3e3), H100) is first
    known.clear()
    with pytest.raises(NameError):
        known.of(features(1e3, 2e3, 3e3), H100)


def test_features_that_differ_where_nothing_was_sampled_are_others() -> None:
    """Only the first and the middle entry determine which features to compare."""
    known = KnownTimes()
    known.of(features(1e3, 1e3, 1e3, 1e3), H100)
    for other in (features(1e3, 1e8, 1e3, 1e3), features(1e3, 1e3, 1e3, 1e8)):
        assert np.array_equal(known.of(other, H100), estimate(other, H100)["time"])
    (alone,) = known.of(features(1e3), H100)
    assert alone == estimate(features(1e3), H100)["time"][0]
