"""Errors that count as too large."""

from __future__ import annotations

import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

from accuracy import Errors


def test_errors_are_measured_by_another_side() -> None:
    theirs = Errors(1e-4, 2e-4)
    assert Errors(2e-4, 4e-4).within(2.0, theirs)
    assert not Errors(2.1e-4, 4e-4).within(2.0, theirs)
    assert not Errors(2e-4, 5e-4).within(2.0, theirs)


def test_the_largest_of_many_may_be_a_unit_in_the_last_place() -> None:
    theirs, unit = Errors(1e-4, 2e-4), torch.finfo(torch.float16).eps
    assert Errors(1e-4, 9e-4).within(2.0, theirs, least=unit)
    assert not Errors(1e-4, 1.1e-3).within(2.0, theirs, least=unit)
    assert not Errors(3e-4, 9e-4).within(2.0, theirs, least=unit)
    assert not Errors(float("inf"), float("inf")).within(2.0, theirs, least=unit)
