"""Ops that reduce, add and read by index, and compositions of these, from PyTorch to PTX that the
emulator executes, against float64."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from executed_programs import FEW_CHOICES, executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import External, Launch
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed(bounds=FEW_CHOICES)
Program = Callable[..., Tensor]


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


X, S, W = rand(5, 4), rand(7, 4), rand(9, 8)
I = torch.tensor([[3, 0, 4, 1], [3, 3, 4, 0], [0, 1, 4, 1], [1, 0, 4, 3], [3, 0, 0, 0],
                  [1, 1, 1, 1], [0, 3, 4, 4]])  # fmt: skip
LINE, IDS = torch.tensor([3, 0, 3, 1, 3, 4, 0]), torch.tensor([[1, 8, 3, 3], [0, 2, 2, 5]])
IMAGE, GRID = rand(1, 2, 4, 4), 0.9 * torch.tanh(rand(1, 3, 3, 2))


def reduced(how: str, own: bool = True) -> Program:
    return lambda x, i, s: x.scatter_reduce(0, i, s, how, include_self=own) * 2.0


ROWS: dict[str, tuple[Program, tuple[Tensor, ...]]] = {
    "scatter_reduce, sum": (reduced("sum"), (X, I, S)),
    "scatter_reduce, mean": (reduced("mean", False), (X, I, S)),
    "scatter_reduce, amax": (reduced("amax", False), (X, I, S)),
    "index_reduce": (lambda x, i, s: x.index_reduce(0, i, s, "amin") * 2.0, (X, LINE, S)),
    "index_put": (
        lambda x, i, s: x.index_put((i,), s, accumulate=True) * 2.0, (X, LINE, S)
    ),
    "fold": (
        lambda x: F.fold(x, (5, 6), (3, 2), stride=(1, 2), padding=(1, 0)) * 2.0,
        (rand(2, 12, 15),),
    ),
    "embedding_bag, sum": (lambda w, i: F.embedding_bag(i, w, mode="sum") * 2.0, (W, IDS)),
    "embedding_bag, mean": (lambda w, i: F.embedding_bag(i, w, mode="mean") * 2.0, (W, IDS)),
    "embedding_bag, max": (lambda w, i: F.embedding_bag(i, w, mode="max") * 2.0, (W, IDS)),
    "places of pooled maxima": (
        lambda x: F.max_pool2d(x, 2, return_indices=True)[1].float() * 2.0, (IMAGE,)
    ),
    "places of padded maxima": (
        lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True, return_indices=True)[1].float() * 2.0,
        (IMAGE,),
    ),
    "grid_sample": (
        lambda x, g: F.grid_sample(x, g, align_corners=False) * 2.0, (IMAGE, GRID)
    ),
    "logcumsumexp": (lambda x: x.logcumsumexp(-1) * 2.0, (rand(4, 8),)),
    "mode": (lambda x: (x * 2.0).round().mode(-1).values * 2.0, (rand(4, 8),)),
    "erfinv": (lambda x: torch.erfinv(torch.tanh(x)) * 2.0, (rand(4, 8),)),
    "kthvalue": (lambda x: x.kthvalue(3, -1).values * 2.0, (rand(4, 8),)),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(ROWS, 6))
def test_executed(name: str) -> None:
    program, inputs = ROWS[name]
    found = mi.optimize(mi.from_torch(program, *inputs), OPTIONS)
    kernels = [
        op for step in found.steps if step.graph is not None for op in step.graph.ops
        if isinstance(op, Launch)
    ]  # fmt: skip
    assert kernels
    for op in found.graph.ops:  # apart from the kernels, only places are computed and tensors moved
        if isinstance(op, External) and not all(v.dtype.is_integer for v in op.results):
            assert op.target.split(".")[1] in ("reshape", "expand", "permute"), op.target
    (got,) = emulate(found, *inputs)
    expected = program(*(x.double() if x.is_floating_point() else x for x in inputs))
    torch.testing.assert_close(got.double(), expected.double(), rtol=1e-4, atol=1e-5)


T, LAST = rand(5, 7, 16), torch.tensor([6, 0, 3, 3, 1])
PAIR = (torch.tensor([[0], [-5], [4]]), torch.tensor([-1, 2, -7, 6]))
ELEMENTS: dict[str, tuple[Program, tuple[Tensor, ...]]] = {
    "of two indices": (lambda x, i, j: x[:, :, 0][i, j] * 2.0, (T, *PAIR)),
    "rows": (lambda x, i, j: x[i, j] * 2.0, (T, *PAIR)),
    "rows of halves": (lambda x, i, j: x[i, j] * 2.0, (T.half(), *PAIR)),
    "rows as they are": (lambda x, i, j: x[i, j], (T.bfloat16(), *PAIR)),
    "the last row": (lambda x, n: x[torch.arange(5), n] * 2.0, (T, LAST)),
    "a projected row": (lambda x, n, w: x[torch.arange(5), n] @ w, (T, LAST, rand(16, 8))),
    "of computed rows": (lambda x, n: torch.tanh(x)[torch.arange(5), n] * 2.0, (T, LAST)),
    "in the middle": (lambda x, i, j: x[None, :, :, 3:7][:, i, j] + 1.0, (T, *PAIR)),
    "apart": (lambda x, i, j: x[i, :, j] * 2.0, (T, *PAIR)),
    "along columns": (lambda x, i: x.gather(1, i) * 2.0, (T, I[:5, :, None] % 4)),
    "of some rows": (lambda x, i: x.gather(0, i % 5) + 1.0, (X, I[:3, :2].int().long())),
    "of repeated indices": (
        lambda x, n: x.gather(1, n[:, None, None].expand(-1, 1, 16))[:, 0] * 2.0, (T, LAST)
    ),
    "integers": (lambda x, i, j: x[i, j], ((T[..., 0] * 2**50).long(), *PAIR)),
    "truth values": (lambda x, i: x.gather(1, i), (T[..., 0] > 0, I[:5] % 7)),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(ELEMENTS, every=3))
def test_elements_are_picked(name: str) -> None:
    """By indices that may be outside, in the kernel that reads the elements."""
    program, inputs = ELEMENTS[name]
    found = mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)
    calls = {op.target for op in found.graph.ops if isinstance(op, External)}
    assert calls <= {"aten.reshape.default", "aten.expand.default", "aten.narrow.default"}
    (got,) = emulate(found, *inputs)
    expected = program(*inputs)
    assert got.dtype is expected.dtype
    torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)


def test_picking_indices_are_checked() -> None:
    program, inputs = ELEMENTS["rows"]
    found = mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)
    (bounds,) = (artifact.manifest.bounds for artifact in found.artifacts)
    assert [(b.below, b.from_end) for b in bounds] == [(5, True), (7, True)]


@pytest.mark.parametrize("store", ["index_copy", "index_put"])
def test_several_rows_are_stored_by_two_kernels(store: str) -> None:
    """The last index of each place, and the value that is stored there: nothing else is written."""
    x, rows, index = rand(6, 20), rand(2, 20), torch.tensor([4, 1])
    programs: dict[str, Program] = {
        "index_copy": lambda x, i, s: x.index_copy(0, i, s) * 2.0,
        "index_put": lambda x, i, s: x.index_put((i.clamp(0),), s) * 2.0,
    }
    found = mi.optimize(mi.from_torch(programs[store], x, index, rows), OPTIONS)
    assert not found.report.notes
    ops = [op for step in found.steps if step.graph is not None for op in step.graph.ops]
    launches = [op for op in ops if isinstance(op, Launch)]
    assert len(launches) == 2
    assert max(v.type.size for op in launches[:-1] for v in op.results) <= 6
    (got,) = emulate(found, x, index, rows)
    torch.testing.assert_close(got, programs[store](x, index, rows))


@pytest.mark.parametrize("dim", [0, 1])
def test_a_running_log_sum_is_one_kernel(dim: int) -> None:
    """Along any dimension: nothing is transposed."""
    x = rand(6, 20)
    found = mi.optimize(mi.from_torch(lambda x: x.logcumsumexp(dim) * 2.0, x), OPTIONS)
    (op,) = (op for step in found.steps if step.graph is not None for op in step.graph.ops)
    assert isinstance(op, Launch)
    (got,) = emulate(found, x)
    torch.testing.assert_close(got, x.logcumsumexp(dim) * 2.0, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("shape", "dim", "kernels"),
    some_of(
        [((6, 20), 0, 1), ((6, 20), 1, 1), ((2, 8192), 1, 2), ((3, 5003), 1, 3), ((5003, 3), 0, 3)],
        every=2,
    ),
)
def test_running_products(shape: tuple[int, ...], dim: int, kernels: int) -> None:
    """Functions of the factors and of the products are in their kernels."""

    def program(x: Tensor) -> Tensor:
        return (1.0 - x * 1e-2).cumprod(dim) * 2.0

    x = rand(*shape)
    found = mi.optimize(mi.from_torch(program, x), OPTIONS)
    ops = [op for step in found.steps if step.graph is not None for op in step.graph.ops]
    assert sum(isinstance(op, Launch) for op in ops) == kernels
    assert not any(step.external for step in found.steps)
    (got,) = emulate(found, x)
    torch.testing.assert_close(got.double(), program(x.double()), rtol=1e-4, atol=1e-6)
