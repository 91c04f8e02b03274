"""Proofs have more time in tests, so that results do not depend on the machine's load."""

from __future__ import annotations

import pytest
from mirage.semantics.ugraph import KernelGraph
from mirage.verify import verifier
from mirage.verify.pair.budget import usual_seconds

PATIENCE = 10.0
"""The multiple of the usual time."""


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    def seconds(first: KernelGraph, second: KernelGraph) -> float:
        return PATIENCE * usual_seconds(first, second)

    monkeypatch.setattr(verifier, "usual_seconds", seconds)
