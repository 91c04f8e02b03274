"""The parts of an output, and which of them are meaningful."""

from __future__ import annotations

import numpy as np
from mirage.verify.evidence.roundings.explicit import keeps_arithmetic, keeps_casts
from mirage.verify.evidence.roundings.output_parts import OutputParts


def test_lines_of_many_elements_are_parts_of_their_own() -> None:
    parts = OutputParts(np.ones((3, 64), dtype=bool))
    assert parts.counts.tolist() == [192.0, *[64.0] * 3, *[33.0] * 5, 27.0]
    assert parts.decides.all()


def test_parts_that_lost_elements_are_joined() -> None:
    """Rows 1 and 2 have few elements left: they are joined with the next row, and the last one with
    the previous rows."""
    known = np.ones((5, 64), dtype=bool)
    known[1, 2:] = known[2, 10:] = known[4, :] = False
    parts = OutputParts(known)
    rows = parts.counts[1 : 1 + 2]
    assert rows.tolist() == [64.0, 2.0 + 10.0 + 64.0]
    assert parts.elements[1 : 1 + 2].tolist() == [64.0, 4 * 64.0]
    assert parts.decides.all()


def test_few_elements_of_a_size_decide_only_where_none_is_lost() -> None:
    sizes = np.full((2, 64), 1.0)
    sizes[0, :8] = 2.0**-40
    every = OutputParts(np.ones((2, 64), dtype=bool), sizes)
    assert every.counts[-1] == 8.0
    assert every.decides.all()
    known = np.ones((2, 64), dtype=bool)
    known[0, 4] = False
    some = OutputParts(known, sizes)
    assert some.counts[-1] == 7.0
    assert not some.decides[-1]
    assert some.decides[:-1].all()


def test_the_whole_always_decides() -> None:
    known = np.zeros((4, 64), dtype=bool)
    known[2, 5] = True
    parts = OutputParts(known)
    assert parts.counts.tolist() == [1.0]
    assert parts.decides.tolist() == [True]


def test_luck_of_a_few_numbers_is_no_cast_that_is_lost() -> None:
    """Two numbers of one row are left, which happen to be near the result with the casts."""
    rng = np.random.default_rng(0)
    exact = rng.normal(size=(8, 64))
    rounded = exact * (1.0 + 2.0**-11 * rng.uniform(-1, 1, exact.shape))
    reference = rounded * (1.0 + 2.0**-11 * rng.uniform(-1, 1, exact.shape))
    floor = 2.0**-12 * np.abs(rounded)
    known = np.ones(exact.shape, dtype=bool)
    known[3, 2:] = False
    rounded[3, :2], reference[3, :2] = exact[3, :2] * (1 + 2.0**-8), exact[3, :2] * (1 + 2.0**-8)
    given = exact, rounded, reference, exact, known, floor, False, lambda: np.zeros(exact.shape)
    assert keeps_casts(*given)
    assert keeps_arithmetic(exact, reference, exact, known, 2.0**-10, lambda: 0.0 * exact)


def test_a_cast_that_one_row_is_about_is_seen_beside_unknown_ones() -> None:
    rng = np.random.default_rng(1)
    exact = rng.normal(size=(16, 64))
    rounded = exact.copy()
    rounded[5] = np.round(exact[5])  # on a grid
    floor = 2.0**-12 * np.abs(rounded)
    known = np.ones(exact.shape, dtype=bool)
    known[3, 2:] = known[:, 7] = False
    given = exact, rounded, rounded, exact, known, floor, False, lambda: np.zeros(exact.shape)
    assert not keeps_casts(*given)
    given = exact, rounded, rounded, rounded, known, floor, False, lambda: np.zeros(exact.shape)
    assert keeps_casts(*given)


def test_what_rounding_the_inputs_explains_is_as_uncertain_as_a_part_is_small() -> None:
    """Casts change one column of 32 numbers five times as much as the inputs do: this may be
    chance, but ten times may not."""
    rng = np.random.default_rng(2)
    exact = rng.normal(size=(32, 64))
    reference = exact * (1.0 + 2.0**-12 * rng.uniform(-1, 1, exact.shape))
    floor = 2.0**-12 * np.abs(exact)
    of_inputs = np.full(exact.shape, 2.0**-8)
    for factor, fine in ((5.0, True), (10.0, False)):
        rounded = exact.copy()
        rounded[:, 9] += factor * 2.0**-8 * np.where(rng.random(32) < 0.5, -1.0, 1.0)
        reference[:, 9] = rounded[:, 9]
        known = np.ones(exact.shape, dtype=bool)
        given = exact, rounded, reference, exact, known, floor, False, lambda: of_inputs
        assert keeps_casts(*given) is fine, factor
