"""Steps that loops leave out: their meaning, and which steps contribute nothing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.semantics.bounds import ranges
from mirage.semantics.bounds.ranges import Range, between, number
from mirage.semantics.builder import Builder
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    StepNumber,
    Steps,
    TensorType,
    Value,
)
from thorough import some_of

ROWS, STEPS = 3, 5


def value(*shape: int) -> Value:
    return Value(TensorType(shape, DType.F32))


def graph(steps: Steps | None) -> KernelGraph:
    """Return for each row the sum, rescaled sum, maximum and last element over the steps taken."""
    x, param = value(ROWS, STEPS), value(ROWS, STEPS)
    step = Builder(in_block=True)
    t = step.load(param, (("m",), ("k",)), (1, 1))
    m = step.running_max(t)
    e = step.unary(UnaryFn.EXP, step.binary(BinaryFn.SUB, t, m))
    accumulators = (
        Accumulator(AccumulateFn.SUM, t),
        Accumulator(AccumulateFn.SUM, e, m),
        Accumulator(AccumulateFn.MAX, t),
        Accumulator(AccumulateFn.LAST, t),
    )
    b = Builder(in_block=True)
    results = b.loop(Axis("k", STEPS), tuple(step.ops), accumulators)
    ops = (replace(b.ops[-1], steps=steps),)
    outputs = tuple(Output(r, (("m",), ())) for r in results)
    body = BlockGraph((param,), ops, outputs)
    out = tuple(value(ROWS, 1) for _ in results)
    return KernelGraph("g", (x,), (Launch((x,), out, (Axis("m", ROWS),), body),), out)


CASES = {
    "up to the row": Steps(StepNumber(()), StepNumber((("m", 1),), 1)),
    "from the row": Steps(StepNumber((("m", 1),)), StepNumber((), STEPS)),
    "halves": Steps(StepNumber((("m", 3),), -2, 2), StepNumber((("m", 5),), 1, 3)),
    "never none": Steps(StepNumber((), 9), StepNumber((), -9)),
    "all": Steps(StepNumber((), -7), StepNumber((), 7)),
    "backwards": Steps(StepNumber((("m", -1),), 2), StepNumber((("m", -2),), 5)),
}


@pytest.mark.parametrize("name", list(CASES))
def test_a_loop_takes_its_steps_and_no_others(name: str) -> None:
    steps = CASES[name]
    g = graph(steps)
    check_graph(g)
    x = np.random.default_rng(0).standard_normal((ROWS, STEPS))
    got = evaluate_floats(g, [x])
    for row in range(ROWS):
        first, end = (
            sum(f * row for _, f in n.terms) + n.constant for n in (steps.first, steps.end)
        )
        first = min(max(first // steps.first.divisor, 0), STEPS - 1)
        end = min(max(end // steps.end.divisor, first + 1), STEPS)
        part = x[row, first:end]
        expected = (part.sum(), np.exp(part - part.max()).sum(), part.max(), part[-1])
        np.testing.assert_allclose([float(y[row, 0]) for y in got], expected, rtol=1e-12)


@pytest.mark.parametrize("name", list(CASES))
def test_text_brings_steps_back(name: str) -> None:
    g = graph(CASES[name])
    back = graph_from_text(graph_to_text(g)).graph
    x = np.random.default_rng(0).standard_normal((ROWS, STEPS))
    for a, b in zip(evaluate_floats(g, [x]), evaluate_floats(back, [x]), strict=True):
        assert np.array_equal(a, b)
    assert graph_to_text(back) == graph_to_text(g)


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        (Steps(StepNumber((("k", 1),)), StepNumber((), 1)), "expected an axis in scope"),
        (Steps(StepNumber((("n", 1),)), StepNumber((), 1)), "expected an axis in scope"),
        (Steps(StepNumber((), 0, 0), StepNumber((), 1)), "divisor of at least 1, got 0"),
    ],
)
def test_wrong_steps_are_errors(steps: Steps, message: str) -> None:
    with pytest.raises(InvalidGraph, match=message):
        check_graph(graph(steps))


def test_what_a_loop_computes_depends_on_what_its_steps_depend_on() -> None:
    g = graph(CASES["up to the row"])
    (launch,) = (op for op in g.ops if isinstance(op, Launch))
    outputs = tuple(Output(o.value, ((), ())) for o in launch.body.outputs)
    body = replace(launch.body, outputs=outputs)
    results = tuple(value(1, 1) for _ in outputs)
    wrong = replace(launch, body=body, results=results)
    with pytest.raises(InvalidGraph):
        check_graph(KernelGraph("g", g.inputs, (wrong,), results))


# ---- ranges

NUMBERS = (-np.inf, -3.0, -1.0, 0.0, 1.0, 2.0, 4.0)


def _sets() -> list[tuple[Range, tuple[float, ...]]]:
    """Ranges, and elements that lie within."""
    found: list[tuple[Range, tuple[float, ...]]] = [(number(x), (x,)) for x in NUMBERS]
    for a, b in itertools.combinations(NUMBERS[1:], 2):
        found.append((between(a, b, whole=True), tuple(n for n in NUMBERS if a <= n <= b)))
    found.append((ranges.ANY, NUMBERS[1:]))
    found.append((ranges.hull(number(-np.inf), between(0, 2, whole=True)), (-np.inf, 0.0, 1.0, 2)))
    return found


def _holds(x: Range, element: float) -> bool:
    if bool(x.wild):
        return True
    if np.isnan(element) or element == np.inf:
        return False
    if element == -np.inf:
        return bool(x.below)
    return bool(x.least <= element <= x.most) and not bool(x.lowest)


TRUTHS = (BinaryFn.AND, BinaryFn.OR, BinaryFn.XOR)
ONE_SIDED = (BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER, BinaryFn.DIV, BinaryFn.POW)


@pytest.mark.parametrize("fn", some_of(list(BinaryFn), every=3))
def test_ranges_hold_what_functions_of_two_give(fn: BinaryFn) -> None:
    for (x, xs), (y, ys) in itertools.product(_sets(), repeat=2):
        found = ranges.binary(fn, x, y)
        for a, b in itertools.product(xs, ys):
            with np.errstate(all="ignore"):
                z = float(BINARY[fn].evaluate(np.float64(a), np.float64(b)))
            undefined = np.isnan(z) or z == np.inf  # nothing is known about such values
            if fn in ONE_SIDED and (undefined or -np.inf in (a, b) or z == -np.inf):
                continue
            assert _holds(found, z), (fn, x, y, a, b, z, found)


@pytest.mark.parametrize("fn", list(UnaryFn))
def test_ranges_hold_what_functions_give(fn: UnaryFn) -> None:
    for x, xs in _sets():
        if fn in (UnaryFn.BIAS, UnaryFn.NOT) and not set(xs) <= {0.0, 1.0}:
            continue  # of truth values
        found = ranges.unary(fn, x)
        for a in xs:
            with np.errstate(all="ignore"):
                z = float(UNARY[fn].evaluate(np.float64(a)))
            if np.isnan(z) or z == np.inf:
                continue
            assert _holds(found, z), (fn, x, a, z, found)


def test_sums_and_products() -> None:
    for x, xs in _sets():
        for count in (1, 2, 3):
            for some in itertools.product(xs, repeat=count):
                assert _holds(ranges.any_sum(x), sum(some))
    zero, one = number(0.0), between(-2, 2)
    assert bool(ranges.any_product_sum(zero, one).zero)
    assert bool(ranges.any_product_sum(one, zero).zero)
    assert not bool(ranges.any_product_sum(one, one).zero)
    assert bool(ranges.any_product_sum(zero, number(-np.inf)).wild)


def test_numbers_that_arithmetics_do_not_agree_about_decide_nothing() -> None:
    third, large = number(1 / 3), between(1 << 24, 1 << 25, whole=True)
    for x, y in ((third, number(0.0)), (large, number(0.0))):
        found = ranges.binary(BinaryFn.LT, y, x)
        assert (float(found.least), float(found.most)) == (0.0, 1.0)


def test_terms_have_one_order() -> None:
    """A graph that is read back is the same as the one that was written."""
    one, other = StepNumber((("b", 1), ("a", 2))), StepNumber((("a", 2), ("b", 1)))
    assert one == other
    assert one.terms == (("a", 2), ("b", 1))
