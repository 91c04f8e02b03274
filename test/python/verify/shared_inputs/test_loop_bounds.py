"""Loops whose steps are bounded by integers that blocks read: proofs, and faults that must not
pass."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from example_programs.read_loops import (
    READ,
    ReadLoop,
    after,
    below,
    between,
    expected,
    integers,
    up_to,
)
from example_programs.stepped_loops import loop_of
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ugraph import (
    BlockGraph,
    ExtremeFn,
    KernelGraph,
    Loop,
    Reading,
    StepNumber,
    Steps,
    launches,
)
from mirage.transforms.steps.skip_steps import skip_steps
from mirage.verify import Kind, VerifyOptions, verify
from thorough import some_of

OPTIONS = VerifyOptions(seed=5, numerics=False)


def bounded(graph: KernelGraph, steps: Steps, **other: object) -> KernelGraph:
    """Return the graph with other steps of the loop that reads integers."""
    (launch,) = launches(graph.ops)
    ops = tuple(
        replace(op, steps=steps, **other) if isinstance(op, Loop) else op for op in launch.body.ops
    )
    body = BlockGraph(launch.body.params, ops, launch.body.outputs)
    return replace(graph, ops=(replace(launch, body=body),))


def steps_of(graph: KernelGraph) -> Steps:
    steps = loop_of(graph).steps
    assert steps is not None
    return steps


@pytest.mark.parametrize("name", some_of(list(READ), every=3))
def test_steps_are_bounded_and_shown(name: str) -> None:
    whole = READ[name].graph()
    graph = skip_steps(whole)
    assert steps_of(graph).readings
    verdict = verify(whole, graph, OPTIONS)
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.evidence[-1].name == "steps left out"
    assert "on 0 random inputs" not in verdict.evidence[-1].text


@pytest.mark.parametrize("name", list(READ))
def test_executed_for_all_kinds_of_integers(name: str) -> None:
    case = READ[name]
    graph = skip_steps(case.graph())
    x = np.random.default_rng(1).standard_normal((case.batch, case.keys))
    for read in integers(case):
        sums, maxima = evaluate_floats(graph, [x, *read])
        total = (sums * np.exp(maxima)).sum(axis=1)
        np.testing.assert_allclose(total, expected(case, x, read), rtol=1e-9, err_msg=str(read))


@pytest.mark.parametrize("name", list(READ))
def test_few_steps_are_left_for_small_integers(name: str) -> None:
    """The lines are tight: every step after the first one has a visible key."""
    case = READ[name]
    graph = skip_steps(case.graph())
    loop, steps = loop_of(graph), steps_of(graph)
    if case.rows > 1 or case.split > 1:
        return
    for n in range(case.keys):
        read = [np.asarray(n)] * len(steps.readings)
        first, end = steps.range_at({}, loop.axis.extent, read)
        at = np.arange(case.keys)
        seen = {up_to: at <= n, below: at < n, after: at > n, between: at < 0}[case.mask]
        tiles = np.unique(np.flatnonzero(seen) // case.tile)
        assert end - first == max(1, len(tiles))


def shifted(x: StepNumber, by: int) -> StepNumber:
    return replace(x, constant=x.constant + by * x.divisor)


def faults(right: Steps) -> Iterator[tuple[str, Steps]]:
    first, end, readings = right.first, right.end, right.readings
    yield "one fewer at the end", Steps(first, shifted(end, -1), readings)
    yield "one fewer at the start", Steps(shifted(first, 1), end, readings)
    yield "a key fewer at the end", Steps(first, replace(end, constant=end.constant - 1), readings)
    later = replace(first, constant=first.constant + 1)
    yield "a key fewer at the start", Steps(later, end, readings)
    yield "of other tiles", Steps(first, replace(end, divisor=2 * end.divisor), readings)
    narrow = tuple(replace(r, most=r.most - 16) for r in readings)
    yield "bounded too low", Steps(first, end, narrow)
    high = tuple(replace(r, least=r.least + 16) for r in readings)
    yield "bounded too high", Steps(first, end, high)
    other = {ExtremeFn.MAX: ExtremeFn.MIN, ExtremeFn.MIN: ExtremeFn.MAX}
    yield "of another row", Steps(
        first, end, tuple(replace(r, fn=other[r.fn]) for r in readings)
    )  # fmt: skip


@pytest.mark.parametrize("name", some_of(READ, 12))
def test_faults_are_never_proved(name: str) -> None:
    """A fault that leaves out contributing steps is not accepted; the integers that would show it
    are not always found."""
    case = READ[name]
    whole = case.graph()
    right = skip_steps(whole)
    read = loop_of(right).operands
    x = np.random.default_rng(1).standard_normal((case.batch, case.keys))
    wrong = refuted = 0
    for fault, steps in faults(steps_of(right)):
        graph = bounded(whole, steps, operands=read)
        verdict = verify(whole, graph, OPTIONS)
        pairs = [
            (evaluate_floats(whole, [x, *n]), evaluate_floats(graph, [x, *n]))
            for n in integers(case)
        ]
        same = all(np.allclose(a, b, rtol=1e-9) for p in pairs for a, b in zip(*p, strict=True))
        wrong += not same
        assert same or not verdict.equivalent, (fault, verdict)
        refuted += verdict.kind is Kind.REFUTED
    assert wrong >= 2
    assert refuted >= 2


def test_integers_of_other_rows_are_refuted() -> None:
    """The block of one row bounds its loop by another one's length."""
    case = ReadLoop(below, batch=2)
    whole = case.graph()
    right = skip_steps(whole)
    (reading,) = steps_of(right).readings
    swapped = Reading(reading.fn, ((), ()), (2, 1), reading.least, reading.most)
    least = replace(swapped, fn=ExtremeFn.MIN)
    steps = steps_of(right)
    for other, kind in ((swapped, Kind.PROVED), (least, Kind.REFUTED)):
        graph = bounded(whole, replace(steps, readings=(other,)), operands=loop_of(right).operands)
        check_graph(graph)
        verdict = verify(whole, graph, OPTIONS)
        # of the longest sequence: no step is missing, but this does not follow from this row
        expected = (Kind.PROVED, Kind.UNKNOWN) if kind is Kind.PROVED else (kind,)
        assert verdict.kind in expected, verdict


def test_integers_that_no_mask_compares_bound_nothing() -> None:
    graph = skip_steps(ReadLoop(lambda b, cols, read: cols, read=1).graph())
    assert loop_of(graph).steps is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tile": (2, 1)}, "parts of at most 128 elements that cover"),
        ({"map": ((), ())}, "expected tile \\* parts"),
        ({"map": (("k",), ())}, "expected an axis in scope"),
        ({"least": 9, "most": 3}, "bounds in order"),
    ],
)
def test_what_is_read_must_fit_its_tensor(change: dict[str, object], message: str) -> None:
    graph = skip_steps(READ["length"].graph())
    steps = steps_of(graph)
    (reading,) = steps.readings
    wrong = replace(steps, readings=(replace(reading, **change),))  # pyright: ignore
    with pytest.raises(InvalidGraph, match=message):
        check_graph(bounded(graph, wrong))
    with pytest.raises(InvalidGraph, match="expected 0 tensors to read"):
        check_graph(bounded(graph, replace(steps, readings=())))
