"""Predicted times of the kernels of a class at its sizes: they equal those of a program of this
single size with the same tiles, and show which of several kernels is near the best at all sizes.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from mirage.cost import H200
from mirage.cost.predict import predict
from mirage.mlir_io import graph_from_text
from mirage.pipeline import size_costs
from mirage.pipeline.size_costs import (
    DEPTHS,
    FAR,
    TOLD_APART,
    Compared,
    predicted_at,
)
from mirage.semantics.ugraph import KernelGraph, launches
from mirage.verify.other_rows import graph_at

TEXT = """
kernel.graph @attention(%q: tensor<{b}x8x1x64xf16>, %k: tensor<{b}x8x512x64xf16>) -> tensor<{b}x8x1x64xf16> {{
  %r = kernel.launch(%q, %k) grid [b = {b}, h = 8] schedule <warps = 4, stages = {stages}> : (tensor<{b}x8x1x64xf16>, tensor<{b}x8x512x64xf16>) -> tensor<{b}x8x1x64xf16> {{
  ^bb0(%gq: tensor<{b}x8x1x64xf16>, %gk: tensor<{b}x8x512x64xf16>):
    %x = block.load %gq [[b], [h], [], []] : tensor<{b}x8x1x64xf16> -> !block.tile<1x1x1x64xf16>
    %s = block.loop [n = 8] {{
      %y = block.load %gk [[b], [h], [n], []] : tensor<{b}x8x512x64xf16> -> !block.tile<1x1x64x64xf16>
      %m = block.reduce sum %y dims [2] : (!block.tile<1x1x64x64xf16>) -> !block.tile<1x1x1x64xf32>
      block.accumulate sum %m : !block.tile<1x1x1x64xf32>
    }} : !block.tile<1x1x1x64xf32>
    %o = block.binary mul %s, %x : (!block.tile<1x1x1x64xf32>, !block.tile<1x1x1x64xf16>) -> !block.tile<1x1x1x64xf32>
    block.store %o [[b], [h], [], []] : !block.tile<1x1x1x64xf32>
  }}
  kernel.return %r : tensor<{b}x8x1x64xf16>
}}
"""  # noqa: E501


def attention(b: int, stages: int = 4) -> KernelGraph:
    return graph_from_text(TEXT.format(b=b, stages=stages)).graph


def test_another_size_is_the_program_of_that_size() -> None:
    whole = attention(128)
    for size in (1, 7, 100, 127, 128):
        at = graph_at(whole, (0, 1), 128, size)
        alone = attention(size)
        assert [v.type for v in at.inputs] == [v.type for v in alone.inputs]
        assert [v.type for v in at.outputs] == [v.type for v in alone.outputs]
        assert [op.grid for op in launches(at.ops)] == [op.grid for op in launches(alone.ops)]
        mine, theirs = predicted_at(whole, (0, 1), 128, size, H200), predict(alone, H200)
        assert mine is not None
        assert theirs is not None
        assert mine.time == theirs.time


def times(graph: KernelGraph, sizes: range) -> list[float]:
    found = [predicted_at(graph, (0, 1), 128, size, H200) for size in sizes]
    return [report.time for report in found if report is not None]


def test_stages_are_near_the_best_at_all_sizes() -> None:
    sizes = range(72, 129, 7)
    compared = Compared((0, 1), 65, 128, H200)
    chosen = compared.restaged(attention(128, 6))
    (launch,) = launches(chosen.ops)
    assert launch.schedule.warps == 4
    every = [times(attention(128, depth), sizes) for depth in DEPTHS]
    assert all(len(row) == len(sizes) for row in every)
    best = [min(column) for column in zip(*every, strict=True)]

    def worst(row: list[float]) -> float:
        return max(t / b for t, b in zip(row, best, strict=True))

    assert len({round(worst(row), 2) for row in every}) > 1  # they differ
    assert worst(times(chosen, sizes)) <= min(map(worst, every)) + 2 * TOLD_APART


def test_the_first_stays_where_nothing_is_told_apart() -> None:
    compared = Compared((0, 1), 65, 128, H200)
    graph = attention(128)
    assert compared.near_best_first([graph, attention(128), graph]) == [0, 1, 2]


def worst(rows: list[list[float]], best: list[float]) -> float:
    """Return the smallest of the rows' largest ratios to the best."""
    return min(max(t / b for t, b in zip(row, best, strict=True)) for row in rows)


def test_a_class_is_split_where_no_depth_is_near_the_best_everywhere() -> None:
    """Six stages leave room for fewer blocks than three: at some sizes this costs one more wave."""
    compared = Compared((0, 1), 65, 128, H200)
    shallow = attention(128, 2)
    sizes = range(128, 64, -7)
    depths = [times(attention(128, depth), sizes) for depth in DEPTHS]
    every = [*depths, times(shallow, sizes)]
    best = [min(column) for column in zip(*every, strict=True)]
    for depth, row in zip(DEPTHS, depths, strict=True):
        far = worst([row], best)
        at = compared.split(attention(128, depth), [shallow])
        assert (at is not None) == (far > FAR)
        if at is None:
            continue
        assert 65 <= at < 128
        assert at % 16 == 0
        below = [number for number, n in enumerate(sizes) if n <= at]
        above = [number for number, n in enumerate(sizes) if n > at]

        def part(rows: list[list[float]], own: list[int]) -> float:
            return worst([[r[i] for i in own] for r in rows], [best[i] for i in own])

        assert max(part(every, below), part(depths, above)) < far


def test_what_is_best_nowhere_else_is_not_split() -> None:
    compared = Compared((0, 1), 121, 128, H200)
    assert compared.split(attention(128), []) is None


def test_of_equally_fast_graphs_the_nearest_to_the_best_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One takes as long for fewer rows, one takes less, and the last one is slower for the most
    rows."""
    text = TEXT.format(b=128, stages=4)
    warps = {4: lambda n: 20.0, 8: lambda n: 20.2 * n / 128, 16: lambda n: 25.0 * n / 128}
    graphs = [graph_from_text(text.replace("warps = 4", f"warps = {w}")).graph for w in warps]

    def predicted(graph: KernelGraph, inputs: object, most: int, size: int, target: object) -> Any:
        (launch,) = launches(graph.ops)
        return SimpleNamespace(time=warps[launch.schedule.warps](size))

    monkeypatch.setattr(size_costs, "predicted_at", predicted)
    assert Compared((0, 1), 65, 128, H200).tied_first(graphs) == [1, 0, 2]
