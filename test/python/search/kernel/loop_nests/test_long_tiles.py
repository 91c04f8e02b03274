"""Tests of tiles along summed axes that are longer than those that divide the axis."""

from __future__ import annotations

import pytest
from mirage.search.kernel.loop_nests.columns import axis_options
from mirage.search.kernel.loop_nests.frames import AxisUse, FrameType

VOCABULARY = 128256  # 501 times 256


def options(size: int, *, twice: bool = False, split: bool = False) -> list[tuple[int, int, int]]:
    use = AxisUse((), ("n",), (), {"n": size}, (), twice=frozenset("n" if twice else ""))
    return axis_options("n", use, FrameType("n", "n" if split else None))


def test_rows_read_twice_have_few_steps() -> None:
    """In steps of 256 columns, softmax has no time to fetch the next ones."""
    assert (16384, 8, 1) in options(VOCABULARY, twice=True)


def test_sums_have_long_tiles() -> None:
    """Cross-entropy takes 63.6 µs in tiles of 512 columns, and 66.2 in tiles of 256."""
    assert any(tile == 512 for tile, _, _ in options(VOCABULARY, split=True))


@pytest.mark.parametrize("size", [65536 + 256, 5003])
def test_little_lies_beyond_the_end(size: int) -> None:
    for tile, steps, _ in options(size, twice=True):
        assert size % tile == 0 or tile * steps <= 1.05 * size


def test_tiles_that_divide_an_axis_remain() -> None:
    tiles = {tile for tile, _, _ in options(65536, twice=True)}
    assert tiles == {2**k for k in range(5, 15)}


def test_one_more_part_than_a_power_of_two() -> None:
    """1 x 4097 times 4097 x 17 takes 3.1 µs in 65 parts of 64, and 3.4 in 52 of 80."""
    use = AxisUse((), ("n",), (), {"n": 4097}, ())
    found = axis_options("n", use, FrameType(None, "n"))
    assert {(64, 1, 65), (80, 1, 52)} <= set(found)
