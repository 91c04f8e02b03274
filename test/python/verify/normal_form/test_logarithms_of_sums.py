"""Logarithms of sums of two exponentials, from which the larger one is subtracted. That of other
elements is neither: no proof may hold, even if random inputs agree."""

from __future__ import annotations

import pytest
import torch
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.pair.verification import try_piece
from mirage.verify.pieces.kernel_by_kernel import Piece
from written.pairs import Pair, verdict_of

ROWS = 6


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


def logarithms(how: str) -> KernelGraph:
    """Shares as logarithms: of shifted numbers less the logarithm of the sum of their exponentials
    (``shifted``, or the negative, ``turned``), less both one by one (``at once``, ``turned at
    once``), transposed (``in columns``), or with a shift that is another row's (``other``)."""
    given = x = Value(TensorType((ROWS, 17), DType.F32))
    b = Builder()
    largest = b.reduce(ReduceFn.MAX, x, (1,))
    rows = b.slice(largest, (1, 0), (ROWS - 1, 1)), b.slice(largest, (0, 0), (1, 1))
    shift = b.concat(rows, 0)
    inner = largest if how != "other" else shift
    apart = b.binary(BinaryFn.SUB, x, inner)
    log = b.unary(UnaryFn.LOG, b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, apart), (1,)))
    if how == "in columns":
        x, *parts = (b.transpose(v, (1, 0)) for v in (x, largest, log))
        y = b.binary(BinaryFn.SUB, x, b.binary(BinaryFn.ADD, *parts))
        y = b.transpose(y, (1, 0))
        return KernelGraph("shares", (given,), tuple(b.ops), (y,))
    if "at once" in how:
        pair = x, b.binary(BinaryFn.ADD, largest, log)
    else:
        pair = b.binary(BinaryFn.SUB, x, largest), log
    y = b.binary(BinaryFn.SUB, *(pair[::-1] if "turned" in how else pair))
    return KernelGraph("shares", (given,), tuple(b.ops), (y,))


@pytest.mark.parametrize("how", ["shifted", "turned", "in columns"])
def test_a_shift_of_both_is_none(how: str) -> None:
    """The finite field shows it without discrete logarithms, which not all programs allow."""
    first, second = logarithms(how), logarithms("turned at once" if how == "turned" else "at once")
    piece = Piece(first, second, second.outputs, second.ops)
    found = try_piece(piece, VerifyOptions(seed=3), 3)
    assert found.passed
    assert "logarithms" not in found.evidence[0].text


def test_a_shift_of_other_rows_is_one() -> None:
    for first, second in (("other", "at once"), ("shifted", "turned")):
        pair = logarithms(first), logarithms(second)
        assert not verify(*pair, VerifyOptions(seed=3, numerics=False)).equivalent


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
