"""Ways to compute a value: those that cannot be among the best ones are not looked at."""

from __future__ import annotations

import pytest
from mirage.cost import H200
from mirage.search import SearchLimits, SearchReport
from mirage.search.kernel.problem import Solution
from mirage.search.kernel.solver import KernelSolver, Pick
from mirage.search.kernel.workers import Region
from mirage.search.program.parts import Program
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn
from search_programs import graph, tensor


def product() -> Region:
    """A sum that the grid splits needs a second kernel, which takes longer here than all else."""
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
