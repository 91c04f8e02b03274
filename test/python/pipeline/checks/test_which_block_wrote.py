"""Blocks whose last tile overlaps the previous one are run before their kernel is returned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mirage.compiler import CompileOptions, compile_graph
from mirage.mlir_io import graph_from_text
from mirage.pipeline.checks.emulated_check import emulated
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.pipeline.checks.kernel_values import _tiles  # pyright: ignore[reportPrivateUsage]
from mirage.semantics.ugraph import Launch, launches
from written_kernels.warpgroup_graphs import Product


def launch_of(product: Product) -> Launch:
    (launch,) = launches(graph_from_text(product.text()).graph.ops)
    return launch


@pytest.mark.parametrize("m", [65, 130])
@pytest.mark.parametrize("n", [128, 200])
def test_they_pass(m: int, n: int) -> None:
    graph = graph_from_text(Product(m, n, 192, out="f32").text()).graph
    artifact = compile_graph(graph, CompileOptions(chip="sm_90a", cubin=False)).artifact
    (launch,), (kernel,) = launches(graph.ops), artifact.manifest.kernels
    check = emulated(launch, kernel, artifact)
    assert check.outcome is Outcome.PASSED, check.text


Written = np.ndarray[Any, np.dtype[np.int64]]


def places(rows: range, columns: range) -> Written:
    """Return the places of elements of a result of 128 columns."""
    return (np.array(rows)[:, None] * 128 + np.array(columns)).ravel()


def tiles_of(launch: Launch, written: Written) -> list[list[tuple[int, int]]]:
    """The first and last row and column of each tile of the first result."""
    found: list[list[tuple[int, int]]] = []
    for tiles in _tiles(launch, written):
        dims = [np.asarray(indices) for indices in tiles[0]]
        assert all((d == np.arange(d[0], d[-1] + 1)).all() for d in dims)
        found.append([(int(d[0]), int(d[-1])) for d in dims])
    return sorted(found)


def test_which_block_wrote_what() -> None:
    """The last of three tiles of 64 rows over 130 is rows 66 to 129 if those are written."""
    launch = launch_of(Product(130, 128, 192))
    last = places(range(66, 130), range(64))
    assert tiles_of(launch, last) == [[(66, 129), (0, 63)]]
    # next to the previous tile, at the same columns and at others
    for own in (range(64), range(64, 128)):
        both = np.union1d(last, places(range(64, 128), own))
        at = (own[0], own[-1])
        assert tiles_of(launch, both) == [[(64, 127), at], [(66, 129), (0, 63)]]


def test_a_tile_that_hangs_over_the_end_is_one_still() -> None:
    launch = launch_of(Product(130, 128, 192))
    last, other = places(range(128, 130), range(64)), places(range(64, 128), range(64, 128))
    found = tiles_of(launch, np.union1d(last, other))
    assert found == [[(64, 127), (64, 127)], [(128, 129), (0, 63)]]
