"""Products of f32 factors that are rounded to TF32, by warps and by warpgroups: executed with all
checks."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from lowering import check_mlir, compile_mlir
from mirage.compiler.compile import CompileOptions, compile_text
from mirage.compiler.ptxas import find_ptxas
from mirage.emulator.run_artifact import run_artifact
from mirage.semantics.half import rounded_to_tf32
from thorough import some_of
from written_kernels.warpgroup_graphs import Product

SMALL = Product(128, 128, 96, (64, 64, 32), dtype="f32", out="f32", swapped_b=True, tf32=True)

ALLOWED = 2.0**-8


def check(product: Product) -> None:
    """Compare with the µGraph's meaning in float64; warpgroups must multiply the tiles
    unconverted."""
    ptx = compile_mlir(product.text()).ptx()
    assert "k8.f32.tf32.tf32" in ptx
    assert "mma.sync" not in ptx
    check_mlir(product.text(), tolerance=ALLOWED)


@pytest.mark.parametrize(
    ("tile", "warps"),
    some_of(
        [
            ((64, 8, 8), 4),
            ((64, 96, 16), 4),
            ((64, 128, 32), 4),
            ((128, 128, 64), 8),
            ((128, 256, 32), 8),
            ((128, 64, 40), 4),
        ],
        every=2,
    ),
)
def test_tiles(tile: tuple[int, int, int], warps: int) -> None:
    m, n, k = tile
    check(replace(SMALL, m=m + 8, n=n + 8, k=2 * k + 4, tile=tile, warps=warps, stages=2))


def test_blocks_with_several_tiles() -> None:
    check(replace(SMALL, m=192, n=192, resident=4))


def test_what_follows_the_sum() -> None:
    check(replace(SMALL, epilogue=True, n=136))
    check(replace(SMALL, residual=True, m=70, n=72, batch=2))


@pytest.mark.parametrize(
    ("product", "chip"),
    some_of(
        [
            (replace(SMALL, swapped_b=False), "sm_90a"),  # rows of b run along N
            (replace(SMALL, swapped_a=True), "sm_90a"),
            (
                replace(SMALL, tile=(64, 64, 36)),
                "sm_90a",
            ),  # not a multiple of an instruction's depth
            (replace(SMALL, k=97), "sm_90a"),  # rows that are not multiples of 16 bytes
            (replace(SMALL, engine="warp"), "sm_90a"),
            (SMALL, "sm_80"),
            (replace(SMALL, k=97), "sm_80"),
        ],
        every=2,
    ),
)
def test_warps_round_what_warpgroups_cannot_multiply(product: Product, chip: str) -> None:
    text = product.text()
    ptx = compile_mlir(text, chip=chip).ptx()
    assert "wgmma" not in ptx
    assert "cvt.rna.tf32.f32" in ptx
    check_mlir(text, chip=chip, tolerance=ALLOWED)


def test_one_product_instead_of_three() -> None:
    def products(product: Product) -> int:
        return len(re.findall(r"mma\.sync\S+tf32", compile_mlir(product.text()).ptx()))

    warp = replace(SMALL, engine="warp")
    assert products(replace(warp, tf32=False)) == 3 * products(warp)


def test_without_it_warpgroups_multiply_no_f32() -> None:
    assert "wgmma" not in compile_mlir(replace(SMALL, tf32=False).text()).ptx()


def test_factors_are_rounded_to_nearest() -> None:
    """Numbers that need 12 bits: each is half a unit from its neighbours of 11."""
    product = replace(SMALL, engine="warp", m=64, n=64, k=32)
    generator = np.random.default_rng(3)
    a, b = (
        np.ldexp(generator.integers(2**11, 2**12, (64, 32)) | 1, -12).astype(np.float32)
        for _ in "ab"
    )
    (out,) = run_artifact(compile_mlir(product.text()), [a, b], checks=False).outputs
    x, y = (rounded_to_tf32(v).astype(np.float64) for v in (a, b))
    np.testing.assert_allclose(out, x @ y.T, rtol=2.0**-22)
    assert np.abs(out - a.astype(np.float64) @ b.T).max() > 2.0**-12


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
def test_the_assembler_serialises_nothing() -> None:
    large = replace(SMALL, m=512, n=512, k=512, tile=(128, 128, 32), warps=8, stages=4)
    compiled = compile_text(large.text(), CompileOptions(cubin=True, use_cache=False))
    assert compiled.spilled_bytes == 0
    assert not compiled.notes


def test_sums_of_f32_are_added_up_in_parts() -> None:
    """Tensor cores cut off instead of rounding: products start from zero, and ordinary additions
    sum them."""
    product = replace(SMALL, tf32=False, k=32 * 6, tile=(64, 64, 64), engine="warp")
    ptx = compile_mlir(product.text()).ptx()
    sums = 64 * 64 // (32 * product.warps)  # per thread
    products = len(re.findall(r"mma\.sync\S+tf32", ptx))
    assert products == 3 * (64 // 8) * sums // 4
    assert len(re.findall(r"add(?:\.rn)?\.f32", ptx)) >= 64 // 8 * sums
    check_mlir(product.text())
