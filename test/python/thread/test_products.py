"""`thread.mma` with its copies and layouts, run in the emulator against NumPy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from thorough import some_of
from written_kernels.thread_kernels import Array, Grid, Kernel, memref, mma_layouts

RNG = np.random.default_rng(7)
_NUMPY = {
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f32": np.dtype(np.float32),
}


def random(shape: tuple[int, ...], dtype: str) -> Array:
    """Normal numbers of an element type."""
    return RNG.standard_normal(shape).astype(_NUMPY[dtype])


def product_kernel(
    m: int, n: int, k: int, tile_k: int, grid: Grid, dtype: str, swizzle: tuple[int, int]
) -> str:
    """Copies both operands tile by tile and accumulates; stores the f32 result."""
    bytes_ = 2 if dtype != "f32" else 4
    a, b, c = mma_layouts(m, n, tile_k, grid, bytes_)
    split = grid.k > 1
    acc = c.fragment("f32", partial=split)
    final = c.fragment("f32")

    def shared(rows: int, cols: int, swz: int) -> str:
        return (
            f"!thread.shared<{rows}x{cols}x{dtype}{f', swizzle = {swz}' if swz else ', pad = 8'}>"
        )

    sa, sb = shared(m, tile_k, swizzle[0]), shared(tile_k, n, swizzle[1])
    finish = (
        f"%f = thread.reduce_warps %r {{scratch = 65536 : i64}} : {acc} -> {final}" if split else ""
    )
    return f"""
    %sa = thread.shared_alloc 0 : {sa}
    %sb = thread.shared_alloc 32768 : {sb}
    %z = thread.constant 0.0 : {acc}
    %r = scf.for %i = %c0 to %c{k // tile_k} step %c1 iter_args(%acc = %z) -> ({acc}) {{
      %k = arith.muli %i, %c{tile_k} : index
      thread.copy_async %a0[%c0, %k] dims [0, 1] in_bounds [true, true] to %sa : memref<{m}x{k}x{dtype}> to {sa}
      thread.copy_async %a1[%k, %c0] dims [0, 1] in_bounds [true, true] to %sb : memref<{k}x{n}x{dtype}> to {sb}
      thread.copy_commit
      thread.copy_wait 0
      thread.barrier
      %fa = thread.load_shared %sa : {sa} -> {a.fragment(dtype)}
      %fb = thread.load_shared %sb : {sb} -> {b.fragment(dtype)}
      %n = thread.mma %fa, %fb, %acc : {a.fragment(dtype)}, {b.fragment(dtype)}, {acc}
      thread.barrier
      scf.yield %n : {acc}
    }}
    {finish}
    thread.store_global %{"f" if split else "r"}, %a2[%c0, %c0] dims [0, 1] in_bounds [true, true] : {final}, memref<{m}x{n}xf32>
"""


@pytest.mark.parametrize(
    ("m", "n", "tile_k", "grid", "dtype", "swizzle"),
    some_of(
        [
            (64, 64, 32, Grid(2, 2, 1), "f16", (64, 128)),
            (16, 128, 64, Grid(1, 4, 1), "f16", (128, 128)),
            (16, 8, 64, Grid(1, 1, 4), "f16", (128, 0)),
            (48, 48, 16, Grid(1, 2, 1), "f16", (32, 32)),
            (32, 24, 32, Grid(2, 1, 1), "bf16", (0, 0)),
            (16, 48, 128, Grid(1, 2, 4), "bf16", (128, 32)),
            (32, 32, 16, Grid(2, 2, 1), "f32", (64, 128)),
            (16, 16, 32, Grid(1, 1, 2), "f32", (0, 64)),
        ],
        every=3,
    ),
)
def test_product(
    m: int, n: int, tile_k: int, grid: Grid, dtype: str, swizzle: tuple[int, int]
) -> None:
    k = 2 * tile_k
    a, b, out = random((m, k), dtype), random((k, n), dtype), np.zeros((m, n), np.float32)
    body = product_kernel(m, n, k, tile_k, grid, dtype, swizzle)
    result = Kernel(body, grid.size, shared_bytes=131072).run(a, b, out, stats=True)
    expected = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    # f32 accumulation of exact products; 3xTF32 adds 2^-21 a product.
    assert np.max(np.abs(out - expected) / scale) < 2.0**-20
    one_panel = swizzle == (2 * tile_k, 2 * n)
    if one_panel and dtype != "f32" and grid.k == 1:
        assert result.stats.bank_conflicts == 0


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_one_source_for_both_targets(chip: str) -> None:
    grid = Grid(2, 2, 1)
    a, b, out = random((64, 64), "f16"), random((64, 64), "f16"), np.zeros((64, 64), np.float32)
    body = product_kernel(64, 64, 64, 32, grid, "f16", (64, 128))
    Kernel(body, 4, chip=chip, shared_bytes=131072).run(a, b, out)
    assert np.allclose(out, a.astype(np.float64) @ b.astype(np.float64), atol=1e-4)


def test_tokens_on_the_n_side() -> None:
    """C^T = W^T X^T: 8 tokens are the instruction's N, W [K, N] is read transposed."""
    tokens, cols, k = 8, 64, 64
    lhs, rhs, acc = mma_layouts(cols, tokens, k, Grid(4, 1, 1), 2)
    x, w, out = (
        random((tokens, k), "f16"),
        random((k, cols), "f16"),
        np.zeros((tokens, cols), np.float32),
    )
    sx, sw = "!thread.shared<8x64xf16, swizzle = 128>", "!thread.shared<64x64xf16, swizzle = 128>"
    body = f"""
    %sx = thread.shared_alloc 0 : {sx}
    %sw = thread.shared_alloc 1024 : {sw}
    thread.copy_async %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] to %sx : {memref(x)} to {sx}
    thread.copy_async %a1[%c0, %c0] dims [0, 1] in_bounds [true, true] to %sw : {memref(w)} to {sw}
    thread.copy_commit
    thread.copy_wait 0
    thread.barrier
    %fw = thread.load_shared %sw transposed : {sw} -> {lhs.fragment("f16")}
    %fx = thread.load_shared %sx transposed : {sx} -> {rhs.fragment("f16")}
    %z = thread.constant 0.0 : {acc.fragment("f32")}
    %r = thread.mma %fw, %fx, %z : {lhs.fragment("f16")}, {rhs.fragment("f16")}, {acc.fragment("f32")}
    %t = thread.transpose %r : {acc.fragment("f32")} -> {acc.transpose().fragment("f32")}
    thread.store_global %t, %a2[%c0, %c0] dims [0, 1] in_bounds [true, true] : {acc.transpose().fragment("f32")}, {memref(out)}
"""
    result = Kernel(body, 4, shared_bytes=16384).run(x, w, out, stats=True)
    assert np.allclose(out, x.astype(np.float64) @ w.astype(np.float64), atol=1e-4)
    assert result.stats.bank_conflicts == 0


def test_product_of_a_product() -> None:
    """softmax-free attention: the f32 result of one product, cast, is the next one's lhs."""
    q, keys, v = random((64, 32), "f16"), random((64, 32), "f16"), random((64, 32), "f16")
    out = np.zeros((64, 32), np.float32)
    a1, b1, c1 = mma_layouts(64, 64, 32, Grid(4), 2)
    a2, b2, c2 = mma_layouts(64, 32, 64, Grid(4), 2)
    tile = "!thread.shared<64x32xf16, swizzle = 64>"
    copies = "\n".join(
        f"""    %s{i} = thread.shared_alloc {i * 4096} : {tile}
    thread.copy_async %a{i}[%c0, %c0] dims [0, 1] in_bounds [true, true] to %s{i} : memref<64x32xf16> to {tile}"""
        for i in range(3)
    )
    body = f"""
{copies}
    thread.copy_commit
    thread.copy_wait 0
    thread.barrier
    %q = thread.load_shared %s0 : {tile} -> {a1.fragment("f16")}
    %k = thread.load_shared %s1 transposed : {tile} -> {b1.fragment("f16")}
    %z1 = thread.constant 0.0 : {c1.fragment("f32")}
    %s = thread.mma %q, %k, %z1 : {a1.fragment("f16")}, {b1.fragment("f16")}, {c1.fragment("f32")}
    %h = thread.cast %s : {c1.fragment("f32")} -> {c1.fragment("f16")}
    %p = thread.convert_layout %h : {c1.fragment("f16")} -> {a2.fragment("f16")}
    %v = thread.load_shared %s2 : {tile} -> {b2.fragment("f16")}
    %z2 = thread.constant 0.0 : {c2.fragment("f32")}
    %o = thread.mma %p, %v, %z2 : {a2.fragment("f16")}, {b2.fragment("f16")}, {c2.fragment("f32")}
    thread.store_global %o, %a3[%c0, %c0] dims [0, 1] in_bounds [true, true] : {c2.fragment("f32")}, memref<64x32xf32>
"""
    result = Kernel(body, 4, shared_bytes=16384).run(q, keys, v, out)
    scores = (q.astype(np.float64) @ keys.astype(np.float64).T).astype(np.float16)
    assert np.allclose(out, scores.astype(np.float64) @ v.astype(np.float64), atol=0.2, rtol=1e-2)
    assert "shuffle" not in result.stats.table()


@pytest.mark.parametrize("bits", [0x7F800000, 0xFF800000, 0x7FFFFFFF, 0xFFC00000, 0x7F800001])
@pytest.mark.parametrize("left", [True, False])
def test_special_f32_factors_are_never_lost(bits: int, left: bool) -> None:
    """An infinity, or a NaN with any bits, in either factor."""
    a, b, c = mma_layouts(16, 8, 8, Grid(), 4)
    x, w, out = random((16, 8), "f32"), random((8, 8), "f32"), np.zeros((16, 8), np.float32)
    (x if left else w).view(np.uint32)[3, 2] = bits
    body = f"""
    %x = thread.load_global %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] : {memref(x)} -> {a.fragment("f32")}
    %w = thread.load_global %a1[%c0, %c0] dims [0, 1] in_bounds [true, true] : {memref(w)} -> {b.fragment("f32")}
    %z = thread.constant 0.0 : {c.fragment("f32")}
    %r = thread.mma %x, %w, %z : {a.fragment("f32")}, {b.fragment("f32")}, {c.fragment("f32")}
    thread.store_global %r, %a2[%c0, %c0] dims [0, 1] in_bounds [true, true] : {c.fragment("f32")}, {memref(out)}
"""
    Kernel(body, 1).run(x, w, out)
    with np.errstate(invalid="ignore"):
        expected = x.astype(np.float64) @ w.astype(np.float64)
    finite = np.isfinite(expected)
    assert np.array_equal(np.isfinite(out), finite)
    assert np.isnan(out[np.isnan(expected)]).all()
    assert np.allclose(out[finite], expected[finite], atol=1e-5)


@pytest.mark.parametrize("half", ["f16", "bf16"])
@pytest.mark.parametrize("swapped", [False, True])
def test_casts_of_16_bits_take_two_products(half: str, swapped: bool) -> None:
    """One factor has all digits of f32, the other one comes from 16 bits, including subnormal
    numbers of f16; both are sliced along K."""
    a, b, c = mma_layouts(32, 16, 32, Grid(2, 1, 1), 4)
    left, right, _ = mma_layouts(32, 16, 8, Grid(2, 1, 1), 4)
    x = random((32, 32), half if swapped else "f32")
    w = random((32, 16), "f32" if swapped else half)
    narrow = x if swapped else w
    narrow[:2] *= narrow.dtype.type(2.0**-16)
    out = np.full((32, 16), np.nan, np.float32)
    lines = [f"%r0 = thread.constant 0.0 : {c.fragment('f32')}"]
    for name, layout, tensor in (("x", a, x), ("w", b, w)):
        kind = half if tensor is narrow else "f32"
        lines.append(
            f"%{name}0 = thread.load_global %a{'xw'.index(name)}[%c0, %c0] dims [0, 1] "
            f"in_bounds [true, true] : {memref(tensor)} -> {layout.fragment(kind)}"
        )
        if tensor is narrow:
            source, target = layout.fragment(half), layout.fragment("f32")
            lines.append(f"%{name} = thread.cast %{name}0 : {source} -> {target}")
    names = ("x", "w0") if swapped else ("x0", "w")
    for i in range(4):
        for side, layout, part, at in (
            (names[0], a, left, f"[0, {8 * i}]"),
            (names[1], b, right, f"[{8 * i}, 0]"),
        ):
            source, target = layout.fragment("f32"), part.fragment("f32")
            lines.append(f"%{side}s{i} = thread.slice %{side} {at} : {source} -> {target}")
        kinds = ", ".join(x.fragment("f32") for x in (left, right, c))
        lines.append(f"%r{i + 1} = thread.mma %{names[0]}s{i}, %{names[1]}s{i}, %r{i} : {kinds}")
    lines.append(
        "thread.store_global %r4, %a2[%c0, %c0] dims [0, 1] in_bounds [true, true] : "
        f"{c.fragment('f32')}, {memref(out)}"
    )
    kernel = Kernel("\n".join(lines), 2)
    kernel.run(x, w, out)
    assert (
        kernel.ptx((x, w, out)).count("mma.sync") == 2 * 4 * 2
    )  # halves of 16 columns, steps, products
    expected = x.astype(np.float64) @ w.astype(np.float64)
    bound = np.abs(x).astype(np.float64) @ np.abs(w).astype(np.float64)
    assert np.all(np.abs(out - expected) <= 2.0**-20 * bound)
