"""Programs that compute the indices that they look up: nothing remains with PyTorch, and results
are those of PyTorch for all indices that it accepts."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
from executed_programs import executed
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.ugraph import External
from thorough import some_of

Tensor = torch.Tensor
OPTIONS = executed(budget=600.0)
VIEWS = {"aten.reshape.default", "aten.narrow.default", "aten.expand.default"}


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def whole(low: int, high: int, *shape: int, seed: int = 0) -> Tensor:
    return torch.randint(low, high, shape, generator=torch.Generator().manual_seed(seed))


def last(x: Tensor, n: Tensor) -> Tensor:
    return x[torch.arange(len(x)), n - 1] * 2


def last_of_mask(x: Tensor, mask: Tensor) -> Tensor:
    return x[torch.arange(len(x)), (mask > 0).sum(1) - 1] * 2


def mean_of_span(x: Tensor, first: Tensor, end: Tensor) -> Tensor:
    """The index after the last element of a span."""
    total = torch.nn.functional.pad(x.cumsum(1), (0, 0, 1, 0))
    row = torch.arange(len(x))[:, None]
    return (total[row, end + 1] - total[row, first]) / (end + 1 - first)[..., None]


def lines_backwards(x: Tensor, n: Tensor) -> Tensor:
    p = torch.arange(x.shape[1])
    return x.gather(1, torch.where(p < n[:, None], n[:, None] - 1 - p, p)[..., None]) * 2


def best_in_order(x: Tensor, _: Tensor) -> Tensor:
    """Indices that kernels find, and sort."""
    found = x[..., 0].topk(3, -1).indices.sort(-1).values
    return x.gather(1, found[..., None].expand(-1, -1, x.shape[-1])) * 2


def weights_of_groups(x: Tensor, _: Tensor) -> Tensor:
    """Elements that are chosen from the best groups, and their shares of their sum."""
    scores = x[..., 0].sigmoid()
    best = scores.view(4, 5, 2).sum(-1).topk(2, -1).indices
    kept = torch.zeros(4, 5).scatter(1, best, 1.0)[..., None].expand(4, 5, 2).reshape(4, 10)
    found = scores.masked_fill(kept == 0, 0.0).topk(2, -1).indices
    chosen = scores.gather(1, found)
    return chosen / chosen.sum(-1, keepdim=True)


def noise(x: Tensor, n: Tensor) -> Tensor:
    """An element of a line for each row."""
    return x * torch.linspace(0.9, 0.1, 12)[n][:, None, None]


def greedy(x: Tensor, _: Tensor) -> tuple[Tensor, Tensor]:
    """Labels that are not blank and differ from the one before."""
    best = x.argmax(-1)
    before = torch.nn.functional.pad(best, (1, 0), value=-1)[:, :-1]
    kept = (best != 0) & (best != before)
    return best * kept, kept.sum(-1)


X, LENGTHS = rand(4, 10, 16), whole(1, 11, 4)
PROGRAMS: dict[str, tuple[Callable[..., Tensor | tuple[Tensor, ...]], tuple[Tensor, ...]]] = {
    "last": (last, (X, LENGTHS)),
    "last, from the end": (last, (X, torch.tensor([0, -3, -9, 10]))),
    "last of a mask": (last_of_mask, (X, whole(0, 2, 4, 10))),
    "last of an empty mask": (last_of_mask, (X, torch.zeros(4, 10, dtype=torch.int64))),
    "mean of a span": (mean_of_span, (X, whole(0, 5, 4, 3), whole(5, 10, 4, 3))),
    "lines backwards": (lines_backwards, (X[..., :1].contiguous(), LENGTHS)),
    "the best in order": (best_in_order, (X, LENGTHS)),
    "weights of groups": (weights_of_groups, (X, LENGTHS)),
    "a number of a line": (noise, (X, LENGTHS)),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(PROGRAMS, 4))
def test_no_call_remains(name: str) -> None:
    program, inputs = PROGRAMS[name]
    found = mi.optimize(mi.from_torch(program, *inputs, allow_fallback=True), OPTIONS)
    left = {op.target for op in found.graph.ops if isinstance(op, External)} - VIEWS
    assert not left
    (got,) = emulate(found, *inputs)
    torch.testing.assert_close(got, program(*inputs), rtol=1e-4, atol=1e-4)


def test_integers_of_which_a_kernel_computes_several() -> None:
    found = mi.optimize(mi.from_torch(greedy, X, LENGTHS, allow_fallback=True), OPTIONS)
    for got, expected in zip(emulate(found, X, LENGTHS), greedy(X, LENGTHS), strict=True):
        assert torch.equal(got, expected)


def test_an_index_outside_reads_nothing() -> None:
    """PyTorch refuses it."""
    found = mi.optimize(mi.from_torch(last, X, LENGTHS, allow_fallback=True), OPTIONS)
    for lengths in ([11, 1, 12, 3], [-10, 1, 2**62, 3]):
        (got,) = emulate(found, X, torch.tensor(lengths))
        assert got[[0, 2]].isnan().all()
        assert torch.equal(got[1], X[1, 0] * 2)
