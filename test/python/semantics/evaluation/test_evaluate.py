"""The evaluator against an independent one, and its refusals."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from math import inf

import numpy as np
import pytest
from example_programs import graphs
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.domain import Float64, TypedFloat
from mirage.semantics.evaluation.evaluate import (
    EvaluationError,
    Sampled,
    evaluate_floats,
    evaluate_sampled,
)
from mirage.semantics.region import demand
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    Composite,
    KernelGraph,
    Output,
)
from oracle import evaluator

PAIRS = graphs.small_pairs()
CASES = [(p, c) for p, pair in PAIRS.items() for c in pair.candidates]


def inputs_of(graph, seed=0):
    rng = np.random.default_rng(seed)
    return [rng.standard_normal(v.shape) for v in graph.inputs]


@pytest.mark.parametrize(("pair", "candidate"), CASES)
def test_agrees_with_the_oracle(pair, candidate):
    reference, graph = PAIRS[pair].reference, PAIRS[pair].candidates[candidate]
    check_graph(reference)
    check_graph(graph)
    xs = inputs_of(graph)
    (fast,), (slow,) = evaluate_floats(graph, xs), evaluator.outputs(graph, xs)
    np.testing.assert_allclose(fast, slow, rtol=1e-12)
    np.testing.assert_allclose(evaluate_floats(reference, xs)[0], slow, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(evaluator.outputs(reference, xs)[0], slow, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("stable", [False, True])
def test_decomposition_leaves_no_composites_and_the_same_function(pair, stable):
    graph = PAIRS[pair].reference
    plain = decompose(graph, stable=stable)
    assert not any(isinstance(op, Composite) for op in plain.ops)
    check_graph(plain)
    xs = inputs_of(graph)
    np.testing.assert_allclose(
        evaluate_floats(plain, xs)[0], evaluator.outputs(graph, xs)[0], rtol=1e-12, atol=1e-14
    )


def test_plain_softmax_has_no_maximum():
    plain = decompose(PAIRS["softmax"].reference)
    assert not any(getattr(op, "fn", None) is ReduceFn.MAX for op in plain.ops)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 3),
    st.integers(1, 7),
    st.integers(1, 11),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 3),
    st.integers(1, 3),
)
def test_attention_at_any_sizes(heads, s, t, d, splits, steps, row_blocks):
    if (splits * steps - 1) * -(-t // (splits * steps)) >= t:
        return  # a part without any key: its share of the sum is not a number
    pair = graphs.attention(heads, s, t, d, splits=splits, steps=steps, row_blocks=row_blocks)
    xs = inputs_of(pair.reference, seed=t)
    want = evaluator.outputs(pair.reference, xs)[0]
    for graph in pair.candidates.values():
        np.testing.assert_allclose(evaluate_floats(graph, xs)[0], want, rtol=1e-11, atol=1e-13)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 5), st.integers(1, 12), st.integers(1, 12), st.integers(1, 4), st.integers(1, 4)
)
def test_rms_linear_at_any_sizes(m, k, n, blocks, steps):
    pair = graphs.rms_linear(m, k, n, blocks=blocks, steps=steps)
    xs = inputs_of(pair.reference, seed=k)
    (graph,) = pair.candidates.values()
    np.testing.assert_allclose(
        evaluate_floats(graph, xs)[0], evaluator.outputs(graph, xs)[0], rtol=1e-11
    )


@settings(max_examples=80, deadline=None)
@given(st.sampled_from(CASES), st.randoms(use_true_random=False))
def test_sampled_evaluation_agrees_with_the_whole(case, random):
    pair, name = case
    for graph in (decompose(PAIRS[pair].reference), PAIRS[pair].candidates[name]):
        xs = inputs_of(graph)
        region = tuple(
            np.array(sorted(random.sample(range(n), random.randint(1, n))))
            for n in graph.outputs[0].shape
        )
        wanted = demand(graph, [region])
        given_inputs = []
        for x, v in zip(xs, graph.inputs):
            r = wanted.regions.get(v, (None,) * x.ndim)
            index = [np.arange(n) if i is None else i for i, n in zip(r, v.shape)]
            given_inputs.append(Sampled((x[np.ix_(*index)],), r))
        (y,) = evaluate_sampled(graph, Float64(), given_inputs, wanted)
        have = [np.arange(n) if i is None else i for i, n in zip(y.region, graph.outputs[0].shape)]
        assert all(set(r) <= set(h) for r, h in zip(region, have))
        full = evaluate_floats(graph, xs)[0]
        np.testing.assert_allclose(y.planes[0], full[np.ix_(*have)], rtol=1e-11)


def shuffles():
    """One kernel with every op that moves elements, at both levels."""
    x = graphs.tensor(4, 6, dtype=DType.F32)
    b = Builder()
    y = b.transpose(b.reshape(b.slice(x, (1, 2), (2, 4)), (2, 2, 2)), (2, 0, 1))
    z = b.concat((y, b.broadcast(b.slice(y, (0, 0, 0), (1, 2, 2)), (2, 2, 2))), 1)
    z = b.reduce(ReduceFn.MAX, z, (0, 2))
    return KernelGraph("shuffles", (x,), tuple(b.ops), (y, z))


def test_element_movers():
    graph = shuffles()
    check_graph(graph)
    xs = inputs_of(graph)
    for fast, slow in zip(evaluate_floats(graph, xs), evaluator.outputs(graph, xs), strict=True):
        np.testing.assert_array_equal(fast, slow)


def column_sums(*, load_map, store_map, tile, rows=6, columns=4, extents=(2, 2)):
    x = graphs.tensor(rows, columns, dtype=DType.F32)
    (p,) = params = graphs.params_of((x,))
    b = Builder(in_block=True)
    y = b.load(p, load_map, tile)
    body = BlockGraph(params, tuple(b.ops), (Output(y, store_map),))
    kernel = graphs.launch((x,), (Axis("i", extents[0]), Axis("j", extents[1])), body, (x.type,))
    return KernelGraph("copy", (x,), (kernel,), kernel.results)


@pytest.mark.parametrize(
    ("store_map", "tile"),
    [
        ((("i",), ()), (3, 2)),
        (((), ()), (3, 2)),
        ((("i", "j"), ()), (3, 2)),
        ((("i",), ("i",)), (3, 2)),
    ],
)
def test_unwritten_or_contradictory_outputs_are_errors(store_map, tile):
    graph = column_sums(load_map=(("i",), ("j",)), store_map=store_map, tile=tile)
    with pytest.raises(EvaluationError):
        evaluate_floats(graph, inputs_of(graph))
    with pytest.raises(evaluator.BadProgram):
        evaluator.outputs(graph, inputs_of(graph))


def test_copy_with_tiles_that_do_not_divide():
    graph = column_sums(load_map=(("i",), ("j",)), store_map=(("i",), ("j",)), tile=(5, 3))
    check_graph(graph)
    (x,) = inputs_of(graph)
    np.testing.assert_array_equal(evaluate_floats(graph, [x])[0], x)


def test_diagonal_load():
    x = graphs.tensor(6, 6, dtype=DType.F32)
    (p,) = params = graphs.params_of((x,))
    b = Builder(in_block=True)
    y = b.load(p, (("i",), ("i",)), (2, 2))
    body = BlockGraph(params, tuple(b.ops), (Output(y, (("i",), ())),))
    kernel = graphs.launch((x,), (Axis("i", 3),), body, (graphs.TensorType((6, 2), DType.F32),))
    graph = KernelGraph("diagonal", (x,), (kernel,), kernel.results)
    check_graph(graph)
    xs = inputs_of(graph)
    np.testing.assert_array_equal(evaluate_floats(graph, xs)[0], evaluator.outputs(graph, xs)[0])


def test_nested_loops_with_all_accumulators():
    x, w = graphs.tensor(5, 12, dtype=DType.F32), graphs.tensor(12, 3, dtype=DType.F32)
    px, pw = params = graphs.params_of((x, w))
    inner = Builder(in_block=True)
    tx, tw = inner.load(px, (("i",), ("a", "b")), (3, 2)), inner.load(pw, (("a", "b"), ()), (2, 3))
    product = inner.matmul(tx, tw)
    top = inner.running_max(inner.reduce(ReduceFn.MAX, product, (1,)))
    term = inner.unary(UnaryFn.EXP, inner.binary(BinaryFn.SUB, product, top))
    middle = Builder(in_block=True)
    sums = middle.loop(
        Axis("b", 2),
        tuple(inner.ops),
        (
            Accumulator(AccumulateFn.SUM, term, top),
            Accumulator(AccumulateFn.MAX, product),
            Accumulator(AccumulateFn.LAST, top),
        ),
    )
    mixed = middle.binary(BinaryFn.MUL, middle.binary(BinaryFn.ADD, sums[0], sums[1]), sums[2])
    outer = Builder(in_block=True)
    (total,) = outer.loop(Axis("a", 3), tuple(middle.ops), (Accumulator(AccumulateFn.SUM, mixed),))
    body = BlockGraph(params, tuple(outer.ops), (Output(total, (("i",), ())),))
    kernel = graphs.launch((x, w), (Axis("i", 2),), body, (graphs.TensorType((5, 3), DType.F32),))
    graph = KernelGraph("nested", (x, w), (kernel,), kernel.results)
    check_graph(graph)
    xs = inputs_of(graph)
    np.testing.assert_allclose(
        evaluate_floats(graph, xs)[0], evaluator.outputs(graph, xs)[0], rtol=1e-12
    )


def test_typed_floats_round_like_the_types():
    x = graphs.tensor(1, 2)
    b = Builder()
    y = b.binary(BinaryFn.ADD, x, b.constant(1.0))
    graph = KernelGraph("add", (x,), tuple(b.ops), (y,))
    (got,) = evaluate_floats(graph, [np.array([[1.0 / 3.0, 65504.0]])], TypedFloat())
    want = np.float16([[np.float16(1.0 / 3.0) + np.float16(1.0), np.float16(65504.0)]])
    np.testing.assert_array_equal(got, want.astype(np.float32))
    half = b.binary(BinaryFn.MUL, y, y)
    graph = KernelGraph("square", (x,), tuple(b.ops), (half,))
    (got,) = evaluate_floats(graph, [np.array([[1.0, 65504.0]])], TypedFloat())
    assert got[0, 1] == inf


@pytest.mark.parametrize("count", [3, 1000, 1024, 4097])
def test_the_mean_of_equal_numbers_is_that_number(count: int):
    """In floats as in kernels: one over a count is not a number of f32, but the mean is."""
    x = graphs.tensor(6, count)
    b = Builder()
    total = b.reduce(ReduceFn.SUM, b.cast(x, DType.F32), (1,))
    mean = b.binary(BinaryFn.MUL, total, b.constant(Fraction(1, count), DType.F32))
    rows = np.float16([5.7, 12.9, 20.3, 0.37, -301, 2.0**-20])[:, None]
    graph = KernelGraph("mean", (x,), tuple(b.ops), (mean,))
    (got,) = evaluate_floats(graph, [np.repeat(rows, count, 1)], TypedFloat())
    np.testing.assert_array_equal(got, rows)


@pytest.mark.parametrize("dims", [(2,), (1,), (0, 2), (1, 2), (0, 1, 2)], ids=str)
def test_sums_are_rounded_alike_however_arrays_lie_in_memory(dims: tuple[int, ...]):
    x = np.random.default_rng(0).random((6, 70, 48), dtype=np.float32)
    (want,) = TypedFloat().reduce(ReduceFn.SUM, (x,), dims, DType.F32)
    assert want.shape == tuple(1 if d in dims else n for d, n in enumerate(x.shape))
    np.testing.assert_allclose(want, x.sum(dims, dtype=np.float64, keepdims=True), rtol=1e-6)
    for order in ((0, 2, 1), (2, 1, 0), (1, 0, 2)):
        other = np.ascontiguousarray(x.transpose(order)).transpose(np.argsort(order))
        (got,) = TypedFloat().reduce(ReduceFn.SUM, (other,), dims, DType.F32)
        np.testing.assert_array_equal(got, want)


def test_stable_reference_survives_large_scores():
    graph = PAIRS["softmax"].reference
    (x,) = inputs_of(graph)
    (y,) = evaluate_floats(graph, [1e4 * x], TypedFloat())
    assert np.isfinite(y).all()
    np.testing.assert_allclose(y.sum(1), 1.0, rtol=1e-3)


def test_inputs_that_do_not_fit():
    graph = PAIRS["softmax"].reference
    with pytest.raises(EvaluationError, match=r"input 0: expected shape \(5, 10\), got \(2, 2\)"):
        evaluate_floats(graph, [np.zeros((2, 2))])


def test_replacing_a_tile_map_changes_the_result():
    """The evaluator really follows the maps: a wrong one gives another function."""
    pair = PAIRS["lora"]
    (graph,) = pair.candidates.values()
    (kernel,) = graph.ops
    loop = next(op for op in kernel.body.ops if hasattr(op, "body"))
    load = next(op for op in loop.body if getattr(op, "map", None) == ((), ("k",)))
    wrong = replace(load, map=((), ("n",)))
    assert wrong.map != load.map
    body = tuple(
        replace(op, body=tuple(wrong if o is load else o for o in op.body)) if op is loop else op
        for op in kernel.body.ops
    )
    mutant = KernelGraph(
        "wrong",
        graph.inputs,
        (replace(kernel, body=replace(kernel.body, ops=body)),),
        graph.outputs,
    )
    xs = inputs_of(graph)
    assert np.abs(evaluate_floats(mutant, xs)[0] - evaluate_floats(graph, xs)[0]).max() > 1e-3


@pytest.mark.parametrize("rows", [8, 6])
@pytest.mark.parametrize("wanted", [None, [12, 13], [3, 12], [1]])
def test_tiles_wholly_outside_are_zeros(rows: int, wanted: list[int] | None):
    """One operand ends before the second block begins. A sample of that block's rows needs nothing
    of it, so that none of it is given."""
    x, y = graphs.tensor(rows, 3, dtype=DType.F32), graphs.tensor(16, 3, dtype=DType.F32)
    px, py = params = graphs.params_of((x, y))
    b = Builder(in_block=True)
    z = b.binary(
        BinaryFn.ADD,
        b.load(px, (("i",), ()), (8, 3)),
        b.load(py, (("i",), ()), (8, 3)),
    )
    body = BlockGraph(params, tuple(b.ops), (Output(z, (("i",), ())),))
    kernel = graphs.launch((x, y), (Axis("i", 2),), body, (y.type,))
    graph = KernelGraph("outside", (x, y), (kernel,), kernel.results)
    check_graph(graph)
    xs = inputs_of(graph)
    expected = xs[1] + np.concatenate([xs[0], np.zeros((16 - rows, 3))])
    np.testing.assert_allclose(evaluator.outputs(graph, xs)[0], expected)
    region = (None if wanted is None else np.array(wanted), None)
    needed = demand(graph, [region])
    sampled: list[Sampled] = []
    for value, array in zip(graph.inputs, xs, strict=True):
        part = needed.regions.get(value, (np.arange(0), None))
        rows_of = slice(None) if part[0] is None else part[0]
        sampled.append(Sampled((array[rows_of],), part))
    (found,) = evaluate_sampled(graph, Float64(), sampled, needed)
    at = np.arange(16) if found.region[0] is None else found.region[0]
    assert set(range(16) if wanted is None else wanted) <= set(at.tolist())
    np.testing.assert_allclose(found.planes[0], expected[at])


def test_evaluations_may_share_what_is_wanted():
    """Evaluate the same demand with inputs of which more parts, or other parts, are given."""
    x = graphs.tensor(8, 3, dtype=DType.F32)
    b = Builder()
    y = b.slice(b.unary(UnaryFn.EXP, x), (2, 0), (4, 3))
    graph = KernelGraph("part", (x,), tuple(b.ops), (y,))
    needed = demand(graph, [(np.array([1]), None)])
    (array,) = inputs_of(graph)
    for rows in (None, [3], [2, 3, 7], None, [0, 3], [2, 3, 7]):
        region = (None if rows is None else np.array(rows), None)
        part = array if rows is None else array[rows]
        (found,) = evaluate_sampled(graph, Float64(), [Sampled((part,), region)], needed)
        np.testing.assert_allclose(found.planes[0], np.exp(array[[3]]))
    with pytest.raises(EvaluationError, match="was not requested"):
        evaluate_sampled(
            graph, Float64(), [Sampled((array[[2, 4]],), (np.array([2, 4]), None))], needed
        )
