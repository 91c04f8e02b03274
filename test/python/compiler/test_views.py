"""Slices that kernels load and joins of their results: compiled to addresses, and executed."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import mirage as mi
import pytest
import torch
from lowering import check_graph
from mirage.cost.copy_kernels import unfused_in
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import launches
from thorough import some_of

Program = Callable[..., torch.Tensor]


class Module(torch.nn.Module):
    def __init__(self, program: Program) -> None:
        super().__init__()
        self.program = program

    def forward(self, *inputs: torch.Tensor) -> torch.Tensor:
        return self.program(*inputs)


def drawn(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    return [torch.randn(shape, dtype=torch.float16) for shape in shapes]


def by_halves(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    low, high = x.chunk(2, -1)
    return x * c + torch.cat((-high, low), -1) * s


def by_pairs(x: torch.Tensor, c: torch.Tensor, s: torch.Tensor) -> torch.Tensor:
    turned = torch.stack((-x[..., 1::2], x[..., ::2]), -1).flatten(-2)
    return (x * c.to(WIDE) + turned * s.to(WIDE)).to(x.dtype)


WIDE = torch.float32
X, Y = (2, 13, 3, 32), (1, 13, 1, 32)
PROGRAMS: dict[str, tuple[Program, list[tuple[int, ...]], int]] = {
    "half of each row": (lambda x: x[..., 16:] * 2, [X], 1),
    "every second element": (lambda x: x[..., 1::2] * 2, [X], 1),
    "a block at odd places": (lambda x: x[:, 3:, 1:, 5:20] * 2, [X], 1),
    "side by side": (lambda x, y: torch.cat((-x, y * 2), -1), [X, X], 2),
    "in turns": (lambda x, y: torch.stack((-x, y.exp()), -1).flatten(-2), [X, X], 2),
    "joined inputs": (lambda x, y: torch.cat((x, y), -1) * 2, [X, X], 2),
    "rotary positions by halves": (by_halves, [X, Y, Y], 1),
    "rotary positions by pairs": (by_pairs, [X, Y, Y], 1),
    "columns of a product": (lambda x, w: (x @ w)[:, 5:21] * 2, [(24, 40), (40, 32)], 2),
    "a slice as a factor": (lambda x, w: x[:, 8:40] @ w[:, 3:19], [(24, 48), (32, 40)], 1),
}


@pytest.mark.parametrize(
    ("name", "chip"), some_of(zip(PROGRAMS, itertools.cycle(["sm_80", "sm_90a"])), 6)
)
def test_nothing_is_copied(name: str, chip: str) -> None:
    program, shapes, most = PROGRAMS[name]
    inputs = drawn(*shapes)
    found = mi.from_torch(Module(program), *inputs).superoptimize(
        chip=chip, candidates=2, finalists=1, jobs=1
    )
    kernels = [k for a in found.artifacts for k in a.manifest.kernels]
    assert len(kernels) == len(list(launches(found.graph.ops))) <= most
    assert not list(unfused_in(found.graph))
    assert all(c.outcome is Outcome.PASSED for c in found.report.checks)
    (result,) = emulate(found, inputs)
    want = program(*(x.double() for x in inputs))
    assert result.shape == want.shape
    assert torch.allclose(result.double(), want, rtol=4e-3, atol=4e-2)


def test_warpgroups_read_parts_by_tensor_maps() -> None:
    """Boxes of a part of a tensor, with its strides and its end."""
    x, w = drawn((256, 320), (256, 512))
    module = Module(lambda x, w: x[:, 64:] @ w[:, 128:384])
    found = mi.from_torch(module, x, w).superoptimize(chip="sm_90a", jobs=1)
    (artifact,) = found.artifacts
    maps = [a.map for k in artifact.manifest.kernels for a in k.arguments if a.map is not None]
    assert any(m.strides == (320, 1) for m in maps)
    assert any(m.strides == (512, 1) for m in maps)
    (result,) = emulate(found, (x, w))
    want = x[:, 64:].double() @ w[:, 128:384].double()
    assert torch.allclose(result.double(), want, rtol=4e-3, atol=0.1)


def test_one_element_of_a_tensor_op_by_op() -> None:
    """The rest of a dimension has no strides, but begins elsewhere."""

    def scaled(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x * y[11].abs()

    check_graph(mi.from_torch(Module(scaled), *drawn((3, 5), (16,))).graph)
