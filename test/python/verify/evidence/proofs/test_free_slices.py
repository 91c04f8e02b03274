"""Slices of inputs as inputs: proofs then hold for the whole inputs."""

from __future__ import annotations

import numpy as np
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.evidence.proofs.exact import show
from mirage.verify.evidence.proofs.free_slices import with_free_slices
from mirage.verify.pieces.kernel_by_kernel import Piece


def tensor(*shape: int) -> Value:
    return Value(TensorType(shape, DType.F32))


def projected(rows: tuple[int, int], *, added: bool = False) -> KernelGraph:
    """``x`` times some rows of a weight of 24 rows, and the sum of some others."""
    b = Builder()
    x, w = tensor(5, 8), tensor(24, 8)
    first = b.slice(w, (rows[0], 0), (16, 8))
    second = b.slice(w, (rows[1], 0), (8, 8))
    y = b.matmul(x, b.transpose(first, (1, 0)))
    z = b.binary(BinaryFn.ADD, second, second) if added else b.binary(
        BinaryFn.MUL, b.constant(2.0), second
    )  # fmt: skip
    return KernelGraph("projected", (x, w), tuple(b.ops), (y, z))


def test_slices_become_inputs() -> None:
    first, second = projected((0, 16)), projected((0, 16), added=True)
    freed = with_free_slices(first, second)
    assert freed is not None
    for graph in freed:
        check_graph(graph)
        assert [v.shape for v in graph.inputs] == [(5, 8), (16, 8), (8, 8)]
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((5, 8)), rng.standard_normal((24, 8))
    for graph, free in zip((first, second), freed, strict=True):
        expected = evaluate_floats(graph, [x, w])
        actual = evaluate_floats(free, [x, w[:16], w[16:]])
        for a, e in zip(actual, expected, strict=True):
            np.testing.assert_array_equal(a, e)


def test_inputs_that_are_read_whole_stay() -> None:
    b = Builder()
    w = tensor(24, 8)
    part = b.slice(w, (0, 0), (16, 8))
    graph = KernelGraph("both", (w,), tuple(b.ops), (part, w))
    assert with_free_slices(graph, graph) is None


def test_equal_programs_are_shown_and_shifted_ones_are_not() -> None:
    """Rows 8 to 24 are not rows 0 to 16, though both are free."""
    reference = projected((0, 16))
    for other, holds in (
        (projected((0, 16), added=True), True),
        (projected((8, 16), added=True), False),
        (projected((0, 8), added=True), False),
    ):
        piece = Piece(reference, other, other.outputs, other.ops)
        assert show(piece, 1).holds is holds
