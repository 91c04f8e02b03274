"""Small tensors that are repeated along an axis, so that the others may have two axes merged into
one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from lowering import check_graph as check_lowering
from mirage.cost import H200, check_launch
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.loop_nests.problem_axes import analyze
from mirage.search.kernel.problems.merges import REPEATED_BYTES
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.kernel.problems.repeats import repeated
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchReport
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import KernelGraph, Launch, Matmul, Value, all_ops
from mirage.transforms import stabilize
from mirage.verify import VerifyOptions, verify
from mirage.verify.verdict import Kind
from mirage.workloads import get
from mirage.workloads.served import grouped_attention
from thorough import some_of


def biased_heads(rows: int, kv: int) -> KernelGraph:
    """Two groups of four query heads; each head adds its own vector to its scores."""
    q, bias = tensor("q", 8, rows, 16), tensor("bias", 8, 1, kv)
    k, v, b = tensor("k", 2, kv, 16), tensor("v", 2, kv, 16), Builder()

    def shared(x: Value) -> Value:
        x = b.broadcast(b.reshape(x, (2, 1, kv, 16)), (2, 4, kv, 16))
        return b.reshape(x, (8, kv, 16))

    scores = b.matmul(q, b.transpose(shared(k), (0, 2, 1)))
    weights = b.softmax(b.binary(BinaryFn.ADD, scores, bias), -1)
    return graph("biased_heads", (q, k, v, bias), b, b.matmul(weights, shared(v)))


def masked(rows: int = 4, kv: int = 64) -> KernelGraph:
    """A causal mask for several tokens of a group of heads."""
    return grouped_attention("masked", 2, 8, 2, rows, 16, kv, mask="causal").graph()


def problem_of(program: KernelGraph) -> tuple[KernelProblem, KernelGraph]:
    plain = decompose(program)
    definitions = {r: op for op in plain.ops for r in op.results}
    table = AxisTable.of(plain)
    return KernelProblem(plain.outputs, plain.inputs, definitions, table), plain


@pytest.mark.parametrize("own", ["r", "g"])
def test_the_copy(own: str) -> None:
    sizes = {"g": 3, "r": 4, "t": 1500}
    source = tensor("mask", sizes[own], sizes["t"])
    launch = repeated(source, (own, "t"), ("g", "r", "t"), sizes)
    copy = KernelGraph("copy", (source,), (launch,), launch.results)
    check_graph(copy)
    check_launch(launch, H200)
    x = np.random.default_rng(0).standard_normal(source.shape)
    (got,) = evaluate_floats(copy, [x])
    np.testing.assert_array_equal(
        got, np.broadcast_to(np.expand_dims(x, "rg".index(own)), got.shape)
    )
    check_lowering(copy)


@pytest.mark.parametrize(
    "program", some_of([masked(), biased_heads(4, 64)], every=2), ids=lambda g: g.name
)
def test_repeating_computes_the_program(program: KernelGraph) -> None:
    problem, plain = problem_of(program)
    solver = KernelSolver(H200, SearchLimits(), SearchReport())
    rng = np.random.default_rng(0)
    inputs: list[Any] = [rng.standard_normal(v.shape) for v in program.inputs]
    (expected,) = evaluate_floats(program, inputs)
    kinds: set[str] = set()
    for pick in solver.solve(problem):
        assert pick.draft is not None
        before = pick.draft.analysis.before
        kind = str(pick.draft.kind)
        if kind in kinds or not any(isinstance(op, Launch) for op in before):
            continue
        solution = solver.write(pick)
        if solution is None:
            continue
        kinds.add(kind)
        candidate = KernelGraph("", program.inputs, solution.ops, plain.outputs)
        check_graph(candidate)
        (got,) = evaluate_floats(candidate, inputs)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
        stable = stabilize(candidate)
        assert not stable.unstable
        verdict = verify(program, stable.graph, VerifyOptions(seed=0))
        assert verdict.kind is Kind.PROVED, verdict
        if len(kinds) == 1:
            check_lowering(stable.graph, program)
    assert len(kinds) >= 2


def test_tokens_of_a_group_under_a_mask_are_rows_of_one_product() -> None:
    best = superoptimize(get("decode_rows4_causal_b1").graph(), H200).candidates[0].graph
    launches = [op for op in best.ops if isinstance(op, Launch)]
    copies = [op for op in launches if len(list(all_ops(op.body.ops))) <= 2]
    assert len(copies) == 1
    products = [op for x in launches for op in all_ops(x.body.ops) if isinstance(op, Matmul)]
    assert [op.result.shape[-2] for op in products] == [32, 32]


def test_large_tensors_are_not_repeated() -> None:
    def ways(rows: int, kv: int) -> int:
        return len(analyze(problem_of(masked(rows, kv))[0]))

    assert ways(4, 64) == 2
    rows = REPEATED_BYTES // (4096 * 2 * 4) + 16
    assert ways(rows, 4096) == 1
