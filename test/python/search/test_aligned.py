"""Factors whose rows start at odd elements, copied into rows that boxes can be copied from."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering import check_graph as check_lowering
from mirage.cost import A100, H200, check_launch
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.aligned import ROW_BYTES, aligned_copy, aligned_type, may_align
from mirage.search.kernel.problem import KernelProblem
from mirage.search.kernel.problem_axes import analyze
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchReport
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluate import evaluate_floats
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, Launch, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.verdict import Kind
from mirage.workloads import get
from search_programs import graph, matmul, tensor


def copy_of(source: Value) -> tuple[Launch, KernelGraph]:
    launch = aligned_copy(source, Value(aligned_type(source.type), source.name))
    return launch, KernelGraph("copy", (source,), (launch,), launch.results)


def problem_of(program: KernelGraph) -> tuple[KernelProblem, KernelGraph]:
    plain = decompose(program)
    definitions = {r: op for op in plain.ops for r in op.results}
    return KernelProblem(plain.outputs, plain.inputs, definitions, AxisTable.of(plain)), plain


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=2), st.integers(17, 1100),
    st.sampled_from([DType.F16, DType.BF16, DType.F32]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_the_copy_ends_its_rows_with_zeros(leading: list[int], columns: int, dtype: DType) -> None:
    source = Value(TensorType((*leading, columns), dtype), "x")
    if not may_align(source.type):
        assert columns * dtype.bytes % ROW_BYTES == 0 or leading.count(1) == len(leading)
        return
    launch, program = copy_of(source)
    check_graph(program)
    check_launch(launch, H200)
    assert launch.result.type.shape[-1] * dtype.bytes % ROW_BYTES == 0
    assert launch.result.type.shape[-1] - columns < ROW_BYTES // dtype.bytes
    x = np.random.default_rng(0).standard_normal(source.shape)
    (got,) = evaluate_floats(program, [x])
    np.testing.assert_array_equal(got[..., :columns], x)
    assert not got[..., columns:].any()


@pytest.mark.parametrize("shape", [(7, 35), (3, 5, 41), (33, 521), (2, 1027)])
def test_the_copy_is_compiled(shape: tuple[int, ...]) -> None:
    check_lowering(copy_of(tensor("x", *shape))[1])


@pytest.mark.parametrize(
    ("m", "n", "k", "ways"),
    [(65, 67, 69, 2), (64, 67, 72, 2), (64, 72, 67, 2), (64, 72, 64, 1), (1, 72, 67, 1)],
)
def test_only_factors_at_odd_places_are_copied(m: int, n: int, k: int, ways: int) -> None:
    """One row may be of any length."""
    found = analyze(problem_of(matmul(m, k, n))[0])
    assert len(found) == ways
    copied = [op for op in found[-1].before if isinstance(op, Launch)]
    odd = [(m, k)] * (k % 8 != 0 and m > 1) + [(k, n)] * (n % 8 != 0)
    assert [op.operands[0].shape for op in copied] == odd


def test_what_no_product_reads_is_not_copied() -> None:
    x, b = tensor("x", 33, 931), Builder()
    assert len(analyze(problem_of(graph("softmax", (x,), b, b.softmax(x, -1)))[0])) == 1


@pytest.mark.parametrize(("m", "n", "k"), [(129, 131, 133), (67, 200, 75)])
def test_products_of_copies_compute_the_program(m: int, n: int, k: int) -> None:
    """Each kind of frame that has one: evaluated, verified, and the first one run."""
    program = matmul(m, k, n)
    problem, plain = problem_of(program)
    solver = KernelSolver(H200, SearchLimits(), SearchReport())
    rng = np.random.default_rng(0)
    inputs: list[Any] = [rng.standard_normal(v.shape) for v in program.inputs]
    (expected,) = evaluate_floats(program, inputs)
    kinds: set[tuple[str, bool]] = set()
    for pick in solver.solve(problem):
        assert pick.draft is not None
        groups = bool(pick.draft.measure.columns.warpgroups[pick.draft.column])
        kind = str(pick.draft.kind), groups
        copied = any(isinstance(op, Launch) for op in pick.draft.analysis.before)
        solution = solver.write(pick) if copied and kind not in kinds else None
        if solution is None:
            continue
        kinds.add(kind)
        candidate = KernelGraph("", program.inputs, solution.ops, plain.outputs)
        check_graph(candidate)
        (got,) = evaluate_floats(candidate, inputs)
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)
        verdict = verify(program, candidate, VerifyOptions(seed=0))
        assert verdict.kind is Kind.PROVED, verdict
        if groups:
            check_lowering(candidate, program)
    assert any(groups for _, groups in kinds)


@pytest.mark.parametrize(
    ("name", "target", "kernels"),
    [("mm_4095x4095x4095", H200, 3), ("mm_4096", H200, 1), ("mm_583x931x257", A100, 1)],
)
def test_copies_are_made_where_they_pay(name: str, target: Any, kernels: int) -> None:
    best = superoptimize(get(name).graph(), target).candidates[0].graph
    assert sum(isinstance(op, Launch) for op in best.ops) == kernels


def test_scores_are_not_of_copies() -> None:
    """Keys that are not there would have a score of zero, which may be the largest."""
    q, k, v = tensor("q", 64, 32), tensor("k", 32, 101), tensor("v", 101, 36)
    b = Builder()
    y = b.matmul(b.softmax(b.matmul(q, k), -1), v)
    found = analyze(problem_of(graph("attention", (q, k, v), b, y))[0])
    copied = [op.operands[0] for f in found for op in f.before if isinstance(op, Launch)]
    assert [c.name for c in copied] == ["v"]  # rows of 72 bytes
