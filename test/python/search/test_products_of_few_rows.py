"""Products of fewer rows than warpgroups multiply at a time: the other factor provides the rows."""

from __future__ import annotations

from math import prod

import pytest
from lowering import check_graph
from mirage.cost.target import H200
from mirage.frontend.kernel_graph import new_kernel_graph
from mirage.search.limits import SearchLimits
from mirage.search.superoptimize import superoptimize
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, Launch, Matmul, all_ops
from thorough import some_of

LIMITS = SearchLimits(candidates=3, columns=1500)


def layer(m: int, k: int, n: int, *, scaled: bool = False, gain: bool = False) -> KernelGraph:
    """A linear layer, possibly with scaled rows and with gains of columns."""
    graph = new_kernel_graph("layer")
    x = graph.new_input((m, k), DType.F16, name="x")
    w = graph.new_input((n, k), DType.F16, name="w")
    factor = graph.mul(x, graph.new_input((k,), DType.F16, name="g")) if gain else x
    y = graph.matmul(factor, graph.transpose(w, 1, 0))
    if scaled:
        y = graph.mul(y, graph.new_input((m, 1), DType.F16, name="s"))
    graph.mark_output(graph.silu(y))
    return graph.build()


def by_groups(graph: KernelGraph) -> list[KernelGraph]:
    """Return the candidates whose warpgroups multiply."""
    found = (c.graph for c in superoptimize(graph, H200, LIMITS).candidates)
    launches = ((g, [op for op in g.ops if isinstance(op, Launch)]) for g in found)
    return [g for g, own in launches if any(x.schedule.warpgroups for x in own)]


@pytest.mark.parametrize("m", [8, 16, 32, 48])
def test_the_factor_with_more_rows_is_the_left_one(m: int) -> None:
    first = by_groups(layer(m, 4096, 8192))[0]
    launch = next(op for op in first.ops if isinstance(op, Launch) and op.schedule.warpgroups)
    (product,) = (op for op in all_ops(launch.body.ops) if isinstance(op, Matmul))
    rows, columns = product.result.shape[-2:]
    assert rows % 64 == 0
    assert columns % 8 == 0
    assert columns <= m


@pytest.mark.parametrize(("m", "groups"), [(12, False), (15, True), (31, True), (55, True)])
def test_columns_come_in_eights(m: int, groups: bool) -> None:
    """At most one of eight lies beyond the end."""
    assert bool(by_groups(layer(m, 4096, 8192))) == groups


def test_few_blocks_are_left_to_warps() -> None:
    """32 blocks of 64 rows would fill one multiprocessor of a pair each, or both of few pairs."""
    for graph in by_groups(layer(32, 1024, 2048)):
        own = [op for op in graph.ops if isinstance(op, Launch) and op.schedule.warpgroups]
        assert all(prod(axis.extent for axis in x.grid) > 66 for x in own)


def test_a_computed_factor_is_the_left_one() -> None:
    """It is in registers, as it would be if it had too few rows."""
    assert not by_groups(layer(32, 4096, 8192, gain=True))


@pytest.mark.parametrize(
    ("m", "scaled"), some_of([(16, False), (16, True), (31, False), (31, True)], every=2)
)
def test_results_are_those_of_the_layer(m: int, scaled: bool) -> None:
    graph = layer(m, 256, 4352, scaled=scaled)
    candidates = by_groups(graph)
    assert candidates
    check_graph(candidates[0], graph)
