"""Sums of many terms: those that never need to be distinguished are added first, without a loss."""

from __future__ import annotations

import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200
from mirage.search import SearchLimits, superoptimize
from mirage.search.kernel.derivations.groupings import Groupings, Summands
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, ReduceFn
from mirage.semantics.ugraph import KernelGraph, Value

LIMITS = SearchLimits(columns=400, plans=30)


def norm(b: Builder, x: Value, gain: Value, shift: Value) -> Value:
    """A LayerNorm in primitive ops."""
    mean = b.binary(BinaryFn.MUL, b.reduce(ReduceFn.SUM, x, (1,)), b.constant(1 / x.shape[1]))
    apart = b.binary(BinaryFn.SUB, x, mean)
    square = b.binary(BinaryFn.MUL, apart, apart)
    spread = b.reduce(ReduceFn.SUM, square, (1,))
    scaled = b.binary(BinaryFn.DIV, apart, spread)
    return b.binary(BinaryFn.ADD, b.binary(BinaryFn.MUL, scaled, gain), shift)


def residual_norm() -> KernelGraph:
    """A product, a bias and a residual, normalised."""
    b, x, w = Builder(), tensor("x", 16, 64), tensor("w", 64, 64)
    bias, gain, shift = (tensor(n, 64) for n in ("bias", "gain", "shift"))
    y = b.binary(BinaryFn.ADD, b.binary(BinaryFn.ADD, b.matmul(x, w), bias), x)
    return graph("residual_norm", (x, w, bias, gain, shift), b, norm(b, y, gain, shift))


def many_terms() -> KernelGraph:
    """Five terms of different shapes."""
    b = Builder()
    wide = [tensor(f"x{i}", 32, 64) for i in range(3)]
    rows = [tensor(f"r{i}", 64) for i in range(2)]
    total = wide[0]
    for x in (rows[0], wide[1], rows[1], wide[2]):
        total = b.binary(BinaryFn.ADD, total, x)
    return graph("terms", (*wide, *rows), b, total)


def factors() -> KernelGraph:
    """``x y + x z + u``: the common factor of two of three terms of the same shape."""
    b = Builder()
    x, y, z, u = (tensor(n, 32, 64) for n in "xyzu")
    both = b.binary(BinaryFn.ADD, b.binary(BinaryFn.MUL, x, y), b.binary(BinaryFn.MUL, x, z))
    return graph("factors", (x, y, z, u), b, b.binary(BinaryFn.ADD, both, u))


@pytest.mark.parametrize(
    "program", [residual_norm(), many_terms(), factors()], ids=lambda g: g.name
)
def test_nothing_is_lost_by_adding_alike_terms_first(
    program: KernelGraph, monkeypatch: pytest.MonkeyPatch
) -> None:
    grouped = superoptimize(program, H200, LIMITS)

    def all_apart(self: Groupings, terms: Summands) -> list[Summands]:
        return [[t] for t in terms]

    monkeypatch.setattr(Groupings, "_alike_terms", all_apart)
    apart = superoptimize(program, H200, LIMITS)
    assert grouped.candidates[0].cost.time <= apart.candidates[0].cost.time * 1.001
    assert grouped.report.edges < apart.report.edges
