"""Blocks of a cluster that copy tiles for each other, executed with all checks."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from faults.noticed import Original
from faults.ptx_mutants import Kind, with_register, wrong_parities
from lowering import check_mlir, compile_mlir
from mirage.compiler.compile import CompileOptions, compile_text
from mirage.compiler.ptxas import find_ptxas
from thorough import some_of
from written_kernels.warpgroup_attention import Attention
from written_kernels.warpgroup_graphs import Product
from written_kernels.warpgroup_loops import HiddenLoop

SMALL = Product(128, 128, 192, cluster=2)


def check(text: str, cluster: int = 2) -> None:
    """Compare with the µGraph's meaning in float64; the kernel must use clusters."""
    artifact = compile_mlir(text)
    assert [kernel.cluster for kernel in artifact.manifest.kernels] == [(cluster, 1, 1)]
    assert ".multicast::cluster" in artifact.ptx()
    check_mlir(text)


@pytest.mark.parametrize("swapped_a", some_of([False, True], every=2))
@pytest.mark.parametrize("swapped_b", [False, True])
def test_orders(swapped_a: bool, swapped_b: bool) -> None:
    """Half of the rows of either factor, in either order, are in shared memory."""
    check(replace(SMALL, swapped_a=swapped_a, swapped_b=swapped_b).text())
    wide = replace(SMALL, m=64, n=256, tile=(64, 128, 64), swapped_a=swapped_a)
    check(replace(wide, swapped_b=swapped_b).text())


@pytest.mark.parametrize(("m", "n", "k"), [(129, 256, 200), (250, 136, 184), (65, 72, 64)])
def test_sizes_that_do_not_divide(m: int, n: int, k: int) -> None:
    """A block may have only zeros to copy, and copies them for both."""
    check(Product(m, n, k, cluster=2).text())


@pytest.mark.parametrize("cluster", some_of([2, 4, 8], every=2))
@pytest.mark.parametrize("stages", [1, 3])
def test_larger_clusters(cluster: int, stages: int) -> None:
    check(
        Product(64 * cluster, 72, 320, stages=stages, swapped_b=True, cluster=cluster).text(),
        cluster,
    )


@pytest.mark.parametrize(
    ("tile", "warps"),
    some_of(
        [
            ((128, 128, 64), 8),
            ((64, 256, 64), 4),
            ((256, 64, 64), 16),
            ((64, 32, 128), 4),
            ((64, 96, 32), 4),
        ],
        every=2,
    ),
)
def test_tiles(tile: tuple[int, int, int], warps: int) -> None:
    """One panel or several, of which each is cut."""
    m, n, k = tile
    for swapped in (False, True):
        check(Product(2 * m, 2 * n, 3 * k, tile, warps, 2, swapped_b=swapped, cluster=2).text())


@pytest.mark.parametrize("resident", some_of([2, 4, 6, 100], every=2))
def test_resident_blocks(resident: int) -> None:
    """The blocks of a cluster have equally many tiles, for any number of blocks."""
    product = Product(256, 192, 320, resident=resident, cluster=2)
    check(product.text())
    check(replace(product, tile=(128, 64, 64), warps=8, residual=True, batch=2).text())


def test_other_tensors() -> None:
    check(replace(SMALL, epilogue=True, residual=True, out="f32").text())
    check(replace(SMALL, batch=3, swapped_b=True).text())
    check(replace(SMALL, dtype="bf16", out="bf16").text())


@pytest.mark.parametrize(("rows", "cols"), [(34, 2), (6, 5), (1, 6)])
def test_order_of_tiles(rows: int, cols: int) -> None:
    """Neighbours stay together in groups of rows of any height."""
    check(
        Product(64 * rows, 16 * cols, 16, (64, 16, 16), stages=2, swapped_b=True, cluster=2).text()
    )


def test_what_cannot_be_shared_is_not() -> None:
    """An odd number of tiles, or parts of a tile that are too small."""
    for product in (
        replace(SMALL, m=192, n=192),
        Product(64, 24, 64, (64, 24, 64), cluster=2),
        Product(128, 8, 64, (64, 8, 64), swapped_b=True, cluster=2),
    ):
        artifact = compile_mlir(product.text())
        assert artifact.manifest.kernels[0].cluster is None
        check_mlir(product.text())


# ---- the effects of mistakes


RING = Product(128, 64, 64 * 8, stages=2, cluster=2)


@cache
def _original(resident: int = 0) -> Original:
    product = replace(RING, m=512) if resident else RING
    return Original(compile_mlir(replace(product, resident=resident).text()))


@pytest.mark.parametrize("resident", [0, 2])
@pytest.mark.parametrize("kind", some_of(["barrier", "wait", "fence"], every=2))
def test_missing_synchronisation_is_noticed(kind: Kind, resident: int) -> None:
    """Including the one after the mbarriers' start and the one before the end. Either fence covers
    the mbarriers of both arrays. A barrier between the ring and the result in the same memory may
    be left out if all warps have waited for the last products (``test_rings.py``)."""
    original = _original(resident)
    init = "fence.mbarrier_init.release.cluster;"
    missed = [m for m in original.unnoticed(kind) if m != init]
    assert len(missed) <= (kind == "barrier" and not resident)
    assert all(m.startswith("bar.sync") for m in missed)
    assert kind != "fence" or original.notices(original.ptx.replace(init, ""))


@pytest.mark.parametrize("resident", [0, 2])
def test_wrong_parity_is_noticed(resident: int) -> None:
    original = _original(resident)
    for broken in wrong_parities(original.ptx):
        assert original.notices(broken)


def _wrong_counts(ptx: str) -> Iterator[str]:
    """Each mbarrier with every other plausible number of arrivals."""
    pattern = re.compile(r"mbarrier\.init\.shared::cta\.b64 \[[^]]+\], ([^;]+);")
    for init in pattern.finditer(ptx):
        right = re.search(rf"mov\.b32\s+{re.escape(init[1])}, (\d+);", ptx)
        assert right is not None
        for count in {1, 2, 4, 8} - {int(right[1])}:
            broken = ptx[: init.start(1)] + "%r_wrong" + ptx[init.end(1) :]
            yield with_register(broken, "%r_wrong", f"\tmov.b32 %r_wrong, {count};\n")


def test_wrong_arrivals_are_noticed() -> None:
    """Four warps of each of two blocks release a slot, one thread of each announces its bytes."""
    original = _original()
    found = list(_wrong_counts(original.ptx))
    assert len(found) == 3 * 4
    for broken in found:
        assert original.notices(broken)


HOME = r"@taken mbarrier\.arrive\.shared::cta\.b64 _, \[[^]]+\];"
ELSEWHERE = r"@taken mbarrier\.arrive\.shared::cluster\.b64 _, \[[^]]+\];"


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        # Only the bytes of the block's own copies are announced.
        (r"(mbarrier\.arrive\.expect_tx\S+ _, \[\S+\], )(\S+);", r"\g<1>12288;"),
        # Slots are released only in the block itself, or only elsewhere.
        (HOME, ""),
        (ELSEWHERE, ""),
        # Copies go only to the block itself, or only to the other one.
        (r"(multicast::cluster [^;]*, )%rs\d+;", r"\g<1>%mine;"),
        (r"(multicast::cluster [^;]*, )%rs\d+;", r"\g<1>%theirs;"),
        # Both copy the same half of the same tile, each in the role of the other one.
        (r"mov\.u32\s+(%r\d+), %cluster_ctarank;", r"mov.u32 \1, 0;"),
    ],
)
def test_wrong_places_are_noticed(pattern: str, replacement: str) -> None:
    original = _original()
    broken, count = re.subn(pattern, replacement, original.ptx)
    assert count
    start = (
        "\t.reg .b32 %other, %bits;\n\t.reg .b16 %mine, %theirs;\n"
        "\tmov.u32 %other, %cluster_ctarank;\n"
        "\tshl.b32 %bits, 1, %other;\n\tcvt.u16.u32 %mine, %bits;\n"
        "\txor.b32 %other, %other, 1;\n"
        "\tshl.b32 %bits, 1, %other;\n\tcvt.u16.u32 %theirs, %bits;\n"
    )
    assert original.notices(with_register(broken, "%unused", start))


def test_slots_that_only_their_own_block_has_released_are_noticed() -> None:
    """No wait is endless, but each block would overwrite data that the other one still reads."""
    original = _original()
    broken, count = re.subn(ELSEWHERE, "", original.ptx)
    assert count
    inits = list(re.finditer(r"mbarrier\.init\.shared::cta\.b64 \[[^]]+\], ([^;]+);", broken))
    for init in reversed(inits):
        if re.search(rf"mov\.b32\s+{re.escape(init[1])}, 8;", broken):
            broken = broken[: init.start(1)] + "%half" + broken[init.end(1) :]
    assert "%half" in broken
    assert original.notices(with_register(broken, "%half", "\tmov.b32 %half, 4;\n"))


# ---- other loops


@pytest.mark.parametrize("cluster", some_of([2, 4], every=2))
def test_attention(cluster: int) -> None:
    """Blocks of one head share keys and values."""
    attention = Attention(rows=64 * cluster, keys=192, heads=2, cluster=cluster)
    check(attention.text(), cluster)
    check(replace(attention, rows=128 * cluster, tile=(128, 64), warps=8).text(), cluster)
    check(replace(attention, keys=200, rows=64 * cluster - 3, dim=128).text(), cluster)


def test_chains_of_products() -> None:
    """The hidden columns of an MLP are the loop; weights are shared."""
    check(HiddenLoop(m=256, tile=(64, 64), cluster=2).text())
    check(HiddenLoop(m=256, tile=(64, 64), resident=2, cluster=2).text())


# ---- the assembler


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize(
    ("tile", "warps", "resident"),
    [((128, 256, 64), 8, 132), ((128, 128, 64), 8, 0), ((64, 256, 64), 4, 132)],
)
def test_no_spills_and_no_serialised_products(
    tile: tuple[int, int, int], warps: int, resident: int
) -> None:
    product = Product(1024, 1024, 1024, tile, warps, 4, resident=resident, cluster=2)
    compiled = compile_text(product.text(), CompileOptions(use_cache=False))
    assert compiled.spilled_bytes == 0
    assert not compiled.notes
