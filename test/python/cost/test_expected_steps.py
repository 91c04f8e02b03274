"""The expected cost of a loop whose steps are known only at run time."""

from __future__ import annotations

from dataclasses import replace

import pytest
from example_programs.read_loops import ReadLoop, after, between
from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.target import H200
from mirage.semantics.ugraph import KernelGraph, launches
from mirage.transforms.steps.skip_steps import skip_steps


def features(graph: KernelGraph) -> tuple[float, float]:
    (launch,) = launches(graph.ops)
    found = features_of(launch)
    return float(found.steps), float(found.uneven)


def test_half_of_the_buffer_is_expected() -> None:
    """16 of 32 steps on average, and half a step for the tile that is cut."""
    for case in (ReadLoop(keys=256), ReadLoop(after, keys=256)):
        whole = case.graph()
        assert features(whole) == (32.0, 1.0)
        steps, _ = features(skip_steps(whole))
        assert 15.5 < steps < 17.0


def test_one_of_many_lengths_is_nearly_the_longest() -> None:
    """For one length the average is expected; the longer of two is expected at two thirds of the
    range, the longest of many at its end."""
    steps = {}
    for batch in (1, 2, 64):
        case = ReadLoop(keys=256, batch=batch)
        mean, uneven = features(skip_steps(case.graph()))
        steps[batch] = mean * uneven
    assert steps[1] == pytest.approx(16.5)
    assert 20.0 < steps[2] < 23.0
    assert 30.0 < steps[64] <= 32.0


def test_what_no_length_reaches_is_not_read() -> None:
    """Half of the scores, and all of the lengths."""
    graphs = ReadLoop(keys=256).graph(), skip_steps(ReadLoop(keys=256).graph())
    whole, some = (features_of(next(launches(graph.ops))).dram_read for graph in graphs)
    assert 0.5 * whole < some < 0.55 * whole


def test_a_window_between_any_two_integers() -> None:
    steps, _ = features(skip_steps(ReadLoop(between, keys=256, read=2).graph()))
    assert 4.0 < steps < 8.0


def test_parts_of_a_split_are_uneven() -> None:
    """The first part of the keys is busy for most lengths, the last one hardly ever: the time of a
    wave is that of the first one, as if it took nearly all of its steps."""
    case = replace(ReadLoop(keys=256), split=4)
    steps, uneven = features(skip_steps(case.graph()))
    assert 3.5 < steps < 5.0
    assert 6.5 < steps * uneven <= 8.0


def test_lengths_of_few_blocks_leave_memory_idle_at_the_end() -> None:
    """The order of the blocks is chosen before their lengths are known."""
    longer = []
    for batch in (6000, 24000):
        graph = ReadLoop(keys=1 << 12, batch=batch, tile=64).graph()
        (launch,) = launches(skip_steps(graph).ops)
        known = features_of(launch)
        known.dram_read = 64.0 * known.dram_read  # so that nothing else takes as long
        unknown = report(known, H200).time
        known.unsorted = 1.0
        longer.append(unknown / report(known, H200).time)
    assert 1.01 < longer[1] < longer[0] < 1.18
