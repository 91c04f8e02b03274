"""Rows and elements by index that the program returns are written by kernels, whose indices are
checked like others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from executed_programs import FEW_CHOICES, executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import External

Tensor = torch.Tensor
OPTIONS = executed(bounds=FEW_CHOICES)
VIEWS = {"aten.reshape.default", "aten.permute.default", "aten.narrow.default"}


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def whole(*shape: int) -> Tensor:
    g = torch.Generator().manual_seed(sum(shape))
    return torch.randint(-(2**62), 2**62, shape, generator=g)


FROM_END = torch.tensor([[0, -1, 8], [-9, 3, 3]])
IDS = FROM_END % 9
RESULTS: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "rows": (lambda x, i: x[i], (rand(9, 24), FROM_END)),
    "rows of a few halves": (lambda x, i: x[i], (rand(9, 33).half(), FROM_END)),
    "long rows": (lambda x, i: x[i], (rand(9, 1100).bfloat16(), FROM_END)),
    "rows of several dimensions": (lambda x, i: x[i], (rand(9, 3, 20), FROM_END)),
    "short rows": (lambda x, i: x[i], (rand(9, 3), FROM_END)),
    "elements": (lambda x, i: x[i], (rand(9), FROM_END)),
    "rows of integers": (lambda x, i: x[i], (whole(9, 5), FROM_END)),
    "integers": (lambda x, i: x[i], (whole(9), FROM_END)),
    "truth values": (lambda x, i: x[i], (rand(9, 5) > 0, FROM_END)),
    "an embedding by i32": (lambda w, i: F.embedding(i, w), (rand(9, 40), IDS.int())),
    "rows in the middle": (lambda x, i: x.index_select(1, i), (rand(4, 9, 8), IDS[0])),
    "columns": (lambda x, i: x.index_select(-1, i), (rand(4, 9), IDS[0])),
    "elements of lines": (lambda x, i: x.gather(1, i), (rand(2, 9), IDS)),
    "rows of lines": (
        lambda x, i: x.take_along_dim(i[..., None], 1), (rand(2, 9, 24).half(), IDS)
    ),
    "elements of all": (lambda x, i: x.take(i), (rand(3, 7), IDS)),
    "rows of rows": (lambda x, i, j: x[i[0]][j], (rand(9, 32), FROM_END, FROM_END % 3)),
    "rows, and their norm": (
        lambda x, i: (x[i], F.layer_norm(x[i], (32,))), (rand(9, 32), FROM_END)
    ),
    "what is turned around": (lambda x: x.flip(0), (rand(9, 32),)),
}  # fmt: skip


@pytest.mark.parametrize("name", RESULTS)
def test_kernels_write_what_is_looked_up(name: str) -> None:
    program, inputs = RESULTS[name]
    found = mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)
    assert {op.target for op in found.graph.ops if isinstance(op, External)} <= VIEWS
    expected = program(*inputs)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, y in zip(emulate(found, *inputs), expected, strict=True):
        assert got.dtype is y.dtype
        torch.testing.assert_close(got, y)


@pytest.mark.parametrize("table", [rand(9, 24), rand(9, 2), whole(9, 5)], ids=["f32", "few", "i64"])
def test_indices_that_are_outside(table: Tensor) -> None:
    """Nothing is read there, and a program can be asked to check them."""
    index = torch.tensor([0, 9, -9, -10, 2**40, -(2**63), 4])
    found = mi.optimize(mi.from_torch(lambda x, i: x[i], table, index % 9), OPTIONS)
    (bounds,) = (artifact.manifest.bounds for artifact in found.artifacts)
    assert [(b.below, b.from_end) for b in bounds] == [(9, True)]
    inside = (index >= -9) & (index < 9)
    nothing = torch.nan if table.is_floating_point() else 0
    expected = torch.where(inside[:, None], table[torch.where(inside, index, 0)], nothing)
    (got,) = emulate(found, table, index)
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def test_pages_far_outside() -> None:
    """The number of their first row, a multiple of the page's, does not wrap around to one that is
    there."""
    pool, lengths = rand(7, 4, 8), torch.tensor([6, 12, 3])
    pages = torch.tensor([[0, -1, 2], [3, 2**63 - 1, 2**62], [-(2**63), 2**62 + 1, -(2**62) - 2]])

    def kept(pool: Tensor, pages: Tensor, lengths: Tensor) -> Tensor:
        rows = pool[pages].flatten(1, 2)
        seen = torch.arange(12) < lengths[:, None]
        return torch.where(seen[..., None], rows, 0.0).sum(1)

    found = mi.optimize(mi.from_torch(kept, pool, pages, lengths, allow_fallback=True), OPTIONS)
    (got,) = emulate(found, pool, pages, lengths)
    torch.testing.assert_close(got[0], kept(pool, pages[:1] % 7, lengths[:1])[0])
    assert got[1:].isnan().all()
