"""Loops over rings: tensor memory accelerator, mbarriers and wgmma, executed with all checks."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache

import pytest
from faults.noticed import Original
from faults.ptx_mutants import Kind, with_register, wrong_parities
from lowering import check_mlir, compile_mlir
from mirage.compiler.compile import CompileOptions, compile_text
from mirage.compiler.errors import PtxasError
from mirage.compiler.ptxas import find_ptxas
from mirage.emulator import EmulatorError
from mirage.emulator.run_artifact import check_artifact
from thorough import some_of
from written_kernels.warpgroup_graphs import Product

SMALL = Product(128, 128, 192)
TYPES = ("f16", "bf16")


def check(product: Product) -> None:
    """Compare with the µGraph's meaning in float64; the kernel must use warpgroups."""
    text = product.text()
    ptx = compile_mlir(text).ptx()
    assert "wgmma.mma_async" in ptx
    assert "cp.async.bulk.tensor" in ptx
    assert "mma.sync" not in ptx
    check_mlir(text)


@pytest.mark.parametrize("swapped_a", [False, True])
@pytest.mark.parametrize("swapped_b", [False, True])
def test_orders(swapped_a: bool, swapped_b: bool) -> None:
    check(replace(SMALL, swapped_a=swapped_a, swapped_b=swapped_b))


@pytest.mark.parametrize(
    ("m", "n", "k"),
    some_of([(129, 136, 200), (127, 120, 184), (65, 72, 64), (64, 200, 328)], every=2),
)
def test_sizes_that_do_not_divide(m: int, n: int, k: int) -> None:
    """Elements outside are read as zeros, and are not written."""
    check(replace(SMALL, m=m, n=n, k=k))


@pytest.mark.parametrize("m", [63, 57, 33])
def test_a_single_tile_may_hang_over_the_end(m: int) -> None:
    """An instruction has 64 rows, however many the tensor has."""
    check(Product(m, 128, 192, (64, 64, 64)))
    check(Product(m, 128, 192, (64, 64, 64), epilogue=True, residual=True, out="f32"))


@pytest.mark.parametrize("out", ["f16", "f32"])
def test_a_tensor_is_added_to_the_sums(out: str) -> None:
    """Read by the threads that hold them; aligned, past the end, and in rows of odd bytes."""
    check(replace(SMALL, residual=True, out=out))
    check(replace(SMALL, residual=True, epilogue=True, m=129, n=136, k=200, out=out))
    check(replace(SMALL, residual=True, m=67, n=131, k=136, swapped_b=True, out=out))
    check(replace(SMALL, residual=True, batch=2, tile=(64, 128, 64), warps=8, out=out))


ODD = Product(67, 259, 72, (64, 256, 64), warps=4, stages=2, swapped_b=True)


def test_odd_columns() -> None:
    """Rows of the weights must be aligned, but not rows of the result: large results go through
    shared memory, so that lanes store neighbouring elements."""
    check(replace(SMALL, m=67, n=131, k=136, swapped_b=True))
    check(ODD)
    ptx = compile_mlir(ODD.text()).ptx()
    assert "ld.shared" in ptx
    assert "cp.async.bulk.tensor.2d.global" not in ptx


def test_a_missing_barrier_before_odd_columns_are_stored_is_noticed() -> None:
    original = Original(compile_mlir(ODD.text()))
    missed = [m for m in original.unnoticed("barrier") if m.startswith("bar.sync")]
    assert (
        len(missed) <= 1
    )  # of the two around the exchange: the first protects the contents of the ring


@pytest.mark.parametrize(
    ("tile", "warps"),
    some_of(
        [
            ((64, 8, 16), 4),
            ((256, 144, 16), 8),  # registers are moved to the warps that compute
            ((64, 96, 32), 4),
            ((64, 256, 64), 4),
            ((192, 64, 64), 4),
            ((128, 64, 128), 8),
            ((64, 128, 64), 8),
            ((128, 256, 64), 8),
            ((256, 64, 64), 16),
        ],
        every=3,
    ),
)
def test_tiles(tile: tuple[int, int, int], warps: int) -> None:
    m, n, k = tile
    check(Product(m + 8, n + 8, 3 * k + 8, tile, warps=warps, stages=2, swapped_b=n < 16 or k < 16))


@pytest.mark.parametrize("stages", some_of([1, 2, 3, 4], every=3))
@pytest.mark.parametrize("steps", [1, 2, 7])
def test_stages(stages: int, steps: int) -> None:
    check(replace(SMALL, m=64, n=64, k=64 * steps, stages=stages))


@pytest.mark.parametrize(("rows", "warps"), some_of([(128, 4), (192, 4), (256, 8)], every=2))
@pytest.mark.parametrize("steps", [1, 2])
def test_sums_of_several_instructions_in_few_steps(rows: int, warps: int, steps: int) -> None:
    """Sums of known zeros are written to the registers of all instructions before the fence."""
    check(Product(rows, 16, 32 * steps, (rows, 16, 32), warps=warps, stages=2, swapped_b=True))


@pytest.mark.parametrize(("dtype", "out"), [("bf16", "bf16"), ("f16", "f32")])
def test_element_types(dtype: str, out: str) -> None:
    check(replace(SMALL, dtype=dtype, out=out))


@pytest.mark.parametrize("product", [SMALL, replace(SMALL, resident=2), replace(SMALL, cluster=2)])
def test_both_types_of_16_bits_have_the_same_instructions(product: Product) -> None:
    """Hence they take the same time."""
    f16, bf16 = (compile_mlir(replace(product, dtype=t, out=t).text()).ptx() for t in TYPES)
    assert "bf16.bf16" in bf16
    assert bf16.replace("bf16", "f16") == f16


@pytest.mark.parametrize(
    "product", [SMALL, replace(SMALL, epilogue=True, tile=(128, 64, 64), warps=8)]
)
def test_no_barrier_of_the_whole_block_stands_in_a_loop(product: Product) -> None:
    """The last one comes after the barriers of the ring that it publishes."""
    ptx = compile_mlir(product.text()).ptx()
    assert 0 < ptx.rindex("bar.sync \t0;") < ptx.index("mbarrier.try_wait")


def test_epilogue_and_batch() -> None:
    check(replace(SMALL, epilogue=True, n=136))
    check(replace(SMALL, batch=3, m=72, swapped_b=True))


def test_products_of_products() -> None:
    """The same kernel is run again and copies boxes of its own first results, in the workspace."""
    text = replace(SMALL, k=128).text()
    start, end = text.index("%r = kernel.launch"), text.index("kernel.return")
    again = text[start:end].replace("%r = ", "%q = ").replace("(%a, %b)", "(%r, %b)")
    text = text[:end] + again + text[end:].replace("%r", "%q")
    first, second = compile_mlir(text).manifest.kernels
    assert first.entry == second.entry
    kinds = {a.kind for a in second.arguments if a.map is not None}
    assert kinds == {"workspace", "input", "output"}
    check_mlir(text)


@pytest.mark.parametrize(("rows", "cols"), [(17, 3), (35, 2), (2, 5)])
def test_order_of_tiles(rows: int, cols: int) -> None:
    """More tiles than fit into a group of rows, and a last group of fewer rows."""
    check(replace(SMALL, m=64 * rows, n=8 * cols, k=16, tile=(64, 8, 16), stages=2, swapped_b=True))


@pytest.mark.parametrize(
    "product",
    some_of(
        [
            replace(SMALL, n=132),  # rows of 264 bytes
            replace(SMALL, dtype="f32", out="f32"),
            replace(SMALL, tile=(32, 64, 64)),
            replace(SMALL, tile=(64, 64, 8), swapped_a=True),
        ],
        every=2,
    ),
)
def test_what_warpgroups_cannot_do_takes_the_other_path(product: Product) -> None:
    text = product.text()
    assert "wgmma" not in compile_mlir(text).ptx()
    check_mlir(text)


def test_other_chips_take_the_other_path() -> None:
    check_mlir(SMALL.text(), chip="sm_80")


# ---- the effects of mistakes in the ring


RING = replace(SMALL, m=128, n=64, k=64 * 16, tile=(128, 64, 64), warps=8, stages=2)


@cache
def _original() -> Original:
    return Original(compile_mlir(RING.text()))


@pytest.mark.parametrize("kind", ["barrier", "wait", "fence"])
def test_missing_synchronisation_is_noticed(kind: Kind) -> None:
    original = _original()
    missed = original.unnoticed(kind)
    # Either fence covers both arrays of mbarriers. The emulator knows the reads of a product only
    # while it is running, so it does not detect that another group may still read memory that the
    # result is about to overwrite; expand-rings.mlir tests that barrier.
    init = "fence.mbarrier_init.release.cluster;"
    reuse = [m for m in missed if m.startswith("bar.sync")]
    assert len(reuse) <= 1
    assert set(missed) <= {init, *reuse}
    assert kind != "fence" or original.notices(original.ptx.replace(init, ""))


@pytest.mark.parametrize(
    ("pattern", "replacement"),
    [
        (r"(mbarrier\.arrive\.expect_tx\S+ _, \[\S+\], )(\S+);", r"\g<1>16;"),
        (r"@taken mbarrier\.arrive\.shared::cta\.b64 _, \[[^]]+\];", ""),
    ],
)
def test_wrong_counts_are_noticed(pattern: str, replacement: str) -> None:
    original = _original()
    broken, count = re.subn(pattern, replacement, original.ptx)
    assert count
    assert original.notices(broken)


def _init_operands(ptx: str) -> list[tuple[int, int, str]]:
    """Yield start, end and text of the number of arrivals of each mbarrier.init."""
    pattern = re.compile(r"mbarrier\.init\.shared::cta\.b64 \[[^]]+\], ([^;]+);")
    return [(m.start(1), m.end(1), m[1]) for m in pattern.finditer(ptx)]


@pytest.mark.parametrize("count", some_of([1, 2, 7, 9], every=2))
def test_wrong_arrivals_are_noticed(count: int) -> None:
    """Eight warps release a slot, one thread announces its bytes."""
    original = _original()
    ptx = original.ptx
    operands = _init_operands(ptx)
    assert len(operands) == 2 * RING.stages
    for start, end, _ in operands:
        right = re.search(rf"mov\.b32\s+{re.escape(ptx[start:end])}, (\d+);", ptx)
        assert right is not None
        if int(right[1]) == count:
            continue
        register = "%r_wrong"
        broken = ptx[:start] + register + ptx[end:]
        set_to = f"\tmov.b32 {register}, {count};\n"
        assert original.notices(with_register(broken, register, set_to))


def test_wrong_parity_is_noticed() -> None:
    original = _original()
    found = list(wrong_parities(original.ptx))
    assert len(found) == 2
    for broken in found:
        assert original.notices(broken)


def test_longer_tiles() -> None:
    """As many columns more than 128 as 2049 rows need to be 16 tiles."""
    check_mlir(Product(256, 130, 64, (256, 136, 64), 8, 2, swapped_b=True).text())


# ---- the assembler


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
@pytest.mark.parametrize(
    ("tile", "warps", "swapped_b"),
    some_of(
        [
            ((128, 256, 64), 8, False),
            ((128, 256, 64), 8, True),
            ((128, 128, 64), 8, False),
            ((64, 256, 64), 4, True),
            # 144 sums per thread: more than an even share has room for
            ((256, 144, 64), 8, False),
            ((256, 144, 64), 8, True),
            ((256, 208, 32), 8, True),
            ((256, 128, 64), 16, False),
        ],
        every=3,
    ),
)
def test_no_spills_and_no_serialised_products(
    tile: tuple[int, int, int], warps: int, swapped_b: bool
) -> None:
    text = Product(1024, 1024, 1024, tile, warps, 4, swapped_b=swapped_b).text()
    compiled = compile_text(text, CompileOptions(use_cache=False))
    assert compiled.spilled_bytes == 0
    assert not compiled.notes


@pytest.mark.skipif(find_ptxas() is None, reason="ptxas is not installed")
def test_serialised_products_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    from mirage.compiler import compile as module

    original = module.assemble

    def serialise(ptx: str, chip: str) -> object:
        report = original(ptx, chip)
        assert report is not None
        return replace(report, warnings=("info : (C7510) wgmma.mma_async is serialized",))

    monkeypatch.setattr(module, "assemble", serialise)
    with pytest.raises(PtxasError, match=r"wait for each other: .*C7510"):
        compile_text(SMALL.text(), CompileOptions(use_cache=False))


def test_reference_is_checked() -> None:
    """The comparison that the tests above rest on fails for another product."""
    with pytest.raises(EmulatorError):
        check_artifact(compile_mlir(SMALL.text()), lambda a, b: a @ b + 0.5)
