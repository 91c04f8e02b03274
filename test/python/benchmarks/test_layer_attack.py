"""The attack on layers: faults are refused and named, and a verifier that trusts is caught."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

import layer_attack
from layer_attack import WRONG, LayerSubject, attack_layer, layer_subjects, layer_summary
from mirage.verify.kernel_by_kernel import Piece, Shown


@pytest.fixture(scope="module")
def subject() -> LayerSubject:
    (found,) = layer_subjects("swiglu", seconds=60.0)
    return found


def test_faults_are_refused_and_named(subject: LayerSubject) -> None:
    found = layer_summary(attack_layer(subject, 25, 0))
    assert found["mutants"] == 25
    assert found["different"]
    assert {name: found[name] for name in WRONG} == dict.fromkeys(WRONG, 0), found


def test_a_verifier_that_believes_what_it_is_told_is_caught(
    subject: LayerSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    def believe(piece: Piece, seed: int, seconds: float) -> Shown:
        return Shown(float("-inf"))

    monkeypatch.setattr(layer_attack, "show", believe)
    found = layer_summary(attack_layer(subject, 5, 0))
    assert found["different_with_all_pieces_shown"]
