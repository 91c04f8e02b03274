"""Products of 8-bit floats by warpgroups, over rings: executed with all checks."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from faults.noticed import Original
from faults.ptx_mutants import Kind
from lowering import check_mlir, compile_mlir
from mirage import _target
from mirage.compiler.compile import CompileOptions, compile_text
from mirage.compiler.ptxas import find_ptxas
from mirage.emulator.run_artifact import run_artifact
from thorough import some_of
from written_kernels.warpgroup_graphs import Product

E4M3, E5M2 = "f8E4M3FN", "f8E5M2"
SMALL = Product(128, 128, 384, (64, 64, 128), dtype=E4M3, out="bf16", swapped_b=True)


def check(product: Product) -> None:
    """Compare with the µGraph's meaning in float64; the factors must be multiplied unconverted."""
    text = product.text()
    ptx = compile_mlir(text).ptx()
    kinds = [{E4M3: "e4m3", E5M2: "e5m2"}[t] for t in (product.dtype, product.dtype_b or E4M3)]
    assert f"k32.f32.{kinds[0]}.{kinds[1]}" in ptx
    assert "mma.sync" not in ptx
    check_mlir(text)


@pytest.mark.parametrize(
    "product",
    [
        SMALL,
        replace(SMALL, dtype=E5M2, dtype_b=E5M2),
        replace(SMALL, dtype_b=E5M2),
        replace(SMALL, dtype=E5M2, dtype_b=E4M3),
    ],
)
def test_types(product: Product) -> None:
    check(replace(product, dtype_b=product.dtype_b or product.dtype))


@pytest.mark.parametrize(
    ("tile", "warps"),
    some_of(
        [
            ((64, 8, 32), 4),
            ((64, 96, 64), 4),
            ((64, 128, 128), 4),
            ((128, 128, 128), 8),
            ((128, 192, 64), 8),
            ((128, 256, 128), 8),  # more columns than fit next to the sums
            ((128, 64, 64), 4),  # and more rows
            ((64, 128, 96), 8),
        ],
        every=3,
    ),
)
def test_tiles(tile: tuple[int, int, int], warps: int) -> None:
    m, n, k = tile
    check(replace(SMALL, m=m + 8, n=n + 8, k=3 * k + 16, tile=tile, warps=warps, stages=2))


@pytest.mark.parametrize(("stages", "steps"), [(1, 2), (2, 1), (2, 5), (4, 2), (4, 5)])
def test_stages(stages: int, steps: int) -> None:
    check(replace(SMALL, m=64, n=64, k=128 * steps, stages=stages))


def test_blocks_with_several_tiles() -> None:
    check(replace(SMALL, m=192, n=192, k=256, resident=4))


def test_what_follows_the_sum() -> None:
    check(replace(SMALL, epilogue=True, n=136))
    check(replace(SMALL, residual=True, m=70, n=72, batch=2))


@pytest.mark.parametrize(
    "product",
    some_of(
        [
            replace(SMALL, swapped_b=False),  # rows of b run along N
            replace(SMALL, swapped_a=True),
            replace(SMALL, tile=(64, 64, 256)),  # more than are added up with few bits
            replace(SMALL, tile=(64, 64, 48), k=192),
            replace(SMALL, dtype_b="f16"),
            replace(SMALL, k=376),  # rows that are not multiples of 16 bytes
        ],
        2,
    ),
)
def test_what_warpgroups_cannot_do_is_converted(product: Product) -> None:
    text = product.text()
    ptx = compile_mlir(text).ptx()
    assert "wgmma" not in ptx
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in ptx
    check_mlir(text)


@pytest.mark.parametrize("chip", ["sm_80", "sm_89"])
def test_other_chips_convert(chip: str) -> None:
    check_mlir(replace(SMALL, out="f32").text(), chip=chip)


def test_sums_of_steps_are_added_in_f32() -> None:
    """A product begins from zero at each step: no hardware accumulator is carried over."""
    ptx = compile_mlir(SMALL.text()).ptx()
    kept = re.findall(r"wgmma\.mma_async.*, (all|none), 1, 1", ptx)
    depth = SMALL.tile[2] // _target.WGMMA_BYTES
    assert depth * _target.WGMMA_BYTES <= _target.PROMOTED_DEPTH
    assert kept == ["none", *["all"] * (depth - 1)]


def test_sums_over_long_rows_are_as_exact_as_f32() -> None:
    """One large number to which later ones are added: 14 bits would lose them."""
    product = Product(64, 64, 8192, (64, 64, 128), dtype=E4M3, out="f32", swapped_b=True)
    artifact = compile_mlir(product.text())
    a, b = (np.full((64, 8192), 2.0**-3) for _ in "ab")
    a[:, 0], b[:, 0] = 448.0, 448.0
    (out,) = run_artifact(artifact, [a, b], checks=False).outputs
    np.testing.assert_allclose(out, a @ b.T, rtol=2.0**-20)


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
def test_the_assembler_serialises_nothing() -> None:
    large = replace(SMALL, m=512, n=512, k=1024, tile=(128, 128, 128), warps=8, stages=4)
    compiled = compile_text(large.text(), CompileOptions(cubin=True, use_cache=False))
    assert compiled.spilled_bytes == 0
    assert not compiled.notes


RING = replace(SMALL, m=128, n=64, k=128 * 8, tile=(128, 64, 128), warps=8, stages=2)


@cache
def _original() -> Original:
    return Original(compile_mlir(RING.text()))


@pytest.mark.parametrize("kind", ["barrier", "wait", "fence"])
def test_a_missing_synchronisation_of_bytes_is_noticed(kind: Kind) -> None:
    missed = _original().unnoticed(kind)
    init = "fence.mbarrier_init.release.cluster;"  # either fence covers both arrays of mbarriers
    reuse = [m for m in missed if m.startswith("bar.sync")]
    assert len(reuse) <= 1
    assert set(missed) <= {init, *reuse}
