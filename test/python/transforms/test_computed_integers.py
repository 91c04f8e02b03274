"""Formulas in the kernels that load them, and kernels that write the operands of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.domain import Float64
from mirage.semantics.evaluation.evaluate import evaluate
from mirage.semantics.integer_formula import Formula, read_step
from mirage.semantics.integers import Integers, TileIntegers
from mirage.semantics.positions import Iota, iota
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import (
    BlockGraph,
    External,
    KernelGraph,
    Launch,
    Load,
    Op,
    Output,
    Reshape,
    TensorType,
    Value,
)
from mirage.transforms.computed_integers import computing, integers_without_views
from mirage.transforms.lookups import fused
from mirage.verify import verify

I64 = DType.I64
IDS = np.array([2**62 + 1, -(2**63), 2**63 - 1, -5, 7])


def value(*shape: int, dtype: DType = I64) -> Value:
    return Value(TensorType(shape, dtype))


def integers(result: Value, operands: tuple[Value, ...], *lines: str) -> Integers:
    return Integers(operands, (result,), Formula(tuple(map(read_step, lines))))


def reader(x: Value) -> Launch:
    """A kernel that negates a whole tensor."""
    b, param = Builder(in_block=True), Value(x.type)
    whole = tuple(() for _ in x.shape)
    y = b.unary(UnaryFn.NEG, b.load(param, whole, x.shape))
    body = BlockGraph((param,), tuple(b.ops), (Output(y, whole),))
    return Launch((x,), (value(*x.shape, dtype=DType.F32),), (), body)


def inside(op: Op) -> list[type[Op]]:
    assert isinstance(op, Launch)
    return [type(inner) for inner in op.body.ops]


def equal(a: KernelGraph, b: KernelGraph, *inputs: np.ndarray) -> None:
    check_graph(b)
    for (x,), (y,) in zip(
        *(evaluate(g, Float64(), [(i,) for i in inputs]) for g in (a, b)), strict=True
    ):
        np.testing.assert_array_equal(x, y)


def pairs(b: Builder, ids: Value) -> Value:
    """Whether each number is at most the position of another."""
    i = iota(b, (5,), 0)
    op = integers(value(5, 5, dtype=DType.I1), (ids, i), "load 0", "load 1", "le 0 1 : i1")
    b.ops.append(op)
    return op.result


def test_kernels_compute_what_they_load() -> None:
    b, ids = Builder(), value(5)
    launch = reader(pairs(b, ids))
    graph = KernelGraph("g", (ids,), (*b.ops, launch), launch.results)
    found = fused(graph)
    (only,) = found.ops
    assert inside(only)[0] is TileIntegers
    assert only.operands == (ids,)  # positions are computed as well
    equal(graph, found, IDS)
    assert signature(fused(found)) == signature(found)


def test_views_are_other_formulas() -> None:
    b, ids = Builder(), value(5)
    turned = b.transpose(b.reshape(pairs(b, ids), (5, 1, 5)), (2, 1, 0))
    launch = reader(b.broadcast(turned, (5, 3, 5)))
    graph = KernelGraph("g", (ids,), (*b.ops, launch), launch.results)
    found = fused(graph)
    (only,) = found.ops
    assert inside(only)[0] is TileIntegers
    equal(graph, found, IDS)


def test_other_views_are_read_from_memory() -> None:
    b, ids = Builder(), value(5)
    line = b.reshape(pairs(b, ids), (25,))
    launch = reader(line)
    graph = KernelGraph("g", (ids,), (*b.ops, launch), launch.results)
    kept = [type(op) for op in integers_without_views(graph).ops]
    assert kept == [Integers, Reshape, Launch]
    found = fused(graph)
    first, *_, last = found.ops
    assert inside(first) == [TileIntegers]
    assert inside(last)[0] is Load
    equal(graph, found, IDS)


POSITIONS: dict[str, Callable[[Builder, Value], Value]] = {
    "a part": lambda b, i: b.slice(i, (2,), (3,)),
    "a single one": lambda b, i: b.slice(i, (4,), (1,)),
    "a column": lambda b, i: b.reshape(i, (5, 1)),
    "repeated": lambda b, i: b.broadcast(b.reshape(i, (5, 1)), (5, 3)),
    "a part of a column": lambda b, i: b.slice(b.reshape(i, (1, 5, 1)), (0, 1, 0), (1, 4, 1)),
    "lines": lambda b, i: b.reshape(b.slice(i, (1,), (4,)), (2, 2)),
    "turned lines": lambda b, i: b.transpose(b.reshape(b.slice(i, (1,), (4,)), (2, 2)), (1, 0)),
    "repeats of a single one": lambda b, i: b.broadcast(b.slice(i, (3,), (1,)), (4,)),
}


@pytest.mark.parametrize("dtype", [I64, DType.I32])
@pytest.mark.parametrize("name", POSITIONS)
def test_parts_and_views_of_positions_are_formulas(name: str, dtype: DType) -> None:
    b = Builder()
    launch = reader(POSITIONS[name](b, iota(b, (5,), 0, dtype)))
    graph = KernelGraph("g", (), (*b.ops, launch), launch.results)
    found = fused(graph)
    (only,) = found.ops
    assert inside(only)[0] is TileIntegers
    assert not only.operands
    equal(graph, found)


def test_a_formula_counts_positions_in_other_shapes() -> None:
    b, ids = Builder(), value(5)
    column = b.reshape(iota(b, (5,), 0), (5, 1))
    op = integers(value(5, 5), (ids, column), "load 1", "load 0 -1", "mul 0 1 : i64")
    launch = reader(op.result)
    graph = KernelGraph("g", (ids,), (*b.ops, op, launch), launch.results)
    found = fused(graph)
    (only,) = found.ops
    assert only.operands == (ids,)
    equal(graph, found, IDS)


def test_what_others_read_is_written() -> None:
    ids = value(5)
    op = integers(value(5), (ids,), "load 0", "constant 3 : i64", "mul 0 1 : i64")
    again = integers(value(5), (op.result,), "load 0", "neg 0 : i64")
    call = External((again.result,), (value(5),), "aten.sort.default")
    launch = reader(op.result)
    graph = KernelGraph("g", (ids,), (op, again, launch, call), (launch.results[0], *call.results))
    found = fused(graph)
    first, second, last = found.ops
    assert inside(first) == [TileIntegers]
    assert first.results == again.results
    assert first.operands == second.operands == (ids,)  # both compute what they read
    assert last is call
    check_graph(found)


def test_results_of_one_shape_are_of_one_kernel() -> None:
    """Unless one is read, through memory, before another is computed: a result of another size,
    which something else reads, too."""
    ids, seed = value(5), value(1)
    one = integers(value(5), (ids,), "load 0", "constant 3 : i64", "mul 0 1 : i64")
    two = integers(value(5), (ids,), "load 0", "abs 0 : i64")
    other = integers(value(5, 5), (ids,), "load 0", "neg 0 : i64")
    single = integers(value(1), (seed,), "load 0", "neg 0 : i64")
    after = integers(value(5), (single.result, ids), "load -1", "load 0", "add 0 1 : i64")
    last = integers(value(5), (one.result,), "load 0", "square 0 : i64")
    ops = (one, two, other, single, after, last)
    graph = KernelGraph("g", (ids, seed), ops, tuple(op.result for op in ops))
    found = fused(graph)
    assert [op.results for op in found.ops] == [
        (one.result, two.result, last.result), other.results, single.results, after.results,
    ]  # fmt: skip
    equal(graph, found, IDS, IDS[:1])
    more = tuple(replace(one, results=(value(5),)) for _ in range(9))
    many = fused(KernelGraph("g", (ids,), more, tuple(op.result for op in more)))
    assert [len(op.results) for op in many.ops] == [4, 4, 1]


@pytest.mark.parametrize("shape", [(5,), (1,), (700,), (3, 5), (4, 1000), (3000, 3), (2, 3, 5)])
def test_kernels_that_write_have_tiles_of_all_shapes(shape: tuple[int, ...]) -> None:
    x = value(*shape, dtype=DType.I32)
    dims = " ".join(map(str, range(len(shape))))
    op = integers(value(*shape, dtype=DType.I32), (x,), f"load {dims}", "square 0 : i32")
    launch = computing([op])
    graph = KernelGraph("g", (x,), (launch,), launch.results)
    numbers = np.arange(x.type.size).reshape(shape) * 98765
    equal(KernelGraph("g", (x,), (op,), op.results), graph, numbers)


def test_positions_of_several_dimensions_stay_tensors() -> None:
    b, ids = Builder(), value(5)
    column = iota(b, (5, 5), 1)
    op = integers(value(5, 5), (ids, column), "load 0", "load 0 1", "mul 0 1 : i64")
    graph = KernelGraph("g", (ids,), (*b.ops, op), op.results)
    found = fused(graph)
    assert [type(x) for x in found.ops] == [Iota, Launch]
    equal(graph, found, IDS)


def test_tiles_are_proved_to_be_what_they_stand_for() -> None:
    b, ids = Builder(), value(5)
    launch = reader(pairs(b, ids))
    graph = KernelGraph("g", (ids,), (*b.ops, launch), launch.results)
    assert verify(graph, fused(graph)).accepted


@pytest.mark.parametrize(
    "lines",
    [
        ("load 0", "position 1 : i64", "lt 0 1 : i1"),
        ("load 1", "position 0 : i64", "le 0 1 : i1"),
        ("load 0", "position 1 : i64", "le 1 0 : i1"),
    ],
)
def test_other_tiles_are_not(lines: tuple[str, ...]) -> None:
    b, ids = Builder(), value(5)
    launch = reader(pairs(b, ids))
    graph = KernelGraph("g", (ids,), (*b.ops, launch), launch.results)
    (only,) = fused(graph).ops
    assert isinstance(only, Launch)
    first, *others = only.body.ops
    assert isinstance(first, TileIntegers)
    wrong = replace(first, formula=Formula(tuple(map(read_step, lines))))
    body = replace(only.body, ops=(wrong, *others))
    other = KernelGraph("g", (ids,), (replace(only, body=body),), only.results)
    check_graph(other)
    assert not verify(graph, other).accepted


@pytest.mark.parametrize(("rows", "kernels"), [(32, 1), (64, 2)])
def test_a_kernel_whose_registers_do_not_hold_the_operands_loads_the_result(
    rows: int, kernels: int
) -> None:
    """A thread of the reader has 32 or 64 elements of 64 bits."""
    x = value(rows, 128)
    op = integers(value(rows, 128, dtype=DType.I1), (x,), "load 0 1", "not 0 : i1")
    read = reader(op.result)
    graph = fused(KernelGraph("g", (x,), (op, read), read.results))
    check_graph(graph)
    assert sum(isinstance(made, Launch) for made in graph.ops) == kernels
