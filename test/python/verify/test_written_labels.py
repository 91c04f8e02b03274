"""Losses by weights for each class equal losses by picked elements if labels name classes; the
first of an order is the largest. Their wrong twins are not accepted."""

from __future__ import annotations

import pytest
import torch.nn.functional as F
from mirage.verify import Assumptions, Kind, VerifyOptions
from mirage.verify.needed import needed
from mirage.verify.verifier import verify_aligned
from thorough import some_of
from written.labels import CLASSES, LABELS_RIGHT, LABELS_WRONG
from written.pairs import Pair, Program, aligned_of, verdict_of

ALL = LABELS_RIGHT + LABELS_WRONG
IN_RANGE = Assumptions(indices_in_range=True)


@pytest.mark.parametrize("pair", some_of(LABELS_RIGHT, every=12), ids=lambda pair: pair.name)
def test_the_same_where_labels_name_classes_is_accepted(pair: Pair) -> None:
    options = VerifyOptions(seed=7, numerics=pair.rounding, work=1e5, assume=IN_RANGE)
    verdict = verify_aligned(aligned_of(pair, ALL), options)
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.defined, verdict
    assert verdict.accepted or not pair.rounding, verdict


@pytest.mark.parametrize("pair", some_of(LABELS_WRONG, every=3), ids=lambda pair: pair.name)
def test_other_weights_and_other_places_are_not_accepted(pair: Pair) -> None:
    options = VerifyOptions(seed=7, work=1e5, assume=IN_RANGE)
    assert not verify_aligned(aligned_of(pair, ALL), options).accepted


@pytest.mark.parametrize(
    "second",
    some_of(
        [
            lambda x, t: F.cross_entropy(x.softmax(1), t),
            lambda x, t: -(F.one_hot(t, 5) * x.log_softmax(0)).sum() / 30,
            lambda x, t: F.cross_entropy(x, t, label_smoothing=1e-3),
        ],
        every=3,
    ),
    ids=["twice", "other rows", "smoothed"],
)
def test_a_mean_is_compared_where_all_labels_name_classes(second: Program) -> None:
    """It is a number only there; drawn labels are hardly ever all of them below five."""
    pair = Pair("loss", "30x5 30:i64", F.cross_entropy, second)
    options = VerifyOptions(seed=7, numerics=False)
    assert verify_aligned(aligned_of(pair, [pair]), options).kind is Kind.REFUTED


def test_an_unknown_verdict_says_that_labels_would_have_to_name_classes() -> None:
    pair = LABELS_RIGHT[3]
    assert pair.inputs == CLASSES
    verdict = verdict_of(pair, ALL)
    assert verdict.kind is Kind.UNKNOWN, verdict
    said = needed(verdict)
    assert any("--assume indices-in-range" in text for text in said), said
    assert "ignore_index" in str(verdict)
