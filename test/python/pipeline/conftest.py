"""Budgets that do not depend on other work of the machine."""

from __future__ import annotations

import pytest
from mirage.pipeline import lost_time


@pytest.fixture(autouse=True)
def all_time_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known about how long processes wait for a processor."""
    monkeypatch.setattr(lost_time, "times", lambda path: None)
