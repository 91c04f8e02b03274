"""Stored values: the best of all plans, ops that remain, and kernels with several results."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import inf, prod

import numpy as np
import pytest
from example_programs.search_programs import (
    attention,
    graph,
    layer_norm_linear_gelu,
    n_transformer,
    residual_rms_linear,
    rms_linear,
    rms_swiglu_down,
    swiglu,
    tensor,
)
from mirage.cost import H200
from mirage.cost.copy_kernels import copies_in
from mirage.cost.first_bytes import after_another
from mirage.search import SearchLimits, SearchReport, StopReason, superoptimize
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.problems.one_tile import regrouped
from mirage.search.kernel.solver import KernelSolver
from mirage.search.kernel.workers import Region
from mirage.search.program import plans
from mirage.search.program.dag import Part
from mirage.search.program.parts import Program
from mirage.search.program.plans import PlanSearch
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import Concat, KernelGraph, Launch, Slice, launches
from mirage.workloads import get
from mirage.workloads.attention import qk_norm_attention
from mirage.workloads.layers import Layer, llama_layer
from mirage.workloads.served import gained_qk_norm
from mirage.workloads.workload import Workload
from thorough import some_of

SMALL = SearchLimits(columns=400, samples=1, derivations=2, plans=10_000)
GATED = rms_swiglu_down(8, 256, 512)
KERNELS: dict[object, list[Pick]] = {}
"""The kernels of ``GATED`` that have been solved so far."""


def plan_search(
    program: KernelGraph,
    limits: SearchLimits = SMALL,
    known: dict[object, list[Pick]] | None = None,
    kind: type[PlanSearch] = PlanSearch,
) -> PlanSearch:
    """``known`` contains kernels that other searches of the program have solved."""
    report = SearchReport()
    solver = KernelSolver(H200, limits, report)
    solved = {} if known is None else known

    def solve(region: Region) -> list[Pick]:
        if region.key not in solved:
            solved[region.key] = solver.solve(region.problem())
        return solved[region.key]

    seen = Program(decompose(program), H200, report)
    return kind(seen, limits, report, inf, solve, lambda _: None, lambda _: None)


def projections(rows: int = 8) -> KernelGraph:
    x, b = tensor("x", rows, 256), Builder()
    weights = [tensor(name, 256, 128) for name in ("wq", "wk", "wv")]
    normal = b.rms_norm(x)
    return graph("qkv", (x, *weights), b, *(b.matmul(normal, w) for w in weights))


@pytest.mark.parametrize(
    "program",
    some_of(
        [
            rms_linear(16, 512, 512),
            attention(2, 64, 512, 64),
            swiglu(8, 256, 256),
            projections(),
            n_transformer(8, 1024),
            residual_rms_linear(8, 512, 512),
            GATED,
        ],
        4,
    ),
    ids=lambda g: g.name,
)
def test_no_plan_is_better_when_every_part_is_solved(program: KernelGraph) -> None:
    kernels = KERNELS if program is GATED else {}
    every = plan_search(program, known=kernels)
    floor = 0
    for part in every.cuts.parts:
        bound = every.partitions.cost(part)
        cost = every.settle(part)
        floor += bound <= cost
    least, _ = every.partitions.cheapest(known=True)
    found = plan_search(program, known=kernels)
    best = found.plans()[0].time(H200)
    assert best == pytest.approx(least - after_another(H200))
    assert floor == len(every.cuts.parts)  # the estimates were lower bounds
    assert found.report.kernels <= every.report.kernels


class Patient(PlanSearch):
    """Solve all parts of each proposal."""

    def _advance(self, unsolved: list[Part], cost: float) -> None:
        super()._advance(unsolved, -inf)


def test_the_rest_of_a_hopeless_proposal_is_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    program = layer_norm_linear_gelu(8, 512, 512)
    monkeypatch.setattr(plans, "WORTH_KNOWING", 1.0)
    found, patient = plan_search(program), plan_search(program, kind=Patient)
    assert found.plans()[0].time(H200) == patient.plans()[0].time(H200)
    assert found.report.kernels < patient.report.kernels


def test_a_bound_from_a_smaller_part_saves_larger_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attention of stored queries and keys, stored before their normalization as well."""
    program = gained_qk_norm("qk_norm", 2, 256, 64, 1024).graph()
    found = plan_search(program)
    best = found.plans()[0].time(H200)
    monkeypatch.setattr(plans, "SEVERAL", inf)
    without = plan_search(program)
    assert without.plans()[0].time(H200) == best
    assert found.report.kernels < without.report.kernels


def test_worse_plans_are_known_in_case_kernels_of_the_best_one_spill() -> None:
    """A kernel that normalizes whole rows of 65,536 elements holds 128 of them in each thread; two
    kernels, the second with parts of rows, take 1.35 times as long, but do not spill."""
    found = superoptimize(get("layer_norm_n65536").graph(), H200).candidates
    pairs = [each for c in found if len(each := tuple(launches(c.graph.ops))) == 2]
    assert any(prod(axis.extent for axis in last.grid) > 2048 for _, last in pairs)


def agree(program: KernelGraph, found: KernelGraph) -> None:
    check_graph(found)
    rng = np.random.default_rng(0)
    inputs = [0.3 * rng.standard_normal(v.shape) for v in program.inputs]
    expected = evaluate_floats(program, inputs)
    for got, want in zip(evaluate_floats(found, inputs), expected, strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-11)


def test_parts_on_both_sides_of_ops_that_stay() -> None:
    x, w, b = tensor("x", 8, 64), tensor("w", 64, 64), Builder()
    y = b.rms_norm(b.matmul(x, w))
    left, right = b.slice(y, (0, 0), (8, 32)), b.slice(y, (0, 32), (8, 32))
    turned = b.concat((b.unary(UnaryFn.NEG, right), left), 1)
    program = graph("rotary", (x, w), b, b.softmax(b.binary(BinaryFn.ADD, turned, y), 1))
    result = superoptimize(program, H200)
    best = result.candidates[0].graph
    kinds = [type(op) for op in best.ops]
    assert kinds.count(Slice) == 2
    assert kinds.count(Concat) == 1
    assert set(kinds) == {Slice, Concat, Launch}
    assert kinds.index(Launch) < kinds.index(Slice)
    assert kinds[-1] is Concat  # both of its parts are results of the last kernel
    assert not copies_in(best)
    assert set(result.report.limits) == {"larger kernels"}  # of both halves, as of one before
    agree(program, best)


def test_kernels_that_share_inputs_are_one_where_that_is_faster() -> None:
    program = projections()
    (launch,) = superoptimize(program, H200).candidates[0].graph.ops
    assert isinstance(launch, Launch)
    assert len(launch.results) == 3
    two = superoptimize(program, H200, SearchLimits(outputs=2)).candidates[0].graph
    assert max(len(op.results) for op in two.ops) == 2
    agree(program, two)
    one = superoptimize(program, H200, SearchLimits(outputs=1)).candidates[0].graph
    assert max(len(op.results) for op in one.ops) == 1
    agree(program, one)


def test_results_of_one_kernel_may_have_other_dimensions() -> None:
    """Keys and values of one token, of which only the values are stored by heads."""
    x, w, v = tensor("x", 1, 1024), tensor("w", 1024, 512), tensor("v", 1024, 512)
    b = Builder()
    values = b.reshape(b.matmul(x, v), (1, 4, 1, 128))
    keys = b.unary(UnaryFn.TANH, b.matmul(x, w))
    program = graph("step", (x, w, v), b, keys, values)
    best = superoptimize(program, H200).candidates[0].graph
    (launch,) = (op for op in best.ops if isinstance(op, Launch))
    assert len(launch.results) == 2
    check_graph(best)
    agree(program, best)


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [((1, 1024), (8, 1, 128), True), ((4, 8), (8, 4), False), ((1,), (), True),
     ((2, 12), (4, 6), False), ((2, 3, 4), (6, 4), True), ((8,), (16,), False)],
)  # fmt: skip
def test_dimensions_that_are_several_of_the_others(
    first: tuple[int, ...], second: tuple[int, ...], same: bool
) -> None:
    assert regrouped(first, second) == regrouped(second, first) == same


def test_what_is_stored_for_one_kernel_may_be_shared_by_others() -> None:
    """The plan with the cheapest kernels of one result is not the one whose kernels merge best."""
    limits = SearchLimits(outputs=1)
    program = get("rms_qkv_m8").graph()
    apart = superoptimize(program, H200, limits).candidates[0]
    together = superoptimize(program, H200).candidates[0]
    assert together.cost.time < 0.95 * apart.cost.time


SIZES = Layer(64, 4, 2, 16, 128, cached=48)


def test_what_a_matmul_reads_across_its_rows_is_stored_by_rows() -> None:
    q, x, w, b = tensor("q", 64, 128), tensor("x", 1024, 256), tensor("w", 256, 128), Builder()
    scores = b.matmul(q, b.transpose(b.matmul(x, w), (1, 0)))
    program = decompose(graph("g", (q, x, w), b, scores))
    shapes = [v.shape for v in Program(program, H200, SearchReport()).nodes]
    assert (1024, 128) in shapes
    assert (128, 1024) not in shapes


@pytest.mark.parametrize(
    ("rows", "columns", "stored"),
    [(4, 32768, False), (8, 4096, False), (8, 32768, True), (2048, 4096, True)],
)
def test_factors_of_large_products_may_be_stored(rows: int, columns: int, stored: bool) -> None:
    """A value that is cheap to recompute is worth storing if two products of it take long, or if it
    consists of few rows that warpgroups multiply with much other data: these read factors from
    memory."""
    build = Builder()
    x, w, u = tensor("x", rows, 512), tensor("w", 512, columns), tensor("u", 512, columns)
    h = build.binary(BinaryFn.MUL, x, build.rms_norm(x))
    y = build.binary(BinaryFn.MUL, build.matmul(h, w), build.matmul(h, u))
    program = decompose(KernelGraph("gated", (x, w, u), tuple(build.ops), (y,)))
    nodes = Program(program, H200, SearchReport()).nodes
    normalised = [v for v in nodes if v.shape == (rows, 512)]
    assert bool(normalised) == stored


@pytest.mark.parametrize(("made", "stored"), [(qk_norm_attention, False), (gained_qk_norm, True)])
def test_factors_that_are_only_scaled_are_multiplied_as_they_are(
    made: Callable[..., Workload], stored: bool
) -> None:
    """Normalised keys are keys times a number for each key, and so is their product with queries; a
    gain is another number for each element that is summed."""
    attention = decompose(made("attention", 32, 256, 64, 4096).graph())
    nodes = Program(attention, H200, SearchReport()).nodes
    shapes = [v.shape for v in nodes]
    assert ((32, 64, 4096) in shapes or (32, 4096, 64) in shapes) == stored


def test_a_whole_layer_is_partitioned() -> None:
    program = llama_layer("layer", 2, SIZES).graph()
    result = superoptimize(program, H200, replace(SMALL, budget=600.0, matmuls=3))
    best = result.candidates[0].graph
    launches = [op for op in best.ops if isinstance(op, Launch)]
    assert len(launches) < len(program.ops) / 2
    agree(program, best)


def test_a_plan_that_stays_the_best_one_is_taken() -> None:
    def ends(limits: SearchLimits) -> tuple[bool, bool]:
        search = plan_search(GATED, limits, KERNELS)
        search.plans()
        search._settled_at = inf
        search._ended = False
        first = search._settled(1.6)
        return first, search._settled(1.3)

    assert ends(replace(SMALL, plans=10)) == (False, True)
    assert ends(SMALL) == (False, False)  # few kernels for so many plans


def test_states_that_were_not_followed_are_reported() -> None:
    result = superoptimize(rms_swiglu_down(8, 256, 512), H200, SearchLimits(cuts=2))
    assert "states of the program's cuts" in result.report.limits["cuts"]
    assert result.candidates


def test_how_good_a_plan_is_when_the_limit_ends_the_search() -> None:
    program = rms_swiglu_down(8, 256, 512)
    result = superoptimize(program, H200, SearchLimits(plans=1))
    assert result.report.stop is StopReason.LIMIT
    assert result.report.plans == 1
    assert any("faster were not excluded" in note for note in result.report.notes)
    best = superoptimize(program, H200).candidates[0].cost.time
    assert best <= result.candidates[0].cost.time


def test_the_search_leaves_what_is_hardly_better_and_more_of_it_after_half_of_its_plans() -> None:
    search = plan_search(GATED, replace(SMALL, plans=1000), KERNELS)
    search.plans()
    best, _ = search.partitions.cheapest(known=True)

    def stops(proposals: int, bound: float) -> bool:
        search._ended = False
        return search._stopped(proposals, bound * best)

    assert not stops(1, 0.98)
    assert stops(1, 0.995)
    assert not stops(499, 0.98)
    assert not stops(500, 0.9)
    assert stops(500, 0.98)
    assert stops(1000, 0.5)


def test_kernels_of_plans_that_are_hardly_better_are_not_solved(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    program = get("rms_swiglu_down_m1").graph()
    found = superoptimize(program, H200)
    monkeypatch.setattr(plans, "NEARLY", 1.0)
    patient = superoptimize(program, H200)
    assert [c.cost.time for c in found.candidates] == [c.cost.time for c in patient.candidates]
    assert found.report.kernels < patient.report.kernels
