"""Kernels that add up partial sums, joined with those that read the results."""

from __future__ import annotations

import pytest
from example_programs.search_programs import graph, tensor
from lowering import check_graph as check_lowered
from mirage.cost import H200
from mirage.search import Planner, SearchLimits
from mirage.search.best_candidates import Candidate
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import KernelGraph, Launch, Value, launches
from thorough import some_of

LIMITS = SearchLimits(columns=1500, candidates=2)
ROWS, DEPTH, WIDTH = 16, 8192, 1024


def program(*, shown: bool = True, multiplied: bool = False) -> KernelGraph:
    """A product with a residual and its norm with a gain, or a product of the sum; the sum may be
    ``shown``, which means that it is a result, too."""
    x, w, r = tensor("x", ROWS, DEPTH), tensor("w", DEPTH, WIDTH), tensor("r", ROWS, WIDTH)
    gain, v, b = tensor("gain", WIDTH), tensor("v", WIDTH, 64), Builder()
    total = b.binary(BinaryFn.ADD, r, b.matmul(x, w))
    if multiplied:
        y, more = b.matmul(total, v), v
    else:
        y, more = b.binary(BinaryFn.MUL, b.rms_norm(total), gain), gain
    return graph("sums", (x, w, r, more), b, *((total, y) if shown else (y,)))


def best(given: KernelGraph) -> tuple[Planner, Candidate]:
    planner = Planner(given, H200, LIMITS)
    return planner, planner.run().candidates[0]


def kernels(candidate: Candidate) -> list[Launch]:
    return list(launches(candidate.graph.ops))


@pytest.mark.parametrize("shown", some_of([True, False], every=2))
def test_a_norm_adds_up_the_partial_sums_of_its_rows(shown: bool) -> None:
    given = program(shown=shown)
    _, found = best(given)
    product, norm = kernels(found)
    (partial,) = product.results
    assert partial.shape[1:] == (ROWS, WIDTH)
    assert partial in norm.operands
    assert len(norm.results) == 1 + shown
    check_lowered(found.graph, given)


def test_a_product_reads_the_sum() -> None:
    _, found = best(program(multiplied=True))
    for launch in kernels(found):
        assert len(launch.results) == 1


def test_joined_kernels_that_are_refused_are_apart() -> None:
    planner, found = best(program())
    joined = found.pick_of(kernels(found)[-1])
    assert joined is not None
    apart = planner.again([joined], 60.0).candidates[0]
    assert len(kernels(apart)) == 3
    assert apart.cost.time > found.cost.time
    assert apart.pick_of(kernels(apart)[-1]) is not joined


def test_nothing_is_joined_across_what_is_not_there_yet() -> None:
    """The second factor of the scale is computed between both kernels."""
    x, w, r = tensor("x", ROWS, DEPTH), tensor("w", DEPTH, WIDTH), tensor("r", ROWS, WIDTH)
    u, b = tensor("u", WIDTH, WIDTH), Builder()
    total = b.matmul(x, w)
    other = b.matmul(b.binary(BinaryFn.ADD, total, r), u)
    y = b.binary(BinaryFn.MUL, b.rms_norm(total), other)
    given = graph("across", (x, w, r, u), b, y)
    _, found = best(given)
    made = {*given.inputs}
    for op in found.graph.ops:
        assert made.issuperset(op.operands)
        made.update(op.results)


def test_combine_programs_are_renamed_with_their_kernels() -> None:
    planner, _ = best(program())
    written = (planner.solver.write(p) for picks in planner.memo.values() for p in picks)
    found = next(s for s in written if s is not None and s.combined is not None)
    (partial,) = next(launches(found.ops)).results
    assert found.combined is not None
    assert partial in found.combined.inputs
    other = found.renamed({v: Value(v.type) for v in found.combined.outputs})
    assert other.combined is not None
    (renamed,) = next(launches(other.ops)).results
    assert renamed is not partial
    assert renamed in other.combined.inputs
    assert {*other.combined.outputs}.isdisjoint(found.combined.outputs)
