"""Integers like those of programs: draws reach all numbers with which an input is compared."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.positions import Iota
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Axis, BlockGraph, KernelGraph, Output
from mirage.verify import verify
from mirage.verify.evidence.samples.integer_inputs import (
    becomes_narrow,
    compared_with,
    compares_rounded,
    draw_integers,
)

CLASSES = 300


def tensor(*shape: int, dtype: DType = DType.I64) -> Value:
    return Value(TensorType(shape, dtype))


def one_hot(fn: BinaryFn, turned: bool = False, moved: bool = False) -> KernelGraph:
    """The class (of :data:`CLASSES`) that each of six rows names."""
    target = tensor(6, 1)
    places = Iota((), (tensor(1, CLASSES),), 1)
    b = Builder()
    given = b.broadcast(b.reshape(target, (1, 6)), (2, 6)) if moved else target
    given = b.reshape(b.slice(given, (0, 0), (1, 6)), (6, 1)) if moved else given
    pair = (places.result, given) if turned else (given, places.result)
    truth = b.binary(fn, *pair)
    return KernelGraph("one_hot", (target,), (places, *b.ops), (truth,))


@pytest.mark.parametrize("fn", [BinaryFn.EQ, BinaryFn.LT, BinaryFn.LE, BinaryFn.NE])
@pytest.mark.parametrize("turned", [False, True])
def test_inputs_reach_what_they_are_compared_with(fn: BinaryFn, turned: bool) -> None:
    graph = one_hot(fn, turned)
    (target,) = graph.inputs
    assert compared_with(graph) == {target: CLASSES}


def test_views_are_followed() -> None:
    graph = loaded(one_hot(BinaryFn.EQ, moved=True))
    assert compared_with(graph) == {graph.inputs[0]: CLASSES}


def test_what_is_not_compared_has_no_extent() -> None:
    x, y = tensor(6, 4), tensor(6, 4)
    b = Builder()
    total = b.binary(BinaryFn.ADD, x, y)
    assert not compared_with(KernelGraph("sum", (x, y), tuple(b.ops), (total,)))
    truth = b.binary(BinaryFn.EQ, x, y)  # of unknown numbers
    assert not compared_with(KernelGraph("equal", (x, y), tuple(b.ops), (truth,)))


def drawn(value: Value, least: int) -> np.ndarray:
    rng = np.random.default_rng(3)
    region = tuple(None for _ in value.shape)
    return np.concatenate([draw_integers(rng, value, region, least).ravel() for _ in range(400)])


def test_draws_reach_so_many_numbers() -> None:
    """Six rows name any of 300 classes, and none beyond; otherwise, at most the first eight."""
    target = tensor(6, 1)
    numbers = drawn(target, CLASSES)
    assert numbers.min() == 0
    assert CLASSES * 0.97 <= numbers.max() < CLASSES
    assert len(np.unique(numbers)) > CLASSES / 2
    assert drawn(target, 0).max() < 8


def test_draws_fit_their_type() -> None:
    assert drawn(tensor(6, 1, dtype=DType.I8), CLASSES).max() < 128
    assert set(drawn(tensor(6, 1, dtype=DType.I1), CLASSES)) == {0.0, 1.0}


def compared(kind: str) -> KernelGraph:
    """Two rows of integers, compared directly or as floats, or angles computed from them."""
    i, j, b = tensor(8), tensor(8), Builder()
    x, y = i, j
    if kind != "integers":
        x, y = (b.cast(v, DType.F32) for v in (i, j))
    if kind == "doubled":
        x, y = (b.binary(BinaryFn.MUL, v, b.constant(2.0)) for v in (x, y))
    if kind == "angles":
        x, y = (b.unary(UnaryFn.COS, v) for v in (x, y))
    result = x if kind == "converted" else b.binary(BinaryFn.EQ, x, y)
    return KernelGraph(kind, (i, j), tuple(b.ops), (result,))


@pytest.mark.parametrize(
    ("kind", "is_rounded"),
    [
        ("integers", False),
        ("floats", True),
        ("doubled", True),
        ("angles", False),
        ("converted", False),
    ],
)
def test_what_is_compared_as_floats_is_known(kind: str, is_rounded: bool) -> None:
    assert compares_rounded(compared(kind)) is is_rounded


def masked(narrow: DType | None) -> KernelGraph:
    """Numbers that a mask of positions keeps, by a kernel that may hold the positions of columns in
    a type of 16 bits."""
    x, rows, cols = tensor(64, 64, dtype=DType.F16), tensor(64), tensor(64)
    params = graphs.params_of((x, rows, cols))
    b = Builder(in_block=True)
    tile = b.load(params[0], (("i",), ()), (16, 64))
    i, j = b.load(params[1], (("i",),), (16,)), b.load(params[2], ((),), (64,))
    if narrow is not None:
        j = b.cast(b.cast(j, narrow), DType.F32)
    kept = b.binary(BinaryFn.LE, b.reshape(j, (1, 64)), b.reshape(i, (16, 1)))
    y = b.binary(BinaryFn.KEEP, kept, tile)
    body = BlockGraph(params, tuple(b.ops), (Output(y, (("i",), ())),))
    op = graphs.launch((x, rows, cols), (Axis("i", 4),), body, (TensorType((64, 64), DType.F16),))
    return KernelGraph("masked", (x, rows, cols), (op,), op.results)


@pytest.mark.parametrize("dtype", [DType.F16, DType.BF16])
def test_positions_in_16_bits_within_kernels_are_refused(dtype: DType) -> None:
    assert becomes_narrow(masked(dtype))
    assert not becomes_narrow(masked(None))
    assert verify(masked(None), masked(None)).accepted
    assert not verify(masked(None), masked(dtype)).accepted


def test_inputs_of_one_length_are_equal_in_the_same_runs() -> None:
    rng = np.random.default_rng(0)
    rows, columns = tensor(12, 1), tensor(1, 12)
    of_rows = draw_integers(rng, rows, (None, None), runs=0.25)
    of_columns = draw_integers(rng, columns, (None, np.arange(6, 12)), runs=0.25)
    assert of_rows[:, 0].tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]
    assert of_columns[0].tolist() == [2, 2, 2, 3, 3, 3]


def test_the_range_of_a_type_is_no_extent() -> None:
    """A quotient of any integer is at most 2^61, but this is never compared."""
    p, q, b = tensor(12, 1), tensor(1, 12), Builder()
    four = b.constant(4, p.dtype)
    start = b.binary(BinaryFn.MUL, b.binary(BinaryFn.FLOOR_DIV, q, four), four)
    y = b.binary(BinaryFn.LT, p, start)
    graph = KernelGraph("blocks", (p, q), tuple(b.ops), (y,))
    assert not compared_with(graph)
    assert draw_integers(np.random.default_rng(0), p, (None, None)).max() < 12
