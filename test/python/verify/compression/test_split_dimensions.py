"""Merged dimensions that are kept apart: the same programs in other shapes."""

from __future__ import annotations

import random

import numpy as np
import pytest
from example_programs import graphs
from example_programs.random_graphs import random_graph
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Axis, BlockGraph, KernelGraph, Output, Reshape, Value
from mirage.verify.compression.split_dimensions import split
from mirage.verify.evidence.proofs.proof import prove
from mirage.verify.evidence.proofs.small_model import small_pair


def same(first: KernelGraph, second: KernelGraph) -> None:
    check_graph(second)
    rng = np.random.default_rng(0)
    data = [rng.standard_normal(v.shape) for v in first.inputs]
    shaped = [x.reshape(v.shape) for x, v in zip(data, second.inputs, strict=True)]
    for x, y in zip(evaluate_floats(first, data), evaluate_floats(second, shaped), strict=True):
        y = y.reshape(x.shape)
        np.testing.assert_allclose(x, y, rtol=1e-9, atol=1e-12)


def grouped(tokens: int, heads: int = 2, group: int = 3) -> KernelGraph:
    """Scores of grouped queries as written by exporters: the group's heads are rows."""
    b = Builder()
    q = graphs.tensor(2, tokens, heads * group, 8, dtype=DType.F32)
    k = graphs.tensor(2, tokens, heads, 8, dtype=DType.F32)
    rows = b.reshape(b.transpose(q, (0, 2, 1, 3)), (2, heads, group * tokens, 8))
    scores = b.matmul(rows, b.transpose(k, (0, 2, 3, 1)))
    scores = b.binary(BinaryFn.MUL, scores, b.constant(0.5))
    apart = b.reshape(scores, (2, heads, group, tokens, tokens))
    weights = b.unary(UnaryFn.EXP, apart)
    total = b.reduce(ReduceFn.SUM, b.reshape(weights, (2, heads, group * tokens, tokens)), (3,))
    y = b.reshape(total, (2, heads * group, tokens))
    return KernelGraph("grouped", (q, k), tuple(b.ops), (y,))


def by_tiles(tokens: int, tile: int, heads: int = 2, group: int = 3) -> KernelGraph:
    """The same program in a kernel that cuts the tokens."""
    q = graphs.tensor(2, tokens, heads * group, 8, dtype=DType.F32)
    k = graphs.tensor(2, tokens, heads, 8, dtype=DType.F32)
    before = Builder()
    apart = before.reshape(q, (2, tokens, heads, group, 8))
    params = graphs.params_of((apart, k))
    b = Builder(in_block=True)
    own = (("b",), ("m",), ("h",), ("g",), ())
    rows = b.reshape(b.load(params[0], own, (1, tile, 1, 1, 8)), (tile, 8))
    keys = b.load(params[1], (("b",), (), ("h",), ()), (1, tokens, 1, 8))
    keys = b.transpose(b.reshape(keys, (tokens, 8)), (1, 0))
    scores = b.binary(BinaryFn.MUL, b.matmul(rows, keys), b.constant(0.5))
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, scores), (1,))
    y = b.reshape(total, (1, 1, 1, tile))
    body = BlockGraph(params, tuple(b.ops), (Output(y, (("b",), ("h",), ("g",), ("m",))),))
    grid = (Axis("b", 2), Axis("m", -(-tokens // tile)), Axis("h", heads), Axis("g", group))
    result = graphs.tensor(2, heads, group, tokens, dtype=DType.F32).type
    op = graphs.launch((apart, k), grid, body, (result,))
    after = Builder()
    out = after.reshape(op.results[0], (2, heads * group, tokens))
    return KernelGraph("tiles", (q, k), (*before.ops, op, *after.ops), (out,))


@pytest.mark.parametrize("tokens", [20, 100])
def test_grouped_queries_are_not_merged_with_tokens(tokens: int) -> None:
    graph = grouped(tokens)
    found = split((graph,))
    assert found is not None
    same(graph, found[0])
    assert not any(3 * tokens in v.shape for op in found[0].ops for v in op.results)


def test_tiles_that_go_past_the_end_of_merged_tokens_are_proved() -> None:
    first, second = grouped(100), by_tiles(100, 16)
    same(first, second)
    pair = small_pair(first, second)
    assert pair.read is not None
    assert not pair.read.at_hand
    assert prove(pair).holds


def folded(tokens: int) -> KernelGraph:
    """A product whose columns are heads and tokens, of an input that has them as one dimension."""
    b = Builder()
    w, x = graphs.tensor(6, 8, dtype=DType.F32), graphs.tensor(8, 3 * tokens, dtype=DType.F32)
    y = b.reshape(b.unary(UnaryFn.EXP, b.matmul(w, x)), (6, 3, tokens))
    total = b.reduce(ReduceFn.SUM, y, (0,))
    out = b.reshape(b.binary(BinaryFn.DIV, y, total), (6, 3 * tokens))
    return KernelGraph("folded", (w, x), tuple(b.ops), (out,))


def folded_by_tiles(tokens: int, tile: int) -> KernelGraph:
    """The same program in a kernel that cuts the tokens of each head."""
    w, x = graphs.tensor(6, 8, dtype=DType.F32), graphs.tensor(8, 3 * tokens, dtype=DType.F32)
    before = Builder()
    apart = before.reshape(x, (8, 3, tokens))
    params = graphs.params_of((w, apart))
    b = Builder(in_block=True)
    rows = b.load(params[0], ((), ()), (6, 8))
    tokens_of = b.reshape(b.load(params[1], ((), ("h",), ("m",)), (8, 1, tile)), (8, tile))
    y = b.unary(UnaryFn.EXP, b.matmul(rows, tokens_of))
    out = b.binary(BinaryFn.DIV, y, b.reduce(ReduceFn.SUM, y, (0,)))
    stored = Output(b.reshape(out, (6, 1, tile)), ((), ("h",), ("m",)))
    body = BlockGraph(params, tuple(b.ops), (stored,))
    grid = (Axis("h", 3), Axis("m", -(-tokens // tile)))
    result = graphs.tensor(6, 3, tokens, dtype=DType.F32).type
    op = graphs.launch((w, apart), grid, body, (result,))
    after = Builder()
    merged = after.reshape(op.results[0], (6, 3 * tokens))
    return KernelGraph("tiles", (w, x), (*before.ops, op, *after.ops), (merged,))


def test_merged_columns_of_inputs_and_outputs_are_kept_apart() -> None:
    first, second = folded(127), folded_by_tiles(127, 16)
    same(first, second)
    found = split((first, second))
    assert found is not None
    for graph, read in zip((first, second), found, strict=True):
        same(graph, read)
        assert [v.shape for v in read.inputs] == [(6, 8), (8, 3, 127)]
        assert [v.shape for v in read.outputs] == [(6, 3, 127)]
    pair = small_pair(first, second)
    assert pair.read is not None
    assert not pair.read.at_hand
    assert prove(pair).holds


def test_where_nothing_is_merged_nothing_changes() -> None:
    b = Builder()
    x = graphs.tensor(4, 6)
    y = b.reduce(ReduceFn.SUM, b.reshape(x, (2, 2, 6)), (2,))
    assert split((KernelGraph("g", (x,), tuple(b.ops), (y,)),)) is None


def test_a_sum_over_merged_dimensions() -> None:
    b = Builder()
    x, w = graphs.tensor(2, 3, 4, dtype=DType.F32), graphs.tensor(12, 5, dtype=DType.F32)
    merged = b.reshape(x, (2, 12))
    total = b.reduce(ReduceFn.SUM, merged, (1,))
    ratio = b.binary(BinaryFn.DIV, merged, total)
    y = b.matmul(ratio, w)  # contracted dimensions stay merged
    z = b.transpose(b.unary(UnaryFn.EXP, ratio), (1, 0))
    graph = KernelGraph("g", (x, w), tuple(b.ops), (y, z))
    found = split((graph,))
    assert found is not None
    same(graph, found[0])


def test_splits_that_do_not_fit_are_merged_again() -> None:
    b = Builder()
    x = graphs.tensor(4, 6, dtype=DType.F32)
    one = b.reshape(x, (24,))
    other = b.reshape(b.reshape(x, (3, 8)), (24,))
    y = b.binary(BinaryFn.ADD, b.unary(UnaryFn.EXP, one), other)
    z = b.reshape(y, (8, 3))
    graph = KernelGraph("g", (x,), tuple(b.ops), (z,))
    found = split((graph,))
    assert found is not None
    same(graph, found[0])


def reshaped_often(seed: int) -> KernelGraph:
    """A random chain of reshapes, transposes, functions, sums and products."""
    source = random.Random(seed)
    b = Builder()
    x = graphs.tensor(2, 3, 4, 2, dtype=DType.F32)
    value: Value = x
    for _ in range(12):
        kind = source.randrange(6)
        if kind < 2:
            sizes = [p for n in value.shape for p in _primes(n)]
            shape: list[int] = [1]
            for p in sizes:
                if source.random() < 0.5:
                    shape[-1] *= p
                else:
                    shape.append(p)
            value = b.reshape(value, tuple(shape))
        elif kind == 2:
            order = list(range(len(value.shape)))
            source.shuffle(order)
            value = b.transpose(value, tuple(order))
        elif kind == 3:
            value = b.unary(UnaryFn.TANH, value)
        elif kind == 4 and len(value.shape) > 1:
            total = b.reduce(ReduceFn.SUM, value, (source.randrange(len(value.shape)),))
            value = b.binary(BinaryFn.ADD, value, total)
        elif len(value.shape) > 1:
            order = (*range(len(value.shape) - 2), len(value.shape) - 1, len(value.shape) - 2)
            value = b.matmul(value, b.matmul(b.transpose(value, order), value))
    return KernelGraph("chain", (x,), tuple(b.ops), (value,))


def _primes(n: int) -> list[int]:
    found: list[int] = []
    for p in (2, 3, 5, 7):
        while n % p == 0:
            found.append(p)
            n //= p
    return found


def test_random_programs_are_the_same() -> None:
    changed = 0
    for seed in range(150):
        for graph in (reshaped_often(seed), decompose(random_graph(random.Random(seed)))):
            found = split((graph,))
            if found is not None:
                changed += any(isinstance(op, Reshape) for op in graph.ops)
                same(graph, found[0])
    assert changed > 50
