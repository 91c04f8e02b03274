"""Dimensions read as one: the same programs, and no fault that the reading hides."""

from __future__ import annotations

import random

import numpy as np
import pytest
from example_programs import graphs
from example_programs.random_programs import Generator
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import EvaluationError, evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Axis, BlockGraph, KernelGraph, Output, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.compression.digits import Structure
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.compression.merged_dimensions import merged
from mirage.verify.evidence.proofs.proof import prove
from mirage.verify.evidence.proofs.small_model import run_small_model, small_pair
from mirage.verify.normal_form.normalize import normalize

F32 = DType.F32
QUICK = VerifyOptions(seed=1, numerics=False)


def assert_same(graph: KernelGraph, small: KernelGraph, seed: int) -> None:
    """Check that ``small`` is ``graph`` on reshaped inputs, up to the shapes of outputs."""
    check_graph(small)
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal(v.shape) for v in graph.inputs]
    reshaped = [x.reshape(v.shape) for x, v in zip(inputs, small.inputs, strict=True)]
    expected, actual = evaluate_floats(graph, inputs), evaluate_floats(small, reshaped)
    for x, y, v in zip(expected, actual, small.outputs, strict=True):
        assert y.shape == v.shape
        np.testing.assert_allclose(y.reshape(x.shape), x, rtol=1e-9, atol=1e-9)


def test_merged_programs_compute_the_same():
    found = 0
    for seed in range(1500):
        graph = Generator(seed).graph()
        if graph is None:
            continue
        plain = normalize(decompose(graph))
        result = merged((plain,))
        if result is None:
            continue
        try:
            assert_same(plain, result[0], seed)
        except EvaluationError:
            continue
        found += result[0].inputs[0].shape != plain.inputs[0].shape
    assert found > 100


def rows(batch: int, tokens: int, width: int, build, *more: tuple[int, ...]) -> KernelGraph:
    """``build`` of a tensor of rows, and of further inputs."""
    xs = (graphs.tensor(batch, tokens, width, dtype=F32),)
    xs += tuple(graphs.tensor(*shape, dtype=F32) for shape in more)
    b = Builder()
    y = build(b, *xs)
    return KernelGraph("rows", xs, tuple(b.ops), (y,))


def norm(b: Builder, x: Value) -> Value:
    width = x.shape[-1]
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, x), (len(x.shape) - 1,))
    mean = b.binary(BinaryFn.MUL, total, b.constant(1.0 / width))
    return b.binary(BinaryFn.MUL, x, b.unary(UnaryFn.RSQRT, mean))


def flat(
    batch: int, tokens: int, width: int, tile: int, *, order=(0, 1, 2), last: int = 0
) -> KernelGraph:
    """:func:`norm` of all rows in tiles of ``tile`` rows, by one kernel; dimensions in another
    ``order`` (and back), and ``last`` rows left to a second, wrong one.
    """
    x = graphs.tensor(batch, tokens, width, dtype=F32)
    b = Builder()
    shape = tuple(x.shape[i] for i in order)
    back = tuple(order.index(i) for i in range(3))
    v = x if order == (0, 1, 2) else b.reshape(x, shape)
    v = b.reshape(v, (batch * tokens, width))
    i = Builder(in_block=True)
    p = Value(v.type)
    y = norm(i, i.load(p, (("r",), ()), (tile, width)))
    body = BlockGraph((p,), tuple(i.ops), (Output(y, (("r",), ())),))
    steps = -(-batch * tokens // tile)
    op = graphs.launch((v,), (Axis("r", steps),), body, (TensorType(v.shape, F32),))
    b.ops.append(op)
    y = op.result
    if last:
        count = batch * tokens
        left = b.slice(y, (0, 0), (count - last, width))
        right = b.slice(v, (count - last, 0), (last, width))
        y = b.concat((left, right), 0)
    y = b.reshape(y, shape)
    if order != (0, 1, 2):
        y = b.transpose(y, back)
    return KernelGraph("flat", (x,), tuple(b.ops), (y,))


@pytest.mark.parametrize(
    ("batch", "tokens", "tile"), [(2, 48, 32), (2, 17, 16), (3, 197, 32), (2, 197, 64)]
)
def test_tiles_of_rows_across_batches_are_proved(batch, tokens, tile):
    reference, candidate = rows(batch, tokens, 24, norm), flat(batch, tokens, 24, tile)
    with pytest.raises(Irregular):
        Structure((reference, candidate))
    verdict = verify(reference, candidate, QUICK)
    assert verdict.kind is Kind.PROVED, str(verdict)
    assert verdict.holds_for is not None
    assert len(verdict.holds_for.inputs[0]) == 2  # rows of all batches together, and columns


def test_rows_in_another_order_are_not_the_same():
    """The reshape of the 2 x 48 rows to 48 x 2 and a transpose move elements."""
    reference = rows(2, 48, 24, norm)
    verdict = verify(reference, flat(2, 48, 24, 32, order=(1, 0, 2)), QUICK)
    assert not verdict.equivalent


def test_some_rows_left_out_are_seen():
    reference = rows(2, 48, 24, norm)
    for last in (1, 16, 32):
        assert not verify(reference, flat(2, 48, 24, 32, last=last), QUICK).equivalent


def added(b: Builder, x: Value, p: Value) -> Value:
    return norm(b, b.binary(BinaryFn.ADD, x, p))


@pytest.mark.parametrize("shape", [(48, 24), (1, 48, 24), (2, 1, 24), (1, 1, 24), (24,)])
def test_what_needs_one_of_the_dimensions_keeps_them_apart(shape):
    """A bias for each token or batch reads one of the two; one for each feature reads neither."""
    graph = normalize(rows(2, 48, 24, added, shape))
    result = merged((graph,))
    apart = shape in ((48, 24), (1, 48, 24), (2, 1, 24))
    if result is not None:
        assert_same(graph, result[0], 0)
    assert (result is None or result[0].inputs[0].shape[0] == 2) is apart


def wrong_bias(order: str):
    """A bias of 2 x 48 for the rows, added unchanged or in the other order."""

    def build(b: Builder, x: Value, p: Value) -> Value:
        if order == "other":
            p = b.reshape(b.transpose(p, (1, 0)), (2, 48))
        return b.binary(BinaryFn.ADD, norm(b, x), b.reshape(p, (2, 48, 1)))

    return rows(2, 48, 24, build, (2, 48))


def test_a_bias_in_another_order_is_not_the_same():
    result = merged((wrong_bias("right"), wrong_bias("other")))
    if result is not None:
        for graph, small in zip((wrong_bias("right"), wrong_bias("other")), result, strict=True):
            assert_same(graph, small, 0)
    assert verify(wrong_bias("right"), wrong_bias("other"), QUICK).kind is Kind.REFUTED


def test_sums_over_one_dimension_keep_it_apart():
    def mean(b: Builder, x: Value) -> Value:
        return b.binary(BinaryFn.SUB, x, b.reduce(ReduceFn.SUM, x, (1,)))

    graph = rows(2, 48, 24, mean)
    assert merged((graph,)) is None
    both = rows(2, 48, 24, lambda b, x: b.reduce(ReduceFn.SUM, x, (0, 1)))
    result = merged((both,))
    assert result is not None
    assert result[0].inputs[0].shape == (96, 24)
    assert_same(both, result[0], 0)


def test_dimensions_of_a_square_are_not_taken_for_one_another():
    """``x`` and its transpose have the same sizes; merged rows must not mix them up."""

    def plain(b: Builder, x: Value) -> Value:
        return b.unary(UnaryFn.SQUARE, x)

    def turned(b: Builder, x: Value) -> Value:
        return b.transpose(b.unary(UnaryFn.SQUARE, x), (1, 0, 2))

    first, second = rows(6, 6, 24, plain), rows(6, 6, 24, turned)
    result = merged((first, second))
    if result is not None:
        assert_same(first, result[0], 0)
        assert_same(second, result[1], 0)
    assert verify(first, second, QUICK).kind is Kind.REFUTED


# ---- digits that do not fit, and cannot be merged ------------------------------------------------


def biased(batch: int, tokens: int, tile: int, fault: str = "") -> tuple[KernelGraph, KernelGraph]:
    """A bias for each token before the norm keeps batches and tokens apart; still, one kernel has
    tiles of rows across batches. ``fault`` is the error of the second program.
    """
    width = 24
    reference = rows(batch, tokens, width, added, (tokens, width))
    x, p = (graphs.tensor(*v.shape, dtype=F32) for v in reference.inputs)
    b = Builder()
    q = p
    if fault == "turned":  # the last token's bias comes first
        first = b.slice(p, (tokens - 1, 0), (1, width))
        q = b.concat((first, b.slice(p, (0, 0), (tokens - 1, width))), 0)
    v = b.binary(BinaryFn.ADD, x, q)
    if fault == "one":  # the last row of all has no bias
        flat_x, flat_v = (b.reshape(t, (batch * tokens, width)) for t in (x, v))
        last = batch * tokens - 1
        part = b.slice(flat_v, (0, 0), (last, width))
        v = b.concat((part, b.slice(flat_x, (last, 0), (1, width))), 0)
    v = b.reshape(v, (batch * tokens, width))
    i = Builder(in_block=True)
    param = Value(v.type)
    y = norm(i, i.load(param, (("r",), ()), (tile, width)))
    out = (("r",), ()) if fault != "swapped" else (("s", "r"), ())
    grid = (Axis("r", -(-batch * tokens // tile)),)
    if fault == "swapped":  # tiles are stored in another order than they are loaded
        grid = (Axis("r", 2), Axis("s", 3))
        i = Builder(in_block=True)
        y = norm(i, i.load(param, (("r", "s"), ()), (tile, width)))
    body = BlockGraph((param,), tuple(i.ops), (Output(y, out),))
    op = graphs.launch((v,), grid, body, (TensorType(v.shape, F32),))
    b.ops.append(op)
    y = b.reshape(op.result, (batch, tokens, width))
    return reference, KernelGraph("biased", (x, p), tuple(b.ops), (y,))


@pytest.mark.parametrize(
    ("batch", "tokens", "tile"), [(2, 48, 32), (2, 17, 16), (2, 50, 32), (1, 17, 5)]
)
def test_digits_that_do_not_fit_are_proved(batch, tokens, tile):
    reference, candidate = biased(batch, tokens, tile)
    verdict = verify(reference, candidate, QUICK)
    assert verdict.kind is Kind.PROVED, str(verdict)
    if batch > 1:
        assert merged((normalize(reference), normalize(candidate))) is None
        assert verdict.holds_for is None


@pytest.mark.parametrize("fault", ["turned", "one", "swapped"])
def test_faults_among_digits_that_do_not_fit_are_seen(fault):
    """The small model detects them too, although it does not relate those digits to each other."""
    reference, candidate = biased(2, 48, 16 if fault == "swapped" else 32, fault)
    verdict = verify(reference, candidate, QUICK)
    assert not verdict.equivalent
    pair = small_pair(normalize(reference), normalize(candidate))
    evidence, _ = run_small_model(pair, random.Random(1), -60.0)
    assert evidence.holds is False
    assert prove(pair).holds is None
