"""Blocks that copy tiles for each other, as a choice."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lowering import compile_mlir
from mirage import workloads
from mirage.cost import H200
from mirage.cost.clusters import with_clusters
from mirage.cost.features import features_of
from mirage.cost.kernel_time import estimate
from mirage.cost.shared_tiles import given_loads
from mirage.mlir_io import graph_from_text
from mirage.pipeline.search import add_candidates
from mirage.search import SearchLimits
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.ugraph import Launch, Load, launches, loops
from written_kernels.product_kernels import product_kernel
from written_kernels.warpgroup_attention import Attention
from written_kernels.warpgroup_graphs import Product

ROWS_OF_2000_BYTES = product_kernel(1000, 1000, 1000, (64, 128, 64), 6, 4)


def paired(launch: Launch, blocks: int = 2) -> Launch:
    return replace(launch, schedule=replace(launch.schedule, cluster=blocks))


def time(launch: Launch) -> float:
    return float(estimate(features_of(launch), H200)["time"])


def test_rows_in_two_lines_are_asked_for_less_often() -> None:
    """On an H200: 10.0 µs alone, 8.0 in pairs."""
    chosen = with_clusters(ROWS_OF_2000_BYTES, H200)
    assert chosen.schedule.cluster == 2
    assert time(chosen) < time(ROWS_OF_2000_BYTES)


@pytest.mark.parametrize(
    ("m", "n", "tile", "stages", "resident"),
    [
        (512, 4096, (128, 128, 64), 6, 0),
        (2048, 4096, (128, 256, 64), 4, 132),
        (64, 4096, (64, 32, 128), 6, 0),
    ],
)
def test_aligned_rows_are_not(
    m: int, n: int, tile: tuple[int, int, int], stages: int, resident: int
) -> None:
    """There L2 is not the limit, and the time for which blocks wait for each other is added: 29.9
    -> 32.0 µs for 512 rows, 102.8 -> 104.0 for 2048, 12.0 -> 13.5 for 64."""
    warps = 4 if tile[0] * tile[1] < 128 * 128 else 8
    launch = product_kernel(m, n, 4096, tile, stages, warps, resident=resident)
    assert with_clusters(launch, H200) is launch
    assert time(paired(launch)) > time(launch)


def test_other_engines_and_odd_numbers_of_blocks_have_none() -> None:
    launch = ROWS_OF_2000_BYTES
    odd = product_kernel(960, 1160, 1000, (64, 128, 64), 6, 4)  # 15 x 10, rows of pairs shared
    assert with_clusters(odd, H200).schedule.cluster == 2
    for other in (
        product_kernel(960, 1100, 1000, (64, 128, 64), 6, 4),  # 15 x 9
        replace(launch, schedule=replace(launch.schedule, warpgroups=False)),
        replace(launch, schedule=replace(launch.schedule, resident=131)),
    ):
        assert with_clusters(other, H200) is other


def test_features_count_what_other_blocks_copy() -> None:
    launch = ROWS_OF_2000_BYTES
    alone, together = features_of(launch), features_of(paired(launch))
    assert alone.given_step == alone.given_split_step == 0
    assert together.load_step == alone.load_step
    # half of the 128 rows of the weights, of 192 rows in all
    assert together.given_step == pytest.approx(alone.load_step * 64 / 192)
    assert together.given_split_step == pytest.approx(alone.split_step * 64 / 192)


TEXTS = [
    Product(128, 128, 192, cluster=2).text(),
    Product(64, 256, 192, (64, 128, 64), swapped_b=True, cluster=2).text(),
    Product(192, 192, 64, cluster=2).text(),
    Product(128, 8, 64, (64, 8, 64), swapped_b=True, cluster=2).text(),
    Product(256, 72, 320, swapped_b=True, cluster=4).text(),
    Attention(rows=128, keys=192, heads=2, cluster=2).text(),
    Attention(rows=64, keys=192, heads=2, cluster=2).text(),
]


@pytest.mark.parametrize("text", TEXTS)
def test_as_the_code_generator(text: str) -> None:
    """The tiles that the cluster cuts: their boxes have fewer rows."""
    (launch,) = launches(graph_from_text(text).graph.ops)
    (kernel,) = compile_mlir(text).manifest.kernels
    loads = [x for loop in loops(launch) for x in loop.body if isinstance(x, Load)]
    given = given_loads(launch)
    assert bool(given) == (kernel.cluster is not None)
    parts = launch.schedule.cluster
    for load in loads:
        rows = [n for n in load.result.shape[:-1] if n > 1]
        wanted = rows[0] // (parts if load in given else 1)
        number = launch.body.params.index(load.operands[0])
        boxes = [a.map.box for a in kernel.arguments if a.map is not None and a.index == number]
        assert any(next(n for n in box[:-1] if n > 1) == wanted for box in boxes)


def test_the_search_takes_them() -> None:
    found, _ = add_candidates(workloads.get("mm_1000_bf16").graph(), H200, SearchLimits(budget=20))
    (part,) = (op for op in found.ops if isinstance(op, Alternatives))
    clusters = {x.schedule.cluster for graph in part.programs for x in launches(graph.ops)}
    assert clusters == {1, 2}
