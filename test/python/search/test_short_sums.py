"""Sums and maxima over the few last elements of rows, as functions of parts."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from lowering import check_graph as check_lowered
from mirage.cost import H200
from mirage.search.program.short_sums import with_parts_of_short_sums
from mirage.search.superoptimize import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import DType, ReduceFn
from mirage.semantics.ugraph import KernelGraph, Reduce, launches


def pooled(
    channels: int,
    size: int,
    window: int = 2,
    fn: ReduceFn = ReduceFn.MAX,
    dtype: DType = DType.F16,
) -> KernelGraph:
    """Windows of pixels: first over their rows, then over the neighbours in a row."""
    x, b = tensor("x", channels, size, size, dtype=dtype), Builder()
    few = size // window
    y = b.reduce(fn, b.reshape(x, (channels, few, window, size)), (2,))
    y = b.reduce(fn, b.reshape(y, (channels, few, few, window)), (3,))
    return graph("pooled", (x,), b, b.reshape(y, (channels, few, few)))


@pytest.mark.parametrize("fn", [ReduceFn.SUM, ReduceFn.MAX])
@pytest.mark.parametrize("window", [2, 4])
def test_windows_become_functions_of_their_elements(window: int, fn: ReduceFn) -> None:
    given = pooled(8, 64, window, fn)
    found = with_parts_of_short_sums(given)
    check_graph(found)
    assert not any(isinstance(op, Reduce) for op in found.ops)
    x = np.random.default_rng(0).standard_normal((8, 64, 64)).astype(np.float16)
    (want,), (got,) = evaluate_floats(given, (x,)), evaluate_floats(found, (x,))
    np.testing.assert_allclose(got, want, atol=2e-3)


@pytest.mark.parametrize(
    "given",
    [
        pooled(8, 64, 16),  # many elements
        pooled(1, 16),  # one block computes all
        pooled(8, 64, dtype=DType.I32),  # exact integers
    ],
)
def test_other_sums_stay(given: KernelGraph) -> None:
    assert with_parts_of_short_sums(given) is given


def test_sums_of_rows_stay() -> None:
    """Rows of a few tokens, one after the other, are whole rows of a tile."""
    x, b = tensor("x", 512, 2, 512), Builder()
    given = graph("rows", (x,), b, b.reduce(ReduceFn.SUM, x, (1,)))
    assert with_parts_of_short_sums(given) is given


def test_one_kernel_pools_with_large_tiles() -> None:
    """A tile of one row of pixels would be 128 bytes."""
    best = superoptimize(pooled(64, 64), H200).candidates[0].graph
    (launch,) = launches(best.ops)
    blocks = int(np.prod([axis.extent for axis in launch.grid]))
    assert blocks < 64 * 32 / 4, launch.grid
    check_lowered(best)
