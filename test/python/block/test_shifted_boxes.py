"""Products whose loops begin before the rows of a factor, where boxes can start, executed with all
checks."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from faults.noticed import Original
from lowering import check_mlir, compile_mlir
from mirage.emulator.run_artifact import run_artifact
from mirage.runtime.serialization.artifact import Artifact
from thorough import some_of
from written_kernels.shifted_products import ShiftedProduct

SMALL = ShiftedProduct(groups=64, classes=8, columns=64, depth=67)


@pytest.mark.parametrize(
    "product",
    some_of([
        SMALL,
        # rows of 2, 4 and 8 classes, which end within the first tile of a later row or not
        ShiftedProduct(64, 2, 64, 132, dtype="bf16"),
        ShiftedProduct(64, 4, 128, 130, (64, 128, 64), "warps = 8, stages = 4"),
        ShiftedProduct(70, 8, 72, 121, (64, 32, 64)),
        ShiftedProduct(128, 8, 64, 129, (128, 64, 128), "warps = 8, stages = 2"),
        # more classes than matter
        ShiftedProduct(64, 8, 64, 70),
        ShiftedProduct(64, 8, 64, 131, turned=True),
        ShiftedProduct(40, 4, 80, 194, (32, 64, 64), turned=True),
        # the next tile is being copied while one is stored
        ShiftedProduct(192, 4, 64, 66, schedule="warps = 4, stages = 3, resident = 2"),
    ], every=3),
)  # fmt: skip
def test_products(product: ShiftedProduct) -> None:
    """Tiles are copied as boxes, and warps that multiply copy nothing from the tensors."""
    ptx = compile_mlir(product.text).ptx()
    assert "wgmma.mma_async" in ptx
    assert len(re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared", ptx)) >= 2
    assert not re.search(r"ld\.global", ptx)
    check_mlir(product.text)


def spoiled_rows(artifact: Artifact) -> np.ndarray:
    """Return whether NaN and infinities at the ends of some rows of ``SMALL`` spoil other rows of
    the result, or do not spoil their own."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((64, 8, 67)).astype(np.float16)
    b = rng.standard_normal((67, 64)).astype(np.float16)
    own = np.zeros((64, 8), dtype=bool)
    for group, number in ((0, 0), (0, 7), (1, 0), (9, 3), (9, 5), (40, 6), (63, 7)):
        a[group, number, 0], a[group, number, -1] = np.nan, np.inf
        own[group, number] = True
    (found,) = run_artifact(artifact, [a, b]).outputs
    finite = np.isfinite(found.astype(np.float32))
    rows = finite if found.shape == (64, 8, 64) else np.moveaxis(finite, 0, -1)
    return rows.all(-1) == own


@pytest.mark.parametrize("turned", [False, True])
def test_rows_beside_a_row_are_not_read(turned: bool) -> None:
    assert not spoiled_rows(compile_mlir(replace(SMALL, turned=turned).text)).any()


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        # no zeros at all; none before the rows; none in the first place behind them
        (r"selp\.b16 (\s*%rs\d+, %rs\d+), 0x0000, %p\d+;", r"mov.b16 \1;"),
        (r"setp\.lt\.u32 (\s*%p\d+, %r\d+), 67;", r"setp.lt.s32 \1, 67;"),
        (r"setp\.lt\.u32 (\s*%p\d+, %r\d+), 67;", r"setp.lt.u32 \1, 68;"),
    ],
)
def test_missing_zeros_are_noticed(pattern: str, replacement: str) -> None:
    artifact = compile_mlir(SMALL.text)
    assert re.search(pattern, artifact.ptx())
    broken = re.sub(pattern, replacement, artifact.ptx()).encode()
    files = {**artifact.files, artifact.manifest.modules[0].ptx: broken}
    assert spoiled_rows(Artifact(artifact.manifest, files)).any()


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        # the shift: left out, or by another number of elements
        (r"and\.b32 (\s*%r\d+, %r\d+), 7;", r"and.b32 \1, 0;"),
        (r"and\.b32 (\s*%r\d+, %r\d+), 7;", r"and.b32 \1, 3;"),
        # the shift of one of the two factors
        (r"sub\.s32 (\s*%r\d+), (%r\d+), (%r\d+);", r"add.s32 \1, \2, \3;"),
        (r"fence\.proxy\.async[^;]*;", ""),
    ],
)
def test_wrong_kernels_are_noticed(pattern: str, replacement: str) -> None:
    original = Original(compile_mlir(SMALL.text))
    assert re.search(pattern, original.ptx)
    assert original.notices(re.sub(pattern, replacement, original.ptx))


def test_a_loop_that_computes_more_is_not_shifted() -> None:
    """Steps other than those of the rows would read other elements."""
    text = SMALL.text.replace(
        "block.accumulate sum %p", "%q = block.unary exp %p\n      block.accumulate sum %q"
    )
    text = re.sub(
        r"(block\.unary exp %p)", r"\1 : (!block.tile<64x64xf32>) -> !block.tile<64x64xf32>", text
    )
    ptx = compile_mlir(text).ptx()
    assert "wgmma.mma_async" not in ptx
    check_mlir(text)
