"""Programs as people write them: those that are the same are accepted, none of the others is."""

from __future__ import annotations

import pytest
from mirage.verify import Kind
from thorough import some_of
from written.eight_bits import OTHER_EIGHT_BITS, SAME_EIGHT_BITS
from written.families_right import FAMILIES_RIGHT
from written.families_wrong import FAMILIES_WRONG
from written.functions_right import EQUAL_FUNCTIONS, SAME_FUNCTIONS
from written.functions_wrong import OTHER_FUNCTIONS
from written.pairs import Pair, Program, verdict_of, written_as
from written.positions_right import SAME_POSITIONS
from written.positions_wrong import OTHER_POSITIONS
from written.right import RIGHT
from written.wrong import WRONG

ALL = RIGHT + WRONG
FUNCTIONS = SAME_FUNCTIONS + OTHER_FUNCTIONS + EQUAL_FUNCTIONS
FAMILIES = FAMILIES_RIGHT + FAMILIES_WRONG
POSITIONS = SAME_POSITIONS + OTHER_POSITIONS
EIGHT_BITS = SAME_EIGHT_BITS + OTHER_EIGHT_BITS
FAMILIES_NOT_SHOWN = (
    "distances of unit rows",  # more than eight indices interact
)
"""Equal pairs whose verdict is unknown."""


@pytest.mark.parametrize("pair", some_of(FAMILIES_RIGHT, 16), ids=lambda pair: pair.name)
def test_the_same_program_of_any_kind_is_not_refuted(pair: Pair) -> None:
    """Except for a few, they are shown to be the same."""
    verdict = verdict_of(pair, FAMILIES)
    assert verdict.kind is not Kind.REFUTED, verdict
    assert verdict.equivalent == (pair.name not in FAMILIES_NOT_SHOWN), verdict
    assert verdict.defined or not verdict.equivalent, verdict
    assert verdict.accepted or not pair.rounding or not verdict.equivalent, verdict


@pytest.mark.parametrize("pair", some_of(FAMILIES_WRONG), ids=lambda pair: pair.name)
def test_another_program_of_any_kind_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, FAMILIES)
    assert not verdict.accepted, verdict
    if not pair.rounding:
        assert not verdict.equivalent or verdict.defined is False, verdict


@pytest.mark.parametrize("pair", some_of(RIGHT + SAME_FUNCTIONS, 16), ids=lambda pair: pair.name)
def test_the_same_program_is_shown_to_be(pair: Pair) -> None:
    verdict = verdict_of(pair, FUNCTIONS if pair in FUNCTIONS else ALL)
    assert verdict.equivalent, verdict
    assert verdict.defined
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", EQUAL_FUNCTIONS, ids=lambda pair: pair.name)
def test_logarithms_and_roots_are_equal_where_they_are_defined(pair: Pair) -> None:
    verdict = verdict_of(pair, FUNCTIONS)
    assert verdict.equivalent, verdict


@pytest.mark.parametrize(
    "pair", some_of(WRONG + OTHER_FUNCTIONS, every=8), ids=lambda pair: pair.name
)
def test_what_is_nearly_the_same_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, FUNCTIONS if pair in FUNCTIONS else ALL)
    assert not verdict.accepted, verdict
    if not pair.rounding:
        assert verdict.kind is not Kind.PROVED or verdict.defined is False, verdict


@pytest.mark.parametrize("pair", some_of(SAME_POSITIONS, 16), ids=lambda pair: pair.name)
def test_the_same_program_of_positions_is_shown_to_be(pair: Pair) -> None:
    verdict = verdict_of(pair, POSITIONS)
    assert verdict.equivalent, verdict
    assert verdict.defined or not verdict.equivalent


@pytest.mark.parametrize("pair", some_of(OTHER_POSITIONS), ids=lambda pair: pair.name)
def test_another_program_of_positions_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, POSITIONS)
    assert not verdict.equivalent, verdict


@pytest.mark.parametrize("pair", some_of(SAME_EIGHT_BITS, 2), ids=lambda pair: pair.name)
def test_the_same_program_of_eight_bits_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, EIGHT_BITS)
    assert verdict.equivalent, verdict
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", OTHER_EIGHT_BITS, ids=lambda pair: pair.name)
def test_another_program_of_eight_bits_is_refused(pair: Pair) -> None:
    verdict = verdict_of(pair, EIGHT_BITS)
    assert not verdict.equivalent, verdict
    assert not verdict.accepted, verdict


def test_what_is_written_alike_is_one_program() -> None:
    """With other numbers, even equal ones, it is a different program."""

    def by(factor: object) -> Program:
        return lambda x: [y * factor for y in x]

    factors = (1, 1.0, True, 0.0, -0.0, "1", by, [1])
    assert len({written_as(by(factor)) for factor in factors * 2}) == len(factors)
    alike: list[Program] = [lambda x: x + 0.0, lambda x: x + 0.0, lambda x: x + -0.0]
    assert [written_as(f) == written_as(alike[0]) for f in alike] == [True, True, False]
