"""Programs on unsigned integers, which kernels compute as signed ones; results are PyTorch's."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from executed_programs import executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import External
from thorough import some_of

Tensor = torch.Tensor
Program = Callable[..., Tensor | tuple[Tensor, ...]]
OPTIONS = executed(budget=600.0)
VIEWS = {"aten.reshape.default", "aten.narrow.default", "aten.expand.default"}
X = torch.arange(256, dtype=torch.uint8).reshape(8, 32)
Y = (X * 7 + 3).flip(1)
FLOATS = torch.randn(4, 64, generator=torch.Generator().manual_seed(1))
PLACES = torch.tensor([5, 0, 7, 2, 1, 6])
SCALES = torch.rand(8, 1, generator=torch.Generator().manual_seed(2))


def four_bits(w: Tensor, x: Tensor, scales: Tensor) -> Tensor:
    """A layer whose weights have four bits each, in pairs."""
    weights = torch.stack([w & 15, w >> 4], -1).flatten(1)
    return x @ ((weights.float() - 8) * scales).t()


PROGRAMS: dict[str, tuple[Program, tuple[Tensor, ...]]] = {
    "an image": (lambda x: (x.float() / 255 - 0.5) / 0.25, (X,)),
    "halves": (lambda x: x.half() * 2, (X,)),
    "numbers": (lambda x: (x.long() * 3, x.int() - 5, x.bool()), (X,)),
    "signed bytes": (lambda x: x.to(torch.int8), (X,)),
    "sums that wrap": (lambda x, y: (x + y, x - y, x * y), (X, Y)),
    "numbers that are added": (lambda x: (x + 200, x * 3, 255 - x), (X,)),
    "quotients": (lambda x, y: (x // (y | 1), x % (y | 1), x / 2), (X, Y)),
    "bits": (lambda x, y: (x & y, x | 128, x ^ y, ~x, x << 3, x >> 2), (X, Y)),
    "comparisons": (lambda x, y: (x < y, x >= 128, x == y), (X, Y)),
    "choices": (lambda x, y: torch.where(x > y, x, y), (X, Y)),
    "limits": (lambda x, y: (x.clamp(10, 200), torch.maximum(x, y)), (X, Y)),
    "moved": (lambda x, y: torch.cat([x[:, ::2], y[2:, 5:21]]).t()[:, None] + 0, (X, Y)),
    "parts": (lambda x: tuple(part + 1 for part in x.chunk(4, 1)), (X,)),
    "with floats": (lambda x, f: x[:4] * f[:, :32], (X, FLOATS)),
    "with signed ones": (lambda x: x.int() + x, (X,)),
    "with signed bytes": (lambda x: x + x.to(torch.int8), (X,)),
    "from floats": (lambda f: (f * 40 + 128).clamp(0, 255).to(torch.uint8), (FLOATS,)),
    "a mask": (lambda x, f: f[:, :32].masked_fill(x[:4] == 0, -1.0), (X, FLOATS)),
    "four bits": (four_bits, (X, FLOATS, SCALES)),
    "rows": (lambda x, i: (x[i], x[:, i[:4]], x.index_select(1, i)), (X, PLACES)),
    "elements": (lambda x, i: (x.gather(1, i.expand(8, -1)), x[i, i], x.flip(0, 1)), (X, PLACES)),
    "a table": (lambda x, i: x.flatten()[x.long()] + F.embedding(i, x)[0, 0], (X, PLACES)),
    "stored": (lambda x, y, i: x.index_copy(0, i, y[:6]), (X, Y, PLACES)),
    "totals": (lambda x: (x.sum(-1), x.prod(1), x.sum(), x.cumsum(0), x.cummax(1)[0]), (X,)),
    "extremes": (lambda x, y: (*y.max(-1), x.amin(0), y.argmin(-1), x.min(), x.any(1)), (X, Y)),
    "in order": (lambda y: (*y.sort(-1), y.topk(3)[0], y.median(1)[0]), (Y,)),
    "fractions of them": (lambda x: (x * 0.5, x + 0.25, x / 300.0), (X,)),
}  # fmt: skip


def check(program: Program, *inputs: Tensor) -> set[str]:
    """Compare the program in the emulator with PyTorch, and return the calls that remain."""
    found = mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)
    want = program(*inputs)
    for mine, theirs in zip(
        emulate(found, *inputs), want if isinstance(want, tuple) else (want,), strict=True
    ):
        assert mine.dtype is theirs.dtype
        if theirs.is_floating_point():
            torch.testing.assert_close(mine, theirs, rtol=1e-3, atol=1e-3)
        else:
            assert torch.equal(mine, theirs)
    return {op.target for op in found.graph.ops if isinstance(op, External)} - VIEWS


@pytest.mark.parametrize("name", some_of(PROGRAMS, 12))
def test_no_call_remains(name: str) -> None:
    program, inputs = PROGRAMS[name]
    assert check(program, *inputs) <= {"aten.permute.default"}


@pytest.mark.parametrize(
    "program",
    [lambda x: x + (-1), lambda x: x > -1, lambda x: x < 300, lambda x: x < torch.tensor(300)],
    ids=["a sum", "a comparison", "a large number", "a large tensor"],
)
def test_numbers_that_pytorch_converts(program: Program) -> None:
    """They are not numbers of the type, so PyTorch computes with other numbers."""
    check(program, X)
