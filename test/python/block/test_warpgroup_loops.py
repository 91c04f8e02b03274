"""Loops of several products by warpgroups: attention and others, executed with all checks."""

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
from thorough import some_of
from written_kernels.warpgroup_attention import Attention
from written_kernels.warpgroup_loops import HiddenLoop, computed_factor

SMALL = Attention(64, 192)


def check(text: str) -> None:
    """Compare with the µGraph's meaning in float64; all products must be those of warpgroups."""
    ptx = compile_mlir(text).ptx()
    assert "wgmma.mma_async" in ptx
    assert "mma.sync" not in ptx
    check_mlir(text)


@pytest.mark.parametrize(
    ("steps", "stages"),
    some_of([(1, 1), (1, 3), (2, 2), (2, 3), (3, 1), (3, 2), (5, 2), (5, 3)], every=3),
)
def test_steps_and_stages(steps: int, stages: int) -> None:
    check(replace(SMALL, keys=64 * steps, stages=stages).text())


@pytest.mark.parametrize("dtype", some_of(["f16", "bf16"], every=2))
@pytest.mark.parametrize("turned", [False, True])
def test_types_and_orders(dtype: str, turned: bool) -> None:
    check(replace(SMALL, dtype=dtype, turned=turned, heads=2).text())


@pytest.mark.parametrize(
    ("tile", "dim", "warps"),
    some_of(
        [
            ((64, 128), 64, 4),
            ((64, 32), 128, 4),
            ((64, 48), 64, 4),
            ((128, 64), 64, 8),
            ((128, 128), 128, 8),
            ((128, 64), 64, 4),
            ((64, 64), 256, 4),
            ((64, 128), 128, 8),
        ],
        every=3,
    ),
)
def test_tiles(tile: tuple[int, int], dim: int, warps: int) -> None:
    """The last one has more warps than rows: both share the columns."""
    rows, keys = tile
    check(Attention(rows, 2 * keys, dim, tile, warps=warps).text())


@pytest.mark.parametrize(
    ("rows", "keys"), some_of([(127, 128), (65, 130), (64, 72), (130, 190)], every=2)
)
def test_sizes_that_do_not_divide(rows: int, keys: int) -> None:
    check(replace(SMALL, rows=rows, keys=keys).text())


def test_other_operands() -> None:
    """A bias from shared memory, other columns of v, a first factor in registers, an f32 result."""
    check(replace(SMALL, bias=True).text())
    check(replace(SMALL, bias=True, rows=70, keys=136).text())
    check(replace(SMALL, columns=96).text())
    check(replace(SMALL, held=True).text())
    check(replace(SMALL, out="f32").text())


@pytest.mark.parametrize(
    ("gains", "keys", "step"), [("f32", 256, 128), ("f32", 200, 128), ("f16", 512, 256)]
)
def test_single_rows_through_the_ring(gains: str, keys: int, step: int) -> None:
    """A row of numbers is one box without a swizzle, in a separate tile."""
    text = Attention(64, keys, tile=(64, step), gains=gains, stages=3).text()
    assert compile_mlir(text).ptx().count("cp.async.bulk.tensor") >= 4
    check(text)


@pytest.mark.parametrize(
    ("engine", "scale", "tile", "stages"),
    some_of(
        [
            ("warp", 0.125, (64, 64), 1),
            ("warp", 1.0, (64, 64), 3),
            ("warp", 6.0, (128, 64), 2),
            ("warpgroup", 0.125, (128, 64), 2),
            ("warpgroup", 1.0, (64, 64), 1),
            ("warpgroup", 6.0, (64, 64), 3),
            ("warpgroup", 6.0, (64, 64), 1),
        ],
        every=2,
    ),
)
def test_maxima_that_move(engine: str, scale: float, tile: tuple[int, int], stages: int) -> None:
    """Scores that are far apart and close to each other: the number that is used as the maximum
    changes at some steps, and is below it at the end."""
    rows, _ = tile
    attention = replace(SMALL, rows=rows, keys=320, tile=tile, warps=rows // 16, stages=stages)
    text = replace(attention, scale=scale, engine=engine).text()
    ptx = compile_mlir(text).ptx()
    assert "vote.sync.any.pred" in ptx
    check_mlir(text)


@pytest.mark.parametrize(
    ("gate", "also_sum", "stages"),
    some_of([(False, False, 1), (False, True, 2), (True, False, 2), (True, True, 1)], every=2),
)
def test_hidden_loops(gate: bool, also_sum: bool, stages: int) -> None:
    check(HiddenLoop(gate=gate, also_sum=also_sum, stages=stages).text())


@pytest.mark.parametrize(("steps", "stages"), [(1, 2), (3, 1), (3, 2), (4, 3)])
def test_computed_first_factor(steps: int, stages: int) -> None:
    check(computed_factor(steps, stages))


@pytest.mark.parametrize(
    ("rows", "keys", "dim", "tile", "warps", "stages"),
    some_of(
        [
            (64, 64, 64, (64, 64), 4, 1),
            (64, 192, 48, (64, 64), 4, 2),
            (127, 130, 64, (64, 64), 4, 3),
            (128, 128, 128, (128, 64), 8, 2),
            (64, 256, 128, (64, 128), 8, 2),
        ],
        every=2,
    ),
)
def test_factor_that_all_steps_read(
    rows: int, keys: int, dim: int, tile: tuple[int, int], warps: int, stages: int
) -> None:
    """It is written to shared memory once, whether products are deferred or not."""
    text = Attention(rows, keys, dim, tile, warps=warps, stages=stages, held=True).text()
    assert kept_factors(text) == 1
    check(text)


def kept_factors(text: str) -> int:
    """Tiles that are written to shared memory before the loop."""
    ptx = compile_mlir(text).ptx()
    before = ptx[: ptx.index("wgmma.mma_async")]
    return before.count("fence.proxy.async")


@pytest.mark.parametrize("blocks", some_of([1, 2], every=2))
def test_factor_of_each_tile_of_a_block(blocks: int) -> None:
    """The factor of the next tile replaces it when all products have read it."""
    hidden = HiddenLoop(m=320, tile=(64, 64), resident=blocks, changed=True)
    assert kept_factors(hidden.text()) == 1
    check(hidden.text())
    check(replace(hidden, m=384, tile=(128, 64), warps=8, gate=True).text())


# ---- the effects of mistakes

LONG = Attention(64, 64 * 5, 64, (64, 64), stages=2)


@cache
def _original() -> Original:
    return Original(compile_mlir(LONG.text()))


def test_missing_order_of_a_factor_is_noticed() -> None:
    """The barrier before a tile's factor replaces the previous one, and the fence and the barrier
    after the writes."""
    loop = HiddenLoop(m=384, tile=(128, 64), warps=8, resident=1, changed=True)
    original = Original(compile_mlir(loop.text()))
    ptx = original.ptx
    role = re.search(r"bar\S*\.sync\s+1, 256;", ptx)
    assert role
    orders = re.compile(r"bar\S*\.sync\s+1, 256;|fence\.proxy\.async\S*;")
    found = list(orders.finditer(ptx, role.start(), ptx.index("wgmma.mma_async")))
    assert len(found) == 3
    for at in found:
        assert original.notices(ptx[: at.start()] + ptx[at.end() :]), at[0]


@pytest.mark.parametrize("kind", ["barrier", "wait", "fence"])
def test_missing_synchronisation_is_noticed(kind: Kind) -> None:
    original = _original()
    missed = original.unnoticed(kind)
    # Any fence covers all earlier arrays of mbarriers. A missing barrier before the result reuses
    # the memory of a ring is not detected (test_rings.py explains why).
    init = "fence.mbarrier_init.release.cluster;"
    missed = [m for m in missed if m != init and not m.startswith("bar.sync")]
    # The slot of q is free from the start, and one wait for a slot of v only keeps the assembler
    # from moving arithmetic. The registers of a product that starts from zero are not read.
    waits = [m for m in missed if m.startswith("mbarrier.try_wait")]
    fences = [m for m in missed if m.startswith("wgmma.fence")]
    assert len(waits) <= 2
    assert len(fences) <= 2
    assert len(missed) == len(waits) + len(fences)
    assert kind != "fence" or original.notices(original.ptx.replace(init, ""))


def test_wrong_parity_is_noticed() -> None:
    original = _original()
    found = list(wrong_parities(original.ptx))
    assert len(found) >= 6
    for broken in found:
        assert original.notices(broken)


@pytest.mark.parametrize(
    ("pattern", "replacement", "needed"),
    [
        (r"(mbarrier\.arrive\.expect_tx\S+ _, \[\S+\], )(\S+);", r"\g<1>16;", 3),
        (r"@taken mbarrier\.arrive\.shared::cta\.b64 _, \[[^]]+\];", "", 3),
    ],
)
def test_wrong_counts_are_noticed(pattern: str, replacement: str, needed: int) -> None:
    """Each one separately: of the rings of q, k and v. Nothing waits for the last release."""
    original = _original()
    ptx = original.ptx
    found = list(re.finditer(pattern, ptx))
    assert len(found) >= needed
    for at in found[:needed]:
        broken = ptx[: at.start()] + at.expand(replacement) + ptx[at.end() :]
        assert original.notices(broken), at[0]


# ---- the assembler


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize(
    "attention",
    some_of(
        [
            Attention(4096, 4096, 128, (128, 128), 32, 8),
            Attention(4096, 4096, 64, (128, 128), 32, 8),
            Attention(4096, 4096, 128, (128, 64), 32, 8, dtype="bf16", turned=True),
            Attention(4096, 4096, 256, (128, 64), 32, 8),
            Attention(4096, 4096, 128, (64, 128), 32, 4),
            Attention(4096, 4096, 128, (128, 64), 32, 8, bias=True),
        ],
        every=2,
    ),
)
def test_no_spills_and_no_serialised_products(attention: Attention) -> None:
    compiled = compile_text(attention.text(), CompileOptions(use_cache=False))
    assert compiled.spilled_bytes == 0
    assert not compiled.notes
