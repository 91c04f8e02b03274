"""A new op needs only its definition and its meaning to go through search, cost, printing and
verification, and, if it is composed of existing ops, to become a kernel."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mirage.compiler import CompileOptions, compile_graph
from mirage.cost import H200
from mirage.cost.predict import predict
from mirage.emulator.run_artifact import run_artifact
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.describe import describe
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import (
    KernelGraph,
    Launch,
    Op,
    TensorType,
    Value,
    launches,
)
from mirage.transforms import stabilize
from mirage.verify import VerifyOptions, verify
from mirage.verify.normal_form.traced import traced
from new_ops import Affine, Odd, SiluTwice, Twice


def program(op: type[Op], shape: tuple[int, ...], *arguments: int) -> KernelGraph:
    """A product, the new op applied to it, and sums of the result."""
    f16 = DType.F16
    x, w = Value(TensorType((16, 64), f16), "x"), Value(TensorType((64, 32), f16), "w")
    b = Builder()
    product = b.matmul(x, w)
    result = Value(TensorType(shape, product.dtype))
    b.ops.append(op((product,), (result,), *arguments))
    y = b.reduce(ReduceFn.SUM, result, (1,))
    return KernelGraph("new", (x, w), tuple(b.ops), (y,))


def found(graph: KernelGraph) -> KernelGraph:
    """Return the best µGraph, which the search, the cost model and the printers handle like any
    other."""
    best = superoptimize(graph, H200, SearchLimits(candidates=2)).candidates[0].graph
    assert predict(best, H200) is not None
    assert not stabilize(best).unstable
    assert signature(best) != signature(graph)
    return best


NEW = ((Affine, (16, 32), "affine"), (Twice, (2, 16, 32), "twice"))


@pytest.mark.parametrize(("op", "shape", "name"), NEW, ids=[n for *_, n in NEW])
def test_a_new_op_goes_all_the_way_to_a_proof(
    op: type[Op], shape: tuple[int, ...], name: str
) -> None:
    graph = program(op, shape)
    best = found(graph)
    assert any(isinstance(o, Launch) for o in best.ops)
    assert f"{name}(" in describe(best)
    verdict = verify(graph, best, VerifyOptions(seed=1))
    assert verdict.accepted, verdict
    rng = np.random.default_rng(1)
    data = [rng.standard_normal(v.shape) for v in graph.inputs]
    for ours, expected in zip(
        evaluate_floats(best, data), evaluate_floats(graph, data), strict=True
    ):
        np.testing.assert_allclose(ours, expected, rtol=1e-9)


def test_a_new_composite_becomes_a_kernel() -> None:
    graph = program(SiluTwice, (16, 32))
    best = found(graph)
    assert len(list(launches(best.ops))) == len(best.ops) == 1
    assert verify(graph, best, VerifyOptions(seed=1)).accepted
    rng = np.random.default_rng(1)
    data = [rng.standard_normal(v.shape).astype(np.float16) for v in graph.inputs]
    artifact = compile_graph(best, CompileOptions("sm_90a", cubin=False)).artifact
    (ours,) = run_artifact(artifact, data).outputs
    (expected,) = evaluate_floats(graph, [x.astype(np.float64) for x in data])
    np.testing.assert_allclose(ours.astype(np.float64), expected, rtol=2e-2, atol=0.25)


def test_a_wrong_candidate_with_a_new_elementwise_op_is_refuted() -> None:
    """The traced ops are the meaning: with another constant it is another program."""
    graph = program(Affine, (16, 32), 3)
    for wrong in (program(Affine, (16, 32), 4), found(program(Affine, (16, 32), 2))):
        changed = replace(wrong, inputs=wrong.inputs)
        assert not verify(graph, changed, VerifyOptions(seed=1)).accepted


def test_a_wrong_candidate_with_a_new_view_is_refuted() -> None:
    """Rows of the operand are not those of the copies: sums over one are not sums over the
    other."""
    graph = program(Twice, (2, 16, 32))
    x, w = graph.inputs
    b = Builder()
    product = b.matmul(x, w)
    twice = Value(TensorType((2, 16, 32), product.dtype))
    b.ops.append(Twice((product,), (twice,)))
    rows = b.reduce(ReduceFn.MAX, twice, (1,))
    for y in (rows, b.binary(BinaryFn.MUL, b.reduce(ReduceFn.SUM, twice, (1,)), b.constant(2.0))):
        wrong = KernelGraph("wrong", (x, w), tuple(b.ops), (y,))
        assert not verify(graph, wrong, VerifyOptions(seed=1)).accepted


def test_what_is_made_of_scalar_functions_is_traced() -> None:
    x = Value(TensorType((4, 6), DType.F32))
    y = Value(x.type)
    b = Builder()
    value = traced(Affine((x,), (y,), 5), b)
    assert value is not None
    data = np.arange(24.0).reshape(4, 6)
    (result,) = evaluate_floats(KernelGraph("g", (x,), tuple(b.ops), (value,)), [data])
    np.testing.assert_array_equal(result, 5 * data + 1)
    assert traced(Odd((x,), (y,)), Builder()) is None
