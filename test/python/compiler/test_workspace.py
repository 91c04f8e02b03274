"""Offsets of intermediate tensors: disjoint where they must be, shared where they may be."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirage.compiler.workspace import ALIGNMENT, Lifetime, check, lower_bound, peak, plan
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.workloads import get, names
from thorough import some_of

lifetimes = st.builds(
    lambda size, first, length: Lifetime(size, first, first + length),
    st.integers(0, 5000),
    st.integers(0, 8),
    st.integers(0, 4),
)


@given(st.lists(lifetimes, max_size=12))
def test_plans_are_valid(buffers: list[Lifetime]) -> None:
    assert check(buffers, plan(buffers)) == []


@given(st.lists(lifetimes, min_size=1, max_size=12))
def test_plans_are_no_larger_than_without_reuse(buffers: list[Lifetime]) -> None:
    offsets = plan(buffers)
    used = max(o + b.bytes for o, b in zip(offsets, buffers, strict=True))
    assert used <= sum(-(-max(b.bytes, 1) // ALIGNMENT) * ALIGNMENT for b in buffers)


def test_memory_is_reused() -> None:
    chain = [Lifetime(1000, 0, 1), Lifetime(1000, 1, 2), Lifetime(1000, 2, 3)]
    assert plan(chain) == (0, 1024, 0)


def test_the_checker_sees_overlaps() -> None:
    both = [Lifetime(300, 0, 1), Lifetime(300, 1, 1)]
    assert check(both, (0, 256)) == ["buffers 0 and 1 overlap while both are alive"]
    assert check(both[:1], (8,)) == ["buffer 0 starts at 8, not a multiple of 256"]


def used(buffers: list[Lifetime]) -> float:
    """Return the bytes of the plan, relative to the bound."""
    offsets = plan(buffers)
    assert check(buffers, offsets) == []
    return peak(buffers, offsets) / max(lower_bound(buffers), 1)


def op_by_op(graph: KernelGraph) -> list[Lifetime]:
    """Return the intermediates of a program in which each op is a kernel; views count as their
    operands."""
    names: dict[Value, Value] = {}
    touched: dict[Value, list[int]] = {}
    for number, op in enumerate(graph.ops):
        if op.renames:
            names[op.result] = names.get(op.operands[0], op.operands[0])
            continue
        for v in (*op.operands, *op.results):
            touched.setdefault(names.get(v, v), []).append(number)
    outside = {names.get(v, v) for v in (*graph.inputs, *graph.outputs)}
    inside = {v: numbers for v, numbers in touched.items() if v not in outside}
    return [Lifetime(v.type.bytes, min(n), max(n)) for v, n in inside.items()]


@pytest.mark.parametrize("name", some_of(names()))
def test_programs_of_the_catalogue_are_near_the_bound(name: str) -> None:
    assert used(op_by_op(get(name).graph())) <= 1.1


def test_layers_in_a_row_take_what_one_does() -> None:
    for name in names():
        layer = op_by_op(get(name).graph())
        last = max((b.last for b in layer), default=0) + 1
        rows = [Lifetime(b.bytes, b.first + n * last, b.last + n * last)
                for n in range(4) for b in layer]  # fmt: skip
        assert lower_bound(rows) == lower_bound(layer)
        assert used(rows) <= 1.1, name


@given(st.lists(lifetimes, min_size=1, max_size=12))
def test_the_bound_is_one(buffers: list[Lifetime]) -> None:
    assert peak(buffers, plan(buffers)) >= lower_bound(buffers)


def test_a_better_order_is_found() -> None:
    """The largest first leaves holes here that the others do not fill."""
    rng = random.Random(1)
    ratios: list[float] = []
    for _ in range(200):
        buffers = [
            Lifetime(rng.randint(1, 64) * ALIGNMENT, first, first + rng.randint(0, 6))
            for first in range(24)
        ]
        ratios.append(used(buffers))
    assert sum(ratios) / len(ratios) <= 1.03
    assert max(ratios) <= 1.2
