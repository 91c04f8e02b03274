"""The distribution of the time among parts."""

from __future__ import annotations

import pytest
from mirage.pipeline.parts.seconds import shares_of


def spent(shares: list[float]) -> list[float]:
    """Return the shares of all of the time, if each part takes what it gets."""
    left, found = 1.0, list[float]()
    for share in shares:
        found.append(left * share)
        left -= left * share
    return found


def test_sizes_alone_decide_while_no_times_are_known() -> None:
    assert spent(shares_of([1, 3, 4], [0, 0, 0])) == pytest.approx([0.125, 0.375, 0.5])


def test_what_takes_most_of_the_time_gets_more_of_it() -> None:
    """A layer that a model repeats thirty times, and two parts that occur once."""
    layer, first, last = spent(shares_of([10, 10, 20], [90, 1, 9]))
    assert (layer, first, last) == pytest.approx((0.575, 0.13, 0.295))


def test_what_a_part_leaves_is_for_the_others() -> None:
    assert shares_of([5, 5], [1, 1])[-1] == pytest.approx(1.0)
