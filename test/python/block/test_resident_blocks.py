"""Blocks that compute several tiles one after the other, executed with all checks."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from faults.noticed import Original
from faults.ptx_mutants import Kind, wrong_parities
from lowering import check_mlir, compile_mlir
from mirage.compiler.compile import CompileOptions, compile_text
from mirage.compiler.ptxas import find_ptxas
from mirage.emulator.run_artifact import check_artifact
from mirage.runtime.serialization.artifact import Artifact
from thorough import some_of
from written_kernels.warpgroup_graphs import Product
from written_kernels.warpgroup_loops import HiddenLoop

SMALL = Product(192, 128, 192, resident=2)


def check(text: str, blocks: int) -> None:
    """Compare with the µGraph's meaning in float64."""
    artifact = compile_mlir(text)
    assert "wgmma.mma_async" in artifact.ptx()
    assert [kernel.grid for kernel in artifact.manifest.kernels] == [(blocks, 1, 1)]
    check_mlir(text)


@pytest.mark.parametrize("resident", some_of([1, 2, 4, 5, 6, 100], every=2))
def test_numbers_of_blocks(resident: int) -> None:
    """Each block has the same number of the six tiles, or some blocks have one more."""
    check(replace(SMALL, resident=resident).text(), min(resident, 6))


@pytest.mark.parametrize(
    ("stages", "steps"), some_of([(1, 2), (2, 1), (2, 2), (2, 5), (3, 1), (3, 5)], every=2)
)
def test_slots_go_on_counting(stages: int, steps: int) -> None:
    """Whether the steps of a tile are a multiple of the slots or not."""
    check(replace(SMALL, k=64 * steps, stages=stages).text(), 2)


@pytest.mark.parametrize(
    ("tile", "warps"),
    some_of(
        [
            ((64, 32, 64), 4),  # one part
            ((64, 96, 64), 4),  # three parts of 32 columns
            ((128, 192, 64), 8),  # three parts of 64 columns
            ((128, 256, 64), 8),
            ((64, 128, 64), 8),  # groups next to each other: the whole tile at once
        ],
        every=2,
    ),
)
def test_parts_of_tiles(tile: tuple[int, int, int], warps: int) -> None:
    m, n, _ = tile
    check(Product(2 * m, 2 * n, 128, tile, warps=warps, stages=2, resident=1).text(), 1)


def test_tiles_past_the_end() -> None:
    check(replace(SMALL, m=129, n=136, k=200).text(), 2)
    check(replace(SMALL, m=129, n=136, k=200, tile=(128, 128, 64), warps=8).text(), 2)


@pytest.mark.parametrize(("stages", "k"), some_of([(1, 320), (2, 64), (2, 320), (4, 64)], every=2))
def test_groups_store_their_own_rows(stages: int, k: int) -> None:
    """The tiles' loop has no barrier for all of them, and one group is ahead of the other, by fewer
    steps than there are slots."""
    product = Product(640, 128, k, (128, 128, 64), 8, stages, resident=2, residual=True)
    check(product.text(), 2)
    check(replace(product, batch=2, m=256, swapped_b=True).text(), 2)
    ptx = compile_mlir(product.text()).ptx()
    barriers = re.findall(r"bar(?:rier)?(?:\.cta)?\.sync\S*\s+(\S+)(?:, (\d+))?;", ptx)
    assert [count for name, count in barriers if name != "0"]
    assert {count for name, count in barriers if name != "0"} == {"128"}


def test_other_tensors() -> None:
    check(replace(SMALL, out="f32").text(), 2)
    check(replace(SMALL, epilogue=True).text(), 2)
    check(replace(SMALL, residual=True).text(), 2)
    check(replace(SMALL, residual=True, n=131, swapped_b=True).text(), 2)
    check(replace(SMALL, batch=2, swapped_b=True).text(), 2)
    check(replace(SMALL, n=131, swapped_b=True).text(), 2)  # threads store rows of odd bytes


@pytest.mark.parametrize("warps", [4, 8])
def test_tiles_that_are_loaded_before_the_loop(warps: int) -> None:
    """Their slot is free once all of the tile's steps are done."""
    loop = HiddenLoop(m=192 * warps // 4, tile=(16 * warps, 64), warps=warps, resident=2)
    check(loop.text(), 2)


def test_any_number_of_blocks_computes_the_same() -> None:
    """Also more blocks than tiles: the additional ones have nothing to wait for."""
    artifact = compile_mlir(replace(SMALL, m=256, tile=(128, 128, 64), warps=8).text())
    (kernel,) = artifact.manifest.kernels
    for blocks in (1, 3):
        kernels = (replace(kernel, grid=(blocks, 1, 1)),)
        manifest = replace(artifact.manifest, kernels=kernels)
        check_artifact(Artifact(manifest, artifact.files), lambda a, b: a @ b)


# ---- the effects of mistakes


@cache
def _original(groups: int = 1) -> Original:
    """Tiles of which each group stores 64 rows, in two parts."""
    product = replace(SMALL, m=192 * groups, n=128, tile=(64 * groups, 128, 64), warps=4 * groups)
    return Original(compile_mlir(product.text()))


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("kind", some_of(["barrier", "wait", "fence"], every=2))
def test_missing_synchronisation_is_noticed(kind: Kind, groups: int) -> None:
    """Either fence covers the mbarriers of both arrays. The second of two groups waits once more
    than necessary, to stay behind the first."""
    original = _original(groups)
    init = "fence.mbarrier_init.release.cluster;"
    unnoticed = [m for m in original.unnoticed(kind) if m != init]
    assert len(unnoticed) == (kind == "wait" and groups == 2)
    assert kind != "fence" or original.notices(original.ptx.replace(init, ""))


def test_wrong_parity_is_noticed() -> None:
    original = _original()
    found = list(wrong_parities(original.ptx))
    assert len(found) == 2
    for broken in found:
        assert original.notices(broken)


def test_copies_that_are_not_closed_are_noticed() -> None:
    """A copy that is not in any group is not waited for."""
    original = _original()
    broken, count = re.subn(r"cp\.async\.bulk\.commit_group;", "", original.ptx)
    assert count
    assert original.notices(broken)


# ---- the assembler


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize(
    ("tile", "warps", "swapped_b"),
    some_of(
        [
            ((128, 256, 64), 8, False),
            ((128, 256, 64), 8, True),
            ((128, 224, 64), 8, True),
            ((64, 224, 64), 4, False),
        ],
        every=2,
    ),
)
def test_no_spills_and_no_serialised_products(
    tile: tuple[int, int, int], warps: int, swapped_b: bool
) -> None:
    product = Product(1792, 1792, 1024, tile, warps, 4, swapped_b=swapped_b, resident=132)
    compiled = compile_text(product.text(), CompileOptions(use_cache=False))
    assert compiled.spilled_bytes == 0
    assert not compiled.notes
