"""Integers, masks and lookups from PyTorch: rows against PyTorch, and folding."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.dtypes import as_dtype
from mirage.frontend.errors import UnsupportedOpError
from mirage.frontend.torch_import.capture import folding
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import Gather, Iota
from mirage.semantics.ugraph import External, Op, Unary
from thorough import some_of
from torch import nn

Tensor = torch.Tensor
N = 300
"""Positions whose masks are larger than those that are always folded."""
assert N * N > folding.SMALL_BYTES


def rand(*shape: int) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator)


def check(program: Callable[..., object], *inputs: Tensor) -> Counter[type[Op]]:
    """Compare an imported program with PyTorch; return its ops."""
    imported = mi.from_torch(program, *inputs)
    check_graph(imported.graph)
    with torch.no_grad():
        expected: Any = program(*inputs)
    expected = expected if isinstance(expected, tuple | list) else [expected]
    bound = [p.data.detach().double().numpy() for p in imported.program.parameters]
    given = [x.double().numpy() for x in inputs]
    ours = evaluate_floats(imported.graph, [*given, *bound])
    for value, a, b in zip(imported.graph.outputs, ours, expected, strict=True):
        assert value.shape == tuple(b.shape)
        assert value.dtype is as_dtype(b.dtype)
        np.testing.assert_allclose(a, b.double().numpy(), rtol=1e-9, atol=1e-12)
    return Counter(map(type, imported.graph.ops))


X, Y = rand(4, 6), rand(6, 4).T
I = torch.arange(24).reshape(4, 6) - 11
P, Q = X > 0.3, Y > 0
IDS = torch.tensor([[3, 0, 4], [1, 1, 2]])


def _triangle(n: int, device: Any = None) -> Tensor:
    i = torch.arange(n, device=device)
    return i[None, :] <= i[:, None]


ROWS: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "comparisons": (
        lambda x, y: (x < y, x <= y, x > y, x >= y, x == y, x != y, x < 0.5, x >= 0, x != 0.25),
        (X, Y),
    ),
    "comparisons of integers": (lambda i: (i < 3, i == 4, i >= -2, i > i.T[:, :1].T), (I,)),
    "logic": (lambda p, q: (p & q, p | q, p ^ q, ~p, p.logical_and(q)), (P, Q)),
    "sums of truth values": (
        lambda p: (p.sum(-1, dtype=torch.bool), p.sum(dtype=torch.bool), p.sum(0)),
        (P,),
    ),
    "logic of numbers": (lambda x, i: (x.logical_or(i), i.logical_not(), x.bool()), (X, I)),
    "where": (
        lambda p, x, y: (
            torch.where(p, x, y),
            torch.where(p, x, 0.0),
            torch.where(p, 1.5, y),
            torch.where(p, 0.0, float("-inf")),
            torch.where(p, x, float("-inf")),
            torch.where(p, -1024.0, 2.0),
        ),
        (P, X, Y),
    ),
    "where of integers": (lambda p, i: torch.where(p, i, 7), (P, I)),
    "what is not chosen": (
        lambda p, x: torch.where(p, x, x / 0.0).masked_fill(~p, 3.0),
        (P, X),
    ),
    "masked_fill": (
        lambda x, p: (x.masked_fill(p, float("-inf")), x.masked_fill(p, 2.0)),
        (X, P),
    ),
    "integers": (
        lambda i: (i + 2, i * i - i, -i, i.abs(), 3 - i, i.clamp(-2, 5), torch.maximum(i, i * 0)),
        (I,),
    ),
    "division": (
        lambda i: (i // 4, i % 4, torch.div(i, 3, rounding_mode="floor"), i / 4, i.remainder(-5)),
        (I,),
    ),
    "floor": (lambda x: (x.floor(), torch.div(x, 0.3, rounding_mode="floor")), (X,)),
    "conversions": (
        lambda i, p: (i.double(), p.double(), p.long() + i, p.to(torch.int32), i.double() * 0.5),
        (I, P),
    ),
    "numbers beside integers": (lambda i: (i * 0.5, i + 0.25, i / 8), (I,)),
    "triangles": (lambda x: (x.tril(), x.triu(1), x.tril(-1), x.triu(-2)), (X,)),
    "embedding": (lambda ids, w: F.embedding(ids, w), (IDS, rand(5, 8))),
    "index_select": (lambda x, i: x.index_select(0, i), (rand(5, 3, 2), IDS[0])),
    "rows by known indices": (lambda x: x[torch.arange(3) * 2], (rand(5, 4),)),
    "ids to norm": (
        lambda ids, w, g: F.rms_norm(F.embedding(ids, w), (8,), g),
        (IDS, rand(5, 8), rand(8)),
    ),
}


@pytest.mark.parametrize("name", some_of(list(ROWS), every=3))
def test_rows(name: str) -> None:
    program, inputs = ROWS[name]
    check(program, *inputs)


# ---- attention


def _sdpa(**options: Any) -> Callable[..., Tensor]:
    return lambda q, k, v, *m: F.scaled_dot_product_attention(q, k, v, *m, **options)


Q4, K4, K2 = rand(2, 4, 5, 8), rand(2, 4, 7, 8), rand(2, 2, 7, 8)
SEEN = torch.rand(2, 1, 5, 7, generator=torch.Generator().manual_seed(0)) < 0.8
SEEN[..., 0] = True
ATTENTION: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "causal": (_sdpa(is_causal=True), (Q4, K4, K4)),
    "causal with groups": (_sdpa(is_causal=True, enable_gqa=True), (Q4, K2, K2)),
    "truth values": (_sdpa(), (Q4, K4, K4, SEEN)),
    "truth values of each head": (_sdpa(), (Q4, K4, K4, SEEN.expand(2, 4, 5, 7))),
    "truth values with groups": (_sdpa(enable_gqa=True), (Q4, K2, K2, SEEN)),
    "truth values of each head with groups": (
        _sdpa(enable_gqa=True),
        (Q4, K2, K2, SEEN.expand(2, 4, 5, 7)),
    ),
    "added, with groups": (_sdpa(enable_gqa=True), (Q4, K2, K2, rand(5, 7))),
}


@pytest.mark.parametrize("name", list(ATTENTION))
def test_attention(name: str) -> None:
    program, inputs = ATTENTION[name]
    ops = check(program, *inputs)
    assert ops[Iota] == 2 * ("causal" in name)


def test_a_mask_that_lets_everything_through_is_none() -> None:
    def program(q: Tensor, k: Tensor) -> Tensor:
        everything = torch.ones(5, 7, dtype=torch.bool)
        return F.scaled_dot_product_attention(q, k, k, attn_mask=everything)

    plain = check(lambda q, k: F.scaled_dot_product_attention(q, k, k), Q4, K4)
    assert check(program, Q4, K4) == plain


# ---- folding


def test_a_large_mask_is_computed_from_positions() -> None:
    ops = check(lambda x: x.masked_fill(~_triangle(N), -1.0), rand(N, N))
    assert ops[Iota] == 1
    window = check(
        lambda x: torch.where(
            _triangle(N) & (torch.arange(N)[:, None] - torch.arange(N) < 8), x, -1.0
        ),
        rand(N, N),
    )
    assert window[Iota] == 1


def test_a_small_mask_is_read() -> None:
    imported = mi.from_torch(lambda x: x.masked_fill(~_triangle(6), -1.0), rand(6, 6))
    (mask,) = imported.program.parameters
    assert not mask.trained
    assert not any(isinstance(op, Iota) for op in imported.graph.ops)


class Rotary(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        frequencies = 1.0 / 10000 ** (torch.arange(0, 8, 2).double() / 8)
        self.register_buffer("inv_freq", frequencies, persistent=False)
        self.weight = nn.Parameter(rand(8))

    def forward(self, x: Tensor) -> Tensor:
        angle = torch.arange(x.shape[0])[:, None].double() * self.inv_freq
        table = torch.cat([angle, angle], -1)
        turned = torch.cat([-x[:, 4:], x[:, :4]], -1)
        return (x * table.cos() + turned * table.sin()) * self.weight


def test_rotary_tables_are_computed_at_import() -> None:
    module = Rotary()
    check(module, rand(6, 8))
    names = {p.name for p in mi.from_torch(module, rand(6, 8)).program.parameters}
    assert "inv_freq" not in names
    assert sum(name.startswith("folded_") for name in names) == 2


def test_angles_that_nothing_is_known_of() -> None:
    ops = check(lambda x, i: ((x * 1e9).sin(), (i.double() * 0.3).cos()), X, I)
    assert ops[Unary] == 2


class Kept(nn.Module):
    """The contents of a state_dict may change."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("scale", torch.full((6,), 2.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return x * (self.scale + 1)


def test_buffers_of_the_state_are_not_folded() -> None:
    names = [p.name for p in mi.from_torch(Kept(), X).program.parameters]
    assert names == ["scale"]


def test_what_is_random_is_not_folded() -> None:
    with pytest.raises(UnsupportedOpError):
        mi.from_torch(lambda x: x + torch.rand(6, dtype=torch.float64), X)


def test_what_is_too_large_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "MOST_BYTES", 1 << 10)

    def program(x: Tensor) -> Tensor:
        return x + torch.full((64, 64), 0.5, dtype=torch.float64)

    assert not mi.from_torch(program, rand(64, 64)).program.parameters


def test_results_that_no_input_reaches() -> None:
    check(lambda x: (x + 1, torch.arange(5) * 2 + 1, torch.tensor([1.0, 4.0, 2.0])), X)


# ---- ops that stay with PyTorch


def test_calls_pass_integers() -> None:
    def program(x: Tensor) -> Tensor:
        return torch.exp(x) * torch.lgamma((x > 0).to(x.dtype))

    imported = mi.from_torch(program, X, allow_fallback=True)
    calls = [op.target for op in imported.graph.ops if isinstance(op, External)]
    assert calls == ["aten.lgamma"]


def test_rows_are_one_gather() -> None:
    ops = check(ROWS["embedding"][0], *ROWS["embedding"][1])
    assert ops == {Gather: 1}
