"""Ways to compute a value: those that cannot be among the best ones are skipped."""

from __future__ import annotations

import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost import H200
from mirage.search import SearchLimits, SearchReport
from mirage.search.kernel.emission.picks import Pick
from mirage.search.kernel.estimates.derivation_costs import Measure
from mirage.search.kernel.loop_nests.columns import Columns
from mirage.search.kernel.problems.problem import Solution
from mirage.search.kernel.solver import KernelSolver
from mirage.search.kernel.workers import Region
from mirage.search.program.parts import Program
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn


def product() -> Region:
    """A sum that the grid splits needs a second kernel, which takes longer here than everything
    else."""
    x, w, b = tensor("x", 16, 64), tensor("w", 64, 64), Builder()
    program = graph("product", (x, w), b, b.matmul(x, w))
    return Program(program, H200, SearchReport()).region(program.outputs, ())


def ways(count: int | None) -> tuple[list[Pick], SearchReport]:
    report = SearchReport()
    return KernelSolver(H200, SearchLimits(), report).solve(product().problem(), count), report


def test_what_cannot_be_among_the_best_ways_is_not_looked_at() -> None:
    every, all_types = ways(None)
    some, few_types = ways(4)
    assert [p.time for p in some[:4]] == [p.time for p in every[:4]]
    assert few_types.frame_types < all_types.frame_types


def test_all_ways_are_looked_at_where_the_best_ones_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write = KernelSolver.write

    def only_split(self: KernelSolver, pick: Pick) -> Solution | None:
        draft = pick.draft
        assert draft is not None
        split = draft.kind.split is not None or draft.analysis.problem.combine
        return write(self, pick) if split else None

    monkeypatch.setattr(KernelSolver, "write", only_split)
    picks, _ = ways(4)
    assert picks
    assert picks[0].written is not None


def test_kernels_read_views_of_tensors_that_elementwise_ops_read() -> None:
    """Sequences and tokens are rows of one product, so that the kernel reads a view of both."""
    x, bias, w = tensor("x", 2, 16, 64), tensor("bias", 64), tensor("w", 64, 64)
    b = Builder()
    y = b.matmul(b.binary(BinaryFn.ADD, x, bias), w)
    program = graph("rows", (x, bias, w), b, y)
    region = Program(program, H200, SearchReport()).region(program.outputs, ())
    assert KernelSolver(H200, SearchLimits(), SearchReport()).solve(region.problem(), 4)


def attention_and_projection() -> Region:
    """The weight of the projection has rows for each head and channel: a kernel that sums over both
    cannot load it as a tile with two wide dimensions."""
    q, k, v = (tensor(name, 2, 4, 64, 32) for name in ("q", "k", "v"))
    w, b = tensor("w", 4 * 32, 64), Builder()
    scores = b.unary(UnaryFn.EXP, b.matmul(q, b.transpose(k, (0, 1, 3, 2))))
    heads = b.transpose(b.matmul(scores, v), (0, 2, 1, 3))
    program = graph("block", (q, k, v, w), b, b.matmul(b.reshape(heads, (2, 64, 128)), w))
    return Program(program, H200, SearchReport()).region(program.outputs, ())


def solved(region: Region) -> tuple[list[float], SearchReport]:
    report = SearchReport()
    picks = KernelSolver(H200, SearchLimits(), report).solve(region.problem(), 4)
    return [p.time for p in picks[:4]], report


def test_sizes_at_which_a_tensor_is_no_tile_are_not_looked_at(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times, report = solved(attention_and_projection())
    monkeypatch.setattr(Columns, "suiting", lambda self, *_: self)
    all_times, all_sizes = solved(attention_and_projection())
    assert times == all_times
    assert report.frames < all_sizes.frames
    assert report.frame_types < all_sizes.frame_types


def test_partial_results_bound_kernels_from_below(monkeypatch: pytest.MonkeyPatch) -> None:
    """Storing and adding scores of all heads in parts takes longer than anything else."""
    q, k, b = tensor("q", 8, 512, 128), tensor("k", 8, 512, 128), Builder()
    scores = b.unary(UnaryFn.EXP, b.matmul(q, b.transpose(k, (0, 2, 1))))
    program = graph("scores", (q, k), b, b.reduce(ReduceFn.SUM, scores, (2,)))
    region = Program(program, H200, SearchReport()).region(program.outputs, ())
    times, report = solved(region)
    monkeypatch.setattr(Measure, "least_partial_bytes", lambda *_: 0.0)
    all_times, every = solved(region)
    assert times == all_times
    assert report.frames < every.frames
