"""Ops on integers that become formulas, and ops that remain calls of PyTorch."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.domain import Float64
from mirage.semantics.evaluation.evaluate import evaluate
from mirage.semantics.integer_formula import MAX_STEPS
from mirage.semantics.integers import Integers
from mirage.semantics.positions import gather, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import External, KernelGraph, TensorType, Value
from mirage.transforms.partition.exact_integers import integers_as_calls
from mirage.transforms.partition.partition import Part, partition

I64 = DType.I64
IDS = np.array([2**62 + 1, -(2**63), 2**63 - 1, -5])


def value(*shape: int, dtype: DType = I64) -> Value:
    return Value(TensorType(shape, dtype))


def divided(b: Builder, inputs: Sequence[Value], *outputs: Value) -> KernelGraph:
    graph = integers_as_calls(KernelGraph("g", tuple(inputs), tuple(b.ops), outputs))
    check_graph(graph)
    return graph


def written(graph: KernelGraph) -> list[str]:
    found = (op for op in graph.ops if isinstance(op, Integers))
    return [op.written([f"x{i}" for i in range(len(op.operands))]) for op in found]


def calls(graph: KernelGraph) -> list[str]:
    return [op.target.removeprefix("aten.") for op in graph.ops if isinstance(op, External)]


def test_ops_that_follow_each_other_are_one_formula() -> None:
    b, ids = Builder(), value(4)
    y = b.binary(BinaryFn.ADD, b.binary(BinaryFn.MUL, ids, b.constant(2, I64)), b.constant(1, I64))
    graph = divided(b, [ids], y)
    assert written(graph) == ["((x0 * 2) + 1)"]
    assert not calls(graph)
    ((found,),) = evaluate(graph, Float64(), [(IDS,)])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, IDS * 2 + 1)


def test_views_between_say_where_operands_lie() -> None:
    b, ids = Builder(), value(4)
    column = b.reshape(b.binary(BinaryFn.MUL, ids, ids), (4, 1))
    wide = b.broadcast(b.reshape(ids, (1, 4)), (4, 4))
    y = b.binary(BinaryFn.LE, b.transpose(column, (1, 0)), b.transpose(wide, (1, 0)))
    graph = divided(b, [ids], y)
    (op,) = graph.ops
    assert isinstance(op, Integers)
    assert op.formula.loads == ((1,), (0,))
    ((found,),) = evaluate(graph, Float64(), [(IDS,)])
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(found, IDS[:, None] >= IDS * IDS)


def test_each_value_that_others_read_has_a_formula() -> None:
    b, ids, x = Builder(), value(4), value(4, dtype=DType.F32)
    twice = b.binary(BinaryFn.ADD, ids, ids)
    same = b.binary(BinaryFn.EQ, b.binary(BinaryFn.MUL, twice, twice), ids)
    y = b.binary(BinaryFn.KEEP, same, x)
    graph = divided(b, [ids, x], y, twice)
    assert written(graph) == ["(x0 + x0)", "(((x0 + x0) * (x0 + x0)) == x0)"]
    kinds = [type(step) for step in partition(KernelGraph("g", (ids, x), tuple(b.ops), (y, twice)))]
    assert kinds == [Integers, Integers, Part]


def test_small_integers_are_computed_again() -> None:
    """Values that kernels could compute as floats are computed in the formula, not written for
    it."""
    b, ids = Builder(), value(4)
    negative = b.binary(BinaryFn.LT, ids, b.constant(0, I64))
    graph = divided(b, [ids], b.binary(BinaryFn.KEEP, negative, b.binary(BinaryFn.ADD, ids, ids)))
    assert written(graph) == ["keep((x0 < 0), (x0 + x0))"]
    assert [type(op) for op in graph.ops] == [Integers]


def test_known_ranges_stay_floats() -> None:
    """Integers that kernels hold as f32 are computed as before."""
    b = Builder()
    x, i = value(8, dtype=DType.F32), iota(b, (8,), 0)
    near = b.binary(BinaryFn.LT, b.binary(BinaryFn.MUL, i, b.constant(3, I64)), b.constant(9, I64))
    y = b.binary(BinaryFn.KEEP, near, x)
    assert not written(divided(b, [x], y))


def test_floats_end_formulas() -> None:
    """Functions of floats are computed by kernels; formulas only convert."""
    b, ids = Builder(), value(4, dtype=DType.I32)
    x = b.cast(b.binary(BinaryFn.MUL, ids, ids), DType.F32)
    y = b.cast(b.unary(UnaryFn.EXP, x), I64)
    graph = divided(b, [ids], y)
    assert written(graph) == ["(x0 * x0)", "i64(x0)"]


def test_joins_pick_elements() -> None:
    b, ids = Builder(), value(4, 6)
    more = b.binary(BinaryFn.ADD, ids, b.constant(1, I64))
    total = b.reduce(ReduceFn.SUM, more, (1,))
    joined = b.concat((total, b.slice(ids, (0, 2), (4, 2))), 1)
    graph = divided(b, [ids], joined)
    before = "(position1 < 1)"
    part = "x0[position0, ((position1 - 1) + 2)]"
    assert written(graph) == ["(x0 + 1)", f"(keep({before}, x1) + keep(not({before}), {part}))"]
    assert not calls(graph)


def test_slices_that_nothing_computes_with_stay_views() -> None:
    b, ids = Builder(), value(4, 6)
    more = b.binary(BinaryFn.MUL, ids, ids)
    graph = divided(b, [ids], b.slice(more, (0, 2), (4, 2)))
    assert written(graph) == ["(x0 * x0)"]
    assert calls(graph) == ["narrow.default"]


def test_other_shapes_are_indices() -> None:
    b, ids = Builder(), value(4, 6)
    rows = b.reshape(b.binary(BinaryFn.MUL, ids, ids), (2, 2, 2, 3))
    graph = divided(b, [ids], b.binary(BinaryFn.ADD, rows, rows))
    place = "((position2 * 3) + position3)"
    row = "((position0 * 2) + position1)"
    assert written(graph)[0].startswith("((x0[")
    assert row in written(graph)[0]
    assert place in written(graph)[0]


def test_indices_are_formulas() -> None:
    """Also those that may be outside; a formula that reads the index computes it itself."""
    b, table, ids = Builder(), value(9, 8, dtype=DType.F32), value(4)
    index = b.binary(BinaryFn.ADD, ids, b.constant(1, I64))
    rows = gather(b, table, index)
    graph = divided(b, [table, ids], rows, b.binary(BinaryFn.MUL, index, index))
    assert not calls(graph)
    assert written(graph) == ["(x0 + 1)", "((x0 + 1) * (x0 + 1))"]


def test_a_result_of_kernels_is_read() -> None:
    b, x = Builder(), value(4, dtype=DType.F32)
    positive = b.cast(b.binary(BinaryFn.LT, b.constant(0.5), b.unary(UnaryFn.EXP, x)), I64)
    ids = value(4)
    graph = divided(b, [x, ids], b.binary(BinaryFn.MUL, ids, positive))
    assert written(graph) == ["(x0 * i64(x1))"]


def test_formulas_have_an_end() -> None:
    b, ids = Builder(), value(4)
    y = ids
    for _ in range(MAX_STEPS + 1):
        y = b.binary(BinaryFn.MUL, y, b.binary(BinaryFn.ADD, y, ids))
    graph = divided(b, [ids], y)
    assert not written(graph)
    assert len(calls(graph)) == 2 * (MAX_STEPS + 1)


def test_functions_of_bits_are_calls_until_then() -> None:
    b, ids = Builder(), value(4)
    masked = value(4)
    b.ops.append(External((ids,), (masked,), "aten.bitwise_and.Scalar", (("other", 12),)))
    shifted = value(4)
    b.ops.append(External((masked, ids), (shifted,), "aten.bitwise_left_shift.Tensor"))
    other = value(4)
    b.ops.append(External((shifted, ids), (other,), "aten.gcd.default"))
    graph = divided(b, [ids], other)
    assert written(graph) == ["shift_left(bit_and(x0, 12), x0)"]
    assert calls(graph) == ["gcd.default"]


def test_other_types_are_seen_by_calls_alone() -> None:
    """Formulas do not compute with representations of unsigned integers."""
    b, ids, y = Builder(), value(4, dtype=DType.I8), value(4, dtype=DType.I8)
    call = External((ids, ids), (y,), "aten.bitwise_and.Tensor", (), ("uint8", "uint8"))
    b.ops.append(call)
    assert calls(divided(b, [ids], y)) == ["bitwise_and.Tensor"]
