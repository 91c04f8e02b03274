"""Programs with bytes and whole numbers as people write them."""

from __future__ import annotations

import mirage as mi
import pytest
import torch
from mirage.pipeline.commands.compare import verify_programs
from mirage.verify import SignatureMismatch
from thorough import some_of
from written.bytes import OTHER_BYTES, SAME_BYTES
from written.pairs import Pair, verdict_of

ALL = SAME_BYTES + OTHER_BYTES


@pytest.mark.parametrize("pair", some_of(SAME_BYTES, 4), ids=lambda pair: pair.name)
def test_the_same_program_of_bytes_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", OTHER_BYTES, ids=lambda pair: pair.name)
def test_another_program_of_bytes_is_not_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert not verdict.equivalent, verdict


def test_bytes_with_and_without_a_sign_are_different_inputs() -> None:
    bits = torch.zeros(4, 4, dtype=torch.uint8)
    one, other = (mi.from_torch(lambda x: x.float(), x) for x in (bits, bits.to(torch.int8)))
    with pytest.raises(SignatureMismatch, match="uint8"):
        verify_programs(one.program, other.program)
