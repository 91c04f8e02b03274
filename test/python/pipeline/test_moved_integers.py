"""Integers that are joined, cut, shifted and interleaved, from PyTorch to PTX that the emulator
executes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from drawn_integers import drawn
from executed_programs import executed
from mirage.pipeline.call import sized_emulator
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import External, Launch
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed()
VIEWS = {"aten.reshape.default", "aten.narrow.default", "aten.expand.default"}
A, B = drawn(torch.int64, 5, 7), drawn(torch.int64, 5, 3, seed=2)
WIDE, COLUMNS = drawn(torch.int64, 130, 700), drawn(torch.int64, 130, 3)

MOVED: dict[str, tuple[Callable[..., Any], tuple[Tensor, ...]]] = {
    "columns": (lambda a, b: torch.cat([a, b], -1), (A, B)),
    "rows": (lambda a: torch.cat([a, a[:2], a], 0), (A,)),
    "of computed ones": (lambda a, b: torch.cat([a * 3, b], -1) + 1, (A, B)),
    "shifted to the right": (
        lambda a: torch.cat([a.new_full((a.shape[0], 1), 2), a[:, :-1]], 1), (A,)
    ),
    "labels": (lambda a: F.pad(a[..., 1:], (0, 1), value=-100), (A,)),
    "padded": (lambda a: F.pad(a, (1, 2, 0, 1), value=3), (A,)),
    "a longer mask": (lambda a: torch.cat([a, a.new_ones((a.shape[0], 1))], -1), (A,)),
    "stacked": (lambda a: torch.stack([a, a * 2], -1), (A,)),
    "interleaved": (lambda a: torch.stack([torch.zeros_like(a), a], -1).flatten(-2), (A,)),
    "rolled": (lambda a: a.roll((1, -2), (0, 1)) * a, (A,)),
    "halves exchanged": (lambda a: torch.cat(a[:, :6].chunk(2, -1)[::-1], -1), (A,)),
    "every second": (lambda a: a[:, ::2] * 3, (A,)),
    "neighbours": (lambda a: a[:, 1:] * 3 - a[:, :-1], (A,)),
    "pairs of parts": (lambda a: a[1:, None, 2:5] * 3 - a[None, :-1, 3:6], (A,)),
    "in another shape": (lambda a: torch.cat([a, a + 1], 1).reshape(7, 10) * 2, (A,)),
    "transposed": (lambda a, b: torch.cat([a[:, :5].t(), b], 1), (A, B)),
    "one column": (lambda a: torch.cat([a[:, :1], a[:, 3:4]], 1), (A,)),
    "windows": (lambda a: a.unfold(1, 3, 2), (A,)),
    "narrow types": (
        lambda a, b: torch.cat([a, b], -1), (drawn(torch.int8, 5, 7), drawn(torch.int8, 5, 2))
    ),
    "truth values": (lambda a, b: torch.cat([a > 0, b > 3], -1), (A, B)),
    "given truth values": (lambda a, b: torch.cat([a, b], -1), (A > 0, B > 0)),
    "many": (lambda a, b: torch.cat([a[:, 1:], b, a[:, :1]], 1).cumsum(1), (WIDE, COLUMNS)),
    "sums": (lambda a, b: torch.cat([a, b], 1).sum(1), (WIDE, COLUMNS)),
    "as floats": (lambda a, b: torch.cat([a, b], 1).float() * 0.5, (WIDE[:, :70], COLUMNS)),
    "in a mask": (
        lambda a, b, x: torch.where(torch.cat([a, b], -1), x, 0.0) * 2.0,
        (A > 0, B > 0, torch.arange(50.0).reshape(5, 10)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(MOVED, every=3))
def test_kernels_move_integers(name: str) -> None:
    program, inputs = MOVED[name]
    found = mi.optimize(mi.from_torch(program, *inputs), OPTIONS)
    calls = {op.target for op in found.graph.ops if isinstance(op, External)}
    assert calls <= VIEWS
    assert sum(isinstance(op, Launch) for op in found.graph.ops) == 1
    (y,) = emulate(found, *inputs)
    expected = program(*inputs)
    assert y.dtype is expected.dtype
    assert torch.equal(y, expected)


ROWS: dict[str, Callable[[Tensor], Tensor]] = {
    "columns": lambda x: torch.cat([x[:, 1:], x[:, :1] * 3], 1),
    "rows": lambda x: torch.cat([x, x * 2], 0),
    "a new column": lambda x: torch.cat([x.new_full((x.shape[0], 1), 5), x], 1),
    "interleaved": lambda x: torch.stack([x, x + 1], 1).flatten(0, 1) * 2,
}


@pytest.mark.parametrize("name", some_of(ROWS, every=2))
def test_a_dynamic_size(name: str) -> None:
    """Kernels read nothing beyond the existing rows: calls move rows."""
    shapes = ({0: torch.export.Dim("batch", min=1, max=40)},)
    graph = mi.from_torch(ROWS[name], drawn(torch.int64, 6, 35), dynamic_shapes=shapes)
    found = graph.superoptimize(chip="sm_90a", jobs=1, use_cache=False, cubin=False)
    for rows in (1, 3, 40):
        x = drawn(torch.int64, rows, 35, seed=rows)
        (y,) = found.run(sized_emulator, (x,))
        assert torch.equal(y, ROWS[name](x))
