"""Routing by the largest scores and products with experts, from PyTorch to PTX that the emulator
executes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import torch
import torch.nn.functional as F
from executed_programs import FEW_CHOICES, executed
from mirage.cost.target import target_for
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.search import add_candidates
from mirage.search import SearchLimits
from mirage.semantics.alternatives import parts_of
from mirage.semantics.ugraph import External, Launch

Tensor = torch.Tensor
OPTIONS = executed(candidates=2, bounds=FEW_CHOICES)
grouped: Any = torch.ops.aten._grouped_mm.default


def rand(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape)))


def run(program: Callable[..., Any], *inputs: Tensor) -> tuple[mi.Optimized, list[Tensor]]:
    found = mi.optimize(mi.from_torch(program, *inputs), OPTIONS)
    return found, list(emulate(found, *inputs))


def calls(found: mi.Optimized) -> list[str]:
    return [
        op.target.removesuffix(".default") for op in found.graph.ops if isinstance(op, External)
    ]


def test_the_largest_and_their_places() -> None:
    """Two kernels: the scores are stored, then ranked. They write the places, too."""

    def router(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
        values, places = (x @ w).float().softmax(-1).topk(2, -1)
        return values / values.sum(-1, keepdim=True), places

    x, w = rand(4, 64).half(), rand(64, 8).half()
    found, (values, places) = run(router, x, w)
    expected, order = router(x.double(), w.double())
    torch.testing.assert_close(values.double(), expected.double(), rtol=0, atol=5e-3)
    assert torch.equal(places, order)
    assert not calls(found)
    assert sum(isinstance(op, Launch) for op in found.graph.ops) >= 2


def test_equal_scores_have_different_places() -> None:
    x = torch.tensor([[1.0, 2, 1, 2, 1, 2, 0, 2], [0, 0, 0, 0, 0, 0, 0, 0]])
    _, (values, places) = run(lambda x: (x * 2.0).topk(3, -1), x)
    assert torch.equal(values, torch.tensor([[4.0, 4, 4], [0, 0, 0]]))
    assert torch.equal(places, torch.tensor([[1, 3, 5], [0, 1, 2]]))


def test_a_row_reads_the_weights_of_its_expert() -> None:
    def decode(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
        return F.silu(grouped(x, w.transpose(1, 2), ends))

    x, w = rand(2, 64).bfloat16(), rand(8, 32, 64).bfloat16()
    ends = torch.tensor([0, 0, 1, 1, 1, 2, 2, 2], dtype=torch.int32)
    _, (got,) = run(decode, x, w, ends)
    expected = torch.stack([x[0].double() @ w[2].double().T, x[1].double() @ w[5].double().T])
    torch.testing.assert_close(got.double(), F.silu(expected), rtol=2e-2, atol=5e-2)


def test_both_projections_of_an_expert_are_multiplied_with_each_other() -> None:
    """One kernel looks up both parts of an expert's matrix in place."""

    def gated(x: Tensor, w: Tensor, chosen: Tensor) -> Tensor:
        gate, up = (x[:, None] @ w[chosen].transpose(1, 2)).chunk(2, -1)
        return F.silu(gate) * up

    x, w = rand(2, 64).bfloat16(), rand(8, 48, 64).bfloat16()
    chosen = torch.tensor([5, -2])
    found, (got,) = run(gated, x, w, chosen)
    assert not calls(found)
    kernels = [op for op in found.graph.ops if isinstance(op, Launch)]
    assert [v.type.size for op in kernels for v in op.results] == [2 * 24]
    expected = gated(x.double(), w.double(), chosen)
    torch.testing.assert_close(got.double(), expected, rtol=2e-2, atol=5e-2)


def test_rows_keep_the_product_with_their_expert() -> None:
    def few(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
        return grouped(x, w, ends)

    x, w = rand(16, 64).bfloat16(), rand(4, 64, 32).bfloat16()
    ends = torch.tensor([5, 5, 11, 16], dtype=torch.int32)
    _, (got,) = run(few, x, w, ends)
    owners = torch.tensor([0] * 5 + [2] * 6 + [3] * 5)
    expected = torch.einsum("sk,skn->sn", x.double(), w.double()[owners])
    torch.testing.assert_close(got.double(), expected, rtol=2e-2, atol=1e-1)


def test_many_rows_are_multiplied_in_blocks_of_an_expert() -> None:
    def prompt(x: Tensor, w: Tensor, ends: Tensor) -> Tensor:
        return F.silu(grouped(x, w, ends))

    x, w = rand(144, 64).bfloat16(), rand(20, 64, 64).bfloat16()
    ends = torch.tensor([40, 41, *([41] * 16), 100, 144], dtype=torch.int32)
    found, (got,) = run(prompt, x, w, ends)
    assert "aten._grouped_mm" not in calls(found)
    owners = torch.bucketize(torch.arange(144), ends, right=True)
    expected = torch.einsum("sk,skn->sn", x.double(), w.double()[owners])
    torch.testing.assert_close(got.double(), F.silu(expected), rtol=2e-2, atol=1e-1)


def test_experts_of_one_token_are_looked_up_where_they_are_multiplied() -> None:
    """Their matrices are not merged into one with more rows, which would have to be copied."""

    def products(x: Tensor, gate: Tensor, up: Tensor, chosen: Tensor) -> Tensor:
        gated, raised = (x @ w[chosen].transpose(1, 2) for w in (gate, up))
        return F.silu(gated) * raised

    def rows(*shape: int) -> Tensor:
        return torch.empty(*shape, dtype=torch.bfloat16, device="meta")

    weights, chosen = rows(64, 1408, 2048), torch.zeros(6, dtype=torch.int64, device="meta")
    program = mi.from_torch(products, rows(1, 1, 2048), weights, weights, chosen)
    found, _ = add_candidates(program.graph, target_for("h200"), SearchLimits(budget=60, plans=20))
    (part,) = parts_of(found)
    read = {v.shape for op in part.programs[1].ops if isinstance(op, Launch) for v in op.operands}
    assert (6, 1408, 2048) in read
