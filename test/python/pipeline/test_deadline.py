"""The total available time, in portions."""

from __future__ import annotations

import pytest
from clock import Clock
from mirage.pipeline import deadline as deadline_module
from mirage.pipeline.deadline import Deadline


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr(deadline_module, "time", clock)
    return clock


def test_a_portion_is_of_what_is_left(clock: Clock) -> None:
    whole = Deadline(60.0)
    first = whole.portion(1.0 / 3.0)
    assert first.left == pytest.approx(20.0)
    clock.now += 5.0
    assert first.left == pytest.approx(15.0)
    # the others get the time that the first part has not used
    second = whole.portion(1.0 / 2.0)
    assert second.left == pytest.approx(27.5)
    assert whole.portion(0.5, but=15.0).left == pytest.approx(20.0)
    nothing = whole.portion(0.5, but=56.0)
    assert nothing.left == 0.0
    assert nothing.reason == "the rest of the budget is for compilation"
    clock.now += 15.5
    assert first.left == 0.0
    assert whole.left > 0.0
    assert not whole.reason
    assert first.reason == "its 20 s of the budget are used up"


def test_the_whole_ends_its_portions_reason(clock: Clock) -> None:
    whole = Deadline(10.0)
    portion = whole.portion(1.0)
    clock.now += 11.0
    assert portion.reason == "the budget of 10 s is used up"


def test_who_stops_a_portion_stops_the_whole(clock: Clock) -> None:
    whole = Deadline(60.0)
    inner = whole.portion(0.5).portion(0.5)
    inner.stop("interrupted")
    assert inner.left == whole.left == 0.0
    assert whole.reason == inner.reason == "interrupted"
