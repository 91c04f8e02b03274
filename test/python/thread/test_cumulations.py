"""Sums and maxima so far, in registers, among lanes and among warps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_reshape import LAYOUTS, layouts, load, numbers, store
from written_kernels.thread_kernels import Array, Kernel, Layout, blocked


def so_far(x: Array, fn: str, dim: int, exclusive: bool) -> Array:
    """What the op means, element by element."""
    found = np.cumsum(x, dim) if fn == "sum" else np.maximum.accumulate(x, dim)
    if not exclusive:
        return found
    first = np.full_like(np.take(x, [0], dim), 0 if fn == "sum" else -np.inf)
    return np.concatenate((first, np.delete(found, -1, dim)), dim)


def check(layout: Layout, dim: int, fn: str, exclusive: bool, warps: int) -> None:
    a, out = numbers(layout.shape), np.full(layout.shape, -1, np.float32)
    full, word = layout.fragment("f32"), "exclusive " if exclusive else ""
    body = f"""{load(a, layout)}
    %y = thread.cumulate {fn} {word}%x dim {dim} {{scratch = 256 : i64}} : {full}
    %z = thread.cumulate {fn} {word}%x dim {dim} {{scratch = 256 : i64}} : {full}
    %m = thread.binary max %y, %z : {full}
{store("%m", out, full)}"""
    Kernel(body, warps, shared_bytes=16384).run(a, out)
    assert np.array_equal(out, so_far(a, fn, dim, exclusive))


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("layout", [*LAYOUTS[:5], blocked(48, 40, 4, 4)])
def test_layouts_of_tiles(layout: Layout, dim: int) -> None:
    check(layout, dim, "sum", False, 4)
    check(layout, dim, "max", True, 4)


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_any_layout(data: st.DataObject) -> None:
    """Bits of a position in registers, lanes and warps, in any order."""
    rows, cols = data.draw(st.sampled_from([(8, 16), (16, 8), (2, 64), (1, 32)]))
    layout = data.draw(layouts(rows, cols, 4))
    fn, exclusive = data.draw(st.sampled_from(["sum", "max"])), data.draw(st.booleans())
    check(layout, data.draw(st.sampled_from([0, 1])), fn, exclusive, 4)
