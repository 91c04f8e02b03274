"""Features that are equal for all choices of sizes need no array, and results do not change."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from mirage.cost import TARGETS
from mirage.cost.kernel_features import KernelFeatures
from mirage.cost.kernel_time import estimate
from mirage.cost.uniform import is_zero, plus, somewhere, uniform, where

FLAGS = ("warpgroups", "resident", "apart", "shifted", "serial")
SCALARS = ("cluster", "in_turn", "resident", "apart")
COUNT = 64


def drawn(seed: int) -> KernelFeatures:
    """Features of which some are 0 everywhere, some in places, and some nowhere."""
    random = np.random.default_rng(seed)
    found = KernelFeatures(blocks=random.integers(1, 2000, COUNT).astype(float))
    for f in fields(KernelFeatures):
        if f.name in (*SCALARS, "known", "blocks") or random.random() < 0.3:
            continue
        places = random.random(COUNT) < random.choice((0.0, 0.5, 1.0))
        least = float(getattr(KernelFeatures(), f.name))
        amounts = np.where(places, least + random.integers(0, 2000, COUNT), least)
        if f.name in ("warps", "stages", "steps", "runs", "uneven"):
            amounts = 1.0 + random.integers(0, 8, COUNT)
        setattr(found, f.name, places if f.name in FLAGS else amounts.astype(float))
    return found


def filled(features: KernelFeatures) -> KernelFeatures:
    """The same features, all of them as arrays."""
    arrays = {f.name: getattr(features, f.name) for f in fields(features) if f.name != "known"}
    return replace(features, **{k: np.broadcast_to(v, COUNT).copy() for k, v in arrays.items()})


@pytest.mark.parametrize("chip", ["h200", "a100"])
@pytest.mark.parametrize("seed", range(12))
def test_times_are_those_of_arrays(chip: str, seed: int) -> None:
    features = drawn(seed)
    if not TARGETS[chip].has_warpgroups:
        features.warpgroups = False
    found, expected = (estimate(f, TARGETS[chip]) for f in (features, filled(features)))
    for name, part in expected.items():
        assert np.array_equal(np.broadcast_to(found[name], COUNT), np.broadcast_to(part, COUNT))


@pytest.mark.parametrize("seed", range(6))
def test_times_are_those_of_single_sizes(seed: int) -> None:
    features = drawn(seed)
    time = estimate(features, TARGETS["h200"])["time"]
    alone = [float(estimate(features.at(i), TARGETS["h200"])["time"]) for i in range(COUNT)]
    assert np.allclose(time, alone, rtol=1e-12)
    assert np.isfinite(time).any()


def test_conditions_that_are_the_same_everywhere_are_single_values() -> None:
    some = np.array([True, False])
    assert uniform(some) is some
    assert somewhere(some)
    for value in (True, False):
        same = uniform(np.full(3, value))
        assert isinstance(same, np.bool_)
        assert same == value == somewhere(same)
        assert where(same, "yes", "no") == ("yes" if value else "no")
    assert where(some, 1.0, 2.0).tolist() == [1.0, 2.0]


def test_nothing_is_added_without_an_amount() -> None:
    total = np.ones(2)
    assert plus(total, 0.0, np.ones(2)) is total
    assert plus(total, 2.0, np.ones(2)).tolist() == [3.0, 3.0]
    assert is_zero(0.0)
    assert not is_zero(np.zeros(1))
    assert not is_zero(1.0)
