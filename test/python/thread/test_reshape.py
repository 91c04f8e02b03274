"""Reductions, layout conversions, masks and other ops that move values between registers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from thorough import some_of
from written_kernels.thread_kernels import Array, Grid, Kernel, Layout, blocked, memref, mma_layouts

RNG = np.random.default_rng(5)
PLACE = "[%c0, %c0] dims [0, 1] in_bounds [true, true]"


def numbers(shape: tuple[int, ...]) -> Array:
    """Small whole numbers: sums of them are exact in f32."""
    return RNG.integers(-50, 50, shape).astype(np.float32)


def load(a: Array, layout: Layout) -> str:
    return f"    %x = thread.load_global %a0{PLACE} : {memref(a)} -> {layout.fragment('f32')}\n"


def store(name: str, out: Array, fragment: str, index: int = 1) -> str:
    return f"    thread.store_global {name}, %a{index}{PLACE} : {fragment}, {memref(out)}\n"


LAYOUTS = [
    blocked(32, 64, 4, 4),
    blocked(32, 64, 2, 4, rows_first=True),
    mma_layouts(32, 64, 16, Grid(2, 2), 2)[2],
    mma_layouts(32, 64, 16, Grid(1, 4), 2)[2],
    mma_layouts(32, 64, 32, Grid(1, 2, 2), 2)[2],
    mma_layouts(32, 64, 16, Grid(2, 2), 2)[2].reduce(0).transpose().reduce(0).transpose(),
]


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize(
    ("layout", "fn"),
    some_of(
        zip([*LAYOUTS[:5], blocked(48, 40, 4, 4)], ["sum", "max", "sum", "max", "sum", "max"]),
        every=3,
    ),
)
def test_reductions(layout: Layout, dim: int, fn: str) -> None:
    rows, cols = layout.shape
    a = numbers((rows, cols))
    out = np.full((1, cols) if dim == 0 else (rows, 1), -1, np.float32)
    full = layout.fragment("f32")
    reduced = layout.reduce(dim).fragment("f32")
    body = f"""{load(a, layout)}
    %r = thread.reduce {fn} %x dim {dim} {{scratch = 256 : i64}} : {full} -> {reduced}
    %q = thread.reduce {fn} %x dim {dim} {{scratch = 256 : i64}} : {full} -> {reduced}
    %m = thread.binary max %r, %q : {reduced}
{store("%m", out, reduced)}"""
    Kernel(body, 4, shared_bytes=8192).run(a, out)
    assert np.array_equal(out, getattr(a, fn)(axis=dim, keepdims=True))


def test_partial_sums_are_completed_once() -> None:
    """A row sum with one summand per warp, then the sum over the warps."""
    layout = mma_layouts(16, 64, 16, Grid(1, 4), 2)[2]
    a, out = numbers((16, 64)), np.full((16, 1), -1, np.float32)
    partial = layout.reduce(1).fragment("f32", partial=True)
    done = blocked(16, 1, 1, 4).fragment("f32")
    body = f"""{load(a, layout)}
    %p = thread.reduce sum %x dim 1 : {layout.fragment("f32")} -> {partial}
    %d = thread.scale %p by 2.0 : {partial}
    %r = thread.reduce_warps %d {{scratch = 0 : i64}} : {partial} -> {done}
{store("%r", out, done)}"""
    Kernel(body, 4, shared_bytes=8192).run(a, out)
    assert np.array_equal(out, 2 * a.sum(axis=1, keepdims=True))


def conversion(source: Layout, target: Layout, a: Array, out: Array) -> str:
    full, goal = source.fragment("f32"), target.fragment("f32")
    return f"""{load(a, source)}
    %y = thread.convert_layout %x {{scratch = 0 : i64}} : {full} -> {goal}
{store("%y", out, goal)}"""


@pytest.mark.parametrize("target", some_of(LAYOUTS[:5], every=3))
@pytest.mark.parametrize("source", LAYOUTS[:5])
def test_conversions(source: Layout, target: Layout) -> None:
    a, out = numbers((32, 64)), np.full((32, 64), -1, np.float32)
    Kernel(conversion(source, target, a, out), 4, shared_bytes=16384).run(a, out)
    assert np.array_equal(out, a)


@st.composite
def layouts(draw: st.DrawFn, rows: int, cols: int, warps: int) -> Layout:
    """Any assignment of the bits of a tile to registers, lanes and warps."""
    bits = [(1 << i, 0) for i in range(rows.bit_length() - 1)]
    bits += [(0, 1 << i) for i in range(cols.bit_length() - 1)]
    count = warps.bit_length() - 1
    slots = draw(st.permutations(range(5 + count + len(bits))))
    lane, warp, reg = [(0, 0)] * 5, [(0, 0)] * count, []
    for bit, slot in zip(draw(st.permutations(bits)), slots, strict=False):
        if slot < 5:
            lane[slot] = bit
        elif slot < 5 + count:
            warp[slot - 5] = bit
        else:
            reg.append(bit)
    return Layout(tuple(reg), tuple(lane), tuple(warp))


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_any_conversion(data: st.DataObject) -> None:
    """Shuffles, selections and exchanges, with copies in lanes and warps on either side."""
    rows, cols = data.draw(st.sampled_from([(8, 16), (16, 8), (4, 4), (1, 32)]))
    source = data.draw(layouts(rows, cols, 2))
    target = data.draw(layouts(rows, cols, 2))
    a, out = numbers((rows, cols)), np.full((rows, cols), -1, np.float32)
    Kernel(conversion(source, target, a, out), 2, shared_bytes=8192).run(a, out)
    assert np.array_equal(out, a)


SO_FAR = {"sum": (np.add, 0), "max": (np.maximum, -np.inf), "prod": (np.multiply, 1)}


def so_far(x: Array, words: str, dim: int) -> Array:
    """Return the meaning of ``thread.cumulate``."""
    fn, *ways = words.split()
    if "reversed" in ways:
        forward = words.replace("reversed", "")
        return np.flip(so_far(np.flip(x, dim), forward, dim), dim)
    combined, nothing = SO_FAR[fn]
    found = combined.accumulate(x, dim)
    if "exclusive" not in ways:
        return found
    first = np.full_like(np.take(x, [0], dim), nothing)
    return np.concatenate((first, np.delete(found, -1, dim)), dim)


def check_so_far(layout: Layout, dim: int, words: str) -> None:
    a, out = numbers(layout.shape), np.full(layout.shape, -1, np.float32)
    if words.startswith("prod"):  # exact in any order
        a = np.random.default_rng(0).choice(np.float32([-2, -1, 0.5, 1, 2]), layout.shape)
    full = layout.fragment("f32")
    body = f"""{load(a, layout)}
    %y = thread.cumulate {words} %x dim {dim} {{scratch = 256 : i64}} : {full}
    %z = thread.cumulate {words} %x dim {dim} {{scratch = 256 : i64}} : {full}
    %m = thread.binary max %y, %z : {full}
{store("%m", out, full)}"""
    Kernel(body, 4, shared_bytes=16384).run(a, out)
    assert np.array_equal(out, so_far(a, words, dim))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("layout", some_of([*LAYOUTS[:5], blocked(24, 64, 4, 4)], 8))
def test_sums_so_far(layout: Layout, dim: int) -> None:
    check_so_far(layout, dim, "sum")
    check_so_far(layout, dim, "max exclusive reversed")
    check_so_far(layout, dim, "prod exclusive")


@settings(max_examples=6, deadline=None)
@given(st.data())
def test_any_layout_of_what_is_so_far(data: st.DataObject) -> None:
    """Bits of a position in registers, lanes and warps, in any order."""
    rows, cols = data.draw(st.sampled_from([(8, 16), (16, 8), (2, 64), (1, 32)]))
    ways = ("sum", "max exclusive", "sum reversed", "sum exclusive reversed")
    words = data.draw(st.sampled_from(ways))
    check_so_far(data.draw(layouts(rows, cols, 4)), data.draw(st.sampled_from([0, 1])), words)


def test_masks_and_indices() -> None:
    layout = mma_layouts(32, 64, 16, Grid(2, 2), 2)[2]
    fragment = layout.fragment("f32")
    a, out, columns = numbers((32, 64)), *(np.zeros((32, 64), np.float32) for _ in range(2))
    body = f"""{load(a, layout)}
    %m = thread.mask %x dim 1 at %c128 extent 150 fill 0xFFF0000000000000 : {fragment}
    %n = thread.mask %m dim 0 at %c0 extent 20 fill 7.0 : {fragment}
    %i = thread.iota dim 1 at %c128 : {fragment}
{store("%n", out, fragment)}{store("%i", columns, fragment, 2)}"""
    Kernel(body).run(a, out, columns)
    expected = a.copy()
    expected[:, 22:] = -np.inf
    expected[20:] = 7
    assert np.array_equal(out, expected)
    assert np.array_equal(columns, np.broadcast_to(128 + np.arange(64), (32, 64)))


def test_slices_and_broadcasts() -> None:
    layout = mma_layouts(32, 64, 16, Grid(2, 1), 2)[2]
    part = mma_layouts(32, 16, 16, Grid(2, 1), 2)[2]
    column = part.reduce(1)
    a, out = numbers((32, 64)), np.zeros((32, 16), np.float32)
    body = f"""{load(a, layout)}
    %s = thread.slice %x [0, 48] : {layout.fragment("f32")} -> {part.fragment("f32")}
    %r = thread.reduce max %s dim 1 : {part.fragment("f32")} -> {column.fragment("f32")}
    %b = thread.broadcast %r dim 1 : {column.fragment("f32")} -> {part.fragment("f32")}
    %d = thread.binary sub %s, %b : {part.fragment("f32")}
{store("%d", out, part.fragment("f32"))}"""
    Kernel(body, 2).run(a, out)
    tile = a[:, 48:]
    assert np.array_equal(out, tile - tile.max(axis=1, keepdims=True))


def test_transpose_moves_nothing() -> None:
    layout = blocked(48, 24, 4, 2)
    a, out = numbers((48, 24)), np.zeros((24, 48), np.float32)
    body = f"""{load(a, layout)}
    %t = thread.transpose %x : {layout.fragment("f32")} -> {layout.transpose().fragment("f32")}
{store("%t", out, layout.transpose().fragment("f32"))}"""
    kernel = Kernel(body, 2)
    assert "shfl" not in kernel.ptx([a, out])
    kernel.run(a, out)
    assert np.array_equal(out, a.T)
