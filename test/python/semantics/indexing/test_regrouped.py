"""Parts of reshaped tensors and the elements that they consist of, by brute force."""

from __future__ import annotations

import itertools
from math import prod

import numpy as np
import pytest
from mirage.semantics.indexing.indices import Region, region_shape
from mirage.semantics.indexing.regrouped import regrouped

SHAPES = [
    ((4, 6), (24,)),
    ((24,), (4, 6)),
    ((24,), (2, 1, 3, 4)),
    ((1, 4, 6), (1, 1, 24)),
    ((3, 4, 5), (3, 20)),
    ((4, 6), (8, 3)),
    ((2, 3, 4), (6, 4)),
    ((1,), (1, 1)),
]


def places(region: Region, shape: tuple[int, ...]) -> set[int]:
    """The numbers of a region's elements."""
    each = [range(n) if r is None else r for r, n in zip(region, shape, strict=True)]
    indices = [np.array(i) for i in itertools.product(*each)]
    return {int(np.ravel_multi_index(tuple(i), shape)) if len(i) else 0 for i in indices}


@pytest.mark.parametrize(("operand", "result"), SHAPES)
def test_a_part_has_the_elements_that_it_is_made_of(
    operand: tuple[int, ...], result: tuple[int, ...]
) -> None:
    rng = np.random.default_rng(0)
    for _ in range(60):
        wanted: Region = tuple(
            None if rng.random() < 0.3 else np.flatnonzero(rng.random(n) < rng.random())
            for n in result
        )
        source, made = regrouped(wanted, operand, result)
        assert places(wanted, result) <= places(made, result)
        assert places(source, operand) == places(made, result)
        assert prod(region_shape(source, operand)) == prod(region_shape(made, result))
        again = regrouped(made, operand, result)
        assert places(again[0], operand) == places(source, operand)


def test_the_ends_of_joined_rows_need_these_rows_only() -> None:
    ends = np.array([0, 1, 1198, 1199])
    source, made = regrouped((ends,), (30, 40), (1200,))
    assert [r.tolist() for r in source if r is not None] == [[0, 29], [0, 1, 38, 39]]
    assert made[0] is not None
    assert made[0].tolist() == [0, 1, 38, 39, 1160, 1161, 1198, 1199]
