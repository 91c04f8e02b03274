"""Rows that a block reads in a loop, for sums, and again as whole tiles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from example_programs.search_programs import graph, tensor
from lowering import check_graph as check_lowering
from mirage.cost import H200
from mirage.search import SearchLimits
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel import solver as solvers
from mirage.search.kernel.loop_nests.frames import FrameType
from mirage.search.kernel.loop_nests.problem_axes import Analysis, analyze
from mirage.search.kernel.problems.problem import KernelProblem
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchReport
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Load, Loop, Op, Unary, launches
from mirage.verify import VerifyOptions, verify
from mirage.verify.verdict import Kind
from mirage.workloads import get

ROWS, COLUMNS = 3, 2048


def softmax() -> KernelGraph:
    x, b = tensor("x", ROWS, COLUMNS), Builder()
    return graph("softmax", (x,), b, b.softmax(x, -1))


def centered() -> KernelGraph:
    """Rows minus their means, divided by the roots of the sums of the squares of these
    differences."""
    x, b = tensor("x", ROWS, COLUMNS), Builder()
    total = b.reduce(ReduceFn.SUM, x, (1,))
    away = b.binary(BinaryFn.SUB, x, b.binary(BinaryFn.MUL, total, b.constant(1.0 / COLUMNS)))
    squares = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, away), (1,))
    result = b.binary(BinaryFn.MUL, away, b.unary(UnaryFn.RSQRT, squares))
    return graph("centered", (x,), b, result)


def so_far() -> KernelGraph:
    """Running sums need whole rows for another reason."""
    x, b = tensor("x", ROWS, COLUMNS), Builder()
    along = b.cumulate(ReduceFn.SUM, x, 1)
    total = b.reduce(ReduceFn.MAX, x, (1,))
    return graph("so_far", (x,), b, b.binary(BinaryFn.SUB, along, total))


def problem_of(plain: KernelGraph) -> KernelProblem:
    definitions = {r: op for op in plain.ops for r in op.results}
    return KernelProblem(plain.outputs, plain.inputs, definitions, AxisTable.of(plain))


def read_twice(program: KernelGraph, held: float) -> list[Analysis]:
    return [a for a in analyze(problem_of(decompose(program)), held=held) if a.use.twice]


@pytest.mark.parametrize("program", [softmax(), centered()])
def test_sums_over_long_rows_of_the_result_read_them_apart(program: KernelGraph) -> None:
    assert not read_twice(program, COLUMNS + 1)
    (analysis,) = read_twice(program, COLUMNS)
    (axis,) = analysis.use.twice
    assert axis in analysis.use.reduced
    (whole,) = analysis.use.mixed
    assert whole in analysis.use.free
    assert {a.dims[-1] for a in analysis.reads} == {(axis,), (whole,)}
    assert analysis.has(FrameType(axis, None))
    assert not analysis.has(FrameType(None, None))
    assert not analysis.has(FrameType(axis, axis))


def test_rows_that_are_whole_for_another_reason_are_not_read_twice() -> None:
    assert not read_twice(so_far(), COLUMNS)
    x, b = tensor("x", COLUMNS, ROWS), Builder()
    assert not read_twice(graph("sum", (x,), b, b.reduce(ReduceFn.SUM, x, (0,))), 2)


def kernels(program: KernelGraph, monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelGraph]:
    """The fastest for each number of loops, with rows that do not fit into registers."""
    monkeypatch.setattr(solvers, "HELD_ROW", COLUMNS / H200.registers_sm)
    solver = KernelSolver(H200, SearchLimits(), SearchReport())
    plain = decompose(program)
    picks = solver.solve(problem_of(plain))
    twice = [p for p in picks if p.draft is not None and p.draft.analysis.use.twice]
    assert twice
    for pick in twice[:2]:
        solution = solver.write(pick)
        assert solution is not None
        yield KernelGraph("found", plain.inputs, solution.ops, plain.outputs)


@pytest.mark.parametrize("program", [softmax(), centered()])
def test_kernels_compute_the_program(program: KernelGraph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checked, verified, and run with all checks."""
    for found in kernels(program, monkeypatch):
        check_graph(found)
        (launch,) = launches(found.ops)
        loaded = [op.result.shape[-1] for op in launch.body.ops if isinstance(op, Load)]
        assert loaded == [COLUMNS]
        assert any(isinstance(op, Loop) for op in launch.body.ops)
        assert verify(program, found, VerifyOptions(draws=1)).kind in (Kind.PROVED, Kind.PROBABLE)
        check_lowering(found)


def test_what_is_summed_must_be_what_is_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin whose first pass computes another function of the elements."""
    found = next(kernels(softmax(), monkeypatch))
    (launch,) = launches(found.ops)

    def other(op: Op) -> Op:
        match op:
            case Loop():
                return replace(op, body=tuple(map(other, op.body)))
            case Unary(fn=UnaryFn.EXP):
                return replace(op, fn=UnaryFn.SIGMOID)
            case _:
                return op

    ops = tuple(other(op) if isinstance(op, Loop) else op for op in launch.body.ops)
    wrong = replace(launch, body=replace(launch.body, ops=ops))
    twin = replace(found, ops=(wrong,))
    assert verify(softmax(), twin, VerifyOptions(draws=1)).kind is Kind.REFUTED


def test_a_gain_beside_the_row_takes_no_shared_memory() -> None:
    """RMSNorm of 65,536 columns: both would exceed an SM's shared memory, and go to registers."""
    plain = decompose(get("rms_norm_n65536").graph())
    picks = KernelSolver(H200, SearchLimits(), SearchReport()).solve(problem_of(plain))
    assert any(p.draft is not None and p.draft.analysis.use.twice for p in picks)
