"""Stores at places that several indices name, from PyTorch to PTX that the emulator executes."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
from executed_programs import executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import External, Launch
from thorough import some_of

Tensor = torch.Tensor
Program = Callable[..., Tensor]
OPTIONS = executed(budget=600.0)
VIEWS = {"aten.reshape.default", "aten.narrow.default", "aten.expand.default"}


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def stored(x: Tensor, where: tuple[object, ...], values: Tensor | float) -> Tensor:
    y = x.clone()
    y[where] = values  # type: ignore[index]
    return y


X, ROWS, LINES = rand(3, 4, 7, 5), torch.arange(3), torch.arange(4)
LAST = torch.tensor([6, 0, -3])
EACH = torch.tensor([[6, 0, -3, 1], [2, -7, 2, 2], [5, 5, 0, -1]])
ALL = slice(None)
PROGRAMS: dict[str, tuple[Program, tuple[Tensor, ...]]] = {
    "one of each row": (
        lambda x, n, v: stored(x, (ROWS, ALL, n), v), (X, LAST, rand(3, 4, 5)),
    ),
    "one of each line": (
        lambda x, n, v: stored(x, (ROWS[:, None], LINES, n), v), (X, EACH, rand(3, 4, 5)),
    ),
    "in another order": (
        lambda x, n, v: stored(x.permute(1, 0, 2, 3), (LINES, ROWS[:, None], n), v),
        (X, EACH, rand(3, 4, 5)),
    ),
    "a number": (lambda x, n, _: stored(x, (ROWS, ALL, n), 1.5), (X, LAST, LAST)),
    "of one row": (
        lambda x, n, v: stored(x[:1], (torch.arange(1), ALL, n[:1]), v), (X, LAST, rand(4, 5)),
    ),
    "several of each row": (
        lambda x, n, v: stored(x, (ROWS[:, None], ALL, n), v),
        (X, torch.tensor([[6, 0], [-3, 1], [2, 3]]), rand(3, 2, 4, 5)),
    ),
    "at pairs": (
        lambda x, i, v: stored(x, (i // 7 % 3, ALL, i % 7), v),
        (X, torch.tensor([0, 8, 20, 13, 40]), rand(5, 4, 5)),
    ),
    "at a table of pairs": (
        lambda x, i, v: stored(x, (ALL, i // 7, i % 7), v),
        (X, torch.tensor([[0, 8, 20], [13, 27, 26]]), rand(3, 2, 3, 5)),
    ),
    "at a table of places": (
        lambda x, i, v: stored(x, (ALL, ALL, i), v),
        (X, torch.tensor([[0, -1], [3, 4]]), rand(3, 4, 2, 2, 5)),
    ),
    "integers": (
        lambda x, n, v: stored(x, (ROWS, ALL, n), v),
        ((X[..., 0] * 2**50).long(), LAST, (rand(3, 4) * 2**50).long()),
    ),
    "truth values": (
        lambda x, n, v: stored(x, (ROWS, ALL, n), v), (X[..., 0] > 0, LAST, rand(3, 4) > 0),
    ),
}  # fmt: skip


def solved(program: Program, *inputs: Tensor) -> mi.Optimized:
    return mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)


@pytest.mark.parametrize("name", some_of(PROGRAMS, 12))
def test_stores(name: str) -> None:
    program, inputs = PROGRAMS[name]
    found = solved(program, *inputs)
    left = {op.target for op in found.graph.ops if isinstance(op, External)}
    assert left <= VIEWS | {"aten.permute.default"}
    (got,) = emulate(found, *inputs)
    assert torch.equal(got, program(*inputs))


def test_a_cache_is_written_and_read_by_one_kernel() -> None:
    def program(cache: Tensor, k: Tensor, n: Tensor, q: Tensor) -> Tensor:
        cache = stored(cache, (torch.arange(2), ALL, n - 1), k)
        seen = (torch.arange(16) < n[:, None])[:, None, None]
        return torch.nn.functional.scaled_dot_product_attention(q, cache, cache, attn_mask=seen)

    inputs = rand(2, 4, 16, 8), rand(2, 4, 8), torch.tensor([3, 16]), rand(2, 4, 1, 8)
    found = solved(program, *inputs)
    assert sum(isinstance(op, Launch) for op in found.graph.ops) == 1
    (got,) = emulate(found, *inputs)
    torch.testing.assert_close(got, program(*inputs), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("name", ["one of each row", "at pairs"])
def test_what_is_outside_is_not_stored(name: str) -> None:
    program, (x, index, values) = PROGRAMS[name]
    index = torch.where(torch.arange(len(index)) == 1, 2**40, index)
    (got,) = emulate(solved(program, x, index, values), x, index, values)
    if name == "one of each row":
        assert torch.equal(got[1], x[1])
    else:  # the remainder is inside
        assert torch.equal(got, program(x, index, values))
