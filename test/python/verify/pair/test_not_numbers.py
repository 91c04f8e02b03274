"""A NaN may spread along zeros and triangles, but must not be lost, nor introduced where it is left
out."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from mirage.verify import Kind, Verdict, VerifyOptions
from mirage.verify.assumptions import Assumptions
from mirage.verify.verifier import verify_aligned
from thorough import some_of
from written.pairs import Pair, aligned_of, verdict_of

ONE = "8x12"
OF_ROWS = "6x8 6:b"
TRIANGLE = torch.ones(12, 12).tril()
SLOPES = -0.5 * (torch.arange(12)[:, None] - torch.arange(12))
ABOVE = torch.full((12, 12), -torch.inf).triu(1)
EITHER = [
    Pair(
        "a running sum as a product with a triangle",
        ONE,
        lambda x: x.cumsum(-1),
        lambda x: x @ TRIANGLE.T,
    ),
    Pair(
        "a product with a triangle as a running sum",
        ONE,
        lambda x: x @ TRIANGLE.T,
        lambda x: x.cumsum(-1),
    ),
    Pair(
        "what follows as all less what comes before",
        ONE,
        lambda x: x.flip(-1).cumsum(-1).flip(-1),
        lambda x: x.sum(-1, keepdim=True) - x.cumsum(-1) + x,
    ),
    Pair(
        "a diagonal matrix as factors",
        "12x8 12",
        lambda x, d: torch.diag(d) @ x,
        lambda x, d: d[:, None] * x,
    ),
    Pair("the least is the first", ONE, lambda x: x.sort(-1).values[:, 0], lambda x: x.amin(-1)),
    Pair(
        "a mask in place of scores, and beside them",
        "6x8 6x8:b",
        lambda x, m: x.masked_fill(m, -torch.inf).softmax(-1),
        lambda x, m: (x + torch.zeros(6, 8).masked_fill(m, -torch.inf)).softmax(-1),
    ),
    Pair(
        "a held bias with minus infinity, and a mask beside a bias",
        "12x8 12x8",
        lambda q, k: (q @ k.T + (SLOPES + ABOVE)).softmax(-1),
        lambda q, k: (q @ k.T + SLOPES).masked_fill(TRIANGLE == 0, -torch.inf).softmax(-1),
    ),
    Pair(
        "a billion beside scores, and in their place",
        "12x8 12x8",
        lambda q, k: (q @ k.T + (1 - TRIANGLE) * -1e9).softmax(-1),
        lambda q, k: (q @ k.T).masked_fill(TRIANGLE == 0, -1e9).softmax(-1),
    ),
    Pair(
        "a part as a product with zeros elsewhere",
        "12x12",
        torch.tril,
        lambda x: x * TRIANGLE,
    ),
    Pair(
        "what comes before",
        ONE,
        lambda x: x.cumsum(-1) - x,
        lambda x: torch.nn.functional.pad(x.cumsum(-1), (1, 0))[:, :-1],
    ),
    Pair(
        "sorted from the other end",
        ONE,
        lambda x: x.sort(-1, descending=True).values,
        lambda x: -(-x).sort(-1).values,
    ),
    Pair(
        "a rank from the other end",
        "6x5",
        lambda x: x.kthvalue(2, -1).values,
        lambda x: (-x).topk(5, -1).values[:, 1].neg(),
    ),
    Pair(
        "the largest of rounded shares",
        ONE,
        lambda x: x.softmax(-1).argmax(-1),
        lambda x: x.argmax(-1),
    ),
]
NOT = [
    Pair("lost in a comparison", ONE, torch.relu, lambda x: torch.where(x > 0, x, 0.0)),
    Pair("lost in a factor of zero", ONE, lambda x: x * 0.0, torch.zeros_like),
    Pair(
        "lost in the larger of two",
        "8x12 8x12",
        torch.maximum,
        lambda x, y: torch.where(x > y, x, y),
    ),
    Pair("a sum that leaves it out", ONE, lambda x: x.nansum(-1), lambda x: x.sum(-1)),
    Pair(
        "rows that a mask leaves out",
        OF_ROWS,
        lambda x, m: torch.where(m[:, None], x, 0.0),
        lambda x, m: x * m[:, None],
    ),
    Pair(
        "rows that nobody has written",
        "3x6x8 3:i64",
        lambda x, n: torch.where((torch.arange(6) < n[:, None])[..., None], x, 0.0).sum(1),
        lambda x, n: ((torch.arange(6) < n[:, None]).float()[:, None] @ x)[:, 0],
    ),
    Pair(
        "columns that a slice leaves out",
        ONE,
        lambda x: x[:, :5] * 2.0,
        lambda x: x @ torch.cat([2.0 * torch.eye(5), torch.zeros(7, 5)]),
    ),
    Pair("the least that is no NaN", ONE, lambda x: x.amin(-1), lambda x: x.sort(-1).values[:, 0]),
    Pair("is it one", ONE, lambda x: x.isnan(), lambda x: x > torch.inf),
]
ALL = [*EITHER, *NOT]


def said(verdict: Verdict) -> str:
    return next(e.text for e in verdict.evidence if e.name == "rounding errors")


@pytest.mark.parametrize("pair", some_of(EITHER, 4), ids=lambda pair: pair.name)
def test_it_may_spread_or_not_where_a_zero_meets_it(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", NOT, ids=lambda pair: pair.name)
def test_it_is_not_lost_and_not_let_in(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert not verdict.accepted, verdict


@pytest.mark.parametrize("pair", some_of(NOT[:-1], every=3), ids=lambda pair: pair.name)
def test_what_is_lost_is_said_and_may_be_assumed_away(pair: Pair) -> None:
    verdict = verdict_of(pair, ALL)
    assert verdict.kind is Kind.PROVED, verdict
    assert "NaN in input 0" in said(verdict)
    assert "output 0: " in said(verdict)
    options = VerifyOptions(seed=7, work=1e5, assume=Assumptions(finite_inputs=True))
    assert verify_aligned(aligned_of(pair, ALL), replace(options)).accepted
