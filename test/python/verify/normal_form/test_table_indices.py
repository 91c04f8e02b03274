"""The inputs that name rows of tables, wherever the reference is defined."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.positions import gather
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.normal_form.table_indices import looked_up_with, made_of_places


def program(part: bool = False, nowhere: float | None = None) -> KernelGraph:
    """Rows of a table by indices, of which a ``part`` is used, or by the number ``nowhere`` if they
    are not below 5."""
    b = Builder()
    table, index = Value(TensorType((7, 2), DType.F32)), Value(TensorType((4,), DType.I64))
    found = b.slice(index, (0,), (3,)) if part else b.reshape(index, (4, 1))
    if nowhere is not None:
        low = b.binary(BinaryFn.LE, b.constant(0.0, DType.I64), found)
        high = b.binary(BinaryFn.LT, found, b.constant(5.0, DType.I64))
        inside = b.binary(BinaryFn.AND, low, high)
        outside = b.cast(b.unary(UnaryFn.NOT, inside), DType.I64)
        kept = b.binary(BinaryFn.KEEP, inside, found)
        other = b.binary(BinaryFn.MUL, outside, b.constant(nowhere, DType.I64))
        found = b.binary(BinaryFn.ADD, kept, other)
    y = gather(b, table, found)
    return KernelGraph("f", (table, index), tuple(b.ops), (y,))


def test_indices_as_they_are_lie_within_the_table() -> None:
    assert looked_up_with(program()) == {1: 7}


def test_of_a_part_nothing_follows_for_the_rest() -> None:
    assert looked_up_with(program(part=True)) == {}
    assert made_of_places(program(part=True, nowhere=-1.0)) == {}


def test_what_chooses_an_index_is_asked_for_if_there_is_no_row_without_it() -> None:
    assert made_of_places(program(nowhere=-1.0)) == {1: 5}
    assert made_of_places(program(nowhere=7.0)) == {1: 5}
    assert made_of_places(program(nowhere=6.0)) == {}
