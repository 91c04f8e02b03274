"""Import of PyTorch modules: weights and buffers become inputs that are already bound."""

from __future__ import annotations

import mirage as mi
import torch
import torch.nn.functional as F
from torch import nn
from torch_programs.imported_programs import check, rand

Tensor = torch.Tensor


class RmsNormByHand(nn.Module):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(rand(size).half())
        self.eps = 1e-5

    def forward(self, x: Tensor) -> Tensor:
        dtype = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.eps)
        return self.weight * x.to(dtype)


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = RmsNormByHand(16)
        self.up = nn.Linear(16, 24, bias=False, dtype=torch.float16)
        self.down = nn.Linear(24, 16, dtype=torch.float16)
        self.register_buffer("scale", torch.tensor([0.5], dtype=torch.float16))
        self.unused = nn.Parameter(torch.zeros(3))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.silu(self.up(self.norm(x)))) * self.scale


def test_a_module_with_weights() -> None:
    module = Block()
    imported = check(module, rand(4, 16).half(), rtol=0.05)
    names = [p.name for p in imported.program.parameters]
    assert sorted(names) == ["down.bias", "down.weight", "norm.weight", "scale", "up.weight"]
    assert [v.name for v in imported.program.call_inputs] == ["x"]
    assert all(p.data is not None for p in imported.program.parameters)
    by_name = {p.name: p for p in imported.program.parameters}
    assert by_name["up.weight"].data is module.up.weight
    assert imported.graph.inputs[by_name["up.weight"].index].shape == (24, 16)


def test_tied_weights_are_one_input() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a = nn.Linear(6, 6, bias=False, dtype=torch.float64)
            self.b = nn.Linear(6, 6, bias=False, dtype=torch.float64)
            self.b.weight = self.a.weight

        def forward(self, x: Tensor) -> Tensor:
            return self.b(self.a(x))

    imported = check(Tied(), rand(4, 6))
    assert len(imported.program.parameters) == 1


def test_exported_programs() -> None:
    exported = torch.export.export(Block(), (rand(4, 16).half(),))
    imported = mi.from_torch(exported)
    assert {p.name for p in imported.program.parameters} >= {"up.weight", "scale"}
