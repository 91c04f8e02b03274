"""Rows of tables by index, in two programs that look them up in different ways."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from example_programs.position_masks import number, value
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.positions import gather, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Value
from mirage.verify import Kind, Verdict, VerifyOptions, verify

OPTIONS = VerifyOptions(seed=3, numerics=False)
SIZE, WIDTH, COUNT = 9, 8, 6

Look = Callable[[Builder, Value, Value], Value]


def program(look: Look) -> KernelGraph:
    """A function of a table and of indices."""
    table, ids = value(SIZE, WIDTH, dtype=DType.F32), value(COUNT, dtype=DType.I64)
    b = Builder()
    y = look(b, table, ids)
    g = KernelGraph("g", (table, ids), tuple(b.ops), (y,))
    check_graph(g)
    return g


def compared(first: Look, second: Look) -> Verdict:
    return verify(program(first), program(second), OPTIONS)


def scaled(b: Builder, x: Value, by: float = 2.0) -> Value:
    return b.binary(BinaryFn.MUL, x, b.constant(by))


def plain(b: Builder, table: Value, ids: Value) -> Value:
    return scaled(b, gather(b, table, ids))


def moved_there_and_back(b: Builder, table: Value, ids: Value) -> Value:
    there = b.binary(BinaryFn.ADD, ids, number(b, 3))
    return scaled(b, gather(b, table, b.binary(BinaryFn.SUB, there, number(b, 3))))


def from_both_ends(b: Builder, table: Value, ids: Value) -> Value:
    """Two lookups, of which the second one is of the rows from the end on."""
    turned = b.binary(BinaryFn.SUB, number(b, SIZE - 1), ids)
    x, y = gather(b, table, ids), gather(b, table, turned)
    return b.binary(BinaryFn.SUB, x, scaled(b, y))


def from_the_other_end_first(b: Builder, table: Value, ids: Value) -> Value:
    less = b.binary(BinaryFn.SUB, number(b, SIZE), ids)
    y = gather(b, table, b.binary(BinaryFn.SUB, less, number(b, 1)))
    return b.binary(BinaryFn.SUB, gather(b, table, ids), scaled(b, y))


def twice(b: Builder, table: Value, ids: Value) -> Value:
    again = b.binary(BinaryFn.MUL, ids, number(b, 1))
    return b.binary(BinaryFn.ADD, gather(b, table, ids), gather(b, table, again))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (plain, moved_there_and_back),
        (from_both_ends, from_the_other_end_first),
        (from_the_other_end_first, from_both_ends),
        (plain, twice),
        (twice, plain),
    ],
)
def test_lookups_of_equal_indices_are_the_same(first: Look, second: Look) -> None:
    verdict = compared(first, second)
    assert verdict.kind is Kind.PROVED, verdict


def summed(b: Builder, x: Value) -> Value:
    return b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, x), (1,))


def turned_table(b: Builder, table: Value, ids: Value) -> Value:
    """Rows whose elements are in another order, of which only the sum is used."""
    last = b.slice(table, (0, 1), (SIZE, WIDTH - 1))
    first = b.slice(table, (0, 0), (SIZE, 1))
    return summed(b, gather(b, b.concat((last, first), 1), ids))


def rows_in_another_order(b: Builder, table: Value, ids: Value) -> Value:
    """Both the table's rows and the indices are rolled by one."""
    rest, first = b.slice(table, (1, 0), (SIZE - 1, WIDTH)), b.slice(table, (0, 0), (1, WIDTH))
    around = b.binary(BinaryFn.ADD, ids, number(b, SIZE - 1))
    place = b.binary(BinaryFn.REMAINDER, around, number(b, SIZE))
    return scaled(b, gather(b, b.concat((rest, first), 0), place))


def at_positions(b: Builder, table: Value, ids: Value) -> Value:
    i = iota(b, (COUNT,), 0)
    return scaled(b, gather(b, table, b.binary(BinaryFn.ADD, i, number(b, 2))))


def at_positions_sliced(b: Builder, table: Value, ids: Value) -> Value:
    return scaled(b, b.slice(table, (2, 0), (COUNT, WIDTH)))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda b, t, i: summed(b, gather(b, t, i)), turned_table),
        (plain, rows_in_another_order),
        (at_positions, at_positions_sliced),
        (lambda b, t, i: gather(b, scaled(b, t), i), plain),
    ],
    ids=["elements in another order", "rows in another order", "a slice", "a table times two"],
)
def test_what_cannot_be_shown_is_not_refuted(first: Look, second: Look) -> None:
    for one, other in ((first, second), (second, first)):
        verdict = compared(one, other)
        assert verdict.kind is not Kind.REFUTED, verdict


@pytest.mark.parametrize(
    "wrong",
    [
        lambda b, t, i: scaled(b, gather(b, t, b.binary(BinaryFn.MIN, i, number(b, SIZE - 2)))),
        lambda b, t, i: scaled(b, gather(b, t, b.binary(BinaryFn.MAX, i, number(b, 1)))),
        lambda b, t, i: scaled(b, gather(b, t, i), 2.001),
        lambda b, t, i: scaled(b, b.slice(t, (0, 0), (COUNT, WIDTH))),
        lambda b, t, i: gather(b, t, i),
    ],
    ids=["a bound too low", "a bound too high", "another factor", "the first rows", "no factor"],
)
def test_other_rows_are_refuted(wrong: Look) -> None:
    for one, other in ((plain, wrong), (wrong, plain)):
        verdict = compared(one, other)
        assert verdict.kind is Kind.REFUTED, verdict
        assert verdict.witness is not None
        assert verdict.witness.output == 0  # of the programs, not the operands of a lookup


def test_rows_of_rows() -> None:
    """Indices that are looked up themselves, in one program through a copy."""

    def graph(copied: bool) -> KernelGraph:
        table, names = value(SIZE, WIDTH, dtype=DType.F32), value(7, dtype=DType.I64)
        ids = value(COUNT, dtype=DType.I64)
        b = Builder()
        place = gather(b, names, ids)
        if copied:
            place = b.reshape(gather(b, b.reshape(names, (7, 1)), ids), (COUNT,))
        y = scaled(b, gather(b, table, place))
        return KernelGraph("g", (table, names, ids), tuple(b.ops), (y,))

    assert verify(graph(False), graph(False), OPTIONS).kind is Kind.PROVED
    assert verify(graph(False), graph(True), OPTIONS).kind is not Kind.REFUTED
