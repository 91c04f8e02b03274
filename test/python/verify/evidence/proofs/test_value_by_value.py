"""Proofs of long programs by common values: programs that are proved, and programs that must not
be."""

from __future__ import annotations

import random

import numpy as np
import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import rename_ops
from mirage.semantics.ugraph import Axis, BlockGraph, Constant, KernelGraph, Launch, Output, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.evidence.proofs import value_by_value as segments
from mirage.verify.evidence.proofs.small_model import small_pair
from mirage.verify.normal_form.normalize import normalize

F32 = DType.F32
WIDTH, DEPTH = 96, 3


def layers(order: str, wrong: int | None = None) -> KernelGraph:
    """Norms and linear layers in turns, each linear one squared; the scale of a norm goes
    ``before`` or ``after`` the product. ``wrong`` is a layer whose scale is left out.
    """
    x = graphs.tensor(4, WIDTH, dtype=F32)
    ws = tuple(graphs.tensor(WIDTH, WIDTH, dtype=F32) for _ in range(DEPTH))
    b = Builder()
    y = x
    for i, w in enumerate(ws):
        mean = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, y), (1,))
        mean = b.binary(BinaryFn.MUL, mean, b.constant(1.0 / WIDTH))
        scale = b.unary(UnaryFn.RECIPROCAL, b.binary(BinaryFn.ADD, mean, b.constant(1e-6)))
        if i == wrong:
            y = b.matmul(y, w)
        elif order == "before":
            y = b.matmul(b.binary(BinaryFn.MUL, y, scale), w)
        else:
            y = b.binary(BinaryFn.MUL, b.matmul(y, w), scale)
        y = b.unary(UnaryFn.SQUARE, y)
    return KernelGraph("layers", (x, *ws), tuple(b.ops), (y,))


def in_segments(first: KernelGraph, second: KernelGraph):
    pair = [normalize(decompose(g)) for g in (first, second)]
    return segments.prove_in_segments(pair[0], pair[1], random.Random(0))


def test_long_programs_are_proved_where_one_small_model_is_too_large():
    first, second = layers("before"), layers("after")
    with pytest.raises(Irregular, match="interact"):
        small_pair(first, second)
    evidence = in_segments(first, second)
    assert evidence.holds is True, evidence.text
    assert evidence.figures["proved"] >= DEPTH - 1
    verdict = verify(first, second, VerifyOptions(seed=1, numerics=False, work=1e5))
    assert verdict.kind is Kind.PROVED
    assert verdict.holds_for is None


@pytest.mark.parametrize("wrong", [0, DEPTH - 1])
def test_a_fault_in_one_segment_is_a_fault(wrong):
    first, second = layers("before"), layers("after", wrong)
    evidence = in_segments(first, second)
    assert evidence.holds is None
    assert "do not follow" in evidence.text
    verdict = verify(first, second, VerifyOptions(seed=1, numerics=False, work=1e5))
    assert not verdict.equivalent


def every_pair(reference, candidate, rng):
    """Meaningless guesses: all values of equal shapes."""
    values = [
        [v for op in g.ops if not isinstance(op, Constant) for v in op.results]
        for g in (reference, candidate)
    ]
    pairs = [segments._Guess(u, v) for v in values[1] for u in values[0] if u.shape == v.shape]
    rng.shuffle(pairs)
    return pairs


def test_wrong_guesses_prove_nothing(monkeypatch):
    """``x + 1`` and ``2 x`` guessed to be equal, in both orders, and each equal to itself. The
    guess is no part of the argument: each one needs its own proof.
    """
    x = graphs.tensor(4, 6, dtype=F32)

    def program(swap):
        b = Builder()
        y, z = b.binary(BinaryFn.ADD, x, b.constant(1.0)), b.binary(BinaryFn.ADD, x, x)
        y, z = (z, y) if swap else (y, z)
        d = b.binary(BinaryFn.SUB, b.unary(UnaryFn.TANH, y), z)
        return KernelGraph("p", (x,), tuple(b.ops), (d,))

    monkeypatch.setattr(segments, "find_guesses", every_pair)
    for seed in range(4):
        rng = random.Random(seed)
        assert segments.prove_in_segments(program(False), program(False), rng).holds is True
        evidence = segments.prove_in_segments(program(False), program(True), rng)
        assert evidence.holds is None
        assert 0 < evidence.figures["proved"] < evidence.figures["guessed"]


def cut_at(graph: KernelGraph, values: tuple[Value, ...]) -> tuple[KernelGraph, tuple[Value, ...]]:
    extra = tuple(Value(v.type) for v in values)
    cuts = dict(zip(values, extra))
    shapes = [v.shape for v in graph.outputs]
    return segments._from_cuts(graph, extra, cuts, graph.outputs, shapes), extra


def test_a_cut_program_goes_on_from_the_values_it_is_given():
    """Given the program's values there, it gives the same outputs, and only then."""
    graph = layers("after")
    rng = np.random.default_rng(0)
    xs = [rng.standard_normal(v.shape) for v in graph.inputs]
    inner = tuple(v for op in graph.ops if not isinstance(op, Constant) for v in op.results)[8:10]
    values = evaluate_floats(KernelGraph("v", graph.inputs, graph.ops, inner), xs)
    (want,) = evaluate_floats(graph, xs)
    cut, extra = cut_at(graph, inner)
    assert cut.inputs == (*graph.inputs, *extra)
    assert len(cut.ops) < len(graph.ops)
    np.testing.assert_allclose(evaluate_floats(cut, [*xs, *values])[0], want)
    other = [2.0 * v for v in values]
    (got,) = evaluate_floats(cut, [*xs, *other])
    assert np.abs(got / want - 1.0).max() > 0.1


def two_results(swap: bool) -> KernelGraph:
    """A launch with two results, both of which are read after it."""
    x = graphs.tensor(8, 12, dtype=F32)
    params = graphs.params_of((x,))
    block = Builder(in_block=True)
    t = block.load(params[0], (("i",), ()), (4, 12))
    tiles = [block.unary(UnaryFn.EXP, t), block.binary(BinaryFn.ADD, t, t)]
    outputs = tuple(Output(v, (("i",), ())) for v in (tiles[::-1] if swap else tiles))
    body = BlockGraph(params, tuple(block.ops), outputs)
    op = Launch((x,), (Value(x.type), Value(x.type)), (Axis("i", 2),), body)
    b = Builder()
    y = b.binary(BinaryFn.SUB, b.unary(UnaryFn.SIGMOID, op.results[0]), op.results[1])
    return KernelGraph("two", (x,), (op, *b.ops), (y,))


def test_results_of_one_launch_are_cut_one_by_one():
    graph = two_results(False)
    first, second = graph.ops[0].results
    cut, (extra,) = cut_at(graph, (first,))
    assert cut.ops[0] is not graph.ops[0] or cut.ops[0].results == graph.ops[0].results
    assert extra in {v for op in cut.ops for v in op.operands}
    assert first not in {v for op in cut.ops for v in op.operands}
    assert second in {v for op in cut.ops for v in op.operands}
    assert in_segments(graph, two_results(False)).holds is True
    assert in_segments(graph, two_results(True)).holds is None


def test_values_equal_to_one_value_share_its_input():
    """The candidate computes a value twice, in two ways; later ops need both to be equal."""
    x, w = graphs.tensor(4, WIDTH, dtype=F32), graphs.tensor(WIDTH, WIDTH, dtype=F32)

    def finish(b, y, z):
        d = b.binary(BinaryFn.DIV, y, b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, z), (1,)))
        return b.unary(UnaryFn.SQUARE, d)

    b = Builder()
    y = b.matmul(x, w)
    out = finish(b, y, y)
    reference = KernelGraph("once", (x, w), tuple(b.ops), (out,))
    b = Builder()
    y, z = (
        b.matmul(x, w),
        b.transpose(b.matmul(b.transpose(w, (1, 0)), b.transpose(x, (1, 0))), (1, 0)),
    )
    candidate = KernelGraph("twice", (x, w), tuple(b.ops), (y,))
    out = finish(b, y, z)
    candidate = KernelGraph("twice", (x, w), tuple(b.ops), (out,))
    evidence = in_segments(reference, candidate)
    assert evidence.holds is True
    # The quotient is the same only if both are related to the single value of the reference.
    guesses = segments.find_guesses(reference, candidate, random.Random(1))
    assert {g.second for g in guesses} >= {y, z}
    cut = segments._between(reference, candidate, guesses, reference.outputs, candidate.outputs)
    assert len(cut[0].inputs) == len(cut[1].inputs)


def gated(fused: bool) -> KernelGraph:
    """``tanh(x W) * (x V)``; fused, one kernel stores both factors and the product."""
    x = graphs.tensor(8, 64, dtype=F32)
    w, v = graphs.tensor(64, 96, dtype=F32), graphs.tensor(64, 96, dtype=F32)
    b = Builder()
    if not fused:
        gate, up = b.unary(UnaryFn.TANH, b.matmul(x, w)), b.matmul(x, v)
        product = b.binary(BinaryFn.MUL, gate, up)
    else:
        params = graphs.params_of((x, w, v))
        block = Builder(in_block=True)
        tx = block.load(params[0], ((), ()), (8, 64))
        tiles = [block.load(p, ((), ("n",)), (64, 24)) for p in params[1:]]
        first = block.unary(UnaryFn.TANH, block.matmul(tx, tiles[0]))
        second = block.matmul(tx, tiles[1])
        stored = (first, second, block.binary(BinaryFn.MUL, first, second))
        body = BlockGraph(params, tuple(block.ops), tuple(Output(t, ((), ("n",))) for t in stored))
        types = [Value(graphs.tensor(8, 96, dtype=F32).type) for _ in stored]
        b.ops.append(Launch((x, w, v), tuple(types), (Axis("n", 4),), body))
        gate, up, product = types
    y = b.binary(BinaryFn.SUB, b.binary(BinaryFn.MUL, product, gate), up)
    return KernelGraph("gated", (x, w, v), tuple(b.ops), (y,))


def test_what_one_kernel_stores_does_not_follow_from_what_else_it_stores():
    """The product is proved from the inputs: the factors are other results of the same launch."""
    evidence = in_segments(gated(False), gated(True))
    assert evidence.holds is True
    assert evidence.figures["proved"] == evidence.figures["guessed"] >= 3


def test_values_in_common_may_have_another_shape():
    """The candidate holds the normalised rows as matrices of heads, and uses them twice."""

    def program(split: bool) -> KernelGraph:
        x, w = graphs.tensor(4, WIDTH, dtype=F32), graphs.tensor(WIDTH, WIDTH, dtype=F32)
        b = Builder()
        y = x
        for _ in range(3):
            y = b.matmul(b.rms_norm(y), w)
            if split:
                heads = b.reshape(y, (4, 8, WIDTH // 8))
                y = b.reshape(b.unary(UnaryFn.TANH, heads), (4, WIDTH))
            else:
                y = b.unary(UnaryFn.TANH, y)
            y = b.binary(BinaryFn.MUL, y, y)
        return KernelGraph("heads", (x, w), tuple(b.ops), (y,))

    first, second = (normalize(decompose(program(s))) for s in (False, True))
    inputs = first.inputs
    second = KernelGraph(
        second.name,
        inputs,
        tuple(rename_ops(second.ops, dict(zip(second.inputs, inputs)))),
        second.outputs,
    )
    heads = next(op.result for op in second.ops if op.results[0].shape == (4, 8, WIDTH // 8))
    flat = next(op.result for op in first.ops if op.results[0].shape == (4, WIDTH))
    extra, cut = segments._between(
        first, second, [segments._Guess(flat, heads)], first.outputs, second.outputs
    )
    assert [v.shape for v in extra.inputs] == [v.shape for v in cut.inputs]
    assert cut.inputs[-1].shape == flat.shape
    check_graph(cut)
    assert segments.prove_in_segments(first, second, random.Random(0)).holds is True


def test_values_that_stay_large_are_not_computed():
    """Slices that start at 1 do not reduce sizes: a product of three rows would have 125 million
    elements."""
    rows = tuple(graphs.tensor(500, dtype=F32) for _ in range(3))

    def program(first):
        b = Builder()
        turned = [b.concat((b.slice(x, (1,), (499,)), b.slice(x, (0,), (1,))), 0) for x in rows]
        wide = [b.reshape(x, (500,) + (1,) * (2 - d)) for d, x in enumerate(turned)]
        y = b.binary(BinaryFn.MUL, wide[first], wide[1])
        z = b.binary(BinaryFn.MUL, y, wide[2 - first])
        out = b.unary(UnaryFn.TANH, z)
        return KernelGraph("p", rows, tuple(b.ops), (out,))

    evidence = segments.prove_in_segments(program(0), program(2), random.Random(0))
    assert evidence.holds is None
    assert "elements, limit" in evidence.text
