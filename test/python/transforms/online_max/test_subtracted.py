"""Exponentials that are relative to a maximum as they were written."""

from __future__ import annotations

import pytest
from example_programs.attention_graphs import SUM, one_launch, tensor
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    KernelGraph,
    Launch,
    Unary,
    Value,
    all_ops,
)
from mirage.transforms import stabilize
from mirage.transforms.online_max.subtracted import already_stable


def two_loops(maximum: str) -> KernelGraph:
    """The maximum of the rows of X (4, 32) in one loop, or another tensor of that shape, and the
    sum of ``exp(x - m)`` in the next one, in larger tiles.
    """

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        one, two = Builder(in_block=True), Builder(in_block=True)
        x = one.load(params[0], ((), ("t",)), (4, 8))
        if maximum == "of other scores":
            x = one.binary(BinaryFn.MUL, x, one.constant(0.5))
        if maximum == "sum":
            row = one.reduce(ReduceFn.SUM, x, (1,))
        else:
            row = one.reduce(ReduceFn.MAX, x, (1,))
        fn = AccumulateFn.LAST
        if maximum in ("accumulated", "of other scores", "sum", "masked"):
            fn = AccumulateFn.MAX
        elif maximum in ("running", "transposed"):
            row = one.running_max(row)
        steps = 2 if maximum == "of half of the row" else 4
        if maximum == "of half of the row":
            row, fn = one.running_max(row), AccumulateFn.LAST
        (m,) = b.loop(Axis("t", steps), tuple(one.ops), (Accumulator(fn, row),))
        if maximum == "smaller":
            m = b.binary(BinaryFn.MIN, m, b.constant(0.0))
        if maximum == "transposed":
            m = b.transpose(b.reshape(m, (1, 4)), (1, 0))
        y = two.load(params[0], ((), ("u",)), (4, 16))
        if maximum == "masked":
            y = two.mask(y, 1, ("u",), 32, float("-inf"))
        e = two.unary(UnaryFn.EXP, two.binary(BinaryFn.SUB, y, m))
        total = two.reduce(ReduceFn.SUM, e, (1,))
        return b.loop(Axis("u", 2), tuple(two.ops), (Accumulator(SUM, total),))[0]

    return one_launch((tensor(4, 32),), (), tensor(4, 1), ((), ()), build)


@pytest.mark.parametrize(
    ("maximum", "stable"),
    [
        ("accumulated", True),
        ("running", True),
        ("transposed", True),
        ("masked", True),
        ("of the last tile", False),
        ("of half of the row", False),
        ("of other scores", False),
        ("sum", False),
        ("smaller", False),
    ],
)
def test_maxima_of_a_loop(maximum: str, stable: bool) -> None:
    graph = two_loops(maximum)
    (launch,) = graph.ops
    assert isinstance(launch, Launch)
    exps = [op for op in all_ops(launch.body.ops) if isinstance(op, Unary) and op.fn is UnaryFn.EXP]
    assert already_stable(exps, graph) == (set(exps) if stable else set())
    result = stabilize(graph)
    assert result.graph is graph
    assert bool(result.unstable) != stable


def test_the_larger_of_two_maxima_bounds_what_each_bounds() -> None:
    """Factors between maxima, like those of the rewrite."""
    x, y = tensor(4, 8), tensor(4, 8)

    def build(b: Builder, params: tuple[Value, ...]) -> Value:
        tops = [b.reduce(ReduceFn.MAX, b.load(p, ((), ()), (4, 8)), (1,)) for p in params]
        both = b.binary(BinaryFn.MAX, *tops)
        again = b.binary(BinaryFn.MAX, *reversed(tops))
        factors = [b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, m, both)) for m in (*tops, again)]
        larger = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, both, tops[0]))
        total = b.binary(BinaryFn.ADD, factors[0], factors[1])
        return b.binary(BinaryFn.ADD, b.binary(BinaryFn.ADD, total, factors[2]), larger)

    result = stabilize(one_launch((x, y), (), tensor(4, 1), ((), ()), build))
    assert [e.stable for e in result.exponentials] == [True, True, True, False]
