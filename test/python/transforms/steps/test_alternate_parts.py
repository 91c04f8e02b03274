"""Parts of loops whose number of steps is read take the steps in turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from example_programs.read_loops import ReadLoop, after, below, with_sum
from mirage.semantics.builder import Builder
from mirage.semantics.ugraph import (
    AccumulateFn,
    KernelGraph,
    Load,
    Loop,
    Op,
    TileMap,
    launches,
    loops,
)
from mirage.transforms.steps.alternate_parts import with_alternating_parts
from mirage.transforms.steps.skip_steps import skip_steps
from mirage.verify import Kind, VerifyOptions, verify

SPLIT = ReadLoop(below, keys=256, split=4)
ROWS, TURNS = (("b",), ("s", "k")), (("b",), ("k", "s"))


def summed(case: ReadLoop, cut: bool = False) -> KernelGraph:
    return with_sum(skip_steps(case.graph()), case, cut)


def loop_of(graph: KernelGraph) -> Loop:
    (loop,) = (loop for launch in launches(graph.ops) for loop in loops(launch))
    return loop


def cuts_of(loop: Loop) -> set[TileMap]:
    return {op.map for op in loop.body if isinstance(op, Load)}


@pytest.mark.parametrize("case", [SPLIT, replace(SPLIT, mask=after)])
def test_parts_differ_by_one_step(case: ReadLoop) -> None:
    """For any length, and no step of a key that is seen is left out."""
    loop = loop_of(with_alternating_parts(summed(case), {}))
    assert cuts_of(loop) == {TURNS}
    assert loop.steps is not None
    for read in range(-1, 257):
        at = {"s": np.arange(4), "b": np.arange(1)}
        bounds = loop.steps.range_at(at, 8, (np.array(read),))
        first, end = (np.broadcast_to(x, (4,)) for x in bounds)
        taken = {4 * k + s for s in range(4) for k in range(first[s], end[s])}
        seen = range(-(-read // 8)) if case.mask is below else range((read + 1) // 8, 32)
        assert taken.issuperset(seen)
        assert np.ptp(end - first) <= 1


@pytest.mark.parametrize("case", [ReadLoop(below, split=4), ReadLoop(after, split=2)])
def test_sums_of_parts_in_turns_are_proved(case: ReadLoop) -> None:
    rows = summed(case)
    turns = with_alternating_parts(rows, {})
    assert cuts_of(loop_of(turns)) == {TURNS}
    assert verify(rows, turns, VerifyOptions(seed=5, numerics=False)).kind is Kind.PROVED


def test_parts_that_are_results_stay() -> None:
    """Each part of the steps is a result of its own, or is read as one."""
    graph = skip_steps(SPLIT.graph())
    assert with_alternating_parts(graph, {}) is graph
    graph = summed(SPLIT, cut=True)
    assert with_alternating_parts(graph, {}) is graph
    assert cuts_of(loop_of(graph)) == {ROWS}


def with_loop(graph: KernelGraph, loop: Loop, *before: Op) -> KernelGraph:
    launch, *_ = launches(graph.ops)
    inside = tuple(loop if isinstance(op, Loop) else op for op in (*before, *launch.inside))
    new = launch.rebuilt(inside, lambda value: value)
    return replace(graph, ops=tuple(new if op is launch else op for op in graph.ops))


def test_results_of_the_last_step_keep_their_order() -> None:
    graph = summed(SPLIT)
    loop = loop_of(graph)
    total = replace(loop.accumulators[0], fn=AccumulateFn.LAST, rescale=None)
    graph = with_loop(graph, replace(loop, accumulators=(total, *loop.accumulators[1:])))
    assert with_alternating_parts(graph, {}) is graph


def test_what_a_part_reads_outside_of_its_loop_stays() -> None:
    graph = summed(SPLIT)
    launch, *_ = launches(graph.ops)
    b = Builder(in_block=True)
    b.load(launch.body.params[0], (("b",), ("s",)), (1, 64))
    graph = with_loop(graph, loop_of(graph), *b.ops)
    assert with_alternating_parts(graph, {}) is graph
