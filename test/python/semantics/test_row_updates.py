"""Tensors with a row replaced: their contents, the place of the row, and their text."""

from __future__ import annotations

import random
from math import prod

import numpy as np
import pytest
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.semantics.builder import Builder, ShapeError
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.indexing.strides import Digits, dense, in_digits
from mirage.semantics.row_updates import (
    IndexCopy,
    RowPart,
    place_of,
    results_of,
    row_parts,
    updated_inputs,
)
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, TensorType, Value

CACHE = TensorType((2, 5, 3), DType.F32)


def update(row: TensorType, index: TensorType, dim: int = 1) -> KernelGraph:
    x, cache, at = (
        Value(t, name) for t, name in ((row, "x"), (CACHE, "cache"), (index, "at"))
    )  # fmt: skip
    b = Builder()
    stored = b.unary(UnaryFn.SQUARE, x)
    copy = IndexCopy((cache, at, stored), (Value(CACHE),), dim)
    assert copy.result_type(b) == CACHE
    return KernelGraph("g", (x, cache, at), (*b.ops, copy), (copy.result,))


ROW, INDEX = TensorType((2, 1, 3), DType.F32), TensorType((1,), DType.I64)


@pytest.mark.parametrize("at", [0, 4, -1, 5, 1 << 40])
def test_a_row_is_replaced_where_there_is_one(at: int) -> None:
    rng = np.random.default_rng(0)
    x, cache = rng.standard_normal(ROW.shape), rng.standard_normal(CACHE.shape)
    (got,) = evaluate_floats(update(ROW, INDEX), [x, cache, np.array([float(at)])])
    want = cache.copy()
    if 0 <= at < 5:
        want[:, at : at + 1] = x**2
    np.testing.assert_allclose(got, want)


@pytest.mark.parametrize(
    ("row", "index", "dim", "message"),
    [
        (TensorType((2, 2, 3), DType.F32), INDEX, 1, "expected a row of type 2x1x3xf32"),
        (TensorType((2, 1, 3), DType.F16), INDEX, 1, "expected a row of type 2x1x3xf32"),
        (ROW, TensorType((2,), DType.I64), 1, "expected one index"),
        (ROW, TensorType((1,), DType.F32), 1, "expected one index"),
        (ROW, INDEX, 3, "expected a dimension"),
    ],
)
def test_what_is_no_row(row: TensorType, index: TensorType, dim: int, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        update(row, index, dim)


def test_text_keeps_it_and_says_what_is_updated() -> None:
    graph = update(ROW, INDEX)
    text = graph_to_text(graph)
    assert "kernel.index_copy" in text
    assert signature(graph_from_text(text).graph) == signature(graph)
    assert updated_inputs(graph) == (1,)
    assert results_of(graph) == ()


def test_digits_are_where_the_elements_are() -> None:
    """This is checked by counting: the elements of a row in order are those that the digits
    give."""
    rng = random.Random(0)
    found = 0
    for _ in range(600):
        shape = tuple(rng.choice((1, 2, 3, 4, 8)) for _ in range(rng.randint(1, 4)))
        dim = rng.randrange(len(shape))
        row = (*shape[:dim], 1, *shape[dim + 1 :])
        result = split(prod(row), rng)
        digits = in_digits(row, dense(shape), result)
        if digits is None:
            continue
        found += 1
        where = np.arange(prod(shape)).reshape(shape)
        want = where[tuple(slice(0, n) for n in row)].reshape(-1)
        steps = [np.arange(n) * s for n, s in zip(digits.shape, digits.strides, strict=True)]
        got = sum(np.ix_(*steps)) if steps else np.zeros(())
        assert np.array_equal(np.reshape(got, -1), want), (shape, dim, result)
        assert len(digits.counts) == len(result)
        start = 0
        for count, n in zip(digits.counts, result, strict=True):
            assert count >= 1
            assert prod(digits.shape[start : start + count]) == n
            start += count
    assert found > 300


def split(size: int, rng: random.Random) -> tuple[int, ...]:
    """A shape of as many elements."""
    found: list[int] = []
    while size > 1 and rng.random() < 0.7:
        factor = rng.choice([n for n in range(1, size + 1) if size % n == 0])
        found.append(factor)
        size //= factor
    return (*found, size)


def test_a_head_and_a_place_in_it_are_digits_of_a_column() -> None:
    cache = Value(TensorType((1, 8, 4096, 128), DType.BF16))
    row = Value(TensorType((1, 8, 1, 128), DType.BF16))
    strides = dense(cache.shape)

    def place_in(shape: tuple[int, ...]) -> Digits | None:
        return place_of(RowPart(row, Value(TensorType(shape, DType.BF16)), 0, strides))

    place = place_in((1, 1, 1024))
    assert place is not None
    assert place.shape[-2:] == (8, 128)
    assert place.strides[-2:] == (4096 * 128, 1)
    assert place.counts == (1, 1, 2)
    assert place_in((6, 171)) is None


def test_parts_that_are_joined_in_another_shape_alternate() -> None:
    """Pairs of a rotated row: even elements, and odd ones."""
    cache = Value(TensorType((2, 16, 3, 8), DType.BF16))
    even, odd = (Value(TensorType((2, 1, 3, 4), DType.BF16)) for _ in range(2))
    b = Builder()
    joined = b.concat(tuple(b.reshape(x, (2, 1, 3, 4, 1)) for x in (even, odd)), 4)
    copy = IndexCopy(
        (cache, Value(INDEX), b.reshape(joined, (2, 1, 3, 8))), (Value(cache.type),), 1
    )
    parts = row_parts(copy, {v: op for op in b.ops for v in op.results})
    assert [(p.computed, p.offset) for p in parts] == [(even, 0), (odd, 1)]
    for part in parts:
        place = place_of(part)
        assert place is not None
        assert place.shape[-2:] == (3, 4)
        assert place.strides[-2:] == (8, 2)
