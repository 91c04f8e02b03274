"""Positions, gathered rows and integer types as data: meaning, rules, text."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.semantics.builder import Builder, ShapeError, promote
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.evaluation.evaluate import (
    EvaluationError,
    TypedFloat,
    evaluate,
    evaluate_floats,
)
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.ops.op import UnknownOp
from mirage.semantics.positions import (
    Gather,
    Iota,
    TileGather,
    TileIota,
    gather,
    iota,
    select,
    with_indices_from_start,
)
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Load,
    Op,
    Output,
    TensorType,
    Value,
    all_ops,
)


def value(*shape: int, dtype: DType = DType.F32) -> Value:
    return Value(TensorType(shape, dtype))


def graph(b: Builder, inputs: tuple[Value, ...], *outputs: Value) -> KernelGraph:
    made = KernelGraph("g", inputs, tuple(b.ops), outputs)
    check_graph(made)
    return made


# ---- types


@pytest.mark.parametrize("dtype", [d for d in DType if d.is_integer])
def test_integer_types(dtype: DType) -> None:
    assert dtype.bytes == np.dtype(dtype.numpy).itemsize
    assert dtype.in_tile is DType.F32
    assert not dtype.is_half
    assert dtype.round(np.array([3.0])) == 3.0


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ((DType.I64, DType.I32), DType.I64),
        ((DType.I1, DType.I8), DType.I8),
        ((DType.I1, DType.I1), DType.I1),
        ((DType.I64, DType.F16), DType.F16),
        ((DType.I64, DType.F16, DType.BF16), DType.F32),
    ],
)
def test_promotion(operands: tuple[DType, ...], expected: DType) -> None:
    assert promote(*operands) is expected


@pytest.mark.parametrize(
    ("source", "target"),
    [(DType.F32, DType.I1), (DType.I64, DType.I1), (DType.I8, DType.I1), (DType.F16, DType.I1)],
)
def test_truth_is_no_conversion(source: DType, target: DType) -> None:
    with pytest.raises(ShapeError, match="keeps each number"):
        Builder().cast(value(4, dtype=source), target)


# ---- meaning


def test_iota_counts_along_its_dimension() -> None:
    b = Builder()
    y = iota(b, (2, 3, 4), 1)
    (got,) = evaluate_floats(graph(b, (), y), [])
    assert got.shape == (2, 3, 4)
    assert (got == np.arange(3)[:, None]).all()
    assert iota(b, (2, 3, 4), 1) is y  # once is enough


@pytest.mark.parametrize("domain", [None, TypedFloat()])
def test_gather_names_rows(domain: TypedFloat | None) -> None:
    table, ids, b = value(5, 2, 3), value(2, 2, dtype=DType.I64), Builder()
    g = graph(b, (table, ids), gather(b, table, ids))
    x = np.arange(30.0).reshape(5, 2, 3)
    index = np.array([[4, 0], [1, 1]])
    (got,) = evaluate_floats(g, [x, index], domain)
    assert (got == x[index]).all()


def test_no_row_is_not_a_number() -> None:
    table, ids, b = value(5, 3), value(4, dtype=DType.I64), Builder()
    g = graph(b, (table, ids), gather(b, table, ids))
    (got,) = evaluate_floats(g, [np.ones((5, 3)), np.array([0, 5, -1, 4])])
    assert np.isnan(got).all(axis=1).tolist() == [False, True, True, False]


def test_negative_indices_count_from_the_end() -> None:
    table, ids, b = value(5, 3), value(6, dtype=DType.I64), Builder()
    g = graph(b, (table, ids), gather(b, table, ids, from_end=True))
    x, index = np.arange(15.0).reshape(5, 3), np.array([0, -1, -5, 4, -6, 5])
    from_start = with_indices_from_start(g)
    assert not any(op.from_end for op in from_start.ops if isinstance(op, Gather))
    for program in (g, from_start):
        (got,) = evaluate_floats(program, [x, index])
        assert (got[:4] == x[index[:4]]).all()
        assert np.isnan(got[4:]).all()


def test_select_takes_what_is_chosen_as_it_is() -> None:
    p, x, y, b = value(4, dtype=DType.I1), value(4), value(4), Builder()
    g = graph(b, (p, x, y), select(b, p, x, y))
    (got,) = evaluate_floats(
        g, [np.array([1, 0, 1, 0]), np.array([1, np.nan, np.inf, 2]), np.array([np.inf, 5, 6, 7])]
    )
    assert got.tolist() == [1, 5, np.inf, 7]


def test_positions_are_exact_where_half_precision_is_not() -> None:
    b = Builder()
    i = iota(b, (5000,), 0)
    y = b.binary(BinaryFn.EQ, i, b.constant(4097, DType.I64))
    (got,) = evaluate_floats(graph(b, (), y), [], TypedFloat())
    assert got.sum() == 1
    assert got[4097] == 1


# ---- block level: what a load reads


def launch(ops: list[Op], operands: tuple[Value, ...], params: tuple[Value, ...], out: Value,
           result: Value, out_map: tuple[tuple[str, ...], ...]) -> KernelGraph:  # fmt: skip
    body = BlockGraph(params, tuple(ops), (Output(out, out_map),))
    op = Launch(operands, (result,), (Axis("m", 2),), body)
    return KernelGraph("g", operands, (op,), (result,))


def test_a_tile_of_positions_is_a_load_of_them() -> None:
    tile = value(4)
    g = launch([TileIota((), (tile,), 0, ("m",), 7)], (), (), tile, value(7), (("m",),))
    check_graph(g)
    assert evaluate_floats(g, [])[0].tolist() == list(range(7))
    plain = loaded(g)
    check_graph(plain)
    assert [type(op) for op in plain.ops] == [Iota, Launch]
    (op,) = (op for op in plain.ops if isinstance(op, Launch))
    assert [type(inner) for inner in all_ops(op.body.ops)] == [Load]


def test_positions_beyond_the_end_are_zero() -> None:
    tile = value(4)
    b = Builder(in_block=True)
    shifted = b.binary(BinaryFn.ADD, tile, b.constant(1.0))
    ops: list[Op] = [TileIota((), (tile,), 0, ("m",), 7), *b.ops]
    g = launch(ops, (), (), shifted, value(8), (("m",),))
    check_graph(g)
    assert evaluate_floats(g, [])[0].tolist() == [1, 2, 3, 4, 5, 6, 7, 1]


def test_a_tile_of_rows_is_a_load_of_them() -> None:
    table, ids = value(5, 8), value(4, dtype=DType.I32)
    params = (value(5, 8), value(4, dtype=DType.I32))
    tile = value(2, 8)
    g = launch(
        [TileGather(params, (tile,), (("m",), ()))],
        (table, ids), params, tile, value(4, 8), (("m",), ()),
    )  # fmt: skip
    check_graph(g)
    x, index = np.arange(40.0).reshape(5, 8), np.array([3, 3, 0, 4])
    assert (evaluate_floats(g, [x, index])[0] == x[index]).all()
    assert [type(op) for op in loaded(g).ops] == [Gather, Launch]


def test_a_tile_of_rows_counts_from_the_end() -> None:
    table, ids = value(5, 8), value(4, dtype=DType.I64)
    params = (value(5, 8), value(4, dtype=DType.I64))
    tile = value(2, 8)
    g = launch(
        [TileGather(params, (tile,), (("m",), ()), from_end=True)],
        (table, ids), params, tile, value(4, 8), (("m",), ()),
    )  # fmt: skip
    x, index = np.arange(40.0).reshape(5, 8), np.array([3, -3, -5, -1])
    assert (evaluate_floats(g, [x, index])[0] == x[index]).all()


def test_truth_values_are_numbers_in_tiles() -> None:
    mask, param = value(4, dtype=DType.I1), value(4, dtype=DType.I1)
    b = Builder(in_block=True)
    tile = b.load(param, (("m",),), (2,))
    assert tile.dtype is DType.F32
    y = b.unary(UnaryFn.NOT, tile)
    g = launch(b.ops, (mask,), (param,), y, value(4, dtype=DType.I1), (("m",),))
    check_graph(g)
    assert evaluate_floats(g, [np.array([1, 0, 0, 1])])[0].tolist() == [0, 1, 1, 0]


# ---- rules


def test_rules() -> None:
    with pytest.raises(ShapeError, match="positions of type i32 or i64"):
        iota(Builder(), (4,), 0, DType.F32)
    with pytest.raises(ShapeError, match="a dimension of 4xi64, got 1"):
        iota(Builder(), (4,), 1)
    with pytest.raises(ShapeError, match="indices of type i32 or i64, got f32"):
        gather(Builder(), value(4, 4), value(3))
    tile = value(4)
    bad = launch([TileIota((), (tile,), 0, ("m",), 9)], (), (), tile, value(8), (("m",),))
    with pytest.raises(InvalidGraph, match="between 1 and 8, got 9"):
        check_graph(bad)
    bad = launch([TileIota((), (tile,), 0, ("k",), 8)], (), (), tile, value(8), (("m",),))
    with pytest.raises(InvalidGraph, match="axis in scope"):
        check_graph(bad)
    outside = KernelGraph("g", (), (TileIota((), (tile,), 0, (), 4),), (tile,))
    with pytest.raises(InvalidGraph, match="of the kernel level, got one of the block level"):
        check_graph(outside)
    position = value(4, dtype=DType.I64)
    inside = launch([Iota((), (position,), 0)], (), (), position, value(4), (("m",),))
    with pytest.raises(InvalidGraph, match="of the block level, got one of the kernel level"):
        check_graph(inside)


def test_residues_name_no_row() -> None:
    table, ids, b = value(5, 3), value(4, dtype=DType.I64), Builder()
    op = Gather((table, ids), (gather(b, table, ids),))
    planes = (np.ones((5, 3)),) * 2, (np.ones(4),) * 2
    with pytest.raises(UnknownOp, match="known numbers, got residues"):
        op.compute(TypedFloat(), planes, 0, (4, 3))


def test_too_few_inputs() -> None:
    b = Builder()
    g = graph(b, (), iota(b, (3,), 0))
    with pytest.raises(EvaluationError):
        evaluate(g, TypedFloat(), [(np.ones(3),)])


# ---- text


def test_text_and_back() -> None:
    table, ids = value(10, 8, dtype=DType.F16), value(2, 3, dtype=DType.I64)
    seen = value(3, 3, dtype=DType.I1)
    b = Builder()
    rows, last = gather(b, table, ids), gather(b, table, ids, from_end=True)
    i = iota(b, (3,), 0)
    mask = b.binary(BinaryFn.LE, i, b.reshape(i, (3, 1)))
    both = b.binary(BinaryFn.AND, mask, seen)
    third = b.binary(BinaryFn.FLOOR_DIV, i, b.constant(3, DType.I64))
    biased = b.unary(UnaryFn.BIAS, b.cast(both, DType.F16))
    g = graph(b, (table, ids, seen), rows, last, biased, third, b.unary(UnaryFn.NOT, both))
    text = graph_to_text(g)
    assert "kernel.iota dim 0" in text
    assert "kernel.gather" in text
    assert "from_end" in text
    assert signature(graph_from_text(text).graph) == signature(g)


def test_text_of_launches_and_back() -> None:
    table, ids = value(5, 8), value(4, dtype=DType.I32)
    params = (value(5, 8), value(4, dtype=DType.I32))
    tile, line = value(2, 8), value(2, 1)
    b = Builder(in_block=True)
    y = b.binary(BinaryFn.ADD, tile, line)
    ops: list[Op] = [
        TileGather(params, (tile,), (("m",), ()), from_end=True), TileIota((), (line,), 0, ("m",), 4), *b.ops,
    ]  # fmt: skip
    g = launch(ops, (table, ids), params, y, value(4, 8), (("m",), ()))
    check_graph(g)
    assert signature(graph_from_text(graph_to_text(g)).graph) == signature(g)
