"""Lines that bound the steps of loops: how tight they are, and how they are written."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from example_programs.position_masks import Mask, block_causal, blocks, value, window
from example_programs.stepped_loops import loop_of, looped, with_steps
from mirage.mlir_io.text import graph_from_text, graph_to_text
from mirage.semantics.bounds.idle_steps import idle_steps, left_out
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.ops.taken_steps import StepNumber
from mirage.semantics.scalar import DType, ReduceFn
from mirage.semantics.ugraph import BlockGraph, KernelGraph, Output, Steps, launches
from mirage.transforms.steps.skip_steps import skip_steps
from mirage.verify import Kind, VerifyOptions, verify

OPTIONS = VerifyOptions(seed=5, numerics=False)

EXACT: dict[str, tuple[Mask, int, int]] = {
    "blocks": (blocks(8), 24, 1),
    "blocks of two tiles": (blocks(16), 32, 1),
    "blocks of two tiles, keys split": (blocks(16), 48, 2),
    "blocks in which tiles do not fit": (blocks(12), 24, 1),
    "short blocks": (blocks(3), 24, 1),
    "blocks, a tail": (blocks(8), 22, 1),
    "blocks of two tiles, a tail": (blocks(16), 44, 1),
    "window, a tail": (window(5), 46, 1),
    "window, a tail, keys split": (window(3), 36, 3),
    "blocks by order": (block_causal(16), 48, 1),
    "blocks by order, a tail": (block_causal(10), 44, 1),
}


@pytest.mark.parametrize("name", EXACT)
def test_blocks_take_no_step_between_those_that_they_need(name: str) -> None:
    mask, n, split = EXACT[name]
    graph = skip_steps(looped(mask, n, split))
    (launch,) = launches(graph.ops)
    loop = loop_of(graph)
    idle = idle_steps(launch, loop, {}).idle
    taken = ~left_out(launch, loop)
    taken, idle = np.broadcast_arrays(taken, idle)
    rows = taken.reshape(-1, taken.shape[-1]), idle.reshape(-1, taken.shape[-1])
    for steps, empty in zip(*rows, strict=True):
        needed = np.flatnonzero(~empty)
        assert steps.sum() == (needed[-1] - needed[0] + 1 if len(needed) else 1)


def summed(graph: KernelGraph) -> KernelGraph:
    """With the sum of each tile's rows as a further result, including tiles that overhang."""
    (launch,) = launches(graph.ops)
    b = Builder(in_block=True)
    total = b.reduce(ReduceFn.SUM, launch.body.outputs[0].value, (0,))
    result = value(launch.grid[0].extent, 1, dtype=DType.F32)
    outputs = (*launch.body.outputs, Output(total, (("m",), ())))
    body = BlockGraph(launch.body.params, (*launch.body.ops, *b.ops), outputs)
    changed = replace(launch, results=(*launch.results, result), body=body)
    g = KernelGraph("g", graph.inputs, (changed,), changed.results)
    check_graph(g)
    return g


@pytest.mark.parametrize("n", [22, 24])
def test_rows_that_overhang_count_where_they_are_read(n: int) -> None:
    """They are at position 0, and attend to the first keys."""
    steps = loop_of(skip_steps(summed(looped(window(5), n)))).steps
    assert steps is not None
    assert (steps.first == StepNumber(())) == (n == 22)


def test_steps_of_rows_that_overhang_and_are_read_are_not_left_out() -> None:
    short = looped(window(5), 22)
    steps = loop_of(skip_steps(short)).steps
    verdicts = [verify(g, with_steps(g, steps), OPTIONS) for g in (short, summed(short))]
    assert [v.kind for v in verdicts] == [Kind.PROVED, Kind.REFUTED]


NUMBERS = {
    "a position": StepNumber((("m", 2),), 3),
    "a quotient": StepNumber((("m", 2),), 3, 4),
    "of a group": StepNumber((), quotients=((StepNumber((("m", 1),), 0, 2), 2),)),
    "of a group, divided": StepNumber(
        (), 5, 3, quotients=((StepNumber((("m", 3),), 1, 2), 5),)
    ),
    "of a group and a part": StepNumber(
        (("s", -4),), 1, 3, quotients=((StepNumber((("m", 3),), 1, 2), 5),)
    ),
    "of two groups": StepNumber(
        (),
        1,
        5,
        quotients=((StepNumber((("m", 3),), 1, 2), 5), (StepNumber((("m", 5),), 1, 7), 3)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_kept_by_ir(name: str) -> None:
    number = NUMBERS[name]
    graph = with_steps(looped(blocks(8), 48, 2), Steps(number, StepNumber((), 6)))
    again = graph_from_text(graph_to_text(graph, form="candidates")).graph
    steps = loop_of(again).steps
    assert steps is not None
    places = {"m": np.arange(6)[:, None], "s": np.arange(2)}
    assert np.array_equal(*np.broadcast_arrays(steps.first.at(places), number.at(places)))
    assert steps.first == number


@pytest.mark.parametrize(("factor", "divisor"), [(1, 1), (3, 1), (3, 4), (-2, 5)])
def test_arithmetic_of_numbers(factor: int, divisor: int) -> None:
    places = {"m": np.arange(-9, 9), "s": np.asarray(1)}
    x, y = StepNumber((("m", 3), ("s", 1)), 1, divisor), StepNumber((("m", -3),), 2, 7)
    assert np.array_equal(x.times(factor).at(places), factor * x.at(places))
    assert np.array_equal(x.over(3).at(places), x.at(places) // 3)
    for a, b in ((x, y), (y, x), (x, x.times(-1)), (x, StepNumber((), 4))):
        total = np.broadcast_to(a.plus(b).at(places), 18)
        assert np.array_equal(total, a.at(places) + b.at(places))
    assert str(StepNumber((), 4, quotients=((StepNumber((("m", 1),), 0, 4), 4),))) == (
        "4 (m / 4) + 4"
    )
