"""Products of products are multiplied in the order with the least work, through views."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.cost import H200
from mirage.search import superoptimize
from mirage.search.program.product_orders import reordered, with_least_products
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, Matmul, Value
from mirage.transforms import stabilize
from mirage.verify import Kind, verify

HEADS, WIDTH, RANK, TURNED = 4, 16, 32, 8


def latent(queries: int, keys: int, rows: int = 1, dtype: DType = DType.F32) -> KernelGraph:
    """Keys and values of all heads are products of one latent row per token, as parts of one
    weight; keys have an additional part, which all heads share."""
    q = tensor("q", rows, HEADS, queries, WIDTH + TURNED, dtype=dtype)
    c = tensor("c", rows, keys, RANK, dtype=dtype)
    turned = tensor("turned", rows, 1, keys, TURNED, dtype=dtype)
    w = tensor("w", HEADS * 2 * WIDTH, RANK, dtype=dtype)
    b = Builder()
    both = b.reshape(b.matmul(c, b.transpose(w, (1, 0))), (rows, keys, HEADS, 2 * WIDTH))
    both = b.transpose(both, (0, 2, 1, 3))
    shape = (rows, HEADS, keys, WIDTH)
    k, v = b.slice(both, (0, 0, 0, 0), shape), b.slice(both, (0, 0, 0, WIDTH), shape)
    k = b.concat((k, b.broadcast(turned, (rows, HEADS, keys, TURNED))), 3)
    p = b.softmax(b.matmul(q, b.transpose(k, (0, 1, 3, 2))), 3)
    return graph("latent", (q, c, turned, w), b, b.matmul(p, v))


def multiplications(program: KernelGraph) -> int:
    return sum(
        op.result.type.size * op.operands[0].shape[-1]
        for op in program.ops
        if isinstance(op, Matmul)
    )


def inputs_of(program: KernelGraph) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [v.dtype.round(rng.standard_normal(v.shape)) for v in program.inputs]


def assert_same(new: KernelGraph, program: KernelGraph) -> None:
    check_graph(new)
    inputs = inputs_of(program)
    expected = evaluate_floats(program, inputs)
    for got, value in zip(evaluate_floats(new, inputs), expected, strict=True):
        assert got.shape == value.shape
        np.testing.assert_allclose(got, value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("queries", [1, 2])
def test_a_step_stays_among_latent_rows(queries: int, rows: int) -> None:
    program = decompose(latent(queries, 96, rows))
    new = with_least_products(program)
    assert_same(new, program)
    assert multiplications(new) < multiplications(program) / 4
    assert not any(op.result.type.size >= rows * WIDTH * HEADS * 96 for op in new.ops)


def test_a_prompt_makes_keys_and_values() -> None:
    program = decompose(latent(96, 96))
    assert with_least_products(program) is program


def test_both_readers_or_none() -> None:
    """If the whole product is needed, nothing is gained by not reading it."""
    x, w, a, b = tensor("x", 64, 16), tensor("w", 16, 64), tensor("a", 1, 64), Builder()
    inner = b.matmul(x, w)
    program = graph("read_twice", (x, w, a), b, b.matmul(a, inner), inner)
    assert with_least_products(program) is program
    program = KernelGraph("read_once", (x, w, a), program.ops, program.outputs[:1])
    new = with_least_products(program)
    assert_same(new, program)
    assert multiplications(new) == 64 * 16 + 16 * 64


def test_what_lies_between_products_has_the_type_that_it_had() -> None:
    """Scores in f32 of rounded keys: the query that is multiplied with their weight is rounded."""
    (c, w), q, b = (
        (tensor(n, 64, 64, dtype=DType.BF16) for n in "cw"),
        tensor("q", 1, 64),
        Builder(),
    )
    keys = b.transpose(b.cast(b.matmul(c, w), DType.F32), (1, 0))
    program = graph("scores", (c, w, q), b, b.matmul(q, keys))
    first, last = (op for op in with_least_products(program).ops if isinstance(op, Matmul))
    assert [op.result.dtype for op in (first, last)] == [DType.BF16, DType.F32]
    assert multiplications(program) == 64**3 + 64 * 64
    assert multiplications(with_least_products(program)) == 2 * 64 * 64


def test_all_heads_in_one_sum() -> None:
    """The outer product sums over two indices of the inner one, in another order."""
    x, w, a, b = tensor("x", 1, 48), tensor("w", 6 * 8, 24), tensor("a", 24, 32), Builder()
    split = b.reshape(b.matmul(w, a), (6, 8, 32))
    turned = b.reshape(b.transpose(split, (1, 0, 2)), (48, 32))
    program = graph("summed", (x, w, a), b, b.matmul(x, turned))
    new = with_least_products(program)
    assert_same(new, program)
    assert multiplications(new) == 48 * 24 + 24 * 32


@st.composite
def chains(draw: st.DrawFn) -> KernelGraph:
    """A product whose rows or columns are split, transposed, sliced and repeated before another
    product."""
    lead = draw(st.sampled_from([(), (1,), (2,)]))
    heads, size, rows, rank = (draw(st.integers(1, 4)) for _ in range(4))
    x, w = tensor("x", *lead, rows, rank), tensor("w", rank, heads * size)
    b = Builder()
    value = b.reshape(b.matmul(x, w), (*lead, rows, heads, size))
    for _ in range(draw(st.integers(0, 3))):
        value = _view(draw, b, value)
    left = draw(st.booleans())
    summed = value.shape[-1 if left else -2]
    own = draw(st.integers(1, 3))
    front = tuple(draw(st.sampled_from([1, n])) for n in value.shape[:-2])
    a = tensor("a", *front, *((summed, own) if left else (own, summed)))
    outer = b.matmul(value, a) if left else b.matmul(a, value)
    return graph("chain", (x, w, a), b, outer)


def _view(draw: st.DrawFn, b: Builder, value: Value) -> Value:
    kind = draw(st.sampled_from(["transpose", "slice", "reshape", "cast"]))
    if kind == "transpose":
        return b.transpose(value, tuple(draw(st.permutations(range(len(value.shape))))))
    if kind == "cast":
        return b.cast(value, DType.F32)
    if kind == "slice":
        sizes = tuple(draw(st.integers(1, n)) for n in value.shape)
        pairs = zip(value.shape, sizes, strict=True)
        return b.slice(value, tuple(draw(st.integers(0, n - s)) for n, s in pairs), sizes)
    at = draw(st.integers(0, len(value.shape) - 2))
    merged = (*value.shape[:at], value.shape[at] * value.shape[at + 1], *value.shape[at + 2 :])
    return b.reshape(value, merged if len(merged) > 1 else (1, *merged))


@settings(max_examples=300, deadline=None)
@given(chains())
def test_any_order_is_the_same(program: KernelGraph) -> None:
    """Also if it is not better."""
    inner = next(op for op in program.ops if isinstance(op, Matmul))
    new = reordered(program, inner)
    if new is not None:
        assert_same(new, program)
        assert inner.result not in {v for op in new.ops for v in op.results}


def test_candidates_are_shown() -> None:
    """The result for a step is stable, and proved equal to the program that computes keys and
    values."""
    program = latent(1, 512, dtype=DType.F16)
    (candidate, *_) = superoptimize(program, H200).candidates
    assert not any(
        v.type.size >= 512 * HEADS * WIDTH for op in candidate.graph.ops for v in op.results
    )
    result = stabilize(candidate.graph)
    assert not result.unstable, [str(e) for e in result.unstable]
    verdict = verify(program, result.graph)
    assert verdict.kind is Kind.PROVED, verdict
