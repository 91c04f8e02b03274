"""Results of different sizes, computed by one kernel: the launches of their groups are joined."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from typing import Any

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from lowering import check_graph as check_lowered
from mirage.cost import H200
from mirage.search import SearchLimits, SearchReport, superoptimize
from mirage.search.kernel.emission import joint_kernels
from mirage.search.kernel.emission.joined_launches import joined
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.problems.one_tile import one_tile, side_by_side
from mirage.search.kernel.problems.problem import KernelProblem, Solution
from mirage.search.kernel.problems.tile_groups import groups_of
from mirage.search.kernel.solver import KernelSolver
from mirage.search.kernel.workers import Region
from mirage.search.program.parts import Program
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import (
    KernelGraph,
    Launch,
    Load,
    TensorType,
    Value,
    all_ops,
    launches,
    loops,
)

ROWS, WIDTH, COLUMNS = 4, 256, (1024, 256, 256)


def projections(rows: int = ROWS) -> KernelGraph:
    """Queries, keys and values of rows that are scaled first: 1024 and twice 256 columns."""
    b, x, gain = Builder(), tensor("x", rows, WIDTH), tensor("gain", WIDTH)
    weights = [tensor(f"w{i}", WIDTH, n) for i, n in enumerate(COLUMNS)]
    scaled = b.binary(BinaryFn.MUL, x, gain)
    products = [b.matmul(scaled, w) for w in weights]
    return graph("projections", (x, gain, *weights), b, *products)


def region(program: KernelGraph) -> Region:
    return Program(program, H200, SearchReport()).region(program.outputs, ())


@pytest.fixture(scope="module")
def program() -> KernelGraph:
    return projections()


@pytest.fixture(scope="module")
def ways(program: KernelGraph) -> list[KernelGraph]:
    """Return the ways to compute the program in one kernel."""
    solver = KernelSolver(H200, SearchLimits(columns=800), SearchReport())
    found = (solver.write(p) for p in solver.solve(region(program).problem(), 8))
    return [
        KernelGraph("joined", program.inputs, s.ops, program.outputs)
        for s in found
        if s is not None
    ]


def test_a_kernel_computes_what_the_program_does(
    program: KernelGraph, ways: list[KernelGraph]
) -> None:
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(v.shape) for v in program.inputs]
    wanted = evaluate_floats(program, inputs)
    assert ways
    for way in ways:
        check_graph(way)
        assert len(list(launches(way.ops))) == 1
        for mine, its in zip(evaluate_floats(way, inputs), wanted, strict=True):
            np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-9)


def test_what_groups_have_in_common_is_loaded_once(ways: list[KernelGraph]) -> None:
    for way in ways:
        (kernel,) = launches(way.ops)
        read = [op.operands for op in all_ops(kernel.body.ops) if isinstance(op, Load)]
        assert len({*read}) == len(read) == 5
        assert len(list(loops(kernel))) <= 1


def test_tiles_are_as_much_narrower_as_there_are_fewer_columns(ways: list[KernelGraph]) -> None:
    for way in ways:
        (kernel,) = launches(way.ops)
        widths = [o.value.shape[-1] for o in kernel.body.outputs]
        assert widths[0] == 4 * widths[1] == 4 * widths[2]


def test_the_search_finds_it() -> None:
    """With one row, the columns of each product alone keep too few multiprocessors busy."""
    best = superoptimize(projections(1), H200, SearchLimits(columns=800)).candidates[0]
    (kernel,) = launches(best.graph.ops)
    assert len(kernel.results) == 3


def test_sizes_that_do_not_divide_each_other() -> None:
    """768 and 144 columns: each of 48 blocks computes 16 and 3 of them."""
    b, x = Builder(), tensor("x", 1, WIDTH)
    weights = [tensor(f"w{i}", WIDTH, n) for i, n in enumerate((768, 144))]
    program = graph("unlike", (x, *weights), b, *(b.matmul(x, w) for w in weights))
    best = superoptimize(program, H200, SearchLimits(columns=800)).candidates[0]
    (kernel,) = launches(best.graph.ops)
    widths = [o.value.shape[-1] for o in kernel.body.outputs]
    assert 3 * widths[0] == 16 * widths[1]
    check_lowered(best.graph, program)


def test_the_best_common_sizes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of 4096 and 1024 columns: no kernel is possible at the sizes that are the fastest
    for both alone, and others are not far from the best of all."""
    b, x = Builder(), tensor("x", 8, 4096)
    weights = [tensor(f"w{i}", 4096, n) for i, n in enumerate((4096, 1024))]
    program = graph("unlike", (x, *weights), b, *(b.matmul(x, w) for w in weights))
    problem = region(program).problem()

    def best() -> float:
        picks = KernelSolver(H200, SearchLimits(columns=800), SearchReport()).solve(problem, 8)
        return picks[0].time

    usual = best()
    monkeypatch.setattr(joint_kernels, "WRITTEN", 1000)
    assert usual <= 1.01 * best()


def test_drafts_that_cost_the_same_are_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is found does not change, and many fewer kernels are written."""
    problem, written = region(projections()).problem(), list[object]()
    usual = joint_kernels.JointKernels._joint

    def counted(self: joint_kernels.JointKernels, drafts: Any) -> Solution | None:
        written.append(drafts)
        return usual(self, drafts)

    def best() -> tuple[float, int]:
        written.clear()
        picks = KernelSolver(H200, SearchLimits(columns=800), SearchReport()).solve(problem, 1)
        return picks[0].time, len(written)

    monkeypatch.setattr(joint_kernels.JointKernels, "_joint", counted)
    time, few = best()
    monkeypatch.setattr(joint_kernels, "FASTER", inf)
    assert best()[0] == time
    assert few < 0.7 * len(written)


def test_groups_have_tiles_in_common(program: KernelGraph) -> None:
    problem = region(program).problem()
    groups = groups_of(problem)
    assert [g.outputs for g in groups] == [problem.outputs[:1], problem.outputs[1:]]
    assert [g.narrower for g in groups] == [1, 4]
    for group in groups:
        assert {*group.leaves} < {*problem.leaves}
    (same,) = groups_of(groups[1])
    assert same is groups[1]


@pytest.fixture(scope="module")
def pair() -> tuple[Launch, Launch]:
    """The kernels of two products of one factor."""
    b, x = Builder(), tensor("x", 16, WIDTH)
    weights = [tensor(f"w{i}", WIDTH, 512) for i in range(2)]
    solver = KernelSolver(H200, SearchLimits(columns=800), SearchReport())
    found: list[Launch] = []
    for w in weights:
        y = b.matmul(x, w)
        program = KernelGraph("product", (x, w), (b.ops[-1],), (y,))
        solution = next(
            s for p in solver.solve(region(program).problem()) if (s := solver.write(p))
        )
        found += launches(solution.ops)
    first, second = found
    return first, second


def test_kernels_that_do_not_correspond_stay_apart(pair: tuple[Launch, Launch]) -> None:
    first, second = pair
    assert joined(first, second) is not None
    warps = replace(second, schedule=replace(second.schedule, warps=1 + second.schedule.warps))
    assert joined(first, warps) is None
    assert joined(first, replace(second, grid=second.grid[1:])) is None
    (loop,) = loops(second)
    longer = replace(loop, axis=replace(loop.axis, extent=1 + loop.axis.extent))
    steps = [longer if op is loop else op for op in second.body.ops]
    assert joined(first, replace(second, body=replace(second.body, ops=tuple(steps)))) is None
    twice = replace(second, operands=(second.operands[0],) * 2)
    assert joined(twice, first) is None


def test_which_values_are_computed_side_by_side() -> None:
    def of(*shape: int) -> TensorType:
        return TensorType(shape, DType.BF16)

    assert one_tile(of(4, 1024), of(4, 1))
    assert one_tile(of(1024), of(8, 128))
    assert not one_tile(of(4, 1024), of(4, 256))
    assert one_tile(of(4, 1024), of(4, 64, 1))  # a number for each part of a row
    assert not one_tile(of(4, 1024), of(4, 60, 1))
    assert not one_tile(of(4, 1024), of(2, 64, 1))
    assert side_by_side(of(4, 1024), of(4, 256))
    assert side_by_side(of(4, 256), of(4, 1024))
    assert side_by_side(of(1, 3072), of(1, 576))  # 192 blocks of 16 and 3 columns
    assert not side_by_side(of(4, 1024), of(4, 760))  # not the same number of blocks
    assert not side_by_side(of(1, 4096), of(1, 16))  # tiles of no columns


def test_a_group_is_solved_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Queries are joined to keys, and to keys and values: the second time they are known, and the
    kernels are the same as without this."""
    solved: list[tuple[Value, ...]] = []
    solve = KernelSolver.solve

    def counted(
        self: KernelSolver, problem: KernelProblem, *count: int, to_join: bool = False
    ) -> list[Pick]:
        solved.append(problem.outputs)
        return solve(self, problem, *count, to_join=to_join)

    def times(solver: KernelSolver, outputs: tuple[Value, ...]) -> list[float]:
        part = Program(program, H200, SearchReport()).region(outputs, ())
        return [pick.time for pick in solver.solve(part.problem())]

    monkeypatch.setattr(KernelSolver, "solve", counted)
    program = projections()
    queries, keys, _ = program.outputs
    solver, other = (KernelSolver(H200, SearchLimits(columns=800), SearchReport()) for _ in "ab")
    assert times(solver, program.outputs)
    assert times(solver, (queries, keys))
    assert solved.count((queries,)) == 1
    assert times(solver, (queries, keys)) == times(other, (queries, keys))
