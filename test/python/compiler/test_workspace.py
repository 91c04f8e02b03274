"""Offsets of intermediate tensors: disjoint where they must be, shared where they may be."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from mirage.compiler.workspace import ALIGNMENT, Lifetime, check, plan

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
