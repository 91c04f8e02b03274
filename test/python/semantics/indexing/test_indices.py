"""The dimensions of a reshape that hold the same elements."""

from __future__ import annotations

from math import prod

import pytest
from mirage.semantics.indexing.indices import Group, reshape_groups


def test_the_finest_groups() -> None:
    found = reshape_groups((2, 3, 4, 5), (6, 2, 10))
    assert found == (Group((0, 1), (0,)), Group((2, 3), (1, 2)))


@pytest.mark.parametrize(
    ("operand", "result"),
    [((0, 3), (0,)), ((0,), (3, 0)), ((4, 0), (0, 2)), ((2, 0), (5, 0, 7)), ((0,), (0,))],
)
def test_groups_without_elements(operand: tuple[int, ...], result: tuple[int, ...]) -> None:
    groups = reshape_groups(operand, result)
    assert [d for g in groups for d in g.operand] == [*range(len(operand))]
    assert [d for g in groups for d in g.result] == [*range(len(result))]
    for g in groups:
        assert prod(operand[d] for d in g.operand) == prod(result[d] for d in g.result)
