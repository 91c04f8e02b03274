"""Strides of parts of tensors, compared with NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mirage.semantics.indexing.strides import dense, reshaped, row_alignment

SIZES = st.lists(st.sampled_from([1, 2, 3, 4, 6]), min_size=1, max_size=4)


@st.composite
def parts(draw: st.DrawFn) -> tuple[np.ndarray, tuple[int, ...]]:
    """A part of an array, perhaps with steps, and a shape with as many elements."""
    sizes = draw(SIZES)
    whole = np.arange(np.prod(sizes), dtype=np.int64).reshape(sizes)
    cut = tuple(slice(draw(st.integers(0, n - 1)), None, draw(st.integers(1, 2))) for n in sizes)
    part = whole[cut]
    factors: list[int] = []
    left = part.size
    while left > 1 and len(factors) < 5:
        n = draw(st.sampled_from([d for d in range(1, left + 1) if left % d == 0]))
        factors.append(n)
        left //= n
    return part, (*factors, left)


@given(parts())
def test_other_shapes_are_views_as_numpys_are(case: tuple[np.ndarray, tuple[int, ...]]) -> None:
    part, shape = case
    strides = tuple(s // part.itemsize for s in part.strides)
    found = reshaped(part.shape, strides, shape)
    flat = part.reshape(shape)
    if found is None:
        assert not np.shares_memory(flat, part)
        return
    view = np.lib.stride_tricks.as_strided(part, shape, [s * part.itemsize for s in found])
    assert (view == flat).all()


@given(SIZES)
def test_dense_tensors(sizes: list[int]) -> None:
    array = np.zeros(sizes, np.int8)
    assert dense(sizes) == array.strides or 1 in sizes
    assert reshaped(sizes, dense(sizes), (array.size,)) == (1,)


@pytest.mark.parametrize(
    ("shape", "strides", "align", "expected"),
    [
        ((8, 16), (32, 1), 16, 16),
        ((8, 16), (36, 1), 16, 8),
        ((8, 16), (32, 1), 4, 4),
        ((8, 16), (32, 2), 16, 2),
        ((1, 16), (33, 1), 16, 16),
        ((), (), 16, 2),
    ],
)
def test_rows_start_at_multiples(
    shape: tuple[int, ...], strides: tuple[int, ...], align: int, expected: int
) -> None:
    assert row_alignment(shape, strides, 2, align) == expected
