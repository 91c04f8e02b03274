"""Products of rows with the weights of their experts, and sums by index, against PyTorch."""

from __future__ import annotations

from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.errors import UnsupportedOpError
from mirage.semantics.positions import Gather
from mirage.semantics.ugraph import External
from torch_programs.imported_programs import check, evaluate, rand

Tensor = torch.Tensor
grouped: Any = torch.ops.aten._grouped_mm.default


def by_loops(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Rows that no group has are zero."""
    y = x.new_zeros(x.shape[0], weights.shape[2])
    start = 0
    for e, end in enumerate(ends.tolist()):
        y[start:end] = x[start:end] @ weights[e]
        start = end
    return y


def imported(rows: int, experts: int) -> tuple[Any, list[Tensor]]:
    x, w = rand(rows, 8).bfloat16(), rand(experts, 8, 16).bfloat16()
    ends = torch.arange(1, experts + 1, dtype=torch.int32)
    return mi.from_torch(lambda x, w, i: grouped(x, w, i), x, w, ends), [x, w]


@pytest.mark.parametrize(
    "ends",
    [(2, 2, 5, 7), (0, 0, 0, 7), (7, 7, 7, 7), (1, 2, 3, 4), (0, 0, 0, 0), (0, 3, 3, 6)],
)
@pytest.mark.parametrize("extra", [0, 20])
def test_grouped_product(ends: tuple[int, ...], extra: int) -> None:
    """Both with more rows than experts and with fewer; groups may be empty, rows in none."""
    all_ends = torch.tensor([*ends, *(ends[-1] for _ in range(extra))], dtype=torch.int32)
    program, (x, w) = imported(7, len(all_ends))
    (got,) = evaluate(program, [x, w, all_ends])
    expected = by_loops(x.double(), w.double(), all_ends).bfloat16()
    np.testing.assert_allclose(got, expected.double(), rtol=2e-2, atol=1e-2)


def test_an_expert_that_no_row_has_may_hold_anything() -> None:
    for extra in (0, 20):
        ends = torch.tensor([3, 3, *(7 for _ in range(extra + 1))], dtype=torch.int32)
        program, (x, w) = imported(7, len(ends))
        w[1] = float("inf")
        (got,) = evaluate(program, [x, w, ends])
        assert np.isfinite(got).all()


def test_few_rows_read_the_weights_of_their_experts_as_they_lie() -> None:
    """The transposed weights of a linear layer are not copied to look some of them up."""
    x, w = rand(2, 8).bfloat16(), rand(8, 16, 8).bfloat16()
    ends = torch.tensor([0, 0, 1, 1, 1, 2, 2, 2], dtype=torch.int32)
    program = mi.from_torch(lambda x, w, i: grouped(x, w.transpose(-2, -1), i), x, w, ends)
    (found,) = (op for op in program.graph.ops if isinstance(op, Gather))
    assert found.operands[0] is program.graph.inputs[1]
    (got,) = evaluate(program, [x, w, ends])
    expected = by_loops(x.double(), w.double().transpose(-2, -1), ends)
    np.testing.assert_allclose(got, expected, rtol=2e-2, atol=1e-2)


def test_a_prompt_stays_one_call() -> None:
    x, w = rand(256, 16).bfloat16(), rand(8, 16, 16).bfloat16()
    ends = torch.arange(32, 257, 32, dtype=torch.int32)
    program: Any = mi.from_torch(
        lambda x, w, i: grouped(x, w, i) * 2, x, w, ends, allow_fallback=True
    )
    assert [op.target for op in program.graph.ops if isinstance(op, External)] == [
        "aten._grouped_mm"
    ]
    assert "256 rows in 8 groups" in program.stays[0].reason


def test_sums_by_index() -> None:
    x, s = rand(4, 5, 6), rand(4, 3, 6)
    i, k = torch.tensor([3, 0, 3]), torch.tensor([[1, 1, 4]])
    check(
        lambda x, i, s, k: (
            x.index_add(1, i, s),
            x.index_add(-2, i[:2], s[:, :2], alpha=-2),
            x[0, :, 0].index_add(0, i, s[0, :, 0]),
            x.scatter_add(1, k[:, :, None].expand(4, 3, 6), s),
            x[0, 0].scatter_add(0, k[0], s[0, 0]),
            x[0].scatter_add(-1, k.expand(5, 3), s[0, :, :3].repeat(2, 1)),
        ),
        x, i, s, k,
    )  # fmt: skip
    n = torch.arange(6, dtype=torch.int32)
    check(lambda n, i: (n.index_add(0, i, n[:3]), n.long().scatter_add(0, i, i)), n, i)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types_of_sums(dtype: torch.dtype) -> None:
    x, i, s = rand(5, 3).to(dtype), torch.tensor([1, 1, 4, 0]), rand(4, 3).to(dtype)
    check(lambda x, i, s: x.index_add(0, i, s), x, i, s, rtol=2e-2, atol=1e-2)


def test_many_sums_are_refused() -> None:
    x, i = torch.zeros(4096, 2), torch.zeros(4096, dtype=torch.long)
    for program, text in (
        (lambda x, i: x.index_add(0, i, x), "4096 sums of 2 to 4096 places"),
        (lambda x, i: x[:, 0].scatter_add(0, i, x[:, 1]), "4096 sums to 4096 places"),
    ):
        with pytest.raises(UnsupportedOpError, match=text):
            mi.from_torch(program, x, i)


# ---- routing


class Routed(torch.nn.Module):
    """A layer of experts as Transformers computes it: pairs of a token and an expert, sorted."""

    def __init__(self, experts: int, top: int) -> None:
        super().__init__()
        self.top, self.experts = top, experts
        self.router = torch.nn.Parameter(rand(experts, 8).float())
        self.up = torch.nn.Parameter(rand(experts, 16, 8).bfloat16())
        self.down = torch.nn.Parameter(rand(experts, 8, 16).bfloat16())

    def forward(self, x: Tensor) -> Tensor:
        weights, which = F.linear(x.float(), self.router).softmax(-1).topk(self.top, -1)
        of_pairs, order = which.reshape(-1).sort()
        counts = of_pairs.float().histc(self.experts, 0, self.experts - 1)
        ends = counts.cumsum(0, dtype=torch.int32)
        y = F.silu(grouped(x[order // self.top], self.up.transpose(1, 2), ends))
        y = grouped(y, self.down.transpose(1, 2), ends) * weights.reshape(-1)[order, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(len(order))
        return y[back].reshape(-1, self.top, 8).sum(1).bfloat16()


@pytest.mark.parametrize(("tokens", "experts"), [(1, 8), (9, 4)])
def test_a_layer_of_experts(tokens: int, experts: int) -> None:
    layer, x = Routed(experts, 2), rand(tokens, 8).bfloat16()
    program = mi.from_torch(layer, x)
    (got,) = evaluate(program, [x])
    with torch.no_grad():
        expected = layer(x)
    np.testing.assert_allclose(got, expected.double(), rtol=5e-2, atol=5e-2)
    looked_up = any(
        isinstance(op, Gather) and op.operands[0].shape[0] == experts for op in program.graph.ops
    )
    assert looked_up == (tokens * 2 < experts)
