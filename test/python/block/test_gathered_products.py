"""Products of warpgroups whose factors are rows by index: copied to rings by warps, or boxes of an
expert's matrix; executed with all checks."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from faults.noticed import Original
from faults.ptx_mutants import Kind, with_register, wrong_parities
from lowering import check_mlir, compile_mlir
from mirage.compiler.compile import CompileOptions, compile_text
from mirage.compiler.ptxas import find_ptxas
from mirage.emulator.run_artifact import check_artifact
from thorough import some_of
from written_kernels.gathered_products import GatheredProduct

SMALL = GatheredProduct()


def check(product: GatheredProduct) -> str:
    """Compare with the µGraph's meaning in float64, and return the PTX. The kernel must use
    warpgroups and copy rows that are looked up by `cp.async` and all other tiles as boxes."""
    ptx = compile_mlir(product.text()).ptx()
    assert "wgmma.mma_async" in ptx
    assert "mma.sync" not in ptx
    # Only rows have arrivals of all threads.
    assert ("cp.async.mbarrier.arrive.noinc" in ptx) == product.by_row
    assert "cp.async.bulk.tensor" in ptx
    check_mlir(product.text())
    return ptx


@pytest.mark.parametrize("by_expert", some_of([False, True], every=2))
@pytest.mark.parametrize("by_row", [False, True])
@pytest.mark.parametrize("swapped", [False, True])
def test_factors(by_row: bool, by_expert: bool, swapped: bool) -> None:
    if by_row or by_expert:
        check(replace(SMALL, by_row=by_row, by_expert=by_expert, swapped=swapped))


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_types(index: str, dtype: str) -> None:
    check(replace(SMALL, index=index, dtype=dtype))


@pytest.mark.parametrize(("block", "n", "k"), [(72, 72, 200), (100, 120, 64), (129, 72, 136)])
def test_sizes_that_do_not_divide(block: int, n: int, k: int) -> None:
    check(replace(SMALL, block=block, n=n, k=k, blocks=2))


@pytest.mark.parametrize(
    ("stages", "steps"), some_of([(1, 1), (1, 5), (2, 2), (3, 2), (3, 5), (4, 1), (4, 5)], every=2)
)
def test_stages(stages: int, steps: int) -> None:
    check(replace(SMALL, stages=stages, k=64 * steps, blocks=2))


@pytest.mark.parametrize(
    ("tile", "warps"),
    some_of(
        [((128, 64, 64), 8), ((64, 128, 32), 4), ((64, 96, 16), 4), ((128, 256, 64), 8)], every=2
    ),
)
def test_tiles(tile: tuple[int, int, int], warps: int) -> None:
    m, n, k = tile
    check(replace(SMALL, block=m, n=n + 8, k=2 * k + 8, tile=tile, warps=warps, blocks=2))


def test_two_products() -> None:
    check(replace(SMALL, gate=True))


def test_registers_are_moved() -> None:
    """From the group that copies, all of whose warps do."""
    ptx = check(replace(SMALL, block=256, n=144, k=56, tile=(256, 144, 16), warps=8, blocks=2))
    assert "setmaxnreg.dec" in ptx


def test_blocks_that_go_on() -> None:
    """Other experts follow, one of which may not exist."""
    check(replace(SMALL, resident=2, n=128, stages=3))
    check(replace(SMALL, resident=3, blocks=5, gate=True))
    check(replace(SMALL, resident=3, blocks=5, stages=3, by_row=False))


def test_clusters_are_not_for_looked_up_rows() -> None:
    product = replace(SMALL, cluster=2, n=128)
    assert "multicast" not in check(product)


def _inputs(product: GatheredProduct, owners: list[int], rows: np.ndarray) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((product.tokens, product.k)) / 2
    w = rng.standard_normal((product.experts, product.k, product.n)) / 2
    return [x.astype(np.float16), w.astype(np.float16), rows, np.array(owners)]


@pytest.mark.parametrize(
    ("owners", "last"),
    [
        ([0, 0, 0, 0], 8),
        ([2, 2, 0, 2], 9),
        ([2, 2, 0, 2], -1),
        ([0, 3, 2, -1], 8),
        ([0, 3, 2, -1], 1 << 40),
        ([7, 7, 7, 7], 8),
        ([7, 7, 7, 7], 9),
    ],
)
def test_experts_and_rows(owners: list[int], last: int) -> None:
    """One expert has all rows, some have none, and some do not exist, which gives NaN."""
    product = SMALL
    rows = np.random.default_rng(1).integers(0, product.tokens, (product.blocks, product.block))
    rows[:, -3] = last

    def expected(x: np.ndarray, w: np.ndarray, at: np.ndarray, of: np.ndarray) -> tuple[np.ndarray]:
        found = x.astype(np.float64)[np.clip(at.astype(np.int64), 0, product.tokens - 1)]
        found[(at < 0) | (at >= product.tokens)] = np.nan
        own = w.astype(np.float64)[np.clip(of.astype(np.int64), 0, product.experts - 1)]
        own[(of < 0) | (of >= product.experts)] = np.nan
        return (found @ own,)

    given = _inputs(product, owners, rows)
    check_artifact(compile_mlir(product.text()), expected, inputs=given, tolerance=2e-3)


@pytest.mark.parametrize("index", ["i32", "i64"])
def test_experts_and_rows_from_the_end(index: str) -> None:
    product = replace(SMALL, from_end=True, index=index)
    rows = np.random.default_rng(2).integers(
        -product.tokens, product.tokens, (product.blocks, product.block)
    )
    rows[:, -3:] = [-product.tokens - 1, product.tokens, -product.tokens]

    def expected(x: np.ndarray, w: np.ndarray, at: np.ndarray, of: np.ndarray) -> tuple[np.ndarray]:
        at, of = at.astype(np.int64), of.astype(np.int64)
        outside = (at < -product.tokens) | (at >= product.tokens)
        found = x.astype(np.float64)[np.where(outside, 0, at)]
        found[outside] = np.nan
        missing = of < -product.experts
        own = w.astype(np.float64)[np.where(missing, 0, of)]
        own[missing] = np.nan
        return (found @ own,)

    given = _inputs(product, [-1, 0, -product.experts, -product.experts - 1], rows)
    whole = np.int32 if index == "i32" else np.int64
    given[2:] = [x.astype(whole) for x in given[2:]]
    check_artifact(compile_mlir(product.text()), expected, inputs=given, tolerance=2e-3)


def test_what_cannot_be_copied_in_pieces_takes_the_other_path() -> None:
    product = replace(SMALL, n=68)  # rows of 136 bytes
    assert "wgmma" not in compile_mlir(product.text()).ptx()
    check_mlir(product.text())


# ---- the effects of mistakes

RING = replace(SMALL, k=64 * 8, blocks=3)


@cache
def _original() -> Original:
    return Original(compile_mlir(RING.text()))


@pytest.mark.parametrize("kind", ["wait", "fence"])
def test_missing_synchronisation_is_noticed(kind: Kind) -> None:
    init = "fence.mbarrier_init.release.cluster;"
    leaving = "cp.async.wait_group 0;"  # consumers have waited for all copies by then
    assert set(_original().unnoticed(kind)) <= {init, leaving}


@pytest.mark.parametrize("kind", ["wait", "fence"])
def test_missing_synchronisation_of_boxes_is_noticed(kind: Kind) -> None:
    """For warps that write only the rows of a missing expert."""
    original = Original(compile_mlir(replace(RING, by_row=False, blocks=4).text()))
    init, copied = "fence.mbarrier_init.release.cluster;", "cp.async.wait_group 0;"
    assert set(original.unnoticed(kind)) <= {init, copied}
    if kind == "fence":
        place = original.ptx.index("fence.proxy.async.shared::cta;")
        end = original.ptx.index(";", place) + 1
        assert original.notices(original.ptx[:place] + original.ptx[end:])


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    some_of(
        [
            (r"fence\.proxy\.async\.shared::cta;", ""),
            (r"cp\.async\.mbarrier\.arrive\.noinc\.shared::cta\.b64 \[[^]]+\];", ""),
            # As if copies were complete when they begin.
            (
                r"cp\.async\.mbarrier\.arrive\.noinc\.shared::cta\.b64 (\[[^]]+\]);",
                r"mbarrier.arrive.shared::cta.b64 _, \1;",
            ),
            (r"@taken mbarrier\.arrive\.shared::cta\.b64 _, \[[^]]+\];", ""),
            (r"(mbarrier\.arrive\.expect_tx\S+ _, \[\S+\], )(\S+);", r"\g<1>16;"),
        ],
        every=2,
    ),
)
def test_broken_arrivals_are_noticed(pattern: str, replacement: str) -> None:
    ptx = _original().ptx
    places = list(re.finditer(pattern, ptx))
    assert places
    for place in places:
        broken = ptx[: place.start()] + place.expand(replacement) + ptx[place.end() :]
        assert _original().notices(broken), place[0]


def test_wrong_parity_is_noticed() -> None:
    for broken in wrong_parities(_original().ptx):
        assert _original().notices(broken)


@pytest.mark.parametrize("count", [1, 5, 129, 132, 134])
def test_wrong_arrivals_are_noticed(count: int) -> None:
    """128 threads and 4 warps arrive, and the one that fills the box."""
    ptx = _original().ptx
    register = "%r_wrong"
    right = re.findall(r"mov\.b32\s+(%r\d+), 133;", ptx)
    assert len(right) == 1
    broken = re.sub(
        rf"(mbarrier\.init\S+ \[[^]]+\], ){re.escape(right[0])};", rf"\1{register};", ptx
    )
    assert broken != ptx
    assert _original().notices(with_register(broken, register, f"\tmov.b32 {register}, {count};\n"))


# ---- the assembler


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize(
    ("tile", "warps", "gate"),
    [((128, 256, 64), 8, False), ((128, 128, 64), 8, True), ((64, 256, 64), 4, False)],
)
def test_no_spills_and_no_serialised_products(
    tile: tuple[int, int, int], warps: int, gate: bool
) -> None:
    product = GatheredProduct(8, 128, 1024, 1024, tile, 512, 8, warps, 4, gate=gate)
    compiled = compile_text(product.text(), CompileOptions(use_cache=False))
    assert compiled.spilled_bytes == 0
    assert not compiled.notes
