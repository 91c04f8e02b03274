"""What one block does of a row that a cluster shares, and what that costs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from lowering import compile_mlir
from mirage.cost import H200
from mirage.cost.cluster_split import split_over_cluster
from mirage.cost.clusters import with_clusters
from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.target import target_for
from mirage.mlir_io import graph_from_text
from mirage.semantics.ugraph import Launch, Load, launches, loops
from written_kernels.shared_rows import SharedRows

SMALL = SharedRows()
LONG = SharedRows(n=262144, rows=512, cluster=1, warps=8)


def launch_of(text: str) -> Launch:
    (launch,) = launches(graph_from_text(text).graph.ops)
    return launch


def in_clusters(launch: Launch, blocks: int) -> Launch:
    return replace(launch, schedule=replace(launch.schedule, cluster=blocks))


@pytest.mark.parametrize(
    "text",
    [
        SMALL.softmax(),
        SMALL.layer_norm(),
        SMALL.moments(),
        replace(SMALL, steps=4).softmax(),
        replace(SMALL, steps=8, n=500).softmax(),
        replace(SMALL, steps=6, n=384).softmax(),  # steps that four blocks do not divide
        replace(SMALL, n=510).softmax(),  # nor columns
        replace(SMALL, height=2).moments(),
    ],
)
def test_as_the_code_generator(text: str) -> None:
    """Whether a launch is shared, its blocks, and how often they exchange totals."""
    split = split_over_cluster(launch_of(text))
    artifact = compile_mlir(text)
    (kernel,) = artifact.manifest.kernels
    assert (split is None) == (kernel.cluster is None)
    if split is not None:
        assert features_of(launch_of(text)).blocks == kernel.grid[0]
        assert split.rounds == len(re.findall(r"barrier\.cluster\.wait", artifact.ptx())) - 1


def test_a_block_has_its_part() -> None:
    split = split_over_cluster(launch_of(replace(SMALL, steps=4).softmax()))
    assert split is not None
    (load,) = (op for op in split.launch.body.ops if isinstance(op, Load))
    assert load.result.shape == (1, SMALL.n // 4)
    assert load.map == (("m",), ("part",))
    assert not list(loops(split.launch))
    features = features_of(launch_of(replace(SMALL, steps=4).softmax()))
    assert (features.cluster, features.rounds) == (4, 1)


def test_products_of_warpgroups_have_no_part() -> None:
    """There, blocks of a cluster copy tiles for each other."""
    launch = launch_of(SMALL.softmax())
    groups = replace(launch, schedule=replace(launch.schedule, warps=4, warpgroups=True))
    assert split_over_cluster(groups) is None
    assert split_over_cluster(in_clusters(launch, 1)) is None


def test_rows_that_are_read_twice_are_shared_if_they_are_long() -> None:
    long = launch_of(replace(LONG, steps=16).softmax())
    chosen = with_clusters(long, H200)
    assert chosen.schedule.cluster > 1
    assert report(features_of(chosen), H200).time < report(features_of(long), H200).time
    assert with_clusters(long, target_for("a100")) is long
    short = launch_of(replace(LONG, n=16384, rows=64, steps=4).softmax())
    assert with_clusters(short, H200) is short
