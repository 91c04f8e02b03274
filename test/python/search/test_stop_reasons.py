"""Why a search ended: `exhausted` only if nothing within the limits was left out."""

from __future__ import annotations

from dataclasses import replace

import pytest
from example_programs.search_programs import attention, rms_swiglu_down, softmax
from mirage.cost import H200
from mirage.search import SearchLimits, SearchReport, StopReason, superoptimize
from mirage.search.program import plans
from thorough import some_of

SMALL = SearchLimits(budget=600.0)


def test_what_is_exhausted_has_nothing_better(monkeypatch: pytest.MonkeyPatch) -> None:
    program = softmax(8, 256)
    found = superoptimize(program, H200, SMALL)
    assert found.report.stop is StopReason.EXHAUSTED
    assert not found.report.limits
    monkeypatch.setattr(plans, "RELIEF", 0.0)
    more = replace(SMALL, plans=10000, choices=64, derivations=64, columns=10**6, samples=64)
    best = superoptimize(program, H200, more).candidates[0]
    assert best.cost.time == pytest.approx(found.candidates[0].cost.time)


@pytest.mark.parametrize(
    ("bound", "limits"),
    some_of(
        [
            ("columns", replace(SMALL, columns=4)),
            ("derivations", replace(SMALL, derivations=2)),
            ("goals", replace(SMALL, goals=6)),
            ("cuts", replace(SMALL, cuts=2)),
            ("plans", replace(SMALL, plans=1)),
        ],
        every=6,
    ),
)
def test_each_bound_that_cuts_is_named(bound: str, limits: SearchLimits) -> None:
    report = superoptimize(rms_swiglu_down(8, 256, 512), H200, limits).report
    assert report.stop is StopReason.LIMIT
    assert bound in report.limits
    assert bound in report.reason
    assert f"left out by {bound}" in report.table()


def test_kernels_that_are_left_out_for_what_they_hold_are_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With a rule that larger kernels are twenty times slower, nothing is fused, and the report
    says so."""
    monkeypatch.setattr(plans, "RELIEF", 20.0)
    report = superoptimize(attention(2, 64, 512, 64), H200, SMALL).report
    assert report.stop is StopReason.LIMIT
    assert "larger kernels" in report.limits


def test_the_budget_goes_before_bounds() -> None:
    report = SearchReport()
    report.cut("columns", "some")
    assert report.stop is StopReason.LIMIT
    other = SearchReport(stop=StopReason.BUDGET)
    report.merge(other)
    report.cut("goals", "some")
    assert report.stop is StopReason.BUDGET
    report.go_on()
    assert report.stop is StopReason.LIMIT


def test_workers_tell_what_they_left_out() -> None:
    report, theirs = SearchReport(), SearchReport()
    theirs.cut("goals", "some")
    report.merge(theirs)
    assert (report.stop, report.limits) == (StopReason.LIMIT, {"goals": "some"})
