"""The attack on layers: faults are refused and named, and a verifier that trusts is caught."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import layer_attack
from layer_attack import (
    WRONG,
    LayerSubject,
    attack_layer,
    layer_subjects,
    layer_summary,
)
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.pieces.kernel_by_kernel import Piece, Shown
from oracle.judge import Judge


@pytest.fixture(scope="module")
def subject() -> LayerSubject:
    (found,) = layer_subjects("swiglu", seconds=60.0)
    return found


def test_faults_are_refused_and_named(subject: LayerSubject) -> None:
    found = layer_summary(list(attack_layer(subject, 25, 0)))
    assert 20 <= int(str(found["mutants"])) <= 25  # the same one may come twice
    assert found["different"]
    assert {name: found[name] for name in WRONG} == dict.fromkeys(WRONG, 0), found


def test_a_verifier_that_believes_what_it_is_told_is_caught(
    subject: LayerSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def believe(piece: Piece, seed: int, seconds: float) -> Shown:
        return Shown(float("-inf"))

    monkeypatch.setattr(layer_attack, "show", believe)
    found = layer_summary(list(attack_layer(subject, 5, 0)))
    assert found["different_with_all_pieces_shown"]


def norm_and_residual(epsilon: float) -> KernelGraph:
    x, g = Value(TensorType((4, 8), DType.F32), "x"), Value(TensorType((8,), DType.F32), "g")
    b = Builder()
    mean = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, x), (1,))
    root = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, mean, b.constant(epsilon)))
    out = b.binary(BinaryFn.MUL, b.binary(BinaryFn.MUL, x, root), g)
    out = b.binary(BinaryFn.ADD, x, out)
    return KernelGraph("norm", (x, g), tuple(b.ops), (out,))


def test_a_difference_that_is_small_at_most_scales_is_one() -> None:
    """An epsilon of 1.001e-9 for 1e-9 below a root."""
    judge = Judge(norm_and_residual(1e-9))
    found = judge.thorough(norm_and_residual(1.001e-9), 0)
    assert found is not None
    assert found.kind == "different"
    assert judge.thorough(norm_and_residual(1e-9), 0) is None
