"""Sums over whole rows of products of a few rows, as sums of partial sums from the blocks of the
product."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from lowering import check_graph as check_lowered
from mirage.cost import H200
from mirage.search.limits import SearchLimits, SearchReport
from mirage.search.program.partial_sums import with_partial_sums
from mirage.search.program.storable import Storable
from mirage.search.superoptimize import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Reduce, Value, launches

DEPTH, WIDTH = 256, 2048


def normalised(b: Builder, x: Value) -> Value:
    """An RMSNorm without a gain."""
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, x), (len(x.shape) - 1,))
    return b.binary(BinaryFn.MUL, x, b.unary(UnaryFn.RSQRT, total))


def program(
    rows: int = 1,
    width: int = WIDTH,
    *,
    residual: bool = True,
    product: bool = True,
    reader: bool = False,
) -> KernelGraph:
    """The norm of a product, perhaps with a residual, and perhaps a product of the norm."""
    x, w, r = tensor("x", rows, DEPTH), tensor("w", DEPTH, width), tensor("r", rows, width)
    v, b = tensor("v", width, 64), Builder()
    y = normalised(b, b.cast(b.matmul(x, w) if product else r, DType.F32))
    y = b.binary(BinaryFn.ADD, r, y) if residual else y
    y = b.cast(y, DType.F16)
    outputs = (b.matmul(y, v),) if reader else (y,)
    inputs = (*((x, w) if product else ()), *((r,) if residual or not product else ()))
    return graph("norm", (*inputs, *((v,) if reader else ())), b, *outputs)


def sums(given: KernelGraph) -> list[tuple[int, ...]]:
    return [op.operands[0].shape for op in given.ops if isinstance(op, Reduce)]


@pytest.mark.parametrize(
    ("given", "split"),
    [
        (program(), True),
        (program(4), True),
        (program(residual=False), True),  # a result
        (program(reader=True), True),
        (program(residual=False, reader=True), False),  # the next product can be scaled
        (program(32), False),  # many rows
        (program(width=1024), False),  # few tiles
        (program(product=False), False),
    ],
)
def test_which_sums_are_split(given: KernelGraph, split: bool) -> None:
    found = with_partial_sums(given)
    check_graph(found)
    assert (len(sums(found)) == 2) is split
    assert split or found is given
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) for v in given.inputs]
    for a, b in zip(evaluate_floats(given, inputs), evaluate_floats(found, inputs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)


@pytest.mark.parametrize("rows", [2, 4])
def test_blocks_of_the_product_store_partial_sums(rows: int) -> None:
    given = program(rows)
    best = superoptimize(given, H200, SearchLimits(budget=60.0)).candidates[0].graph
    first, second = launches(best.ops)
    assert [v.shape[-2:] for v in first.results] == [(WIDTH // 16, 16), (WIDTH // 16, 1)]
    assert [v.shape for v in second.results] == [(rows, WIDTH)]
    blocks = np.prod([axis.extent for axis in second.grid])
    assert blocks > 1
    check_lowered(best, given)


def test_totals_are_computed_by_their_readers() -> None:
    given = with_partial_sums(program())
    stored = {v.shape for v in Storable(given, H200, SearchReport()).wanted}
    assert (1, WIDTH // 16, 1) in stored
    assert (1, 1) not in stored
    total = Storable(program(), H200, SearchReport())
    assert any(v.shape == (1, 1) for v in total.wanted)
