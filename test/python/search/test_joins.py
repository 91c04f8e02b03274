"""Joins disappear if every op between them and a sum works on parts; otherwise they stay."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200
from mirage.search import superoptimize
from mirage.search.program.joins import EXPONENTIALS, without_joins
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Concat, KernelGraph
from mirage.transforms import stabilize
from mirage.verify import Kind, VerifyOptions, verify
from thorough import some_of


def features() -> KernelGraph:
    """A product over features and weights that both consist of two parts."""
    x, y, w, v = tensor("x", 8, 48), tensor("y", 8, 16), tensor("w", 48, 24), tensor("v", 16, 24)
    b = Builder()
    joined = b.unary(UnaryFn.SILU, b.concat((x, y), 1))
    return graph("features", (x, y, w, v), b, b.matmul(joined, b.concat((w, v), 0)))


def rows() -> KernelGraph:
    """Rows that are normalised, scaled and summed; through a transpose and a reshape."""
    x, y, s, b = tensor("x", 3, 8, 5), tensor("y", 3, 4, 5), tensor("s", 3, 1, 5), Builder()
    scaled = b.binary(BinaryFn.MUL, b.rms_norm(b.concat((x, y), 1)), s)
    turned = b.reshape(b.transpose(scaled, (1, 0, 2)), (12, 15))
    return graph("rows", (x, y, s), b, b.reduce(ReduceFn.SUM, turned, (0,)))


def largest() -> KernelGraph:
    x, y, b = tensor("x", 3, 8), tensor("y", 3, 5), Builder()
    top = b.reduce(ReduceFn.MAX, b.broadcast(b.concat((x, y), 1), (2, 3, 13)), (2,))
    return graph("largest", (x, y), b, top)


def batches() -> KernelGraph:
    x, y, w, b = tensor("x", 2, 4, 8), tensor("y", 3, 4, 8), tensor("w", 8, 6), Builder()
    product = b.matmul(b.concat((x, y), 0), w)
    return graph("batches", (x, y, w), b, b.reduce(ReduceFn.SUM, product, (0, 1)))


def one_side_only() -> KernelGraph:
    x, y, w, b = tensor("x", 8, 48), tensor("y", 8, 16), tensor("w", 64, 24), Builder()
    return graph("one_side", (x, y, w), b, b.matmul(b.concat((x, y), 1), w))


def result() -> KernelGraph:
    x, y, b = tensor("x", 8, 48), tensor("y", 8, 16), Builder()
    return graph("result", (x, y), b, b.unary(UnaryFn.SILU, b.concat((x, y), 1)))


def exponentials(before: int = 0) -> KernelGraph:
    """``before`` ops come before the join."""
    x, y, b = tensor("x", 8, 48), tensor("y", 8, 16), Builder()
    turned = x
    for _ in range(before):
        turned = b.unary(UnaryFn.NEG, turned)
    e = b.unary(UnaryFn.EXP, b.concat((turned, y), 1))
    return graph(f"exponentials{before}", (x, y), b, b.reduce(ReduceFn.SUM, e, (1,)))


def attention(new: int = 1, dtype: DType = DType.F32) -> KernelGraph:
    """Queries of two heads, a cache of 96 keys and values, and new ones."""
    shapes = {"q": (4, 16), "kc": (96, 16), "kn": (new, 16), "vc": (96, 16), "vn": (new, 16)}
    q, kc, kn, vc, vn = (tensor(name, 2, *shape, dtype=dtype) for name, shape in shapes.items())
    b = Builder()
    keys, values = b.concat((kc, kn), 1), b.concat((vc, vn), 1)
    scores = b.binary(BinaryFn.MUL, b.matmul(q, b.transpose(keys, (0, 2, 1))), b.constant(0.25))
    return graph("attention", (q, kc, kn, vc, vn), b, b.matmul(b.softmax(scores, 2), values))


@pytest.mark.parametrize(
    ("program", "stay"),
    some_of(
        [
            (features(), 0),
            (rows(), 0),
            (largest(), 0),
            (batches(), 0),
            (one_side_only(), 1),
            (result(), 1),
            (exponentials(), 0),
            (exponentials(EXPONENTIALS), 1),
            (attention(), 0),
        ],
        every=3,
    ),
    ids=lambda p: p.name if isinstance(p, KernelGraph) else str(p),
)
def test_joins(program: KernelGraph, stay: int) -> None:
    plain = decompose(program)
    moved = without_joins(plain)
    assert sum(isinstance(op, Concat) for op in moved.ops) == stay
    assert (moved is plain) == (stay == 1)
    check_graph(moved)
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) for v in program.inputs]
    (expected,) = evaluate_floats(program, inputs)
    candidates = superoptimize(program, H200).candidates
    for found in (moved, *(c.graph for c in candidates)):
        (got,) = evaluate_floats(found, inputs)
        assert got.shape == expected.shape
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-11)


def test_attention_over_a_cache_and_new_keys() -> None:
    """No candidate copies the cache, and each is stable and verified."""
    program = attention(dtype=DType.F16)
    candidates = superoptimize(program, H200).candidates
    assert candidates
    rng = np.random.default_rng(0)
    inputs = [DType.F16.round(rng.standard_normal(v.shape)) for v in program.inputs]
    inputs[0] = DType.F16.round(inputs[0] * 1e3)
    (expected,) = evaluate_floats(program, inputs)
    (rounded,) = evaluate_floats(program, inputs, TypedFloat())
    allowed = 2 * np.linalg.norm(rounded - expected) + 1e-6
    for number, candidate in enumerate(candidates):
        assert not any(isinstance(op, Concat) for op in candidate.graph.ops)
        result = stabilize(candidate.graph)
        assert not result.unstable, [str(e) for e in result.unstable]
        check_graph(result.graph)
        (got,) = evaluate_floats(result.graph, inputs, TypedFloat())
        assert np.linalg.norm(got - expected) <= allowed
        if number < 2:
            verdict = verify(program, result.graph, VerifyOptions(seed=number))
            assert verdict.kind is Kind.PROVED, verdict
