"""PyTorch does not decompose programs whose ops all have rows, but it does decompose others: the
imported program is the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from mirage.frontend.torch_import import from_torch
from mirage.frontend.torch_import.capture import decompositions
from mirage.mlir_io import graph_to_text
from thorough import some_of
from torch import Tensor, nn
from torch_programs.imported_programs import rand


class Attention(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        q, k, v = x.float().split(8, -1)
        return torch.softmax(q @ k.transpose(-1, -2), -1).to(x.dtype) @ v.to(x.dtype)


class Causal(nn.Module):
    """Its ranges and its diagonal are constants."""

    def forward(self, x: Tensor) -> Tensor:
        rows, columns = torch.arange(12), torch.arange(0, 24)
        slope = torch.arange(24.0) * 0.5
        return torch.where(rows[:, None] < columns, x * slope, torch.eye(12, 24))


class WritesIntoItsOwn(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        y = torch.zeros_like(x)
        y[1:] = x[1:]
        return y.mul_(2)


class Solved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return torch.linalg.solve(x, torch.logsumexp(x, -1))


class Composite(nn.Module):
    """Ops that PyTorch composes of others: some stay whole, some are defined in Python."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(24, 24)

    def forward(self, x: Tensor) -> Tensor:
        y = nn.functional.layer_norm(self.linear(x), (24,)) + nn.functional.glu(x.tile(2))
        y = torch.einsum("ij,kj->ik", y, x) + nn.functional.cosine_similarity(x, y, -1)[:, None]
        z = nn.functional.scaled_dot_product_attention(y[None], y[None], x[None])[0]
        parts = torch.tensor_split(z, 3, -1)
        whole = nn.functional.dropout(parts[0].flatten(), 0.5, training=False)
        return torch.var(torch.vstack(parts).square(), -1) + whole[0]


def named(text: str) -> str:
    """Return the text with one name for values computed at import, which are named after their last
    op."""
    return re.sub(r"folded_\w+", "folded", text)


def exported(module: nn.Module, x: Tensor) -> torch.export.ExportedProgram:
    return torch.export.export(module, (x,), strict=False)


@pytest.mark.parametrize("module", [Attention(), Causal()])
def test_what_has_rows_stays(module: nn.Module) -> None:
    program = exported(module, rand(12, 24).half())
    assert decompositions.decomposed(program, in_place=True) is program


def test_a_program_of_the_caller_stays_as_it_is() -> None:
    program = exported(Attention(), rand(12, 24).half())
    before = str(program.graph)
    imported = from_torch(program)
    assert str(program.graph) == before
    again = from_torch(Attention(), rand(12, 24).half())
    assert graph_to_text(imported.program.graph) == graph_to_text(again.program.graph)


@pytest.mark.parametrize(
    ("module", "whole"), [(WritesIntoItsOwn(), True), (Solved(), True), (nn.GroupNorm(2, 4), False)]
)
def test_other_programs_are_taken_apart(module: nn.Module, whole: bool) -> None:
    """Programs are imported op by op, unless an op writes or has an effect."""
    program = exported(module, rand(4, 4))
    found = decompositions.decomposed(program, in_place=True)
    assert (found is not program) == whole
    targets = [n.target for n in found.graph.nodes if n.op == "call_function"]
    assert not any(getattr(t, "_schema", None) and t._schema.is_mutable for t in targets)


@pytest.mark.parametrize("module", [Attention(), Causal(), nn.LayerNorm(24), nn.Linear(24, 8)])
def test_both_ways_lead_to_the_same(module: nn.Module, monkeypatch: pytest.MonkeyPatch) -> None:
    x = rand(12, 24).float()
    quick = from_torch(module, x)
    monkeypatch.setattr(decompositions, "_stays", lambda node: False)
    taken_apart = from_torch(module, x)
    assert named(graph_to_text(quick.program.graph)) == named(
        graph_to_text(taken_apart.program.graph)
    )
    for p, q in zip(quick.program.parameters, taken_apart.program.parameters, strict=True):
        assert named(p.name) == named(q.name)
        assert torch.equal(p.data, q.data)


def seldom(x: Tensor) -> tuple[Tensor, ...]:
    """Ops without a row, with one result and with several, with equal and different names, and
    results that are an op's operands."""
    spread, middle = torch.std_mean(x, -1)
    twice = torch.logsumexp(x, -1) + torch.logsumexp(2.0 * x, -1) + torch.logsumexp(x, 0)[0]
    parts = torch.tensor_split(nn.functional.glu(x), 3, -1)
    return spread, middle, twice, parts[1], x.type_as(x), nn.functional.pad(x, (1, 2))


@pytest.mark.parametrize(
    "function",
    some_of(
        [
            seldom,
            lambda x: nn.functional.cross_entropy(x, (x[:, 0] > 0).long()),
            lambda x: torch.einsum("ij,kj->ik", x, torch.nan_to_num(x)),
            lambda x: nn.functional.conv1d(x[None], x[:, :, None].expand(12, 24, 3)[:, :12]),
            lambda x: nn.functional.kl_div(torch.logsumexp(x, -1), torch.logsumexp(-x, -1)),
            lambda x: torch.take_along_dim(x, x.argsort(-1), -1),
            lambda x: torch.block_diag(x, nn.functional.mish(x)) * torch.cdist(x, x).sum(),
        ],
        every=2,
    ),
)
def test_op_by_op_it_is_the_same(
    function: Callable[[Tensor], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    x, made = rand(12, 24), []
    one_by_one = decompositions._replaced
    monkeypatch.setattr(
        decompositions, "_replaced", lambda e: made.append(one_by_one(e)) or made[0]
    )
    by_itself = from_torch(function, x)
    monkeypatch.setattr(decompositions, "_replaced", lambda e: False)
    together = from_torch(function, x)
    assert made == [True]
    texts = [named(graph_to_text(found.program.graph)) for found in (by_itself, together)]
    assert texts[0] == texts[1]


@pytest.mark.parametrize(
    "module",
    some_of(
        [Composite(), WritesIntoItsOwn(), nn.GroupNorm(4, 12), nn.GELU(), nn.Softmin(-1)], every=2
    ),
)
def test_it_is_what_pytorch_makes_of_it(module: nn.Module) -> None:
    """Only the op's own registration matters."""
    program = exported(
        module, rand(12, 24) if not isinstance(module, nn.GroupNorm) else rand(2, 12)
    )
    table = decompositions._decompositions()
    found, expected = decompositions._run(program, table), program.run_decompositions(dict(table))
    assert str(found.graph) == str(expected.graph)
    assert found.graph_signature == expected.graph_signature
    for mine, theirs in zip(found.graph.nodes, expected.graph.nodes, strict=True):
        for what in ("stack_trace", "nn_module_stack"):
            assert mine.meta.get(what) == theirs.meta.get(what)


def test_solvers_stay_whole() -> None:
    """They check their arguments when they run, and these checks count as effects."""
    x = rand(4, 4)
    imported = from_torch(lambda x: torch.linalg.solve(x, x) + x.inverse(), x, allow_fallback=True)
    assert [s.op for s in imported.stays] == ["aten.linalg_solve", "aten.inverse"]
