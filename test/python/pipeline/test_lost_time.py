"""Time for which other programs use the processors does not count for budgets."""

from __future__ import annotations

import pytest
from clock import Clock
from mirage.pipeline import deadline as deadline_module
from mirage.pipeline import lost_time as pace_module
from mirage.pipeline.deadline import Deadline
from mirage.pipeline.lost_time import MOST, Pace, times, worked
from mirage.pipeline.parts import seconds as seconds_module
from mirage.pipeline.parts.seconds import busy, compiling
from mirage.pipeline.result import OutOfTime


class Machine(Clock):
    """A simulated machine, whose processes run and wait as the test says."""

    def __init__(self) -> None:
        super().__init__()
        self.ran = self.waited = 0.0

    def monotonic(self) -> float:
        return self.now

    def times(self, path: str) -> tuple[float, float]:
        return self.ran, self.waited

    def passes(self, seconds: float, running: float) -> None:
        """Let time pass; the process runs for a share of it, and waits for the rest."""
        self.now += seconds
        self.ran += running * seconds
        self.waited += (1.0 - running) * seconds


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine()
    monkeypatch.setattr(deadline_module, "time", machine)
    monkeypatch.setattr(pace_module, "time", machine)
    monkeypatch.setattr(pace_module, "times", machine.times)
    monkeypatch.setattr(pace_module.multiprocessing, "active_children", list)
    return machine


@pytest.mark.parametrize(
    ("ran", "waited", "share"),
    [
        (10.0, 0.0, 1.0),  # alone
        (5.0, 5.0, 0.5),  # half of the time another program ran
        (20.0, 10.0, 1.0),  # three of our own on two processors
        (10.0, 20.0, 0.5),  # one of the two processors was another program's
        (0.0, 0.0, 1.0),  # asleep
        (0.1, 0.1, 0.99),  # mostly asleep
        (0.0, 10.0, 0.0),  # never on a processor
    ],
)
def test_only_what_others_took_does_not_count(ran: float, waited: float, share: float) -> None:
    assert worked(10.0, ran, waited, processors=2) == pytest.approx(share)


def test_a_budget_lasts_longer_on_a_busy_machine(machine: Machine) -> None:
    """The seconds left are those of the clock at the current rate."""
    whole = Deadline(60.0, pace=Pace())
    part = whole.portion(0.5)
    machine.passes(10.0, running=1.0)
    assert (whole.left, part.left) == (pytest.approx(50.0), pytest.approx(20.0))
    machine.passes(10.0, running=0.5)
    assert (whole.left, part.left) == (pytest.approx(90.0), pytest.approx(30.0))
    machine.passes(30.0, running=0.5)
    assert part.left == pytest.approx(0.0)
    assert whole.left == pytest.approx(60.0)
    assert part.reason == "its 30 s of the budget are used up"
    assert not whole.reason


def test_estimates_are_at_the_pace_of_the_deadline(machine: Machine) -> None:
    """What there is time for does not depend on how many other programs run, even if they began
    long before or have just ended, when load averages say something else."""
    whole = Deadline(60.0, pace=Pace())
    machine.passes(10.0, running=1.0)
    alone = whole.left / compiling(whole, 1.0, 10)
    assert alone == pytest.approx(50.0 / compiling(Deadline(1.0, pace=Pace()), 1.0, 10))
    machine.passes(10.0, running=0.5)
    assert whole.left / compiling(whole, 1.0, 10) == pytest.approx(0.9 * alone)


def test_where_no_pace_is_known_estimates_use_the_load(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pace_module, "times", lambda _: None)
    monkeypatch.setattr(seconds_module.os, "getloadavg", lambda: (3.0, 0.0, 0.0))
    monkeypatch.setattr(seconds_module.os, "cpu_count", lambda: 2)
    assert busy(Deadline(60.0, pace=Pace())) == busy(Deadline(60.0)) == 1.5


def test_it_does_not_last_for_ever(machine: Machine) -> None:
    whole = Deadline(60.0, pace=Pace())
    for _ in range(10):
        assert whole.left > 0.0
        machine.passes(6.0 * MOST, running=0.0)
    assert whole.left == pytest.approx(0.0)


@pytest.mark.parametrize(
    ("running", "share"),
    [(1.0, 1.0), (1.5 / MOST, 1.0), (0.95 / MOST, 1.0), (0.5 / MOST, 0.5), (0.0, 0.0)],
)
def test_seconds_without_a_processor_are_known(
    machine: Machine, running: float, share: float
) -> None:
    """The clock goes on where there is next to no processor, but nobody takes it for work."""
    whole = Deadline(60.0, pace=Pace())
    machine.passes(20.0, running)
    assert whole.worked == whole.portion(0.5).worked == pytest.approx(share)
    assert Deadline(60.0).worked == 1.0


def test_what_was_cut_short_says_so() -> None:
    assert "the budget of 60 s ran out: of 2 different" in str(OutOfTime(60.0, 2, 0, 1))
    assert "ran out, 25% of it without a processor" in str(OutOfTime(60.0, 2, 0, 1, 0.75))


def test_who_stops_it_stops_it_for_good(machine: Machine) -> None:
    whole = Deadline(60.0, pace=Pace())
    whole.stop("interrupted")
    machine.passes(10.0, running=0.0)
    assert whole.left == 0.0
    assert whole.reason == "interrupted"


def test_what_is_not_known_of_a_process_is_nothing(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("process")
    assert times(str(folder)) is None
    (folder / "schedstat").write_text("1500000000 250000000 7\n")
    assert times(str(folder)) == (pytest.approx(1.5), pytest.approx(0.25))
