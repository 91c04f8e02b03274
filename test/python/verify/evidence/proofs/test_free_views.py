"""Inputs that are read through reshapes, in the shape of a view."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Output,
)
from mirage.verify.evidence.proofs.exact import show
from mirage.verify.evidence.proofs.free_views import with_free_views
from mirage.verify.pieces.kernel_by_kernel import Piece

ROWS, SHAPE = 3, (10, 7, 7)


def flat(shape: tuple[int, ...], *, whole: bool = False, last: float = 1.0) -> KernelGraph:
    """Sums of rows of ``x`` [3, 10, 7, 7], read as ``shape``; with ``whole`` the total sum is
    subtracted."""
    b, x = Builder(), graphs.tensor(ROWS, *SHAPE, dtype=DType.F32)
    rows = b.reshape(x, shape)
    dims = tuple(range(1, len(shape)))
    y = b.reshape(b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, rows), dims), (ROWS, 1))
    if whole:
        every = b.reduce(ReduceFn.SUM, x, (0, 1, 2, 3))
        y = b.binary(BinaryFn.SUB, y, b.reshape(every, (1, 1)))
    y = b.binary(BinaryFn.MUL, y, b.constant(last))
    return KernelGraph("flat", (x,), tuple(b.ops), (y,))


def test_an_input_gets_the_shape_of_its_view() -> None:
    first, second = flat((ROWS, 490)), flat((ROWS, 1, 490))
    freed = with_free_views(first, second)
    assert freed is not None
    x = np.random.default_rng(1).standard_normal((ROWS, *SHAPE))
    for graph, new in zip((first, second), freed, strict=True):
        check_graph(new)
        assert [v.shape for v in new.inputs] == [(ROWS, 490)]
        (expected,), (actual,) = (
            evaluate_floats(graph, [x]), evaluate_floats(new, [x.reshape(ROWS, 490)])
        )  # fmt: skip
        np.testing.assert_array_equal(actual, expected)


def test_what_is_read_as_it_is_stays() -> None:
    assert with_free_views(flat((ROWS, 490)), flat((ROWS, 490), whole=True)) is None
    same = flat((ROWS, 490))
    returned = KernelGraph("both", same.inputs, same.ops, (*same.outputs, same.inputs[0]))
    assert with_free_views(returned, returned) is None


def tiled(tile: int) -> KernelGraph:
    """The same in one launch: it reads rows in tiles whose size does not divide an image's 49."""
    before, x = Builder(), graphs.tensor(ROWS, *SHAPE, dtype=DType.F32)
    rows = before.reshape(x, (ROWS, 490))
    (param,) = graphs.params_of((rows,))
    inner, outer = Builder(in_block=True), Builder(in_block=True)
    loaded = inner.load(param, ((), ("k",)), (ROWS, tile))
    part = inner.reduce(ReduceFn.SUM, inner.unary(UnaryFn.SQUARE, loaded), (1,))
    steps = Axis("k", -(-490 // tile))
    (total,) = outer.loop(steps, tuple(inner.ops), (Accumulator(AccumulateFn.SUM, part),))
    body = BlockGraph((param,), tuple(outer.ops), (Output(total, ((), ())),))
    kernel = graphs.launch((rows,), (), body, (total.type,))
    return KernelGraph("tiled", (x,), (*before.ops, kernel), kernel.results)


@pytest.mark.parametrize("tile", [48, 64])
def test_tiles_of_a_view_need_not_fit_the_dimensions_of_the_input(tile: int) -> None:
    reference, candidate = flat((ROWS, 490)), tiled(tile)
    piece = Piece(reference, candidate, candidate.outputs, candidate.ops)
    assert show(piece, 1).holds
    wrong = Piece(flat((ROWS, 490), last=1.5), candidate, candidate.outputs, candidate.ops)
    assert not show(wrong, 1).holds
