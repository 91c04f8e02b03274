"""Products of tensors whose rows start at any element, executed with all checks."""

from __future__ import annotations

import re

import numpy as np
import pytest
from faults.noticed import Original
from lowering import check_mlir, compile_mlir
from mirage.emulator.run_artifact import run_artifact
from thorough import some_of
from written_kernels.odd_products import linear, product

DYNAMIC = ", dynamic = #kernel.dynamic<bound = 24, tensors = [0]>"


@pytest.mark.parametrize(
    ("m", "n", "k", "chips"),
    [
        (35, 37, 41, ("sm_80", "sm_90a")),
        (33, 35, 64, ("sm_90a", "sm_80")),
        (32, 33, 64, ("sm_80", "sm_90a")),
        (33, 41, 65, ("sm_90a", "sm_80")),
        (32, 131, 35, ("sm_80", "sm_90a")),
        (64, 63, 127, ("sm_90a", "sm_80")),
    ],
)
@pytest.mark.parametrize("stages", some_of([1, 3], 4))
def test_products(chips: tuple[str, str], m: int, n: int, k: int, stages: int) -> None:
    """An odd or even total number of elements; rows that end within a tile, or with one. The chips
    are those for one stage and for three."""
    chip = chips[stages == 3]
    text = product(m, n, k, (32, 32, 32), "f16" if stages == 1 else "bf16", stages)
    ptx = compile_mlir(text, chip).ptx()
    assert re.search(r"prmt\.b32\.f4e|shf\.r", ptx)
    check_mlir(text, chip=chip)


@pytest.mark.parametrize("tile", [(16, 64, 16), (32, 8, 64), (64, 128, 16)])
def test_tiles(tile: tuple[int, int, int]) -> None:
    check_mlir(product(65, 133, 67, tile, "f16", 2))


@pytest.mark.parametrize("tile", [(16, 24, 48), (16, 40, 80), (32, 72, 144)])
@pytest.mark.parametrize("stages", some_of([1, 2], 2))
def test_rows_of_which_threads_have_no_whole_number(
    tile: tuple[int, int, int], stages: int
) -> None:
    """Rows of 3, 5, 6, 9, 10 and 18 pieces: they are shifted like others; only the last piece of
    all is copied element by element."""
    text = product(65, 133, 149, tile, "f16", stages)
    ptx = compile_mlir(text).ptx()
    assert re.search(r"prmt\.b32\.f4e|shf\.r", ptx)
    assert len(re.findall(r"ld\.global(?:\.nc)?\.b16", ptx)) < len(
        re.findall(r"b32\.f4e|shf\.r", ptx)
    )
    check_mlir(text)


def test_wrong_words_are_noticed() -> None:
    """Shifts that are left out, and a last element that is not copied."""
    original = Original(compile_mlir(product(35, 37, 41, (32, 32, 32), "f16", 2)))
    ptx = original.ptx
    for pattern, replacement in (
        (r"prmt\.b32\.f4e (\s*%r\d+, %r\d+, %r\d+), %r\d+;", r"prmt.b32.f4e \1, 0;"),
        (r"ld\.global(?:\.nc)?\.b16 (\s*%rs\d+), (\[[^]]+\]);", r"mov.b16 \1, 0;"),
    ):
        found = list(re.finditer(pattern, ptx))
        assert found, pattern
        broken = re.sub(pattern, replacement, ptx)
        assert original.notices(broken), pattern


# ---- rows with the same offset within lines in shared memory


@pytest.mark.parametrize(
    ("m", "n", "k", "tile", "dtype", "schedule"),
    some_of(
        [
            (16, 40, 145, (16, 32, 64), "f16", "warps = 4, stages = 3"),
            (5, 64, 127, (8, 32, 64), "bf16", "warps = 4, stages = 2"),
            (33, 70, 201, (32, 64, 32), "f16", "warps = 8, stages = 3"),
            (16, 24, 49, (16, 8, 48), "f16", "warps = 2, stages = 2"),
            (8, 64, 255, (8, 64, 128), "bf16", "warps = 4, stages = 3"),
            (64, 33, 131, (32, 32, 16), "f16", "warps = 4, stages = 4"),
            (17, 31, 333, (16, 16, 256), "f16", "warps = 1, stages = 1"),
        ],
        every=2,
    ),
)
def test_factors_that_are_contracted_along_odd_rows(
    m: int, n: int, k: int, tile: tuple[int, int, int], dtype: str, schedule: str
) -> None:
    """They are copied in whole lines, for any number of lines per thread, and not through
    registers."""
    text = linear(m, n, k, tile, dtype, schedule)
    ptx = compile_mlir(text).ptx()
    assert "cp.async.cg.shared.global" in ptx
    assert not re.search(r"ld\.global", ptx)
    check_mlir(text)


@pytest.mark.parametrize("k", [511, 513])
def test_words_between_pairs_are_read_once(k: int) -> None:
    """Nine words for eight pairs, with at most two rows in a bank."""
    m, n = 16, 32
    artifact = compile_mlir(linear(m, n, k, (m, n, 256), "f16"))
    ptx = artifact.ptx()
    words = len(re.findall(r"ld\.shared\.b32", ptx))
    assert words <= 9 / 8 * len(re.findall(r"prmt\.b32\.f4e|shf\.[lr]", ptx)) + 4
    inputs = [np.ones((rows, k), np.float16) for rows in (m, n)]
    (counters,) = run_artifact(artifact, inputs).counters
    assert counters.bank_conflicts < 0.5 * counters.shared_wavefronts


def test_rows_that_are_not_there() -> None:
    """A kernel that takes the number of rows copies no line of others, at any size."""
    text = linear(24, 40, 145, (16, 32, 64), "f16", attributes=DYNAMIC)
    ptx = compile_mlir(text).ptx()
    assert "cp.async.cg.shared.global" in ptx
    assert not re.search(r"ld\.global", ptx)
    check_mlir(text)


def test_tiles_that_start_within_lines() -> None:
    """Blocks of four rows: if rows started at odd elements in shared memory too, they would be
    copied element by element."""
    check_mlir(linear(12, 24, 77, (4, 12, 32), "f16"))


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"cp\.async\.wait_group\s+\d+;", ""),
        (r"bar\.sync\s+0;", ""),
        # lines that are read to their end, beyond the rows' ends
        (r"(cp\.async\.cg\.shared\.global [^;]*), 16, %r\d+;", r"\1, 16;"),
        # pairs that start at a word, all of them or none
        (r"prmt\.b32\.f4e (\s*%r\d+, %r\d+, %r\d+), %r\d+;", r"prmt.b32.f4e \1, 0;"),
        (r"prmt\.b32\.f4e (\s*%r\d+, %r\d+, %r\d+), %r\d+;", r"prmt.b32.f4e \1, 2;"),
    ],
)
def test_broken_copies_of_skewed_rows_are_noticed(pattern: str, replacement: str) -> None:
    """In all places at once: the values that replace zeros of one factor are multiplied by zeros of
    the other one. (`test_compiled.py` breaks one place at a time.)"""
    original = Original(compile_mlir(linear(9, 20, 81, (16, 16, 32), "f16")))
    broken, places = re.subn(pattern, replacement, original.ptx)
    assert places
    assert original.notices(broken)
