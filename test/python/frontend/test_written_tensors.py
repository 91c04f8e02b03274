"""Tensors that a module writes to although they are not its buffers."""

from __future__ import annotations

from pathlib import Path

import mirage as mi
import pytest
import torch
from mirage.frontend.errors import GraphTypeError, ImportFailedError
from mirage.frontend.torch_import import export_program
from mirage.pipeline.commands.emulate import emulate
from torch import Tensor, nn
from torch.export.graph_signature import InputKind
from torch_programs.op_by_op import op_by_op

X, AT = torch.arange(8.0).view(2, 1, 4), torch.tensor([2])


class Cache:
    """An object that is not a module."""

    def __init__(self) -> None:
        self.rows, self.scale = torch.zeros(2, 5, 4), torch.full((4,), 3.0)


class Step(nn.Module):
    """Writes by an op, and to views: of one of the parts of a split, and of a row."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.cache.rows.index_copy_(1, at, x)
        self.cache.rows.split(1)[1][0, 0].add_(1.0)
        return torch.tanh(self.cache.rows).sum(1) * self.cache.scale


class Shared(Step):
    """The tensor that is read shares memory with the one that is written."""

    def __init__(self) -> None:
        super().__init__()
        self.cache.scale = self.cache.rows[0, 2]


def test_they_are_buffers_and_others_are_constants() -> None:
    exported = export_program(Step(), (X, AT))
    kinds = [spec.kind for spec in exported.graph_signature.input_specs]
    assert kinds.count(InputKind.BUFFER) == kinds.count(InputKind.CONSTANT_TENSOR) == 1


def test_what_is_written_to_them() -> None:
    imported = mi.from_torch(Step(), X, AT, allow_fallback=True, allow_updates=True)
    model = Step()
    want = model(X, AT)
    update, got = op_by_op(imported.program, {})(X, AT)
    torch.testing.assert_close(got, want)
    torch.testing.assert_close(update, model.cache.rows)


def test_a_write_is_refused_where_no_updates_are_allowed() -> None:
    with pytest.raises(ImportFailedError, match="without side effects, got an update"):
        mi.from_torch(Step(), X, AT, allow_fallback=True)


def test_memory_that_is_read_as_another_tensor_is_refused() -> None:
    with pytest.raises(GraphTypeError, match="separate memory"):
        mi.from_torch(Shared(), X, AT, allow_fallback=True, allow_updates=True)


def test_they_are_exported(tmp_path: Path) -> None:
    options = mi.OptimizeOptions(chip="h200", budget=5.0, use_cache=False)
    exported = mi.export(Step(), X, AT, path=tmp_path / "step.mirage", options=options)
    assert isinstance(exported.optimized, mi.Optimized)
    torch.testing.assert_close(emulate(exported.optimized, X, AT)[-1], Step()(X, AT))
    loaded = mi.runtime.load(tmp_path / "step.mirage", device="cpu")
    model = Step()
    for at in (2, 4):
        torch.testing.assert_close(loaded(X, torch.tensor([at])), model(X, torch.tensor([at])))
