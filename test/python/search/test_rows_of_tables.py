"""Rows that are looked up several times are read from device memory once."""

from __future__ import annotations

from math import prod

from mirage.cost import H200, features_of
from mirage.cost.cost_report import CostReport
from mirage.cost.counted_ops import rows_read
from mirage.frontend.kernel_graph import GraphBuilder
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, launches
from mirage.transforms.lookups import fused

LIMITS = SearchLimits(columns=400, samples=1, derivations=2, candidates=2)
EXPERTS, WIDTH, INNER, ROWS = 2, 1024, 2048, 128


def products(blocks: int) -> KernelGraph:
    """Blocks of rows, each multiplied by the matrix of one of a few experts."""
    g = GraphBuilder("experts")
    x = g.new_input((blocks, ROWS, WIDTH), DType.BF16, name="x")
    owner = g.new_input((blocks,), DType.I64, name="owner")
    w = g.new_input((EXPERTS, WIDTH, INNER), DType.BF16, name="w")
    g.mark_output(x @ g.gather(w, owner))
    return g.build()


def product_of(graph: KernelGraph) -> tuple[KernelGraph, CostReport]:
    """Return the best candidate, and the cost of its only kernel."""
    best = superoptimize(graph, H200, LIMITS).candidates[0]
    (cost,) = (part for part in best.cost.parts if part.shared)
    return best.graph, cost


def test_a_row_that_is_named_again_is_read_once() -> None:
    for blocks, rows in ((1, 1), (2, 2), (64, EXPERTS)):
        graph = products(blocks)
        _, owner, w = graph.inputs
        assert rows_read(w, owner) == rows * WIDTH * INNER * 2


def test_the_search_counts_the_bytes_of_the_table() -> None:
    """Both before and after kernels look up the rows themselves."""
    graph = products(16)
    best, cost = product_of(graph)
    x, _, w = graph.inputs
    least = x.type.bytes + w.type.bytes
    assert cost.bytes_read < 1.1 * least
    (kernel,) = launches(fused(best).ops)
    assert w in kernel.operands
    assert features_of(kernel).dram_read < 1.1 * least


def test_products_of_few_matrices_are_not_bound_by_memory() -> None:
    """The bytes requested by 64 blocks would take longer than their products, and hide which tiles
    multiply fastest."""
    best, cost = product_of(products(64))
    assert cost.bound != "dram"
    (kernel,) = launches(best.ops)
    assert prod(kernel.body.outputs[0].value.shape) >= 128 * 128
    assert kernel.results[0].dtype is DType.BF16
