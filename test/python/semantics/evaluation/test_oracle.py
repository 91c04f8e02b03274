"""The project's evaluator against the oracle, which shares no code with it."""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import torch
from example_programs import graphs
from example_programs.moment_graphs import moment_pairs
from example_programs.position_masks import causal, window
from example_programs.position_programs import attention
from example_programs.random_graphs import random_graph
from example_programs.random_programs import Generator
from example_programs.stepped_loops import STEPPED, looped
from mirage.semantics.builder import Builder
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.domain import Float64, TypedFloat
from mirage.semantics.evaluation.evaluate import Sampled, evaluate_floats, evaluate_sampled
from mirage.semantics.positions import gather
from mirage.semantics.region import demand
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.transforms.steps.skip_steps import skip_steps
from mirage.workloads import get, names
from oracle import evaluator
from oracle.boxes import cut, whole
from oracle.evaluator import Input
from oracle.inputs import Situations
from oracle.judge import Judge
from oracle.scalar import nearest_half
from oracle.sums import SummedAnew, sums_of

sys.path.insert(0, str(Path(__file__).parents[4] / "benchmarks"))

from attack_subjects import Subject, searched, small_subjects

PAIRS = graphs.small_pairs()


def inputs_of(graph: KernelGraph, seed: int = 0) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    return [v.dtype.round(rng.standard_normal(v.shape)) for v in graph.inputs]


def agree(graph: KernelGraph, xs: list[np.ndarray], rtol: float = 1e-11) -> None:
    with np.errstate(all="ignore"):
        pairs = zip(evaluate_floats(graph, xs), evaluator.outputs(graph, xs), strict=True)
        for ours, its in pairs:
            size = np.abs(its[np.isfinite(its)]).max(initial=0.0)
            np.testing.assert_allclose(ours, its, rtol=rtol, atol=rtol * size)


def test_small_programs_and_their_candidates() -> None:
    for pair in PAIRS.values():
        for graph in (pair.reference, *pair.candidates.values()):
            agree(graph, inputs_of(graph))


def test_numbers_are_rounded_alike() -> None:
    """Typed arithmetic of both differs at most in the order of sums."""
    for pair in PAIRS.values():
        for graph in (decompose(pair.reference, stable=True), *pair.candidates.values()):
            xs = inputs_of(graph)
            (ours,), (its,) = (
                evaluate_floats(graph, xs, TypedFloat()),
                evaluator.outputs(graph, xs, typed=True),
            )
            np.testing.assert_allclose(ours, its, rtol=2.0**-10, atol=2.0**-12)


def test_random_graphs() -> None:
    compared = 0
    for seed in range(400):
        graph = random_graph(random.Random(seed))
        try:
            check_graph(graph)
        except InvalidGraph:
            continue
        agree(graph, inputs_of(graph, seed))
        compared += 1
    assert compared > 100


def test_random_programs() -> None:
    compared = 0
    for seed in range(120):
        graph = Generator(seed).graph()
        if graph is not None:
            agree(graph, inputs_of(graph, seed), 1e-9)
            compared += 1
    assert compared > 60


def test_positions_and_steps_that_are_left_out() -> None:
    for mask in (causal, window(4)):
        graph = attention(mask)
        agree(graph, inputs_of(graph))
    for mask, n, split in STEPPED.values():
        whole = looped(mask, n, split)
        (x,) = inputs_of(whole)
        agree(whole, [x])
        agree(skip_steps(whole), [x])


@pytest.mark.parametrize("fn", list(UNARY))
def test_functions_of_one(fn) -> None:
    x = np.array([-2.5, -1.0, -0.0, 0.0, 1e-3, 0.5, 1.0, 3.0, 30.0, np.inf])
    x = (x > 0).astype(float) if UNARY[fn].logic else x
    with np.errstate(all="ignore"):
        want = UNARY[fn].evaluate(x)
    got = evaluator.UNARY[fn.value](torch.from_numpy(x)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("fn", list(BINARY))
def test_functions_of_two(fn) -> None:
    numbers = np.array([-3.0, -1.5, 0.0, 0.5, 1.0, 2.0, 7.0])
    a, b = np.meshgrid(numbers, numbers)
    with np.errstate(all="ignore"):
        want = BINARY[fn].evaluate(a, b)
    got = evaluator.BINARY[fn.value](torch.from_numpy(a), torch.from_numpy(b)).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-12)


# ---- the catalogue, at its real sizes: parts of the outputs


def compare_parts(reference: KernelGraph, graph: KernelGraph, work: float = 3e6) -> bool:
    """Compare both evaluators on the parts of the outputs that the oracle would examine; return
    whether one takes little work."""
    try:
        judge = Judge(reference, 0, work)
    except evaluator.TooMuchWork:
        return False
    situation = Situations(reference, 0).ordinary(0)
    plain = decompose(graph, stable=True)
    run = evaluator.Oracle(graph, situation.inputs, typed=False)
    for output, box in judge.boxes[:1]:
        one = KernelGraph(plain.name, plain.inputs, plain.ops, (plain.outputs[output],))
        needed = demand(one, [tuple(np.arange(a, b) for a, b in box)])
        sampled: list[Sampled] = []
        for v, given in zip(one.inputs, situation.inputs, strict=True):
            region = needed.regions.get(v, tuple(np.arange(0) for _ in v.shape))
            index = [np.arange(n) if r is None else r for r, n in zip(region, v.shape)]
            if any(len(i) == 0 for i in index):
                sampled.append(Sampled((np.zeros([len(i) for i in index]),), region))
                continue
            part = given(tuple((int(i[0]), int(i[-1]) + 1) for i in index)).numpy()[0]
            sampled.append(Sampled((part[np.ix_(*(i - i[0] for i in index))],), region))
        (found,) = evaluate_sampled(one, Float64(), sampled, needed)
        ours = found.planes[0]
        for d, (have, (a, b)) in enumerate(zip(found.region, box)):
            at = np.arange(a, b) if have is None else np.searchsorted(have, np.arange(a, b))
            ours = np.take(ours, at, axis=d)
        its = run.part(graph.outputs[output], box).numpy()[0]
        np.testing.assert_allclose(ours, its, rtol=1e-9, atol=1e-10 * np.abs(its).max())
    return True


def test_the_catalogue() -> None:
    some = names()[::3]
    compared = [name for name in some if compare_parts(graph := get(name).graph(), graph)]
    assert len(compared) > len(some) / 2, compared


@pytest.mark.parametrize("name", ["lora_m1", "softmax_n256", "rms_mm4096_bs1"])
def test_what_is_found_for_the_catalogue(name: str) -> None:
    found: list[Subject] = list(searched(name))
    assert len(found) > 1
    assert all(compare_parts(s.reference, s.candidate) for s in found)


# ---- the judge


def test_right_candidates_are_right() -> None:
    """Hand-written candidates that multiply by a gain first, or compute moments in one pass, have
    large errors."""
    rough: set[str] = set()
    for subject in small_subjects(0):
        judge = Judge(subject.reference, work=5e5)
        assert judge.quick(subject.candidate) is None, subject.name
        seen = judge.thorough(subject.candidate, 100)
        assert seen is None or seen.kind == "undefined", (subject.name, seen)
        found = judge.rough(subject.candidate, 100)
        if seen is not None or (found is not None and found.excess > 1.0):
            rough.add(subject.name)
    assert {"layer_norm/moments", "attention/split"} <= rough
    assert not any(name.endswith("/itself") for name in rough)


def test_zero_but_for_roundings_is_no_difference() -> None:
    """Constant rows minus their first element; a little more is a difference."""

    def without_first(factors: Sequence[Fraction], shift: float) -> KernelGraph:
        b = Builder()
        y = x
        for factor in factors:
            y = b.binary(BinaryFn.MUL, y, b.constant(factor))
        y = b.binary(BinaryFn.SUB, y, b.slice(x, (0, 0), (4, 1)))
        y = b.binary(BinaryFn.ADD, y, b.constant(shift))
        return KernelGraph("without first", (x,), tuple(b.ops), (y,))

    x = graphs.tensor(4, 7)
    judge = Judge(without_first((), 0.0))
    there_and_back = [f for n in (49, 3, 103) for f in (Fraction(1, n), Fraction(n))]
    assert judge.thorough(without_first(there_and_back, 0.0), 1000) is None
    assert judge.thorough(without_first(there_and_back, 1e-6), 1000) is not None
    # less than 1e-9 of what is usual is seen on ordinary inputs only where it counts there
    assert judge.thorough(without_first((), 3e-10), 1000) is not None


def test_a_tiny_term_shows_where_inputs_are_tiny() -> None:
    """It is negligible next to usual squares, but not next to those of numbers about 2^-14."""

    def squares(more: float) -> KernelGraph:
        b = Builder()
        y = b.binary(BinaryFn.ADD, b.unary(UnaryFn.SQUARE, x), b.constant(more))
        return KernelGraph("squares", (x,), tuple(b.ops), (y,))

    x = graphs.tensor(4, 7, dtype=DType.F32)
    judge = Judge(squares(0.0))
    assert judge.quick(squares(5e-16)) is None
    assert judge.thorough(squares(0.0), 1000) is None
    found = judge.thorough(squares(5e-16), 1000)
    assert found is not None
    assert "2^-14" in found.situation


def test_numbers_are_rounded_to_f16_as_numpy_does() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.unique(every[np.isfinite(every)])
    ties = ((finite[:-1].astype(np.float64) + finite[1:]) / 2.0).astype(np.float32)
    around = [np.nextafter(ties, np.float32(end)) for end in (np.inf, -np.inf)]
    ends = np.array([65519.0, 65520.0, -65520.0, 1e10, 3e38, 1e-40], dtype=np.float32)
    for some in (finite, ties, *around, np.concatenate([every, ends])):
        with np.errstate(over="ignore"):
            want = some.astype(np.float16).astype(np.float32)
        got = nearest_half(some)
        np.testing.assert_array_equal(got, want)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(want))


def test_parts_of_the_reference_are_kept() -> None:
    """Only they are recomputed."""
    subject = next(s for s in small_subjects(0) if s.name == "softmax/online")
    judge = Judge(subject.reference)
    output, box = judge.boxes[0]
    for group in judge._first:
        kept = judge._reference(group, False, output, box)
        run = evaluator.Oracle(subject.reference, group.inputs, typed=False, runs=len(group.every))
        part = run.part(subject.reference.outputs[output], box)
        np.testing.assert_array_equal(kept.numpy(), part.expand(tuple(kept.shape)).numpy())
        assert judge._reference(group, False, output, box) is kept


def test_a_value_is_rounded_to_its_type() -> None:
    x = graphs.tensor(2, 2)
    halves = np.array([[1.0 + 2.0**-10, 3.0], [2049.0, 70000.0]])
    b = Builder()
    y = b.binary(BinaryFn.ADD, x, x)
    graph = KernelGraph("twice", (x,), tuple(b.ops), (y,))
    (got,) = evaluator.outputs(graph, [halves], typed=True)
    want = torch.from_numpy(halves).to(torch.float16)
    np.testing.assert_array_equal(got, (want + want).double().numpy())


def test_sums_are_off_anew_for_each_element_that_they_are_used_for() -> None:
    """Otherwise the error of a mean is the same for a whole row; values that are not sums are not
    changed."""

    def made(x: np.ndarray, v: Value) -> Input:
        return lambda box: cut(torch.from_numpy(x.astype(np.float32)), box, whole(v.shape))

    pairs = moment_pairs(rows=6, width=64)
    rng = np.random.default_rng(0)
    for name, changes in (("variance", True), ("squared_error", False)):
        graph = pairs[name].reference
        assert bool(sums_of(graph))
        given = [made(300.0 + rng.standard_normal((1, *v.shape)), v) for v in graph.inputs]
        (out,) = graph.outputs
        exact, typed, anew = (
            run.part(out, whole(out.shape)).to(torch.float64)
            for run in (
                evaluator.Oracle(graph, given, typed=False),
                evaluator.Oracle(graph, given, typed=True),
                SummedAnew(graph, given),
            )
        )
        rounding, off = (float((x - exact).abs().max()) for x in (typed, anew))
        assert off < 1e-3
        assert (off > 4.0 * rounding) == changes


def test_whole_numbers_reach_the_constants_that_they_are_compared_with() -> None:
    """A prefix that ends one position earlier shows at one position only."""

    def seen(before: int) -> KernelGraph:
        b = Builder()
        first = b.binary(BinaryFn.LT, at, b.constant(before, DType.I64))
        y = b.binary(BinaryFn.MUL, x, b.cast(first, DType.F32))
        return KernelGraph("seen", (x, at), tuple(b.ops), (y,))

    x, at = graphs.tensor(2, 4096, dtype=DType.F32), graphs.tensor(4096, dtype=DType.I64)
    judge = Judge(seen(1024))
    assert judge.quick(seen(1024)) is None
    assert judge.thorough(seen(1023), 4) is not None
    assert judge.thorough(seen(1024), 1000) is None


def test_whole_numbers_that_name_rows_stay_among_them() -> None:
    """Numbers that lead to rows are small, also if something else is computed first."""
    b = Builder()
    table, at = graphs.tensor(40, 8, dtype=DType.F32), graphs.tensor(300, dtype=DType.I64)
    page = b.binary(BinaryFn.ADD, at, b.constant(1, DType.I64))
    rows = gather(b, table, page)
    kept = b.binary(BinaryFn.LT, b.reshape(at, (300, 1)), b.constant(100, DType.I64))
    y = b.binary(BinaryFn.MUL, rows, b.cast(kept, DType.F32))
    graph = KernelGraph("rows", (table, at), tuple(b.ops), (y,))
    for situation in (Situations(graph, 0).ordinary(n) for n in range(4)):
        numbers = situation.inputs[1](((0, 300),))
        assert 0 <= float(numbers.min()) <= float(numbers.max()) < 40
