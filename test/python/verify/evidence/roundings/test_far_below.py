"""A maximum that starts too high is not accepted with any seed; one that starts at the scores
is."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.evidence.roundings.activations import Activations
from mirage.verify.evidence.roundings.far_below import far_below
from mirage.verify.evidence.samples.sampled_outputs import choose_sample
from thorough import some_of

STARTS = (0.0, -100.0, -10000.0, -20000.0)


def attention(start: float | None, dtype: DType, scale: float = 1.0) -> KernelGraph:
    """Softmax attention; the maximum of a row is at least ``start``. Products are stored before
    they are scaled."""
    q, k, v = (
        Value(TensorType(s, dtype), n)
        for s, n in (((8, 16), "q"), ((16, 24), "k"), ((24, 16), "v"))
    )
    b = Builder()
    scores = b.cast(b.matmul(q, k), DType.F32)
    if scale != 1.0:
        scores = b.binary(BinaryFn.MUL, scores, b.constant(scale))
    largest = b.reduce(ReduceFn.MAX, scores, (1,))
    if start is not None:
        largest = b.binary(BinaryFn.MAX, largest, b.constant(start))
    p = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, scores, largest))
    p = b.binary(BinaryFn.DIV, p, b.reduce(ReduceFn.SUM, p, (1,)))
    out = b.matmul(b.cast(p, dtype), v)
    return KernelGraph("attention", (q, k, v), tuple(b.ops), (out,))


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
@pytest.mark.parametrize("start", some_of(STARTS, every=6))
def test_a_maximum_that_starts_too_high(start: float, dtype: DType) -> None:
    for seed in range(3):
        options = VerifyOptions(seed=seed)
        assert not verify(attention(None, dtype), attention(start, dtype), options).accepted


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16, DType.F32])
def test_a_maximum_of_the_scores(dtype: DType) -> None:
    graph = attention(None, dtype)
    assert verify(graph, attention(None, dtype), VerifyOptions(seed=0)).accepted
    with_lowest = attention(-1e30, dtype)
    assert verify(graph, with_lowest, VerifyOptions(seed=0)).accepted


def test_scores_that_cannot_be_as_deep_are_as_deep_as_they_can() -> None:
    """Products in f16 are infinite before their eighths are at the full depth."""
    graph = attention(None, DType.F16, 0.125)
    sample = choose_sample((graph,), 1e5, np.random.default_rng(0))
    found = list(far_below(Activations(graph, sample, 0, {}), graph, sample))
    assert [x is not None for x in found] == [True, True]
    assert not verify(graph, attention(0.0, DType.F16, 0.125), VerifyOptions(seed=0)).accepted
