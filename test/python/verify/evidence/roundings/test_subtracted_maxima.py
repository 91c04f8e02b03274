"""A softmax must subtract its maximum; other programs are detected with every seed."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mirage.mlir_io import graph_from_text
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.evidence.roundings import situations
from mirage.verify.evidence.roundings.activations import Activations
from mirage.verify.evidence.roundings.kinds_of_situations import zeroed
from mirage.verify.evidence.roundings.subtracted_maxima import other_shifts, subtracts_maxima
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from mirage.verify.pair.verification import Verification
from mirage.workloads import get
from thorough import some_of

ROWS, WIDTH, KEYS = (2, 24), 64, 48
SEEDS = range(4)


class Scores:
    """Products of rows that are normalized, and a softmax of them; ``factor`` is that of a row's
    norm, far larger than 1 where the row is zero."""

    def __init__(self, dtype: DType, rows: tuple[int, int] = ROWS) -> None:
        self.x = Value(TensorType((*rows, WIDTH), dtype), "x")
        self.w = Value(TensorType((WIDTH, KEYS), dtype), "w")
        self.b = b = Builder()
        wide = b.cast(self.x, DType.F32)
        mean = b.binary(
            BinaryFn.MUL, b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, wide), (2,)),
            b.constant(1.0 / WIDTH),
        )  # fmt: skip
        self.factor = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, mean, b.constant(1e-6)))
        normal = b.cast(b.binary(BinaryFn.MUL, wide, self.factor), dtype)
        self.scores = b.cast(b.matmul(normal, self.w), DType.F32)
        self.maximum = b.reduce(ReduceFn.MAX, self.scores, (2,))

    def softmax(self, shift: Value) -> KernelGraph:
        b = self.b
        weights = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, self.scores, shift))
        total = b.reduce(ReduceFn.SUM, weights, (2,))
        y = b.cast(b.binary(BinaryFn.DIV, weights, total), self.x.dtype)
        return KernelGraph("softmax", (self.x, self.w), tuple(b.ops), (y,))


Shift = Callable[[Scores], Value]
WRONG: dict[str, Shift] = {
    "the sum": lambda s: s.b.reduce(ReduceFn.SUM, s.scores, (2,)),
    "half of it": lambda s: s.b.binary(BinaryFn.MUL, s.maximum, s.b.constant(0.5)),
    "a norm's factor more": lambda s: s.b.binary(BinaryFn.ADD, s.maximum, s.factor),
    "at least 0": lambda s: s.b.binary(BinaryFn.MAX, s.maximum, s.b.constant(0.0)),
    "that of other numbers": lambda s: s.b.reduce(ReduceFn.MAX, s.b.cast(s.x, DType.F32), (2,)),
    "the one twice": lambda s: s.b.binary(BinaryFn.ADD, s.maximum, s.maximum),
}
RIGHT: dict[str, Shift] = {
    "it": lambda s: s.maximum,
    "with a floor": lambda s: s.b.binary(BinaryFn.MAX, s.maximum, s.b.constant(-1e30)),
    "of halves": lambda s: s.b.binary(
        BinaryFn.MAX,
        *(
            s.b.reduce(ReduceFn.MAX, s.b.slice(s.scores, (0, 0, at), (*ROWS, KEYS // 2)), (2,))
            for at in (0, KEYS // 2)
        ),
    ),
}


def softmax(shift: Shift, dtype: DType, rows: tuple[int, int] = ROWS) -> KernelGraph:
    scores = Scores(dtype, rows)
    return scores.softmax(shift(scores))


def rounded(dtype: DType) -> Shift:
    return lambda s: s.b.cast(s.b.cast(s.maximum, dtype), DType.F32)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
@pytest.mark.parametrize("name", some_of(WRONG, every=3, one_value=True))
def test_something_else_is_refused_at_every_seed(
    name: str, dtype: DType, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where there is time for few of the situations that all candidates are measured in, as
    there is of layers."""
    monkeypatch.setattr(situations, "_FEWEST", 1)
    monkeypatch.setattr(situations, "_ALL", 1.0)
    candidate = softmax(WRONG[name], dtype)
    assert not subtracts_maxima(candidate)
    for seed in SEEDS:
        verdict = verify(softmax(RIGHT["it"], dtype), candidate, VerifyOptions(seed=seed, draws=1))
        assert not verdict.accepted, f"seed {seed}: {verdict}"


@pytest.mark.parametrize("name", RIGHT)
def test_the_maximum_is_accepted(name: str) -> None:
    candidate = softmax(RIGHT[name], DType.F16)
    assert subtracts_maxima(candidate) or name == "of halves"
    for seed in range(2):
        verdict = verify(softmax(RIGHT["it"], DType.F16), candidate, VerifyOptions(seed=seed))
        assert verdict.accepted, f"seed {seed}: {verdict}"


@pytest.mark.parametrize("name", some_of(["mha_bs1", "gqa_bs1_kv4096", "softmax_n4096"], every=3))
def test_what_the_search_writes_subtracts_maxima(name: str) -> None:
    """So it needs no special situations: maxima of steps, of loops and of parts are known."""
    options = OptimizeOptions(compile=False, use_cache=False, jobs=1, verify_seed=0, numerics=False)
    text = optimize(get(name).program(), options).mlir["selected"]
    assert subtracts_maxima(graph_from_text(text).graph)
    summed = text.replace("block.reduce max", "block.reduce sum")
    assert not subtracts_maxima(graph_from_text(summed).graph)


@pytest.mark.parametrize("rows", some_of([ROWS, (1, 1)], every=2, one_value=True), ids=str)
@pytest.mark.parametrize("weights", [DType.F16, DType.F32])
def test_a_maximum_of_fewer_digits_is_refused_at_every_seed(
    weights: DType, rows: tuple[int, int]
) -> None:
    """Its error grows with the scores, until all of a row's exponentials vanish or overflow."""
    whole, coarse = (attention(rounded(to), weights, rows) for to in (DType.F32, DType.BF16))
    assert [subtracts_maxima(g) for g in (whole, coarse)] == [True, False]
    for seed in range(12):
        test = Verification(whole, coarse, 0, VerifyOptions(seed=seed), seed, None, {})
        assert test.tests(rounding=True) == (True, False), f"seed {seed}: {test.evidence}"


def attention(shift: Shift, weights: DType, rows: tuple[int, int]) -> KernelGraph:
    """A softmax times values, its exponentials in a type."""
    scores = Scores(DType.F16, rows)
    b, v = scores.b, Value(TensorType((KEYS, WIDTH), DType.F16), "v")
    numbers = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, scores.scores, shift(scores)))
    total = b.reduce(ReduceFn.SUM, numbers, (2,))
    y = b.binary(BinaryFn.DIV, b.cast(b.matmul(b.cast(numbers, weights), v), DType.F32), total)
    y = b.cast(y, DType.F16)
    return KernelGraph("attention", (scores.x, scores.w, v), tuple(b.ops), (y,))


def test_a_maximum_of_its_own_numbers_may_be_rounded() -> None:
    """The largest of several bf16 numbers is one of them."""
    assert subtracts_maxima(softmax(rounded(DType.BF16), DType.BF16))
    assert subtracts_maxima(softmax(rounded(DType.F16), DType.F16))
    assert not subtracts_maxima(softmax(rounded(DType.F16), DType.BF16))


class FallingScores(Scores):
    """Scores that grow with the weights until they are 16, then fall below zero."""

    def __init__(self, dtype: DType) -> None:
        super().__init__(dtype)
        b = self.b
        less = b.binary(BinaryFn.MUL, b.unary(UnaryFn.SQUARE, self.scores), b.constant(1.0 / 64))
        self.scores = b.binary(BinaryFn.SUB, self.scores, less)
        self.maximum = b.reduce(ReduceFn.MAX, self.scores, (2,))


def test_scores_that_do_not_grow_for_ever_are_measured_where_they_are_largest() -> None:
    """The search for the largest scores used to fail if none is above zero, since it takes a
    logarithm."""
    for seed in range(3):
        right, wrong = FallingScores(DType.F32), FallingScores(DType.F32)
        reference = right.softmax(right.maximum)
        shift = wrong.b.cast(wrong.b.cast(wrong.maximum, DType.BF16), DType.F32)
        draw = Activations(
            reference, choose_sample([reference], 2e6, np.random.default_rng(seed), {}, 8), seed
        )
        names = [
            s.name for _, s in other_shifts([reference, wrong.softmax(shift)], draw, lambda _: True)
        ]
        assert sum("scores up to 1" in name for name in names) >= 8, names


def test_zeros_are_among_the_rows_that_are_compared() -> None:
    graph = softmax(RIGHT["it"], DType.F32)
    for seed in range(20):
        sample = choose_sample([graph, graph], 2000.0, np.random.default_rng(seed), {}, 8)
        draw = Activations(graph, sample, seed)
        (planes,) = zeroed(draw, 0).inputs[0].planes
        compared = sample.demands[0].regions[graph.inputs[0]]
        have = sample.inputs[0]
        for dim in (0, 1):
            if compared[dim] is not None:
                at = np.arange(ROWS[dim]) if have[dim] is None else have[dim]
                zero = (planes == 0.0).all(axis=tuple(d for d in range(3) if d != dim))
                assert set(at[zero]) & set(compared[dim])
