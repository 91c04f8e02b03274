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
from mirage.semantics.integers import Integers
from mirage.semantics.ugraph import External, Launch
from thorough import some_of

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
    "rows of lines by integers of any size": (
        lambda x, i: x.gather(1, i[..., None].expand(-1, -1, 5)), (whole(2, 9, 5), IDS)
    ),
    "what is turned around": (lambda x: x.flip(0), (rand(9, 32),)),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(RESULTS, every=3))
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
    """The number of their first row, a multiple of the page's, does not wrap around to an existing
    row."""
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


def test_an_index_that_repeats_is_computed_once() -> None:
    """The elements of a row have one index, also after arithmetic."""
    x, i = rand(2, 9, 24), IDS
    program = mi.from_torch(lambda x, i: x.take_along_dim(i[..., None], 1), x, i)
    stays = mi.from_torch(lambda x, i: x.take_along_dim(i[..., None], 1), x, i, allow_fallback=True)
    (picked,) = (op for op in stays.graph.ops if isinstance(op, Integers))
    assert [v.shape for v in picked.operands] == [(2, 9, 24), (2, 3, 1)]
    assert program.graph.outputs[0].shape == (2, 3, 24)


MOVED: dict[str, tuple[Callable[[Tensor], Any], Tensor]] = {
    "windows": (
        lambda x: x.view(2, 3, 4, 2, 4, 16).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, 16),
        rand(2, 12, 8, 16).half(),
    ),
    "heads side by side": (lambda x: x.transpose(1, 2).reshape(2, 5, -1), rand(2, 3, 5, 8)),
    "a line": (lambda x: x.t().reshape(-1), rand(6, 7)),
    "a line, in two shapes": (lambda x: (x.t().reshape(-1), x.t().reshape(-1)[3:]), rand(6, 7)),
}


@pytest.mark.parametrize("name", some_of(MOVED, every=2))
def test_kernels_write_what_no_view_is(name: str) -> None:
    """Elements whose order in memory cannot be described by strides are copied, as in PyTorch."""
    program, x = MOVED[name]
    found = mi.optimize(mi.from_torch(program, x, allow_fallback=True), OPTIONS)
    assert any(isinstance(op, Launch) for op in found.graph.ops)
    assert {op.target for op in found.graph.ops if isinstance(op, External)} <= VIEWS
    expected = program(x)
    expected = expected if isinstance(expected, tuple) else (expected,)
    for got, y in zip(emulate(found, x), expected, strict=True):
        assert torch.equal(got, y)
