"""Logarithms of sums of two exponentials, from which the larger one is subtracted. That of other
elements is neither: no proof may hold, even if random inputs agree."""

from __future__ import annotations

import pytest
import torch
from written.pairs import Pair, verdict_of


def spread(x: torch.Tensor, y: torch.Tensor, zero: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """A column of ``x`` and a row of ``y`` or of zeros."""
    return x[:, None], torch.zeros(1, 4) if zero else y[None]


def shifted(x: torch.Tensor, y: torch.Tensor, zero: bool, turned: bool) -> torch.Tensor:
    """``turned``: the difference is that of the row's and the column's other elements."""
    column, row = spread(x, y, zero)
    apart = column.reshape(1, 4) - row.reshape(4, 1) if turned else column - row
    return torch.maximum(column, row) + torch.log1p(torch.exp(-apart.abs()))


def pair(zero: bool, turned: bool) -> Pair:
    return Pair(
        f"{zero} {turned}", "4 4", lambda x, y: shifted(x, y, zero, turned),
        lambda x, y: torch.log(sum(map(torch.exp, spread(x, y, zero)))), False,
    )  # fmt: skip


@pytest.mark.parametrize("zero", [False, True])
def test_a_pair_is_compared_with_itself(zero: bool) -> None:
    given = pair(zero, False)
    assert verdict_of(given, [given]).equivalent


@pytest.mark.parametrize("zero", [False, True])
def test_the_difference_of_others_is_not_taken_for_it(zero: bool) -> None:
    given = pair(zero, True)
    verdict = verdict_of(given, [given])
    assert not verdict.equivalent
    assert not any(e.holds and "proof" in e.name for e in verdict.evidence), verdict


@pytest.mark.parametrize("zero", [False, True])
def test_the_smaller_one_is_subtracted_from_the_logarithm(zero: bool) -> None:
    """As in the cross-entropy of truth values, which a search writes in the other order."""

    def parts(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        column, row = spread(x, y, zero)
        return torch.minimum(column, row), torch.log1p(torch.exp(-(column - row).abs()))

    def less(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        smaller, log = parts(x, y)
        return y.sum() - (smaller - log)

    def more(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        smaller, log = parts(x, y)
        return y.sum() + (log - smaller)

    given = Pair("either order", "4 4", less, more, True)
    verdict = verdict_of(given, [given])
    assert any(e.holds and e.name == "proof by normal forms" for e in verdict.evidence), verdict
