"""Loads, stores and copies: tails, strides, alignments, swizzles, replicated layouts."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from thorough import some_of
from written_kernels.thread_kernels import (
    Array,
    Grid,
    Kernel,
    Layout,
    blocked,
    dtype_of,
    memref,
    mma_layouts,
)

RNG = np.random.default_rng(11)


def numbers(shape: tuple[int, ...], dtype: type = np.float32) -> Array:
    """Return distinct values that every type can hold."""
    return (RNG.permutation(int(np.prod(shape))) % 2000).astype(dtype).reshape(shape)


def padded(a: Array, rows: int, cols: int, row: int, col: int) -> Array:
    """The tile at (row, col), zero outside."""
    out = np.zeros((rows, cols), a.dtype)
    part = a[row : row + rows, col : col + cols]
    out[: part.shape[0], : part.shape[1]] = part
    return out


def copy_body(a: Array, out: Array, layout: Layout, row: int, col: int) -> str:
    """Loads a tile and stores it whole."""
    fragment = layout.fragment(dtype_of(a))
    return f"""
    %x = thread.load_global %a0[%c{row}, %c{col}] dims [0, 1] in_bounds [false, false] : {memref(a)} -> {fragment}
    thread.store_global %x, %a1[%c0, %c0] dims [0, 1] in_bounds [true, true] : {fragment}, {memref(out)}
"""


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize(
    ("shape", "row", "col", "layout"),
    [
        ((64, 64), 0, 0, blocked(32, 32, 4, 4)),
        ((40, 50), 32, 32, blocked(16, 32, 8, 4)),
        ((7, 100), 0, 96, blocked(8, 16, 4, 2)),
        ((33, 24), 16, 8, mma_layouts(32, 16, 16, Grid(2, 2), 2)[2]),
        ((20, 72), 0, 24, blocked(16, 48, 8, 4)),
        ((3, 5), 0, 0, blocked(1, 4, 1, 1)),
    ],
)
def test_tails_of_loads(
    shape: tuple[int, int], row: int, col: int, layout: Layout, dtype: type
) -> None:
    a = numbers(shape, dtype)
    rows, cols = layout.shape
    out = np.full((rows, cols), -1, dtype)
    warps = 1 << len(layout.warp)
    Kernel(copy_body(a, out, layout, row, col), warps).run(a, out)
    assert np.array_equal(out, padded(a, rows, cols, row, col))


@pytest.mark.parametrize("shape", [(30, 61), (32, 64), (9, 40)])
def test_tails_of_stores(shape: tuple[int, int]) -> None:
    layout = blocked(32, 64, 4, 4)
    a, out = numbers((32, 64)), np.full(shape, -1, np.float32)
    fragment = layout.fragment("f32")
    body = f"""
    %x = thread.load_global %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] : {memref(a)} -> {fragment}
    thread.store_global %x, %a1[%c0, %c0] dims [0, 1] in_bounds [false, false] : {fragment}, {memref(out)}
"""
    Kernel(body).run(a, out)
    assert np.array_equal(out, a[: shape[0], : shape[1]])


def test_accesses_are_wide_when_alignment_is_provable() -> None:
    layout = blocked(32, 64, 8, 4)
    a, out = numbers((32, 64), np.float16), np.zeros((32, 64), np.float16)
    assert "ld.global.nc.v4" in Kernel(copy_body(a, out, layout, 0, 0)).ptx([a, out])
    # 61 columns of 2 bytes: rows start anywhere.
    b = numbers((32, 61), np.float16)
    assert "ld.global.nc.v" not in Kernel(copy_body(b, out, layout, 0, 0)).ptx([b, out])


def test_misaligned_offsets_are_not_assumed_away() -> None:
    """The tile is at an odd column: the offset is known only when the kernel runs."""
    layout = blocked(8, 16, 4, 1)
    a = numbers((8, 64))
    for col in (0, 1, 3, 20, 47):
        out = np.full((8, 16), -1, np.float32)
        Kernel(copy_body(a, out, layout, 0, col), 1).run(a, out)
        assert np.array_equal(out, padded(a, 8, 16, 0, col))


def test_strided_and_transposed_tensors() -> None:
    layout = blocked(16, 32, 4, 4)
    store = numbers((64, 48))
    transposed = store.T[:16, :32]
    sliced = store[:16, ::1][:, :32]
    for view in (transposed, sliced):
        out = np.full((16, 32), -1, np.float32)
        Kernel(copy_body(view, out, layout, 0, 0)).run(view, out)
        assert np.array_equal(out, view)


def test_dims_select_from_higher_ranks() -> None:
    layout = blocked(16, 32, 4, 4)
    fragment = layout.fragment("f32")
    a, out = numbers((3, 16, 2, 32)), np.zeros((16, 32), np.float32)
    body = f"""
    %x = thread.load_global %a0[%c2, %c0, %c1, %c0] dims [1, 3] in_bounds [false, false] : {memref(a)} -> {fragment}
    thread.store_global %x, %a1[%c0, %c0] dims [0, 1] in_bounds [true, true] : {fragment}, {memref(out)}
"""
    Kernel(body).run(a, out)
    assert np.array_equal(out, a[2, :, 1, :])


def test_row_vectors_and_grids() -> None:
    """A bias: each block loads its columns, and all rows get the same."""
    layout = blocked(8, 32, 4, 2)
    row, whole = layout.reduce(0).fragment("f32"), layout.fragment("f32")
    bias, out = numbers((100,)), np.full((8, 100), -1, np.float32)
    body = f"""
    %b = gpu.block_id x
    %j = arith.muli %b, %c32 : index
    %x = thread.load_global %a0[%j] dims [-1, 0] in_bounds [true, false] : {memref(bias)} -> {row}
    %y = thread.broadcast %x dim 0 : {row} -> {whole}
    thread.store_global %y, %a1[%c0, %j] dims [0, 1] in_bounds [true, false] : {whole}, {memref(out)}
"""
    Kernel(body, 2, grid=4).run(bias, out)
    assert np.array_equal(out, np.broadcast_to(bias, (8, 100)))


def test_conditional_accesses() -> None:
    layout = blocked(8, 32, 4, 2)
    fragment = layout.fragment("f32")
    a, out = numbers((8, 32)), np.full((2, 8, 32), -1, np.float32)
    body = f"""
    %b = gpu.block_id x
    %first = arith.cmpi eq, %b, %c0 : index
    %x = thread.load_global %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] when %first : {memref(a)} -> {fragment}
    thread.store_global %x, %a1[%b, %c0, %c0] dims [1, 2] in_bounds [true, true] : {fragment}, {memref(out)}
    thread.store_global %x, %a1[%c1, %c0, %c0] dims [1, 2] in_bounds [true, true] when %first : {fragment}, {memref(out)}
"""
    Kernel(body, 2, grid=1).run(a, out)
    assert np.array_equal(out, np.stack([a, a]))


@pytest.mark.parametrize(
    ("dtype", "rows", "cols", "swizzle", "shape", "at", "warps"),
    some_of(
        [
            (np.float16, 64, 64, 128, (64, 64), (0, 0), 4),
            (np.float16, 16, 48, 32, (40, 96), (8, 48), 4),
            (np.float16, 24, 40, 0, (20, 64), (0, 32), 2),
            (np.float16, 16, 64, 64, (16, 61), (0, 0), 4),
            (ml_dtypes.bfloat16, 32, 128, 128, (33, 130), (8, 64), 8),
            (np.float32, 16, 32, 128, (16, 30), (0, 0), 4),
            (np.float32, 5, 24, 0, (5, 23), (0, 1), 1),
            (np.float32, 8, 512, 64, (8, 512), (0, 0), 2),
            (np.float16, 4, 2048, 0, (4, 2048), (0, 0), 4),
        ],
        every=3,
    ),
)
def test_copies_to_shared_memory(
    dtype: type,
    rows: int,
    cols: int,
    swizzle: int,
    shape: tuple[int, int],
    at: tuple[int, int],
    warps: int,
) -> None:
    a, out = numbers(shape, dtype), np.full((rows, cols), -1, dtype)
    name = dtype_of(a)
    tile = f"!thread.shared<{rows}x{cols}x{name}" + (f", swizzle = {swizzle}>" if swizzle else ">")
    fragment = blocked(rows, cols, 2, warps).fragment(name)
    body = f"""
    %s = thread.shared_alloc 0 : {tile}
    thread.copy_async %a0[%c{at[0]}, %c{at[1]}] dims [0, 1] in_bounds [false, false] to %s : {memref(a)} to {tile}
    thread.copy_commit
    thread.copy_wait 0
    thread.barrier
    %x = thread.load_shared %s : {tile} -> {fragment}
    thread.store_global %x, %a1[%c0, %c0] dims [0, 1] in_bounds [true, true] : {fragment}, {memref(out)}
"""
    Kernel(body, warps, shared_bytes=rows * cols * a.itemsize + 64).run(a, out)
    assert np.array_equal(out, padded(a, rows, cols, *at))


def test_copy_of_a_transposed_tensor() -> None:
    a, out = numbers((32, 16)).T, np.full((16, 32), -1, np.float32)
    tile = "!thread.shared<16x32xf32, pad = 4>"
    fragment = blocked(16, 32, 1, 4).fragment("f32")
    body = f"""
    %s = thread.shared_alloc 0 : {tile}
    thread.copy_async %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] to %s : {memref(a)} to {tile}
    thread.copy_commit
    thread.copy_wait 0
    thread.barrier
    %x = thread.load_shared %s : {tile} -> {fragment}
    thread.store_global %x, %a1[%c0, %c0] dims [0, 1] in_bounds [true, true] : {fragment}, {memref(out)}
"""
    Kernel(body, 4, shared_bytes=4096).run(a, out)
    assert np.array_equal(out, a)


LAYOUTS = [
    blocked(32, 32, 4, 4),
    blocked(32, 32, 8, 4, rows_first=True),
    mma_layouts(32, 32, 32, Grid(2, 2), 2)[0],
    mma_layouts(32, 32, 32, Grid(2, 2), 2)[1],
    mma_layouts(32, 32, 32, Grid(2, 2), 2)[2],
    mma_layouts(32, 32, 32, Grid(2, 2), 4)[0],
    mma_layouts(32, 32, 32, Grid(2, 2), 4)[1],
]


@pytest.mark.parametrize(
    ("dtype", "tile", "transposed"),
    some_of(
        [
            (np.float16, "swizzle = 64", False),
            (np.float16, "swizzle = 128", True),
            (np.float16, "pad = 8", True),
            (np.float32, "swizzle = 64", True),
            (np.float32, "swizzle = 128", False),
            (np.float32, "pad = 8", False),
        ],
        every=2,
    ),
)
def test_every_layout_through_shared_memory(dtype: type, tile: str, transposed: bool) -> None:
    """Stored in one layout, loaded in the next one, part by part of a larger tile."""
    name = "f16" if dtype is np.float16 else "f32"
    a, out = numbers((32, 32), dtype), np.full((len(LAYOUTS), 32, 32), -1, dtype)
    shared = f"!thread.shared<64x64x{name}, {tile}>"
    flag = "transposed" if transposed else ""
    steps = ""
    for i, layout in enumerate(LAYOUTS):
        fragment, next_ = layout.fragment(name), LAYOUTS[(i + 1) % len(LAYOUTS)].fragment(name)
        steps += f"""
    %x{i} = thread.load_global %a0[%c0, %c0] dims [0, 1] in_bounds [true, true] : {memref(a)} -> {fragment}
    thread.barrier
    thread.store_shared %x{i}, %s at [32, 16] {flag} : {fragment}, {shared}
    thread.barrier
    %y{i} = thread.load_shared %s at [32, 16] {flag} : {shared} -> {next_}
    thread.store_global %y{i}, %a1[%c{i}, %c0, %c0] dims [1, 2] in_bounds [true, true] : {next_}, {memref(out)}
"""
    Kernel(f"    %s = thread.shared_alloc 0 : {shared}\n{steps}", 4, shared_bytes=32768).run(a, out)
    for got in out:
        assert np.array_equal(got, a)
