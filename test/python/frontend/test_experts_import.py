"""Products of rows with the weights of their experts, and sums by index, against PyTorch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.errors import UnsupportedOpError
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import Gather
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import Matmul
from mirage.transforms.partition.partition import Part, parts_to_search
from torch_programs.imported_programs import check, evaluate, rand

Tensor = torch.Tensor
grouped: Any = torch.ops.aten._grouped_mm.default


def by_loops(x: Tensor, weights: Tensor, ends: Tensor) -> Tensor:
    """Rows outside of all groups are zero."""
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
    """With more rows than experts and with fewer; groups may be empty, and rows may be in no
    group."""
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


@pytest.mark.parametrize(
    "ends",
    [(32, 100, 100, 256), (0, 0, 256, 256), (256, 256, 256, 256), (1, 2, 3, 4), (0, 130, 199, 200)],
)
@pytest.mark.parametrize("rows", [256, 200])
def test_many_rows_are_multiplied_in_blocks(ends: tuple[int, ...], rows: int) -> None:
    all_ends = torch.tensor(ends, dtype=torch.int32).clamp(max=rows)
    program, (x, w) = imported(rows, len(ends))
    blocks = [op.result.shape for op in program.graph.ops if isinstance(op, Matmul)]
    assert blocks == [((rows + 4 * 63) // 64, 64, 16)]
    (got,) = evaluate(program, [x, w, all_ends])
    expected = by_loops(x.double(), w.double(), all_ends).bfloat16()
    np.testing.assert_allclose(got, expected.double(), rtol=2e-2, atol=1e-2)


def test_large_blocks_of_many_rows() -> None:
    program, (x, w) = imported(520, 2)
    ends = torch.tensor([130, 520], dtype=torch.int32)
    (product,) = (op for op in program.graph.ops if isinstance(op, Matmul))
    assert product.result.shape == (6, 128, 16)
    (got,) = evaluate(program, [x, w, ends])
    expected = by_loops(x.double(), w.double(), ends).bfloat16()
    np.testing.assert_allclose(got, expected.double(), rtol=2e-2, atol=1e-2)


def test_ends_that_are_none_name_no_rows_outside() -> None:
    """For any ends, lookups stay within the tensors."""
    program, (x, w) = imported(200, 4)
    for ends in ((-5, 3, 2**31 - 1, 7), (300, 200, 100, 0), (-(2**31),) * 4):
        (got,) = evaluate(program, [x, w, torch.tensor(ends, dtype=torch.int32)])
        assert np.isfinite(got).all()


def test_what_is_multiplied_again_stays_in_blocks() -> None:
    def layer(x: Tensor, up: Tensor, down: Tensor, ends: Tensor) -> Tensor:
        gate, other = grouped(x, up, ends).chunk(2, -1)
        return grouped(F.silu(gate) * other * 0.5, down, ends)

    x, up, down = rand(160, 8).bfloat16(), rand(3, 8, 32).bfloat16(), rand(3, 16, 8).bfloat16()
    ends = torch.tensor([40, 41, 150], dtype=torch.int32)
    program = mi.from_torch(layer, x, up, down, ends)
    looked_up = [op.operands[0].shape for op in program.graph.ops if isinstance(op, Gather)]
    assert sorted(looked_up) == [(3, 8, 32), (3, 16, 8), (160, 8), (320, 8)]
    (got,) = evaluate(program, [x, up, down, ends])
    hidden = by_loops(x.double(), up.double(), ends)
    hidden = F.silu(hidden[:, :16]) * hidden[:, 16:] * 0.5
    expected = by_loops(hidden, down.double(), ends)
    np.testing.assert_allclose(got, expected, rtol=5e-2, atol=2e-1)


def test_other_rows_in_between_are_laid_again() -> None:
    """Values that a row gets from another row are not computed in blocks."""

    def layer(x: Tensor, up: Tensor, down: Tensor, ends: Tensor) -> Tensor:
        y = grouped(x, up, ends)
        return grouped(y + y.flip(0), down, ends)

    x, up, down = rand(160, 8).bfloat16(), rand(3, 8, 16).bfloat16(), rand(3, 16, 8).bfloat16()
    ends = torch.tensor([40, 41, 160], dtype=torch.int32)
    program = mi.from_torch(layer, x, up, down, ends)
    (got,) = evaluate(program, [x, up, down, ends])
    hidden = by_loops(x.double(), up.double(), ends)
    expected = by_loops(hidden + hidden.flip(0), down.double(), ends)
    np.testing.assert_allclose(got, expected, rtol=5e-2, atol=3e-1)


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


@pytest.mark.parametrize(("tokens", "experts"), [(1, 8), (9, 4), (70, 4)])
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
    assert looked_up == (tokens * 2 < experts or tokens * 2 > 128)


def test_products_load_how_many_experts_follow_a_block() -> None:
    """The integer that says whether a block has rows is passed to the product's part as such, so
    that it can bound the loop; in blocks without rows, the product is zero."""
    program, (x, w) = imported(200, 3)
    products = [step.graph for step in parts_to_search(program.graph) if isinstance(step, Part)]
    products = [g for g in products if any(isinstance(op, Matmul) for op in g.ops)]
    assert len(products) == 1
    blocks = max(v.shape[0] for v in products[0].inputs if len(v.shape) == 3)
    assert (DType.I64, (blocks, 1, 1)) in [(v.dtype, v.shape) for v in products[0].inputs]
    keep = next(
        op
        for op in program.graph.ops
        if op.function is BinaryFn.KEEP and op.result.shape == (blocks, 64, 16)
    )
    blocked = replace(program.graph, outputs=(keep.result,))
    inputs = [x.double().numpy(), w.double().numpy(), np.array([5, 5, 9])]
    (got,) = evaluate_floats(blocked, inputs)
    assert [bool(block.any()) for block in got] == [True, True] + [False] * (blocks - 2)
