"""Some of the written pairs at sizes that small models reduce a lot."""

from __future__ import annotations

from dataclasses import replace

import pytest
from mirage.verify import VerifyOptions
from mirage.verify.verifier import verify_aligned
from thorough import some_of
from written.functions_right import SAME_FUNCTIONS
from written.pairs import Pair, aligned_of

SMALL, LARGE = "6x12", "48x96"


def is_of(pair: Pair, sizes: str) -> bool:
    return all(each == sizes for each in pair.inputs.split())


SCALED = [
    replace(pair, inputs=pair.inputs.replace(SMALL, LARGE))
    for pair in SAME_FUNCTIONS
    if is_of(pair, SMALL)
][::6]


def test_there_are_some() -> None:
    assert len(SCALED) >= 8


@pytest.mark.parametrize("pair", some_of(SCALED), ids=lambda pair: pair.name)
def test_the_same_functions_of_larger_tensors_are_shown_to_be(pair: Pair) -> None:
    options = VerifyOptions(seed=7, numerics=False, work=1e5)
    verdict = verify_aligned(aligned_of(pair, [pair]), options)
    assert verdict.equivalent, verdict
    assert verdict.defined
