"""Errors of rows, each relative to the size of its own row."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.scalar import DType
from mirage.verify.evidence.roundings.row_errors import compare_rows

_SIZES = np.array([1.0, 1.0, 2.0**-30, 1.0])
_EXACT = np.exp(-2.0 * np.abs(np.random.default_rng(0).standard_normal((4, 24)))) * _SIZES[:, None]
"""Rows that are dominated by few of their elements."""


@pytest.mark.parametrize(("off", "holds"), [(2.0**-24, True), (0.25, False)])
def test_a_small_row_is_not_measured_by_large_ones(off: float, holds: bool) -> None:
    """Errors as large as those of the others would be a quarter of the small row."""
    signs = np.where(np.arange(24) % 2, 1.0, -1.0)
    reference = _EXACT + 2.0**-25 * signs * _SIZES[:, None]
    candidate = reference.copy()
    candidate[2] = _EXACT[2] * (1.0 + off * signs)
    found = compare_rows(_EXACT, reference, candidate, DType.F32, "situation", "output 0")
    assert found.holds == holds, found
    assert holds or "row 2" in found.where


def test_a_row_that_is_exact_by_chance_may_have_the_errors_of_others() -> None:
    """Each row has one large number, which is exact by chance in one row."""
    rng = np.random.default_rng(1)
    exact = rng.standard_normal((64, 24)) * np.where(np.arange(24) == 7, 1.0, 2.0**-20)
    exact *= 2.0 ** rng.integers(-8, 8, (64, 1))
    reference, candidate = (
        exact * (1.0 + 2.0**-9 * rng.uniform(0.5, 1.0, exact.shape)) for _ in range(2)
    )
    reference[5] = exact[5]
    assert compare_rows(exact, reference, candidate, DType.F32, "situation", "output 0").holds
    candidate[5] += 2.0**-6 * exact[5]
    found = compare_rows(exact, reference, candidate, DType.F32, "situation", "output 0")
    assert "row 5" in found.where
