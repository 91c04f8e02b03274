"""Buffers that a module reaches through an object that is not a module."""

from __future__ import annotations

from pathlib import Path

import mirage as mi
import pytest
import torch
from mirage.frontend.torch_import import export_program
from mirage.pipeline.commands.emulate import emulate
from torch import Tensor, nn
from torch.export.graph_signature import InputKind
from torch_programs.op_by_op import op_by_op


class Cache:
    """An object that is not a module."""

    def __init__(self) -> None:
        self.rows, self.count = torch.zeros(5, 4), torch.zeros((), dtype=torch.int64)


class Step(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.register_buffer("rows", self.cache.rows, persistent=False)
        self.register_buffer("count", self.cache.count)

    def forward(self, x: Tensor, at: Tensor) -> Tensor:
        self.cache.count.copy_(at[0])
        self.cache.rows.index_copy_(0, self.cache.count[None], x)
        return torch.tanh(self.cache.rows).sum(0) + x


def test_they_are_no_constants() -> None:
    exported = export_program(Step(), (torch.ones(1, 4), torch.tensor([2])))
    kinds = [spec.kind for spec in exported.graph_signature.input_specs]
    assert kinds == [InputKind.BUFFER] * 2 + [InputKind.USER_INPUT] * 2


class Apart(nn.Module):
    """A buffer, and a different tensor of an object."""

    def __init__(self) -> None:
        super().__init__()
        self.cache = Cache()
        self.register_buffer("rows", torch.ones(5, 4))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.cache.rows - self.rows


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_other_tensors_stay_constants(device: str) -> None:
    """On the meta device no tensor has an address."""
    with torch.device(device):
        exported = export_program(Apart(), (torch.ones(5, 4),))
    kinds = {spec.kind for spec in exported.graph_signature.input_specs}
    assert kinds == {InputKind.BUFFER, InputKind.CONSTANT_TENSOR, InputKind.USER_INPUT}


def test_what_is_written_to_them() -> None:
    x, at = torch.arange(4.0)[None], torch.tensor([2])
    imported = mi.from_torch(Step(), x, at, allow_fallback=True, allow_updates=True)
    names = [p.name for p in imported.program.parameters]
    assert sorted(n.rsplit(".")[-1] for n in names) == ["count", "rows"]
    model = Step()
    want = model(x, at)
    *updates, got = op_by_op(imported.program, {})(x, at)
    torch.testing.assert_close(got, want)
    by_name = dict(zip(names, updates, strict=True))
    torch.testing.assert_close(by_name["rows"], model.cache.rows)
    torch.testing.assert_close(by_name["count"], model.cache.count)


def test_they_are_exported(tmp_path: Path) -> None:
    x, at = torch.arange(4.0)[None], torch.tensor([2])
    options = mi.OptimizeOptions(chip="h200", budget=5.0, use_cache=False)
    exported = mi.export(Step(), x, at, path=tmp_path / "step.mirage", options=options)
    assert isinstance(exported.optimized, mi.Optimized)
    results = emulate(exported.optimized, x, at)
    torch.testing.assert_close(results[-1], Step()(x, at))
