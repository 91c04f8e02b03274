"""Loops that leave out the steps whose tiles a mask empties, executed with all checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest
from faults.noticed import Original
from lowering import check_mlir, compile_mlir
from mirage.mlir_io.text import graph_from_text, graph_to_text
from mirage.semantics.ugraph import KernelGraph, Loop, launches, loops
from mirage.transforms.steps.skip_steps import skip_steps
from thorough import some_of
from written_kernels.warpgroup_attention import Attention

CAUSAL = Attention(256, 256, 64, (64, 64), seen=1 << 20)
ENGINES = [("sm_80", "warp"), ("sm_90a", "warp"), ("sm_90a", "warpgroup")]


def _loop(graph: KernelGraph) -> Loop:
    (launch,) = launches(graph.ops)
    (loop,) = loops(launch)
    return loop


def check(attention: Attention, chip: str, engine: str) -> None:
    """The kernel without idle steps computes what the one with all steps does."""
    whole = replace(attention, engine=engine).text()
    graph = skip_steps(graph_from_text(whole).graph)
    steps = _loop(graph).steps
    assert steps is not None
    extents = {a.name: a.extent for launch in launches(graph.ops) for a in launch.grid}
    counts = steps.counts(extents, _loop(graph).axis.extent)
    assert counts.sum() < counts.size * _loop(graph).axis.extent
    text = graph_to_text(graph, form="selected")
    ptx = compile_mlir(text, chip).ptx()
    assert ("wgmma.mma_async" in ptx) == (engine == "warpgroup")
    check_mlir(text, chip=chip, meaning=whole)


@pytest.mark.parametrize(
    ("chip", "engine", "stages"),
    some_of(
        [
            ("sm_80", "warp", 4),
            ("sm_90a", "warp", 1),
            ("sm_90a", "warp", 2),
            *(("sm_90a", "warpgroup", n) for n in (1, 2, 4)),
        ],
        every=2,
    ),
)
def test_causal(chip: str, engine: str, stages: int) -> None:
    """The first block takes one step, fewer than there are stages."""
    check(replace(CAUSAL, stages=stages), chip, engine)


@pytest.mark.parametrize(
    ("chip", "engine", "window"),
    some_of(
        [
            ("sm_80", "warp", 60),
            ("sm_90a", "warp", 1),
            ("sm_90a", "warp", 130),
            *(("sm_90a", "warpgroup", n) for n in (1, 60, 130)),
        ],
        every=2,
    ),
)
def test_window(chip: str, engine: str, window: int) -> None:
    check(replace(CAUSAL, seen=window, stages=3), chip, engine)


@pytest.mark.parametrize(("chip", "engine"), some_of(ENGINES, every=4))
@pytest.mark.parametrize(
    ("rows", "keys", "more"),
    some_of(
        [(200, 230, {}), (200, 230, {"seen": 70}), (130, 256, {"seen": 70}), (256, 200, {})], 2
    ),
    ids=str,
)
def test_sizes_that_do_not_divide(
    chip: str, engine: str, rows: int, keys: int, more: dict[str, int]
) -> None:
    check(replace(CAUSAL, rows=rows, keys=keys, **more), chip, engine)


@pytest.mark.parametrize(
    ("tile", "warps"), some_of([((128, 64), 8), ((64, 128), 4), ((128, 32), 4)], every=3)
)
def test_tiles(tile: tuple[int, int], warps: int) -> None:
    """Groups that take turns, products of the previous step, several steps per tile of rows."""
    check(replace(CAUSAL, tile=tile, warps=warps, rows=384, keys=384), "sm_90a", "warpgroup")
    check(replace(CAUSAL, tile=tile, warps=warps, seen=100, heads=2), "sm_90a", "warpgroup")


@pytest.mark.parametrize(("chip", "engine"), ENGINES)
def test_steps_by_groups_of_rows(chip: str, engine: str) -> None:
    """A causal mask, as if two tiles of rows at a time ended at the same step."""
    whole = replace(CAUSAL, engine=engine)
    steps = "steps affine_map<(d0) -> (0, ((d0 floordiv 2) * 9) floordiv 4 + 2)> of [m]"
    text = replace(whole, steps=steps).text()
    assert loop_steps_are_kept(text)
    check_mlir(text, chip=chip, meaning=whole.text())


def loop_steps_are_kept(text: str) -> bool:
    """Return whether a text that is read and written again is unchanged."""
    graph = graph_from_text(text).graph
    return (
        _loop(graph_from_text(graph_to_text(graph, form="selected")).graph).steps
        == _loop(graph).steps
    )


@pytest.mark.parametrize(("chip", "engine"), ENGINES)
def test_a_mask_that_is_always_left_out_is_noticed(chip: str, engine: str) -> None:
    whole = replace(CAUSAL, engine=engine, rows=192, keys=192).text()
    original = Original(compile_mlir(whole, chip))
    found = list(_without_masks(original.ptx))
    assert found
    for broken in found:
        assert original.notices(broken)


def _without_masks(ptx: str) -> Iterator[str]:
    """Return the kernel changed so that it always skips one of its masks."""
    for branch in re.finditer(r"(@!?%p\d+) (bra\s+(\$L\S+);)", ptx):
        if _is_mask(ptx[branch.end() :]):
            yield f"{ptx[: branch.start()]}{branch[2]}{ptx[branch.end() :]}"
        elif _is_mask(ptx[ptx.index(f"\n{branch[3]}:") + len(branch[3]) + 2 :]):
            yield f"{ptx[: branch.start()]}{ptx[branch.end() :]}"


def _is_mask(ptx: str) -> bool:
    """Return whether a block begins that only masks."""
    block = re.split(r"^\$L\S+:|\bbra\b", ptx, maxsplit=1, flags=re.MULTILINE)[0]
    return block.count("setp.le.f32") > 4 and "ex2.approx" not in block
