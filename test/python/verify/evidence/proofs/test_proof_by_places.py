"""Programs that only move elements."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs import graphs
from hypothesis import given
from hypothesis import strategies as st
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Axis, BlockGraph, KernelGraph, Output, TensorType, Value
from mirage.verify import Kind, verify
from mirage.verify.compression.index_relations import Irregular
from mirage.verify.evidence.proofs.proof_by_places import compare_movements, compare_places
from mirage.verify.evidence.proofs.small_model import small_pair

F16 = DType.F16


def halves(size: int, at: int, *, joined_first: bool, shift: int = 0) -> KernelGraph:
    """The parts of ``x`` before ``at`` and from there on, exchanged, before or after rows are
    merged."""
    b = Builder()
    x = Value(TensorType((1, size, 2, 3), F16))
    if joined_first:
        rows = b.reshape(x, (1, size, 6))
        low, high = (
            b.slice(rows, (0, 0, 0), (1, at, 6)),
            b.slice(rows, (0, at, 0), (1, size - at, 6)),
        )
        y = b.concat((high, low), 1)
    else:
        low = b.slice(x, (0, shift, 0, 0), (1, at, 2, 3))
        high = b.slice(x, (0, at, 0, 0), (1, size - at, 2, 3))
        parts = tuple(b.reshape(v, (1, v.shape[1], 6)) for v in (high, low))
        y = b.concat(parts, 1)
    return KernelGraph("halves", (x,), tuple(b.ops), (y,))


@given(st.integers(2, 40), st.data())
def test_parts_at_any_place(size: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, size - 1))
    first = halves(size, at, joined_first=True)
    found = compare_movements(first, halves(size, at, joined_first=False))
    assert found is not None
    assert found.holds
    other = compare_movements(first, halves(size, at, joined_first=False, shift=size - at))
    assert other is not None
    assert other.holds is False


def test_parts_without_common_digits_are_proved() -> None:
    """12000 rows in blocks of 7 are too many for the small model."""
    pair = [halves(12000, 7, joined_first=j) for j in (True, False)]
    for graph in pair:
        check_graph(graph)
    with pytest.raises(Irregular):
        small_pair(*pair)
    assert verify(*pair).kind is Kind.PROVED
    wrong = halves(12000, 7, joined_first=False, shift=1)
    assert verify(pair[0], wrong).kind is Kind.REFUTED


def copied(rows: int, tile: int, columns: int) -> KernelGraph:
    """``x`` transposed, by a kernel whose tiles may extend past its end."""
    x = graphs.tensor(rows, columns)
    (p,) = params = graphs.params_of((x,))
    b = Builder(in_block=True)
    y = b.transpose(b.load(p, (("i",), ()), (tile, columns)), (1, 0))
    body = BlockGraph(params, tuple(b.ops), (Output(y, ((), ("i",))),))
    grid = (Axis("i", -(-rows // tile)),)
    op = graphs.launch((x,), grid, body, (TensorType((columns, rows), F16),))
    return KernelGraph("copied", (x,), (op,), op.results)


@pytest.mark.parametrize("tile", [1, 4, 7, 8, 16])
def test_tiles_that_are_copied(tile: int) -> None:
    b = Builder()
    x = Value(TensorType((14, 3), F16))
    y = b.transpose(x, (1, 0))
    first = KernelGraph("transposed", (x,), tuple(b.ops), (y,))
    check_graph(second := copied(14, tile, 3))
    found = compare_movements(first, second)
    assert found is not None
    assert found.holds


def test_what_computes_is_none() -> None:
    b = Builder()
    x = Value(TensorType((4,), F16))
    y = b.unary(UnaryFn.NEG, x)
    graph = KernelGraph("negated", (x,), tuple(b.ops), (y,))
    assert compare_movements(graph, graph) is None
    b = Builder()
    z = b.concat((x, b.broadcast(b.constant(0.0, F16), (1,))), 0)
    graph = KernelGraph("padded", (x,), tuple(b.ops), (z,))
    assert compare_movements(graph, graph) is None


def test_large_programs_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mirage.verify.evidence.proofs.proof_by_places._MOST_MOVED", 10.0)
    graph = halves(8, 3, joined_first=True)
    assert compare_movements(graph, graph) is None


def test_inputs_are_told_apart() -> None:
    values = [Value(TensorType((2,), F16)) for _ in range(2)]

    def joined(order: tuple[int, int]) -> KernelGraph:
        b = Builder()
        y = b.concat(tuple(values[i] for i in order), 0)
        return KernelGraph("joined", tuple(values), tuple(b.ops), (y,))

    same, other = (compare_movements(joined((0, 1)), joined(o)) for o in ((0, 1), (1, 0)))
    assert same is not None
    assert other is not None
    assert np.array_equal([same.holds, other.holds], [True, False])


def doubled(
    size: int, at: int, *, late: bool, wrong: bool = False, more: float = 2.0
) -> KernelGraph:
    """``2 x + 1`` rolled to ``at``, computed before (``late``: after) the parts are joined."""
    b = Builder()
    x = Value(TensorType((size, 3), F16))

    def formula(v: Value) -> Value:
        two, one = b.constant(more, F16), b.constant(1.0, F16)
        return b.binary(BinaryFn.ADD, one, b.binary(BinaryFn.MUL, v, two))

    start = at - 1 if wrong else at
    parts = b.slice(x, (start, 0), (size - at, 3)), b.slice(x, (0, 0), (at, 3))
    y = formula(b.concat(parts, 0)) if late else b.concat(tuple(map(formula, parts)), 0)
    return KernelGraph("doubled", (x,), tuple(b.ops), (y,))


@given(st.integers(2, 40), st.data())
def test_formulas_of_moved_elements(size: int, data: st.DataObject) -> None:
    at = data.draw(st.integers(1, size - 1))
    first = doubled(size, at, late=True)
    assert compare_places(first, doubled(size, at, late=False)) is not None
    assert compare_places(first, doubled(size, at, late=False, wrong=True)) is None
    assert compare_places(first, doubled(size, at, late=False, more=3.0)) is None


def test_formulas_without_common_digits_are_proved() -> None:
    pair = doubled(41000, 5, late=True), doubled(41000, 5, late=False)
    with pytest.raises(Irregular):
        small_pair(*pair)
    assert verify(*pair).kind is Kind.PROVED
    assert verify(pair[0], doubled(41000, 5, late=False, wrong=True)).kind is Kind.REFUTED


def padded(*, late: bool, fill: float = 0.0) -> KernelGraph:
    """A negated tensor with zeros around it."""
    b = Builder()
    x, y = Value(TensorType((5, 3), F16)), Value(TensorType((9, 3), F16))
    around = b.broadcast(b.constant(fill, F16), (2, 3))

    def formula(v: Value, w: Value) -> Value:
        return b.binary(BinaryFn.SUB, b.unary(UnaryFn.EXP, v), w)

    if late:
        z = formula(b.concat((around, x, around), 0), y)
    else:
        cuts = [b.slice(y, (start, 0), (n, 3)) for start, n in ((0, 2), (2, 5), (7, 2))]
        parts = [formula(v, w) for v, w in zip((around, x, around), cuts, strict=True)]
        z = b.concat(tuple(parts), 0)
    return KernelGraph("padded", (x, y), tuple(b.ops), (z,))


def test_several_formulas_in_one_tensor() -> None:
    assert compare_places(padded(late=True), padded(late=False)) is not None
    assert compare_places(padded(late=True), padded(late=False, fill=1.0)) is None


def test_sums_are_no_formulas_of_places() -> None:
    b = Builder()
    x = Value(TensorType((4, 4), F16))
    y = b.reduce(ReduceFn.SUM, x, (1,))
    graph = KernelGraph("sum", (x,), tuple(b.ops), (y,))
    assert compare_places(graph, graph) is None
