"""Elements of lines that a program computes, if there are many: they are computed from elements
that are looked up."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.torch_import import from_torch
from mirage.frontend.torch_import.rows.movement import indexing
from mirage.semantics.positions import Gather, Iota, Lookup
from torch_programs.imported_programs import check, evaluate, rand

Tensor = torch.Tensor
LONG = 1234
X = 3.0 * rand(3, LONG) + 200.0
T = torch.tensor([0, LONG - 1, -100])
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "cross-entropy": (F.cross_entropy, (X, T)),
    "cross-entropy of logits in f16, each": (
        lambda x, t: F.cross_entropy(x.float(), t, reduction="none"),
        (X.half(), T),
    ),
    "of rows in another shape": (
        lambda x, t: F.cross_entropy(x.view(-1, LONG).float(), t.view(-1), reduction="sum"),
        (X[None], T[None]),
    ),
    "a function with a scale for each row": (
        lambda x, t: (torch.sigmoid(x) * x.amax(1, keepdim=True)).gather(1, t[:, None]),
        (X, T.clamp(min=7)),
    ),
}


@pytest.fixture(autouse=True)
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(indexing, "MOST_SOUGHT", LONG)


@pytest.mark.parametrize("name", PROGRAMS)
def test_elements_are_looked_up(name: str) -> None:
    program, inputs = PROGRAMS[name]
    imported = check(program, *inputs, rtol=1e-6)  # PyTorch computes in f32
    ops = imported.graph.ops
    assert any(isinstance(op, Gather) for op in ops)
    assert not any(isinstance(op, Iota) and op.result.type.size == LONG for op in ops)


def test_elements_that_depend_on_others_are_found_where_they_are_computed() -> None:
    def program(x: Tensor, t: Tensor) -> Tensor:
        return x.cumsum(1).exp().gather(1, t[:, None])

    x, t = -rand(3, LONG).abs(), T.clamp(min=7)
    ops = check(program, x, t, rtol=1e-5).graph.ops
    assert any(isinstance(op, Iota) and op.result.type.size == LONG for op in ops)


@pytest.mark.parametrize("outside", [LONG, -1, 2**40])
def test_an_index_outside_reads_no_number(outside: int) -> None:
    t = torch.tensor([1, outside, 2])
    program = from_torch(lambda x, t: x.sigmoid().gather(1, t[:, None]), X, torch.tensor([1, 2, 3]))
    (got,) = evaluate(program, [X, t])
    assert np.isnan(got[1]).all() or np.isneginf(got[1]).all()
    assert np.isfinite(got[[0, 2]]).all()


def test_one_of_few_elements_is_found_where_they_are_computed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(indexing, "MOST_SOUGHT", X.numel())
    ops = from_torch(*FEW).graph.ops
    assert any(isinstance(op, Iota) and op.result.type.size == LONG for op in ops)
    assert not any(isinstance(op, Gather) for op in ops)


FEW = (F.cross_entropy, X, T)


def test_a_softmax_is_computed_too() -> None:
    """Its rows are not stored for the elements that are looked up."""
    ops = from_torch(lambda x, i: x.softmax(1).gather(1, i), X[:, :9], T[:, None]).graph.ops
    assert not any(isinstance(op, Lookup) and not isinstance(op, Iota) for op in ops)
