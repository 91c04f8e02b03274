"""The expected cost of a loop whose steps are known only at run time."""

from __future__ import annotations

from dataclasses import replace

from example_programs.read_loops import ReadLoop, after, between
from mirage.cost.features import features_of
from mirage.semantics.ugraph import KernelGraph, launches
from mirage.transforms.steps.skip_steps import skip_steps


def features(graph: KernelGraph) -> tuple[float, float]:
    (launch,) = launches(graph.ops)
    found = features_of(launch)
    return float(found.steps), float(found.uneven)


def test_half_of_the_buffer_is_expected() -> None:
    """All lengths alike: of 32 steps 16 on average, and a half for the tile that is cut."""
    for case in (ReadLoop(keys=256), ReadLoop(after, keys=256)):
        whole = case.graph()
        assert features(whole) == (32.0, 1.0)
        steps, uneven = features(skip_steps(whole))
        assert 15.5 < steps < 17.0
        assert uneven == 1.0


def test_a_window_between_any_two_integers() -> None:
    steps, _ = features(skip_steps(ReadLoop(between, keys=256, read=2).graph()))
    assert 4.0 < steps < 8.0


def test_parts_of_a_split_are_uneven() -> None:
    """The first part of the keys is busy for most lengths, the last one hardly ever: what counts
    for the time of a wave is the first one, as if it took nearly all of its steps."""
    case = replace(ReadLoop(keys=256), split=4)
    steps, uneven = features(skip_steps(case.graph()))
    assert 3.5 < steps < 5.0
    assert 6.5 < steps * uneven <= 8.0
