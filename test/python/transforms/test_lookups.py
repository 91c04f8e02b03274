"""Lookups computed by the kernels that load them, integers that kernels do not compute, parts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from example_programs.position_programs import searched
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.bounds.integer_ranges import may_wrap, ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.integers import Integers
from mirage.semantics.positions import (
    MAX_POSITIONS,
    Gather,
    Iota,
    TileGather,
    TileIota,
    gather,
    iota,
)
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import (
    Axis,
    Binary,
    BlockGraph,
    External,
    KernelGraph,
    Launch,
    Loop,
    Op,
    Output,
    TensorType,
    Unary,
    Value,
    all_ops,
    launches,
)
from mirage.transforms import stabilize
from mirage.transforms.lookups import fused
from mirage.transforms.partition.calls import as_calls
from mirage.transforms.partition.exact_integers import integers_as_calls
from mirage.transforms.partition.partition import Part, partition
from mirage.verify.evidence.samples.defined_nowhere import first_without_numbers


def value(*shape: int, dtype: DType = DType.F32) -> Value:
    return Value(TensorType(shape, dtype))


def formulas(graph: KernelGraph) -> list[str]:
    """Exact arithmetic of a graph, whose operands are called x0, x1, ..."""
    made = [op for op in graph.ops if isinstance(op, Integers)]
    return [op.written([f"x{i}" for i in range(len(op.operands))]) for op in made]


def rows_and_positions() -> KernelGraph:
    """``gather(table, ids) * position``: a kernel that loads both lookups, in a loop."""
    table, ids, b = value(9, 12), value(6, dtype=DType.I64), Builder()
    x, i = gather(b, table, ids), iota(b, (12,), 0)
    px, pi = (Value(v.type) for v in (x, i))
    block, inner = Builder(in_block=True), Builder(in_block=True)
    tile = inner.load(px, (("m",), ("k",)), (3, 4))
    line = inner.load(pi, (("k",),), (4,))
    product = inner.binary(BinaryFn.MUL, tile, line)
    from mirage.semantics.ugraph import AccumulateFn, Accumulator

    summed = inner.reduce(ReduceFn.SUM, product, (1,))
    (total,) = block.loop(Axis("k", 3), tuple(inner.ops), (Accumulator(AccumulateFn.SUM, summed),))
    result = value(6, 1)
    body = BlockGraph((px, pi), tuple(block.ops), (Output(total, (("m",), ())),))
    launch = Launch((x, i), (result,), (Axis("m", 2),), body)
    g = KernelGraph("g", (table, ids), (*b.ops, launch), (result,))
    check_graph(g)
    return g


def data() -> tuple[np.ndarray, np.ndarray]:
    return np.random.default_rng(0).standard_normal((9, 12)), np.array([0, 8, 3, 3, 1, 7])


def test_kernels_find_what_they_load() -> None:
    g = rows_and_positions()
    f = fused(g)
    check_graph(f)
    (op,) = f.ops
    assert isinstance(op, Launch)
    assert op.operands == g.inputs
    kinds = [type(inner) for inner in all_ops(op.body.ops)]
    assert kinds.count(TileGather) == kinds.count(TileIota) == 1
    x, ids = data()
    expected = (x[ids] * np.arange(12)).sum(1, keepdims=True)
    for graph in (g, f, loaded(f)):
        np.testing.assert_allclose(evaluate_floats(graph, [x, ids])[0], expected)


def test_tables_that_are_looked_up_themselves_are_written() -> None:
    table, ids, others = value(11, 16), value(24, dtype=DType.I64), value(8, dtype=DType.I64)
    b = Builder()
    rows = gather(b, gather(b, table, ids), others)
    y = b.binary(BinaryFn.MUL, rows, b.constant(2.0))
    reference = KernelGraph("g", (table, ids, others), tuple(b.ops), (y,))
    once = fused(searched(reference)[0])
    check_graph(once)
    again = fused(once)
    check_graph(again)
    assert signature(again) == signature(once)
    assert [type(op) for op in again.ops] == [Launch, Launch]


def test_rows_in_another_shape_are_rows_by_indices_in_it() -> None:
    table, ids, b = value(9, 12), value(2, 3, dtype=DType.I64), Builder()
    x = b.reshape(gather(b, table, ids), (6, 12))
    cut = b.reshape(gather(b, table, ids), (2, 3, 3, 4))  # rows themselves are decomposed
    block = Builder(in_block=True)
    param = Value(x.type)
    tile = block.load(param, (("m",), ()), (3, 12))
    body = BlockGraph((param,), tuple(block.ops), (Output(tile, (("m",), ())),))
    out = value(6, 12)
    launch = Launch((x,), (out,), (Axis("m", 2),), body)
    g = KernelGraph("g", (table, ids), (*b.ops, launch), (out, cut))
    f = fused(g)
    check_graph(f)
    (op,) = (op for op in f.ops if out in op.results)
    assert table in op.operands
    assert not any(isinstance(op, Gather) for op in f.ops)
    data = [np.random.default_rng(0).standard_normal((9, 12)), np.array([[0, 8, 3], [3, 1, 7]])]
    for a, e in zip(evaluate_floats(f, data), evaluate_floats(g, data), strict=True):
        np.testing.assert_array_equal(a, e)


def test_a_kernel_writes_rows_that_others_read() -> None:
    """The kernel that computes with them still looks them up."""
    g = rows_and_positions()
    gathered = next(op.result for op in g.ops if isinstance(op, Gather))
    g = KernelGraph("g", g.inputs, g.ops, (*g.outputs, gathered))
    f = fused(g)
    check_graph(f)
    assert [type(op) for op in f.ops] == [Launch, Launch]
    assert all(op.operands == g.inputs for op in f.ops)
    for graph in (f, loaded(f)):
        for a, e in zip(evaluate_floats(graph, data()), evaluate_floats(g, data()), strict=True):
            np.testing.assert_allclose(a, e)


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda b: iota(b, (MAX_POSITIONS + 1,), 0), "too many for f32"),
        (lambda b: iota(b, (4, 3), 0), "zero beyond the other dimension"),
    ],
)
def test_what_tiles_do_not_hold_is_loaded(make, why: str) -> None:
    b = Builder()
    x = make(b)
    param = Value(x.type)
    block = Builder(in_block=True)
    tile = block.load(param, tuple(() for _ in x.shape), x.shape)
    body = BlockGraph((param,), tuple(block.ops), (Output(tile, tuple(() for _ in x.shape)),))
    result = Value(TensorType(x.shape, DType.F32))
    g = KernelGraph("g", (), (*b.ops, Launch((x,), (result,), (), body)), (result,))
    assert fused(g) == g, why


@pytest.mark.parametrize("shape", [(2, 3), (3, 2, 1)])
def test_elements_of_one_column_are_picked(shape: tuple[int, ...]) -> None:
    """Also if the column is removed."""
    table, ids, b = value(9, 1), value(6, dtype=DType.I64), Builder()
    x = b.reshape(gather(b, table, ids), shape)
    block, param = Builder(in_block=True), Value(x.type)
    whole = tuple(() for _ in shape)
    doubled = block.unary(UnaryFn.NEG, block.load(param, whole, shape))
    body = BlockGraph((param,), tuple(block.ops), (Output(doubled, whole),))
    result = value(*shape)
    launch = Launch((x,), (result,), (), body)
    g = KernelGraph("g", (table, ids), (*b.ops, launch), (result,))
    f = fused(g)
    assert [type(op) for op in f.ops if not op.renames] == [Launch]
    rows = np.random.default_rng(0).standard_normal((9, 1)), np.array([0, 8, 3, 9, -1, 7])
    for a, e in zip(evaluate_floats(f, rows), evaluate_floats(g, rows), strict=True):
        np.testing.assert_array_equal(a, e)


# ---- ranges


def test_ranges() -> None:
    b = Builder()
    i = iota(b, (10,), 0)
    ids = value(10, dtype=DType.I64)
    seen = value(10, dtype=DType.I1)
    nine = b.constant(3, DType.I64)
    checks = {
        b.binary(BinaryFn.SUB, i, i): (-9, 9),
        b.binary(BinaryFn.MUL, i, nine): (0, 27),
        b.binary(BinaryFn.FLOOR_DIV, b.unary(UnaryFn.NEG, i), nine): (-3, 0),
        b.binary(BinaryFn.REMAINDER, b.unary(UnaryFn.NEG, i), nine): (0, 2),
        b.binary(BinaryFn.LT, i, ids): (0, 1),
        b.binary(BinaryFn.KEEP, seen, b.binary(BinaryFn.ADD, i, nine)): (0, 12),
        b.binary(BinaryFn.MIN, ids, i): (-np.inf, 9),
        b.binary(BinaryFn.ADD, ids, i): (-np.inf, np.inf),
        b.cast(seen, DType.I64): (0, 1),
    }
    g = KernelGraph("g", (ids, seen), tuple(b.ops), tuple(checks))
    known = ranges_of(g)
    for v, expected in checks.items():
        assert known[v] == expected, expected


def test_the_range_of_a_small_type_holds_what_wraps() -> None:
    x, b = value(4, dtype=DType.I8), Builder()
    y = b.binary(BinaryFn.MUL, x, x)
    assert ranges_of(KernelGraph("g", (x,), tuple(b.ops), (y,)))[y] == (-128, 127)


def test_what_wraps_has_any_range_of_its_type() -> None:
    b = Builder()
    i = b.cast(iota(b, (1 << 17,), 0), DType.I32)
    square = b.binary(BinaryFn.MUL, i, i)
    least = b.binary(BinaryFn.MIN, square, b.constant(9, DType.I32))
    ranges = ranges_of(KernelGraph("g", (), tuple(b.ops), (least,)))
    assert ranges[square] == (-np.inf, np.inf)
    assert ranges[least] == (-np.inf, 9)
    wrapping = {op.result for op in b.ops if may_wrap(op, ranges)}
    assert square in wrapping
    assert i not in wrapping


def test_positions_are_computed_and_token_ids_are_not() -> None:
    x, ids, b = value(16), value(16, dtype=DType.I64), Builder()
    i = iota(b, (16,), 0)
    near = b.binary(BinaryFn.LT, i, b.constant(4, DType.I64))
    same = b.binary(BinaryFn.EQ, b.binary(BinaryFn.ADD, ids, ids), b.constant(7, DType.I64))
    y = b.binary(BinaryFn.KEEP, b.binary(BinaryFn.AND, near, same), x)
    g = integers_as_calls(KernelGraph("g", (x, ids), tuple(b.ops), (y,)))
    assert formulas(g) == ["(x0 + x0)"]  # its result is compared
    *_, part = (s for s in partition(g) if isinstance(s, Part))
    (made,) = (op for op in g.ops if isinstance(op, Integers))
    assert ids not in part.graph.inputs
    assert {v for v in part.graph.inputs if v.dtype is DType.I64} == {i, made.result}


def test_any_integer_is_compared_with_positions() -> None:
    """Rounding preserves the order; functions of the integer are exact arithmetic."""
    x, n, b = value(16), value(1, dtype=DType.I64), Builder()
    i = iota(b, (16,), 0)
    start = b.binary(BinaryFn.SUB, n, b.constant(4, DType.I64))
    below = b.binary(BinaryFn.LT, i, b.reshape(n, ()))
    after = b.binary(BinaryFn.LE, start, i)
    unknown = b.binary(BinaryFn.LE, start, n)
    mask = b.binary(BinaryFn.AND, b.binary(BinaryFn.AND, below, after), unknown)
    y = b.binary(BinaryFn.KEEP, mask, x)
    g = integers_as_calls(KernelGraph("g", (x, n), tuple(b.ops), (y,)))
    assert formulas(g) == ["((x0 - 4) <= x0)"]
    kept = {op.result: op for op in g.ops if not isinstance(op, Integers)}
    assert {below, after, mask} <= kept.keys()
    # the integer itself is compared with its upper bound, which is known
    assert kept[after].operands[0] is n
    assert kept[after].function is BinaryFn.LE


def test_what_is_chosen_among_integers_is_compared() -> None:
    """It may be compared with numbers whose range is known; everything else is exact arithmetic."""
    x, n = value(16), value(1, dtype=DType.I64)

    def calls(used: Callable[[Builder, Value], Value]) -> list[str]:
        b = Builder()
        there = b.binary(BinaryFn.NE, n, b.constant(-100, DType.I64))
        chosen = b.binary(BinaryFn.KEEP, there, n)
        y = b.binary(BinaryFn.KEEP, used(b, chosen), x)
        g = integers_as_calls(KernelGraph("g", (x, n), tuple(b.ops), (y,)))
        return formulas(g)

    assert not calls(lambda b, t: b.binary(BinaryFn.EQ, iota(b, (16,), 0), t))
    assert not calls(lambda b, t: b.binary(BinaryFn.LT, t, iota(b, (16,), 0)))
    found = calls(lambda b, t: b.binary(BinaryFn.EQ, b.binary(BinaryFn.ADD, t, t), t))
    kept = "keep((x0 != -100), x0)"
    assert found == [f"(({kept} + {kept}) == {kept})"]


@pytest.mark.parametrize("limit", [2**24 - 1, -(2**24) + 1, 2**24, -(2**24)])
def test_integers_are_compared_below_where_rounding_ends(limit: int) -> None:
    """Numbers next to 2^24 may be rounded to it, so nothing is compared with it in a kernel."""
    x, n, b = value(16), value(1, dtype=DType.I64), Builder()
    mask = b.binary(BinaryFn.LT, n, b.constant(limit, DType.I64))
    g = integers_as_calls(
        KernelGraph("g", (x, n), tuple(b.ops), (b.binary(BinaryFn.KEEP, mask, x),))
    )
    calls = [op.target for op in g.ops if isinstance(op, External)]
    assert ("aten.lt.Tensor" in calls) == (abs(limit) == 2**24)
    for number in range(limit - 3, limit + 4):
        same = (np.float32(number) < np.float32(limit)) == (number < limit)
        assert same or abs(limit) == 2**24


def test_integers_of_any_size_that_leave_the_program_are_exact() -> None:
    """Tiles of f32 are written as truth values, and integers that they are known to hold."""
    x, n, b = value(16), value(16, dtype=DType.I64), Builder()
    small = b.binary(BinaryFn.LT, x, b.constant(0.5))
    more = b.binary(BinaryFn.ADD, n, b.constant(1, DType.I64))
    g = integers_as_calls(KernelGraph("g", (x, n), tuple(b.ops), (small, more)))
    made = {op.results[0]: type(op) for op in g.ops}
    assert made[small] is Binary
    assert made[more] is Integers


def test_positions_come_before_the_parts_that_read_them() -> None:
    q, k, b = value(8, 16), value(16, 8), Builder()
    i = iota(b, (8,), 0)
    scores = b.matmul(q, k)
    mask = b.binary(BinaryFn.LE, i, b.reshape(i, (8, 1)))
    y = b.binary(BinaryFn.KEEP, mask, scores)
    steps = partition(KernelGraph("g", (q, k), tuple(b.ops), (y,)))
    assert [type(s) for s in steps] == [Iota, Part]


def test_rows_of_what_a_part_computes_come_after_it() -> None:
    table, ids, b = value(9, 8), value(4, dtype=DType.I64), Builder()
    rows = gather(b, b.unary(UnaryFn.SQUARE, table), ids)
    y = b.unary(UnaryFn.EXP, rows)
    steps = partition(KernelGraph("g", (table, ids), tuple(b.ops), (y,)))
    assert [type(s) for s in steps] == [Part, Gather, Part]


# ---- calls


def test_calls_of_everything() -> None:
    import torch
    from torch_programs.external_calls import call_external

    table, ids, b = value(5, 6), value(3, dtype=DType.I64), Builder()
    i = iota(b, (6,), 0)
    column = iota(b, (3, 6), 0)
    rows = gather(b, table, ids)
    mask = b.binary(BinaryFn.LE, i, b.constant(3, DType.I64))
    y = b.binary(BinaryFn.KEEP, b.binary(BinaryFn.XOR, mask, b.unary(UnaryFn.NOT, mask)), rows)
    z = b.binary(BinaryFn.ADD, y, b.unary(UnaryFn.BIAS, b.cast(mask, DType.F32)))
    seen = b.binary(BinaryFn.KEEP, mask, b.unary(UnaryFn.NOT, mask))
    outputs = (z, b.binary(BinaryFn.REMAINDER, column, b.constant(2, DType.I64)), seen)
    g = KernelGraph("g", (table, ids), tuple(b.ops), outputs)
    calls = as_calls(g)
    assert all(isinstance(op, External) for op in calls.ops)
    x, index = torch.randn(5, 6), torch.tensor([4, 0, 2])
    values = {table: x, ids: index}
    for op in calls.ops:
        assert isinstance(op, External)
        values.update(zip(op.results, call_external(op, values), strict=True))
    expected = evaluate_floats(g, [x.double().numpy(), index.double().numpy()])
    for v, e in zip(g.outputs, expected, strict=True):
        assert values[v].dtype == getattr(torch, TORCH_NAMES[v.dtype.value])
        np.testing.assert_allclose(values[v].double().numpy(), e, rtol=1e-6)


def test_loops_keep_their_lookups() -> None:
    launch = next(op for op in fused(rows_and_positions()).ops if isinstance(op, Launch))
    (loop,) = (op for op in launch.body.ops if isinstance(op, Loop))
    inside: list[type[Op]] = [type(op) for op in loop.body]
    assert TileGather in inside


def test_numbers_are_found_in_what_kernels_look_up() -> None:
    graph = fused(rows_and_positions())
    assert first_without_numbers(graph, lambda number, region: None) is None
    b = Builder(ops=list(graph.ops))
    exponential = b.unary(UnaryFn.EXP, graph.outputs[0])
    nothing = b.unary(UnaryFn.LOG, b.binary(BinaryFn.SUB, exponential, exponential))
    nowhere = replace(graph, ops=tuple(b.ops), outputs=(nothing,))
    found = first_without_numbers(nowhere, lambda number, region: None)
    assert isinstance(found, Unary)
    assert found.fn is UnaryFn.LOG


def test_kernels_that_look_rows_up_are_made_safe_from_overflow() -> None:
    """They are made safe in the form in which they do not yet look up rows themselves."""
    table, ids, weight = value(11, 16), value(24, dtype=DType.I64), value(16, 8)
    b = Builder()
    y = b.matmul(b.softmax(gather(b, table, ids), 1), weight)
    reference = KernelGraph("g", (table, ids, weight), tuple(b.ops), (y,))
    before = searched(reference)
    assert before
    for graph, safe in zip(before, searched(reference, stable=True), strict=True):
        assert any(isinstance(op, TileGather) for k in launches(graph.ops) for op in all_ops((k,)))
        found = stabilize(graph)
        assert not found.unstable
        check_graph(found.graph)
        assert signature(found.graph) == signature(safe)
