"""Nested loops: a sum over a long axis within each step of a loop over another one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import numpy as np
import pytest
from example_programs.search_programs import attention, graph, program_id, rms_swiglu_down, tensor
from lowering import check_graph as check_lowering
from mirage.cost import H200, check_launch, estimate, features_of
from mirage.search import SearchLimits, superoptimize
from mirage.search.algebra.axes import AxisTable
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.loop_nests.nested import nested_types
from mirage.search.kernel.loop_nests.problem_axes import analyze
from mirage.search.kernel.problems.problem import KernelProblem, Solution
from mirage.search.kernel.solver import KernelSolver
from mirage.search.limits import SearchReport
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch, Load, Loop, Matmul, Unary, all_ops
from mirage.transforms import stabilize
from mirage.verify import VerifyOptions, verify
from mirage.verify.verdict import Kind
from mirage.workloads import get
from thorough import some_of


def mlp(m: int, k: int, h: int, n: int) -> KernelGraph:
    """``silu(x w1) w2``."""
    x, w1, w2, b = tensor("x", m, k), tensor("w1", k, h), tensor("w2", h, n), Builder()
    return graph("mlp", (x, w1, w2), b, b.matmul(b.unary(UnaryFn.SILU, b.matmul(x, w1)), w2))


def gated(m: int, k: int, h: int, n: int, norm: bool) -> KernelGraph:
    """A gated network, with or without a norm before it."""
    x, w1, w2, w3 = tensor("x", m, k), tensor("w1", k, h), tensor("w2", k, h), tensor("w3", h, n)
    b = Builder()
    y = b.rms_norm(x) if norm else x
    u = b.binary(BinaryFn.MUL, b.unary(UnaryFn.SILU, b.matmul(y, w1)), b.matmul(y, w2))
    return graph("rms_gated" if norm else "gated", (x, w1, w2, w3), b, b.matmul(u, w3))


def activated_norm(m: int, k: int, h: int, n: int) -> KernelGraph:
    """A function between the norm and the product: the norm must be computed before the nest."""
    x, w1, w2, b = tensor("x", m, k), tensor("w1", k, h), tensor("w2", h, n), Builder()
    y = b.unary(UnaryFn.SILU, b.rms_norm(x))
    hidden = b.unary(UnaryFn.TANH, b.matmul(y, w1))
    return graph("activated_norm", (x, w1, w2), b, b.matmul(hidden, w2))


def biased(m: int, k: int, h: int, n: int) -> KernelGraph:
    """Vectors along both looped axes."""
    x, w1, w2 = tensor("x", m, k), tensor("w1", k, h), tensor("w2", h, n)
    c, e, b = tensor("c", h), tensor("e", k), Builder()
    y = b.binary(BinaryFn.ADD, b.matmul(b.binary(BinaryFn.MUL, x, e), w1), c)
    return graph("biased", (x, w1, w2, c, e), b, b.matmul(b.unary(UnaryFn.EXP, y), w2))


def kernel_machine(m: int, k: int, h: int, n: int) -> KernelGraph:
    """``exp(-|x - y|^2) w``: squares of the rows and of the support points, summed separately."""
    x, y, w, b = tensor("x", m, k), tensor("y", h, k), tensor("w", h, n), Builder()
    own, its = (b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, v), (1,)) for v in (x, y))
    twice = b.binary(BinaryFn.MUL, b.constant(2.0), b.matmul(x, b.transpose(y, (1, 0))))
    sums = b.binary(BinaryFn.ADD, own, b.transpose(its, (1, 0)))
    distance = b.binary(BinaryFn.SUB, sums, twice)
    e = b.unary(UnaryFn.EXP, b.binary(BinaryFn.MUL, distance, b.constant(-0.01)))
    return graph("kernel_machine", (x, y, w), b, b.matmul(e, w))


def problem_of(program: KernelGraph) -> tuple[KernelProblem, KernelGraph]:
    plain = decompose(program)
    definitions = {r: op for op in plain.ops for r in op.results}
    table = AxisTable.of(plain)
    return KernelProblem(plain.outputs, plain.inputs, definitions, table), plain


def solved(program: KernelGraph, count: int) -> Iterator[tuple[str, KernelGraph, Solution, Pick]]:
    """Return up to ``count`` graphs of each type of nest that can be emitted."""
    problem, plain = problem_of(program)
    solver = KernelSolver(H200, SearchLimits(), SearchReport())
    kinds: dict[str, int] = {}
    for pick in solver.solve(problem):
        assert pick.draft is not None
        kind = str(pick.draft.kind)
        solution = None
        if pick.draft.kind.inner is not None and kinds.get(kind, 0) < count:
            solution = solver.write(pick)
        if solution is not None:
            kinds[kind] = kinds.get(kind, 0) + 1
            yield kind, KernelGraph("", program.inputs, solution.ops, plain.outputs), solution, pick


def nests(candidate: KernelGraph) -> list[tuple[Loop, Loop]]:
    """Return outer and inner loops."""
    return [
        (loop, inner)
        for op in candidate.ops
        if isinstance(op, Launch)
        for loop in op.body.ops
        if isinstance(loop, Loop)
        for inner in loop.body
        if isinstance(inner, Loop)
    ]


SMALL = [
    mlp(3, 160, 200, 16),
    gated(5, 160, 200, 24, norm=False),
    gated(5, 256, 256, 24, norm=True),
    attention(2, 24, 300, 136),
    activated_norm(4, 150, 150, 16),
    biased(7, 144, 256, 32),
    kernel_machine(5, 144, 256, 8),
]


def test_a_wide_hidden_layer_is_one_kernel_with_a_nest() -> None:
    """Even a block's part is too wide for a tile, and rows are too long for one."""
    best = superoptimize(mlp(8, 4096, 262144, 64), H200).candidates[0].graph
    first, combine = (op for op in best.ops if isinstance(op, Launch))
    ((outer, inner),) = nests(best)
    assert [op.result.shape[-2] for op in inner.body if isinstance(op, Matmul)] == [8]
    assert len(inner.accumulators) == len(outer.accumulators) == 1
    assert sum(isinstance(op, Matmul) for op in outer.body) == 1
    assert any(axis.name == f"{outer.axis.name}_part" for axis in first.grid)
    assert not any(isinstance(op, Matmul) for op in all_ops(combine.body.ops))


def test_a_hidden_layer_whose_parts_fit_needs_no_nest() -> None:
    best = superoptimize(mlp(8, 2048, 32768, 64), H200).candidates[0].graph
    first, _ = (op for op in best.ops if isinstance(op, Launch))
    assert not nests(best)
    assert [axis.extent for axis in first.grid] >= [128]


def test_norm_gated_layer_and_projection_are_one_kernel() -> None:
    best = superoptimize(gated(8, 1024, 131072, 64, norm=True), H200).candidates[0].graph
    first, combine = (op for op in best.ops if isinstance(op, Launch))
    ((outer, inner),) = nests(best)
    assert len(first.operands) == 4
    assert len(inner.accumulators) == 2
    assert UnaryFn.SILU in [op.fn for op in outer.body if isinstance(op, Unary)]
    assert not any(isinstance(op, Matmul) for op in all_ops(combine.body.ops))


@pytest.mark.parametrize("program", some_of(SMALL, every=2), ids=program_id)
def test_nests_compute_the_program(program: KernelGraph) -> None:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) * 0.5 for v in program.inputs]
    (expected,) = evaluate_floats(program, inputs)
    kinds: set[str] = set()
    for kind, candidate, _, _ in solved(program, 4):
        check_graph(candidate)
        for op in candidate.ops:
            if isinstance(op, Launch):
                check_launch(op, H200)
        assert nests(candidate)
        (got,) = evaluate_floats(candidate, inputs)
        np.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-10, err_msg=kind)
        kinds.add(kind)
    assert any(kind.endswith("grid sum -") for kind in kinds), kinds
    assert any(not kind.endswith("grid sum -") for kind in kinds), kinds  # partial sums


@pytest.mark.parametrize("program", some_of(SMALL[2:4], every=2), ids=program_id)
def test_nests_are_proved_stabilised_and_compiled(program: KernelGraph) -> None:
    for kind, candidate, _, _ in solved(program, 1):
        stable = stabilize(candidate)
        assert not stable.unstable
        verdict = verify(program, stable.graph, VerifyOptions(seed=0))
        assert verdict.kind is Kind.PROVED, verdict
        check_lowering(stable.graph, program, chip="sm_80" if "grid sum -" in kind else "sm_90a")


def test_a_norm_has_a_loop_of_its_own_before_the_nest() -> None:
    """It is the same at every step of the outer loop."""
    _, candidate, _, _ = next(solved(gated(5, 256, 256, 24, norm=True), 1))
    launch = next(op for op in candidate.ops if isinstance(op, Launch))
    first, outer = (op for op in launch.body.ops if isinstance(op, Loop))
    ((_, inner),) = nests(candidate)
    assert not any(isinstance(op, Matmul) for op in first.body)
    assert first.axis.extent == inner.axis.extent
    assert len(inner.accumulators) == 2
    assert outer.axis.name != inner.axis.name != first.axis.name


def test_the_inner_loop_is_paid_at_each_step_of_the_outer_one() -> None:
    _, candidate, _, pick = next(solved(mlp(3, 160, 200, 16), 1))
    launch = next(op for op in candidate.ops if isinstance(op, Launch))
    ((outer, inner),) = nests(candidate)
    f = features_of(launch)
    loads = [op for op in inner.body if isinstance(op, Load)]
    assert f.steps == outer.axis.extent * inner.axis.extent
    assert f.runs == outer.axis.extent
    read = sum(op.result.type.bytes for op in loads)
    assert f.load_step == pytest.approx(read)  # rows of x again at each outer step
    outside = [op for op in outer.body if isinstance(op, Load)]
    assert f.load_once == sum(op.result.type.bytes for op in outside) * outer.axis.extent
    # and the search has counted the same
    assert pick.draft is not None
    features, _, _ = pick.draft.measure.features(pick.draft.edges, ())
    counted = features.at(pick.draft.column)
    for name in ("steps", "runs", "load_step", "load_once", "mma_step", "mma_once", "sfu_once"):
        assert getattr(counted, name) == getattr(f, name), name


def test_starting_the_inner_loop_again_costs_time() -> None:
    _, candidate, _, _ = next(solved(mlp(3, 160, 200, 16), 1))
    launch = next(op for op in candidate.ops if isinstance(op, Launch))
    f = features_of(launch)
    more = replace(f, runs=f.runs + 10.0)
    assert estimate(more, H200)["time"] > estimate(f, H200)["time"] + 5.0 * H200.step_latency


def test_nests_that_cannot_win_are_not_tried() -> None:
    def types(program: KernelGraph, best: float = inf) -> list[str]:
        problem, _ = problem_of(program)
        return [str(kind) for kind in nested_types(analyze(problem)[0], H200, best)]

    assert types(mlp(8, 2048, 32768, 64)) == [
        "loop n around k, grid sum -",
        "loop n around k, grid sum n",
    ]
    assert not types(mlp(8, 2048, 32768, 64), best=20.0)  # its bytes alone take longer
    assert not types(mlp(8, 128, 32768, 64))  # rows fit a tile
    assert not types(rms_swiglu_down(8, 4096, 14336))  # 16 tiles of columns, each from all of it
    assert not types(attention(2, 256, 4096, 64))
    assert not types(get("rms_silu_linear_m8").graph())  # both sums are over one axis
