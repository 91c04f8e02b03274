"""Tiles that are parts of the same tensor."""

from __future__ import annotations

import pytest
from example_programs.attention_graphs import SUM, tensor
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Accumulator, Axis, Value
from mirage.transforms.shifts.expressions import Cut, Expression, Expressions

EXTENTS = {"m": 4, "n": 2, "k": 2, "t": 2}
X, W = tensor(8, 16), tensor(16, 12)


def expressions(b: Builder) -> Expressions:
    """Return the expressions of all ops of a block whose loads are from X and W themselves."""
    found = Expressions({}, {X: X, W: W}, EXTENTS)
    for op in b.ops:
        found.add(op)
    return found


def rows(b: Builder, axis: str, tile: int) -> Value:
    return b.load(X, ((axis,), ()), (tile, 16))


def same(b: Builder, one: Value, two: Value) -> tuple[Expression, Expression]:
    known = expressions(b)
    assert known[one].key == known[two].key
    return known[one], known[two]


def test_tiles_of_different_sizes() -> None:
    b = Builder(in_block=True)
    weights = b.load(W, ((), ()), (16, 12))
    one, two = (
        b.unary(UnaryFn.SQUARE, b.matmul(rows(b, *cut), weights)) for cut in (("m", 2), ("n", 4))
    )
    first, second = same(b, one, two)
    assert first.dims == second.dims
    for found, rows_cut in ((first, Cut(("m",), 2, 8)), (second, Cut(("n",), 4, 8))):
        by_dim = [found.cuts[axis] for axis in found.dims if axis is not None]
        assert by_dim == [rows_cut, Cut((), 12, 12)]


def test_transposed_tiles() -> None:
    """``(x w)^T = w^T x^T``; axes keep their numbers."""
    b = Builder(in_block=True)
    x, weights = rows(b, "m", 2), b.load(W, ((), ()), (16, 12))
    one = b.binary(BinaryFn.MUL, b.matmul(x, weights), b.constant(0.5))
    turned = b.matmul(b.transpose(weights, (1, 0)), b.transpose(x, (1, 0)))
    two = b.binary(BinaryFn.MUL, b.constant(0.5), turned)
    first, second = same(b, one, two)
    assert first.cuts == second.cuts
    assert first.dims == tuple(reversed(second.dims))


def test_dimensions_of_size_one() -> None:
    b = Builder(in_block=True)
    x = rows(b, "m", 2)
    one, two = b.unary(UnaryFn.EXP, x), b.unary(UnaryFn.EXP, b.reshape(x, (1, 2, 1, 16)))
    assert same(b, one, two)[1].dims == (None, 0, None, 1)
    row = b.load(X, (("m", "n"), ()), (1, 16))
    flat = b.reshape(row, (16,))
    assert expressions(b)[flat].cuts == (Cut(("m", "n"), 1, 8), Cut((), 16, 16))
    assert expressions(b)[flat].dims == (1,)


def test_sums_over_the_steps_of_a_loop() -> None:
    b, body = Builder(in_block=True), Builder(in_block=True)
    x = body.load(X, (("m",), ("k",)), (2, 8))
    product = body.matmul(x, body.load(W, (("k",), ()), (8, 12)))
    row = body.reduce(ReduceFn.SUM, x, (1,))
    early = body.unary(UnaryFn.EXP, product)  # of a part of the sum
    sums = tuple(Accumulator(SUM, v) for v in (product, row, early))
    loop, total, late = b.loop(Axis("k", 2), tuple(body.ops), sums)
    tile = rows(b, "m", 2)
    whole = b.matmul(tile, b.load(W, ((), ()), (16, 12)))
    whole_row = b.reduce(ReduceFn.SUM, tile, (1,))
    exp = b.unary(UnaryFn.EXP, whole)
    found = Expressions({}, {X: X, W: W}, EXTENTS)
    for op in (*body.ops, *b.ops):
        found.add(op)
    assert found[product].pending == {"k"}
    assert found[loop] == found[whole]
    assert found[total] == found[whole_row]
    assert found[early].key != found[exp].key
    assert found[late].key != found[exp].key


def test_what_is_not_the_same() -> None:
    b = Builder(in_block=True)
    x, weights = rows(b, "m", 2), b.load(W, ((), ()), (16, 12))
    half = b.load(X, ((), ("k",)), (8, 8))
    product = b.matmul(x, weights)
    values = [
        x,
        product,
        b.unary(UnaryFn.EXP, product),
        b.binary(BinaryFn.SUB, product, b.constant(1.0)),
        b.binary(BinaryFn.SUB, b.constant(1.0), product),
        b.mask(x, 0, ("m",), 7, 0.0),
        b.mask(x, 0, ("m",), 7, 1.0),
        b.mask(x, 0, ("m",), 6, 0.0),
        b.reduce(ReduceFn.SUM, x, (1,)),
        b.reduce(ReduceFn.MAX, x, (1,)),
        b.reduce(ReduceFn.MAX, half, (1,)),
        b.slice(x, (0, 0), (2, 8)),
        b.slice(x, (0, 8), (2, 8)),
    ]
    known = expressions(b)
    keys = [known[v].key for v in values]
    assert len(set(keys)) == len(keys)


@pytest.mark.parametrize(
    ("mine", "other", "finished", "covers"),
    [
        (Cut(("t",), 8, 32), Cut(("u",), 16, 32), {"t"}, True),
        (Cut(("t",), 8, 32), Cut(("u",), 16, 32), set[str](), False),  # the loop goes on
        (Cut((), 32, 32), Cut(("u",), 8, 32), set[str](), True),
        (Cut(("u",), 8, 32), Cut((), 32, 32), set[str](), False),
        (Cut(("g", "t"), 4, 32), Cut(("g", "u"), 8, 32), {"t"}, True),
        (Cut(("g", "t"), 4, 32), Cut(("h", "u"), 8, 32), {"t"}, False),  # another part
        (Cut(("g", "t"), 4, 32), Cut(("u",), 8, 32), {"t"}, False),
        (Cut(("t", "g"), 4, 32), Cut(("g", "u"), 8, 32), {"t"}, False),
        (Cut(("t",), 4, 32), Cut(("u",), 16, 32), {"t"}, False),  # 16 of 32
    ],
    ids=str,
)
def test_cuts(mine: Cut, other: Cut, finished: set[str], covers: bool) -> None:
    extents = {"t": 4, "u": 2, "g": 2, "h": 2}
    assert mine.covers(other, extents, frozenset(finished)) == covers
