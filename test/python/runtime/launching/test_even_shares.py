"""Shares of multiprocessors: none gets more blocks than in an even distribution."""

from __future__ import annotations

import pytest
from mirage.runtime.launching.even_shares import Multiprocessors

HOPPER = Multiprocessors(132, 228 << 10, 1 << 10, 227 << 10)
AMPERE = Multiprocessors(108, 164 << 10, 1 << 10, 163 << 10)


@pytest.mark.parametrize("sms", [HOPPER, AMPERE])
@pytest.mark.parametrize("blocks", [1, 64, 108, 109, 132, 133, 256, 512, 1024, 2112])
@pytest.mark.parametrize("shared", [0, 1000, 17408])
def test_no_more_than_a_share_fits(sms: Multiprocessors, blocks: int, shared: int) -> None:
    fitting = min(32, sms.shared // (shared + sms.kept))
    share = -(-blocks // sms.count)
    asked = sms.even_share(blocks, fitting, shared)
    assert shared <= asked <= sms.most
    if share < fitting:
        assert sms.shared // (asked + sms.kept) == share
    else:
        assert asked == shared


def test_what_fits_in_no_other_way_is_left_alone() -> None:
    assert HOPPER.even_share(128, 1, 116 << 10) == 116 << 10
    assert HOPPER.even_share(100_000, 16, 0) == 0
