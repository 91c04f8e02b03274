"""Parts of loops whose number of steps is read take the steps in turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from example_programs.read_loops import ReadLoop, after, below
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
from mirage.transforms.steps import skip_steps as module
from mirage.transforms.steps.alternate_parts import with_alternating_parts
from mirage.transforms.steps.skip_steps import skip_steps

SPLIT = ReadLoop(below, keys=256, split=4)


def loop_of(graph: KernelGraph) -> Loop:
    (launch,) = launches(graph.ops)
    (loop,) = loops(launch)
    return loop


def cuts_of(loop: Loop) -> set[TileMap]:
    return {op.map for op in loop.body if isinstance(op, Load)}


@pytest.mark.parametrize("case", [SPLIT, replace(SPLIT, mask=after)])
def test_parts_differ_by_one_step(case: ReadLoop) -> None:
    """For any length, and no step of a key that is seen is left out."""
    loop = loop_of(skip_steps(case.graph()))
    assert cuts_of(loop) == {(("b",), ("k", "s"))}
    assert loop.steps is not None
    for read in range(-1, 257):
        at = {"s": np.arange(4), "b": np.arange(1)}
        bounds = loop.steps.range_at(at, 8, (np.array(read),))
        first, end = (np.broadcast_to(x, (4,)) for x in bounds)
        taken = {4 * k + s for s in range(4) for k in range(first[s], end[s])}
        seen = range(-(-read // 8)) if case.mask is below else range((read + 1) // 8, 32)
        assert taken.issuperset(seen)
        assert np.ptp(end - first) <= 1


def test_a_loop_of_one_block_stays() -> None:
    loop = loop_of(skip_steps(ReadLoop(below, keys=256).graph()))
    assert cuts_of(loop) == {(("b",), ("k",))}


@pytest.fixture
def in_rows(monkeypatch: pytest.MonkeyPatch) -> KernelGraph:
    """The loop with its steps in rows, each of which ends where its keys do."""
    monkeypatch.setattr(module, "with_alternating_parts", lambda graph, known: graph)
    graph = skip_steps(SPLIT.graph())
    assert cuts_of(loop_of(graph)) == {(("b",), ("s", "k"))}
    return graph


def with_loop(graph: KernelGraph, loop: Loop, *before: Op) -> KernelGraph:
    (launch,) = launches(graph.ops)
    inside = tuple(loop if isinstance(op, Loop) else op for op in (*before, *launch.inside))
    new = launch.rebuilt(inside, lambda value: value)
    return replace(graph, ops=tuple(new if op is launch else op for op in graph.ops))


def test_rows_become_turns(in_rows: KernelGraph) -> None:
    assert cuts_of(loop_of(with_alternating_parts(in_rows, {}))) == {(("b",), ("k", "s"))}


def test_results_of_the_last_step_keep_their_order(in_rows: KernelGraph) -> None:
    loop = loop_of(in_rows)
    total = replace(loop.accumulators[0], fn=AccumulateFn.LAST, rescale=None)
    graph = with_loop(in_rows, replace(loop, accumulators=(total, *loop.accumulators[1:])))
    assert with_alternating_parts(graph, {}) is graph


def test_what_a_part_reads_outside_of_its_loop_stays(in_rows: KernelGraph) -> None:
    (launch,) = launches(in_rows.ops)
    b = Builder(in_block=True)
    b.load(launch.body.params[0], (("b",), ("s",)), (1, 64))
    graph = with_loop(in_rows, loop_of(in_rows), *b.ops)
    assert with_alternating_parts(graph, {}) is graph
