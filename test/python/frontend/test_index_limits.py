"""The numbers that PyTorch accepts as indices are known, however a row writes the op."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.program import IndexLimit
from mirage.runtime.arguments.index_check import check_indices
from mirage.runtime.errors import ArgumentIndexError
from mirage.runtime.serialization.index_steps import with_inputs
from thorough import some_of

Tensor = torch.Tensor
X, FEW = torch.randn(7, 4), torch.randn(2, 4)
ROWS, PLACES = torch.tensor([0, 6]), torch.tensor([[0, 3, 1, 1]])
Program = Callable[[Tensor, Tensor, Tensor], Tensor]
FOUND: dict[str, tuple[Program, Tensor, list[IndexLimit]]] = {
    "copied": (lambda x, few, i: x.index_copy(0, i, few), ROWS, [IndexLimit(2, 7)]),
    "added": (lambda x, few, i: x.index_add(0, i, few), ROWS, [IndexLimit(2, 7)]),
    "filled": (lambda x, few, i: x.index_fill(0, i, 2.0), ROWS, [IndexLimit(2, 7, True)]),
    "put": (lambda x, few, i: x.index_put((i,), few), ROWS, [IndexLimit(2, 7, True)]),
    "put in columns": (
        lambda x, few, i: x.index_put((torch.tensor([0, 2]), i), few[:, 0]),
        torch.tensor([0, 3]),
        [IndexLimit(2, 4, True)],
    ),
    "scattered": (lambda x, few, i: x.scatter(0, i, few), PLACES, [IndexLimit(2, 7)]),
    "scattered along rows": (lambda x, few, i: x.scatter(1, i, 2.0), PLACES, [IndexLimit(2, 4)]),
    "the largest of": (
        lambda x, few, i: x.scatter_reduce(1, i, few, "amax"), PLACES, [IndexLimit(2, 4)],
    ),
    "gathered": (lambda x, few, i: x.log_softmax(-1).gather(1, i), PLACES, [IndexLimit(2, 4)]),
    "classes": (lambda x, few, i: F.one_hot(i, 9) * 2, ROWS, [IndexLimit(2, 9)]),
    "in another shape": (
        lambda x, few, i: x.index_add(0, i.view(1, 2).flatten(), few), ROWS, [IndexLimit(2, 7)],
    ),
    "targets": (
        lambda x, few, i: F.cross_entropy(few, i), ROWS % 4, [IndexLimit(2, 4, ignored=-100)],
    ),
    "other targets": (
        lambda x, few, i: F.nll_loss(few, i, ignore_index=-1), ROWS % 4,
        [IndexLimit(2, 4, ignored=-1)],
    ),
    "the next ones": (
        lambda x, few, i: x.index_copy(0, i - 1, few), ROWS + 1,
        [IndexLimit(2, 7, steps=("input 0", "constant 1 : i64", "sub 0 1 : i64"))],
    ),
    "some of them": (
        lambda x, few, i: x.index_copy(0, i[:2], few), torch.arange(3),
        [IndexLimit(2, 7, steps=("input 0", "slice 0 0 0 2"))],
    ),
    "targets further on": (
        lambda x, few, i: F.cross_entropy(few, i[0, 1:3]), PLACES,
        [
            IndexLimit(
                2, 4, ignored=-100, steps=("input 0", "reshape 0 4", "slice 1 0 1 2")
            )
        ],
    ),
    "starts of bags": (
        lambda x, few, i: F.embedding_bag(torch.tensor([0, 3, 1]), x, i), torch.tensor([0, 2]),
        [
            IndexLimit(2, 4),
            IndexLimit(2, 1, steps=("input 0", "reshape 0 -1", "slice 1 0 0 1")),
        ],
    ),
    "a number of rows": (lambda x, few, i: x[i.sum(1) - 1], PLACES, []),
    "kept inside": (lambda x, few, i: x.index_copy(0, i.clamp(0, 6), few), ROWS, []),
    "of a mask": (
        lambda x, few, i: x.index_put((i.view(7, 4) > 0,), few[0, 0]), torch.arange(28), [],
    ),
    "positions": (lambda x, few, i: (torch.arange(7)[:, None] == i) * 2, ROWS, []),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(FOUND, 6))
def test_limits_of_inputs(name: str) -> None:
    program, index, expected = FOUND[name]
    found = mi.from_torch(program, X, FEW, index, allow_fallback=True).program
    names = [v.name for v in found.graph.inputs]
    assert {names[n.input] for n in found.limits} <= {"i"}
    limits = [replace(n, input=2, steps=with_inputs(n.steps, Zero())) for n in found.limits]
    assert limits == expected


class Zero(dict[int, int]):
    """Any number of an input is 0."""

    def __missing__(self, key: int) -> int:
        return 0


def test_a_number_that_is_ignored() -> None:
    check_indices(torch.tensor([-100, 3, 0]), "targets", 4, ignored=-100)
    with pytest.raises(ArgumentIndexError, match=r"from 0 to 3, got -1 at \[2\]"):
        check_indices(torch.tensor([-100, 3, -1]), "targets", 4, ignored=-100)
