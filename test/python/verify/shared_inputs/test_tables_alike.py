"""Tables that are the same up to roundings."""

from __future__ import annotations

import numpy as np
from mirage.verify.shared_inputs.tables_alike import is_rounding, nearest_of

TABLE = np.float32([0.0, 0.1, -0.7, 1.0, 0.333, np.inf]).astype(np.float64)


def test_last_digits_may_differ() -> None:
    other = np.nextafter(TABLE.astype(np.float32), np.float32(2.0)).astype(np.float64)
    other[[0, 3, 5]] = TABLE[[0, 3, 5]]
    assert is_rounding(TABLE, other)
    assert is_rounding(TABLE, TABLE)


def test_other_numbers_are_told_apart() -> None:
    for place, number in ((1, 0.10001), (2, 0.7), (3, 2.0), (5, -np.inf), (5, 1.0), (0, np.nan)):
        other = TABLE.copy()
        other[place] = number
        assert not is_rounding(TABLE, other)


def test_whole_numbers_are_exact() -> None:
    whole = np.array([16777216.0, 0.0])
    assert not is_rounding(whole, np.array([16777216.0, 1.0]))


def test_elements_of_another_table_in_another_shape() -> None:
    known = np.array([-1.0, -0.7, -0.1, 0.0, 0.1, 0.7, 1.0])
    table = np.float32([[0.1, -0.1], [0.7, 1.0]]).astype(np.float64)
    np.testing.assert_array_equal(nearest_of(table, known), [[0.1, -0.1], [0.7, 1.0]])
    other = table + np.array([[0.0, 1e-5], [0.0, 0.0]])
    np.testing.assert_array_equal(nearest_of(other, known), other)
