"""Losses that leave out targets of one number, written by hand, equal the framework's; their wrong
twins are refuted."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from mirage.semantics.decompose import decompose
from mirage.verify import Kind, VerifyOptions
from mirage.verify.evidence.samples.outside_of_rows import gives_no_number_outside
from mirage.verify.verifier import verify_aligned
from thorough import some_of
from written.pairs import Pair, Program, aligned_of, verdict_of

LABELS = "6x10 6:i64"
Tensor = torch.Tensor


def mean_of(losses: Tensor, kept: Tensor) -> Tensor:
    return (losses * kept).sum() / kept.sum()


def clamped(x: Tensor, t: Tensor) -> Tensor:
    picked = x.log_softmax(-1).gather(-1, t.clamp(min=0)[:, None])[:, 0]
    return mean_of(-picked, t != -100)


def chosen(x: Tensor, t: Tensor) -> Tensor:
    kept = t != -100
    place = torch.where(kept, t, 0)[:, None]
    losses = x.logsumexp(-1) - x.gather(-1, place)[:, 0]
    return torch.where(kept, losses, 0.0).sum() / kept.sum()


def filled(x: Tensor, t: Tensor) -> Tensor:
    out = t == -100
    losses = F.cross_entropy(x, t.masked_fill(out, 0), reduction="none")
    return losses.masked_fill(out, 0.0).sum() / (~out).sum()


def one_hot(x: Tensor, t: Tensor) -> Tensor:
    kept = t != -100
    hot = F.one_hot(t.clamp(min=0), 10) * kept[:, None]
    return -(hot * x.log_softmax(-1)).sum() / kept.sum()


def compared(x: Tensor, t: Tensor) -> Tensor:
    hot = (t[:, None] == torch.arange(10)).float()
    return -(hot * x.log_softmax(-1)).sum() / (t != -100).sum()


def over_all(x: Tensor, t: Tensor) -> Tensor:
    return (F.cross_entropy(x, t.clamp(min=0), reduction="none") * (t != -100)).mean()


def not_left_out(x: Tensor, t: Tensor) -> Tensor:
    return F.cross_entropy(x, t.clamp(min=0), reduction="none").sum() / (t != -100).sum()


def another_left_out(x: Tensor, t: Tensor) -> Tensor:
    return mean_of(F.cross_entropy(x, t.clamp(min=0), reduction="none"), t != -1)


def smoothed_sum(x: Tensor, t: Tensor) -> Tensor:
    return 0.9 * F.cross_entropy(x, t) + 0.1 * (x.logsumexp(-1) - x.sum(-1)).mean()


_RIGHT: list[Program] = [clamped, one_hot, chosen, filled, compared]
RIGHT = [Pair(f.__name__, LABELS, F.cross_entropy, f) for f in _RIGHT]
WRONG: list[Program] = [over_all, not_left_out, another_left_out, smoothed_sum]


@pytest.mark.parametrize("pair", some_of(RIGHT, every=4), ids=lambda pair: pair.name)
def test_what_is_left_out_by_hand_is_accepted(pair: Pair) -> None:
    verdict = verdict_of(pair, RIGHT)
    assert verdict.accepted, verdict


@pytest.mark.parametrize("second", some_of(WRONG, every=3))
def test_losses_that_leave_out_something_else_are_not_accepted(second: Program) -> None:
    """They may be meant for labels that all name classes, for which some of them are equal."""
    pair = Pair("wrong", LABELS, F.cross_entropy, second)
    verdict = verdict_of(pair, [pair])
    assert not verdict.equivalent, verdict
    assert verdict.kind is Kind.UNKNOWN or second is smoothed_sum


def test_a_number_where_minus_infinity_may_be_meant_is_not_accepted() -> None:
    """Only the importer knows that the reference means an error there."""
    aligned = aligned_of(RIGHT[0], RIGHT)
    assert aligned.misses_are_errors
    aligned = replace(aligned, misses_are_errors=False)
    verdict = verify_aligned(aligned, VerifyOptions(seed=7, numerics=False))
    assert verdict.kind is Kind.UNKNOWN, verdict
    pair = decompose(aligned.reference), decompose(aligned.candidate)
    for seed in range(3):
        given = *pair, {1: 10}, aligned.contents, 1e6, seed
        assert not gives_no_number_outside(*given, also={1: -100})


def test_a_program_that_masks_scores_may_mean_minus_infinity() -> None:
    def masked(x: Tensor, t: Tensor) -> Tensor:
        return F.cross_entropy(x.masked_fill(x > 2, float("-inf")), t)

    pair = Pair("masked", LABELS, masked, masked)
    assert not aligned_of(pair, [pair]).misses_are_errors


def test_what_is_equal_for_classes_only_is_not_refuted() -> None:
    def by_hand(x: Tensor, t: Tensor) -> Tensor:
        return 0.9 * F.cross_entropy(x, t) + 0.1 * (x.logsumexp(-1) - x.mean(-1)).mean()

    def smoothed(x: Tensor, t: Tensor) -> Tensor:
        return F.cross_entropy(x, t, label_smoothing=0.1)

    pair = Pair("smoothed", LABELS, smoothed, by_hand)
    assert verdict_of(pair, [pair]).kind is Kind.UNKNOWN
