"""Pieces of programs: results at random points of small programs, and proofs."""

from __future__ import annotations

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.evidence.proofs import exact
from mirage.verify.evidence.proofs.exact import PIECE_LOG2, show
from mirage.verify.pieces.kernel_by_kernel import Piece
from mirage.verify.verdict import Evidence


def products(factors: int, *, wrong: bool = False) -> KernelGraph:
    """A power of ``(x + y)``, with the last factor multiplied out as ``x (..) + y (..)``, or with a
    sign."""
    b = Builder()
    x, y = (Value(TensorType((4, 6), DType.F32)) for _ in range(2))
    whole = b.binary(BinaryFn.ADD, x, y)
    for _ in range(factors):
        each = [b.binary(BinaryFn.MUL, v, whole) for v in (x, y)]
        whole = b.binary(BinaryFn.SUB if wrong else BinaryFn.ADD, each[0], each[1])
    return KernelGraph("products", (x, y), tuple(b.ops), (whole,))


def powers(factors: int) -> KernelGraph:
    """Return the same function, written as a power."""
    b = Builder()
    x, y = (Value(TensorType((4, 6), DType.F32)) for _ in range(2))
    whole = base = b.binary(BinaryFn.ADD, x, y)
    for _ in range(factors):
        whole = b.binary(BinaryFn.MUL, base, whole)
    return KernelGraph("powers", (x, y), tuple(b.ops), (whole,))


def piece(first: KernelGraph, second: KernelGraph) -> Piece:
    return Piece(first, second, second.outputs, second.ops)


def endless(*arguments: object) -> Evidence:
    while True:
        pass


def test_a_proof_that_is_found_in_time_is_one() -> None:
    shown = show(piece(powers(3), products(3)), 1, 60.0, 60.0)
    assert shown.bound_log2 == float("-inf")


@pytest.mark.parametrize("limit", [(0.5, 60.0), (60.0, 0.5)])
def test_without_time_for_a_proof_random_points_stand(
    limit: tuple[float, float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exact, "_FIRST_WORK", 1)
    monkeypatch.setattr(exact, "prove_opened", endless)
    shown = show(piece(powers(3), products(3)), 1, *limit)
    assert shown.holds
    assert float("-inf") < shown.bound_log2 <= PIECE_LOG2
    assert shown.evidence[-1].text == "no proof within 0.2 s"
    wrong = show(piece(powers(3), products(3, wrong=True)), 1, *limit)
    assert not wrong.holds


def test_without_time_for_either_nothing_is_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exact, "run_small_model", endless)
    shown = show(piece(powers(3), products(3)), 1, 60.0, 0.3)
    assert not shown.holds
    assert [e.text for e in shown.evidence] == ["no result within 0.3 s"]
