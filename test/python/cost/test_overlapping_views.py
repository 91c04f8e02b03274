"""The bytes that are read from device memory for overlapping views."""

from __future__ import annotations

import mirage as mi
import pytest
from mirage.cost import H200
from mirage.cost.predict import features_in
from mirage.semantics.ugraph import KernelGraph

ROWS, COLUMNS, TILE = 2**16, 512, 4
VIEW = ROWS * COLUMNS * 2
"""The bytes of one view, which exceed L2."""
BY_ROWS, BY_COLUMNS = {"m": 0}, {"m": 1}


def sum_of_views(
    *starts: tuple[int, int], second: dict[str, int] = BY_ROWS, returned: bool = False
) -> KernelGraph:
    """A kernel that adds views of one tensor, in tiles of four rows (``second``: or others)."""
    graph = mi.new_kernel_graph()
    x = graph.new_input(dims=(2 * ROWS, 2 * COLUMNS), dtype=mi.float16, name="x")
    views = [graph.slice(x, start, (ROWS, COLUMNS)) for start in starts]
    block = mi.new_threadblock_graph({"m": ROWS // TILE})
    totals = [block.sum(block.new_input(views[0], BY_ROWS), 1)]
    for view in views[1:]:
        tile = block.new_input(view, second)
        totals.append(block.sum(tile, 1) if second is BY_ROWS else block.sum(tile, 0))
    for total in totals:
        axis = 0 if total is totals[0] or second is BY_ROWS else 1
        block.new_output(total, {"m": axis})
    graph.mark_output(*graph.customized(views, block), *(views[1:] if returned else ()))
    return graph.program().graph


@pytest.mark.parametrize(
    ("starts", "views"),
    [
        (((0, 0),), 1),
        (((0, 0), (0, 0)), 1),
        (((0, 0), (1, 0)), 1 + 1 / TILE),  # of four rows, another block reads one
        (((0, 8), (0, 0)), 1 + 8 / COLUMNS),
        (((0, 0), (1, 0), (2, 0)), 1 + 2 / TILE),
        (((0, 0), (TILE, 0)), 2),  # other tiles, which other blocks read at some time
        (((0, 0), (0, COLUMNS)), 2),
    ],
)
def test_what_one_block_reads_twice_counts_once(
    starts: tuple[tuple[int, int], ...], views: float
) -> None:
    (features,) = features_in(sum_of_views(*starts), H200)
    assert features.dram_read == pytest.approx(views * VIEW)


def test_views_in_other_tiles_count_in_full() -> None:
    (apart,) = features_in(sum_of_views((0, 0), (ROWS, COLUMNS), second=BY_COLUMNS), H200)
    (features,) = features_in(sum_of_views((0, 0), (1, 0), second=BY_COLUMNS), H200)
    assert features.dram_read == apart.dram_read


def test_copies_of_views_count_in_full() -> None:
    assert H200.l2_size < VIEW
    (features,) = features_in(sum_of_views((0, 0), (1, 0), returned=True), H200)
    assert features.dram_read == pytest.approx(2 * VIEW)
