"""Factors whose rows start at odd elements, copied into rows from which boxes can be copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from example_programs.search_programs import graph, matmul, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from lowering import check_graph as check_lowering
from mirage.cost import A100, H200, check_launch
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.loop_nests.problem_axes import analyze
from mirage.search.kernel.problems.aligned import (
    LINE_BYTES,
    MOST_LONGER,
    ROW_BYTES,
    aligned_copies,
    aligned_type,
    may_align,
)
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchReport
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, Launch, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.verdict import Kind
from mirage.workloads import get
from thorough import some_of


def copies_of(*sources: Value) -> tuple[list[Launch], KernelGraph]:
    made = aligned_copies([(v, Value(aligned_type(v.type), v.name)) for v in sources])
    results = tuple(r for launch in made for r in launch.results)
    return made, KernelGraph("copy", sources, tuple(made), results)


def problem_of(program: KernelGraph) -> tuple[KernelProblem, KernelGraph]:
    plain = decompose(program)
    definitions = {r: op for op in plain.ops for r in op.results}
    return KernelProblem(plain.outputs, plain.inputs, definitions, AxisTable.of(plain)), plain


@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=2),
    st.lists(st.tuples(st.integers(1, 300), st.integers(17, 1100)), min_size=1, max_size=3),
    st.sampled_from([DType.F16, DType.BF16, DType.F32]),
)  # fmt: skip
@settings(max_examples=60, deadline=None)
def test_copies_end_their_rows_with_zeros(
    batch: list[int], matrices: list[tuple[int, int]], dtype: DType
) -> None:
    types = [TensorType((*batch[1:], rows, columns), dtype) for rows, columns in matrices]
    sources = [Value(t, f"x{i}") for i, t in enumerate(types) if may_align(t)]
    if not sources:
        return
    copies, program = copies_of(*sources)
    check_graph(program)
    assert len(copies) == 1  # of the same batches
    check_launch(copies[0], H200)
    inputs: list[Any] = [np.random.default_rng(0).standard_normal(v.shape) for v in sources]
    for x, got in zip(inputs, evaluate_floats(program, inputs), strict=True):
        columns = x.shape[-1]
        assert got.shape[-1] * dtype.bytes % ROW_BYTES == 0
        np.testing.assert_array_equal(got[..., :columns], x)
        assert not got[..., columns:].any()


@given(st.integers(17, 5000), st.sampled_from([DType.F16, DType.F32]))
def test_rows_become_whole_lines_where_that_is_little(columns: int, dtype: DType) -> None:
    longer = aligned_type(TensorType((3, columns), dtype)).shape[-1]
    lines = -(-columns * dtype.bytes // LINE_BYTES) * LINE_BYTES // dtype.bytes
    least = -(-columns * dtype.bytes // ROW_BYTES) * ROW_BYTES // dtype.bytes
    assert longer == lines or (least <= longer < lines and lines > MOST_LONGER * columns)
    assert longer <= max(MOST_LONGER * columns, least)


def test_other_batches_are_copied_by_another_kernel() -> None:
    copies, program = copies_of(tensor("x", 3, 7, 35), tensor("y", 9, 67), tensor("z", 3, 9, 67))
    assert [len(launch.results) for launch in copies] == [2, 1]
    check_graph(program)


@pytest.mark.parametrize(
    "shapes",
    [
        [(7, 35)],
        [(3, 5, 41)],
        [(33, 521)],
        [(2, 1027)],
        [(67, 35), (9, 257)],
        [(3, 5, 41), (3, 9, 19)],
    ],
)
def test_the_copies_are_compiled(shapes: list[tuple[int, ...]]) -> None:
    check_lowering(copies_of(*(tensor(f"x{i}", *s) for i, s in enumerate(shapes)))[1])


@pytest.mark.parametrize(
    ("m", "n", "k", "ways"),
    [(65, 67, 69, 2), (64, 67, 72, 2), (64, 72, 67, 2), (64, 72, 64, 1), (1, 72, 67, 1)],
)
def test_only_factors_at_odd_places_are_copied(m: int, n: int, k: int, ways: int) -> None:
    """One row may be of any length."""
    found = analyze(problem_of(matmul(m, k, n))[0])
    assert len(found) == ways
    copied = [v.shape for op in found[-1].before if isinstance(op, Launch) for v in op.operands]
    assert copied == [(m, k)] * (k % 8 != 0 and m > 1) + [(k, n)] * (n % 8 != 0)
    assert len([op for op in found[-1].before if isinstance(op, Launch)]) <= 1


def test_what_no_product_reads_is_not_copied() -> None:
    x, b = tensor("x", 33, 931), Builder()
    assert len(analyze(problem_of(graph("softmax", (x,), b, b.softmax(x, -1)))[0])) == 1


@pytest.mark.parametrize(("m", "n", "k"), some_of([(193, 195, 261), (129, 264, 517)], every=2))
def test_products_of_copies_compute_the_program(m: int, n: int, k: int) -> None:
    """Each kind of frame with such a copy: evaluated, verified, and the first one run."""
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
    [
        ("mm_4095x4095x4095", H200, 2),
        ("mm_583x931x257", H200, 2),
        ("mm_1000_bf16", H200, 1),  # pairs of blocks read the lines that tiles share once
        ("mm_1024", H200, 1),
        ("mm_4096", H200, 1),
        ("mm_583x931x257", A100, 1),  # the left factor keeps the offsets of its rows within lines
        ("mm_1000_bf16", A100, 1),
    ],
)
def test_copies_are_made_where_they_pay(name: str, target: Any, kernels: int) -> None:
    best = superoptimize(get(name).graph(), target).candidates[0].graph
    assert sum(isinstance(op, Launch) for op in best.ops) == kernels


def test_scores_are_not_of_copies() -> None:
    """Missing keys would have a score of zero, which may be the largest."""
    q, k, v = tensor("q", 64, 32), tensor("k", 32, 101), tensor("v", 101, 36)
    b = Builder()
    y = b.matmul(b.softmax(b.matmul(q, k), -1), v)
    found = analyze(problem_of(graph("attention", (q, k, v), b, y))[0])
    copied = [v for f in found for op in f.before if isinstance(op, Launch) for v in op.operands]
    assert [c.name for c in copied] == ["v"]  # rows of 72 bytes
