"""Integers that are computed from floats stay floats, and known ranges simplify the ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
from executed_programs import FEW_CHOICES, executed
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.pipeline.commands.emulate import emulate
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import Gather, gather, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import External, KernelGraph, TensorType, Value
from mirage.transforms.partition.exact_integers import integers_as_calls
from mirage.transforms.partition.whole_floats import FEW, FEW_ELEMENTS, integers_as_floats

Tensor = torch.Tensor
ROWS, COLUMNS = 5, 6
STEPS = [BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, BinaryFn.MAX, BinaryFn.MIN, BinaryFn.FLOOR_DIV,
         BinaryFn.REMAINDER, BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE, "narrow", "row",
         "rows", "place", "own", "sum", "largest", "neg"]  # fmt: skip


def tensor(*shape: int, dtype: DType = DType.F32) -> Value:
    return Value(TensorType(shape, dtype))


def counted(b: Builder, x: Value, dtype: DType) -> Value:
    """The number of positive elements of each row, 0 to ``COLUMNS``."""
    positive = b.cast(b.binary(BinaryFn.LT, b.constant(0), x), DType.F32)
    return b.cast(b.reshape(b.reduce(ReduceFn.SUM, positive, (1,)), (ROWS,)), dtype)


def within(b: Builder, value: Value, most: int) -> Value:
    low = b.binary(BinaryFn.MAX, value, b.constant(0, value.dtype))
    return b.binary(BinaryFn.MIN, low, b.constant(most, value.dtype))


def stepped(draw: st.DrawFn, b: Builder, value: Value, table: Value) -> Value:
    step = draw(st.sampled_from(STEPS))
    dtype = value.dtype
    if isinstance(step, BinaryFn):
        number = draw(st.integers(1 if step in STEPS[5:7] else -3, 7))
        pair = value, b.constant(number, dtype)
        swap = step not in STEPS[5:7] and draw(st.booleans())
        found = b.binary(step, *(pair[::-1] if swap else pair))
        if found.dtype is not DType.I1:
            return found
        other = draw(st.sampled_from([value, iota(b, (ROWS,), 0, dtype)]))
        return draw(st.sampled_from([b.binary(BinaryFn.KEEP, found, other), b.cast(found, dtype)]))
    if step == "narrow":
        return b.cast(value, DType.I32 if dtype is DType.I64 else DType.I64)
    if step == "neg":
        return b.unary(UnaryFn.NEG, value)
    if step == "place":
        return gather(b, iota(b, (COLUMNS,), 0, dtype), within(b, value, COLUMNS - 1))
    if step == "own":
        return gather(b, value, within(b, value, ROWS - 1))
    if step in ("row", "rows"):
        at = within(b, value, 0 if step == "row" else ROWS - 1)
        row = b.reduce(ReduceFn.SUM, gather(b, table, at), (1,))
        kept = b.cast(b.binary(BinaryFn.LT, b.constant(0), b.reshape(row, (ROWS,))), DType.F32)
        return b.cast(kept, dtype)
    pairs = b.binary(BinaryFn.LE, b.reshape(value, (ROWS, 1)), iota(b, (ROWS,), 0, dtype))
    kept = b.binary(BinaryFn.KEEP, pairs, b.reshape(value, (1, ROWS)))
    fn = ReduceFn.SUM if step == "sum" else ReduceFn.MAX
    return b.reshape(b.reduce(fn, kept, (1,)), (ROWS,))


@st.composite
def programs(draw: st.DrawFn) -> KernelGraph:
    x, table, b = tensor(ROWS, COLUMNS), tensor(ROWS, 3), Builder()
    value = counted(b, x, draw(st.sampled_from([DType.I32, DType.I64])))
    for _ in range(draw(st.integers(1, 5))):
        value = stepped(draw, b, value, table)
    rows = gather(b, table, within(b, value, ROWS - 1))
    results = draw(st.sampled_from([(value,), (rows,), (value, rows)]))
    return KernelGraph("program", (x, table), tuple(b.ops), results)


@settings(max_examples=300, deadline=None)
@given(programs(), st.integers(0, 9))
def test_floats_are_the_integers(program: KernelGraph, seed: int) -> None:
    rng = np.random.default_rng(seed)
    inputs = [rng.standard_normal(v.shape) for v in program.inputs]
    new = integers_as_floats(program)
    check_graph(new)
    assert [v.type for v in new.outputs] == [v.type for v in program.outputs]
    expected = evaluate_floats(program, inputs)
    for got, value in zip(evaluate_floats(new, inputs), expected, strict=True):
        np.testing.assert_array_equal(got, value)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_rows_that_are_not_meant_may_hold_anything(bad: float) -> None:
    x, table, b = tensor(ROWS, COLUMNS), tensor(ROWS + 2, 3), Builder()
    rows = gather(b, table, counted(b, x, DType.I64))
    program = KernelGraph("rows", (x, table), tuple(b.ops), (rows,))
    new = integers_as_floats(program)
    assert not any(isinstance(op, Gather) for op in new.ops)
    inputs = [np.full((ROWS, COLUMNS), -1.0), np.ones((ROWS + 2, 3))]
    inputs[1][3] = bad
    (got,) = evaluate_floats(new, inputs)
    np.testing.assert_array_equal(got, np.ones((ROWS, 3)))


def test_what_stays() -> None:
    """Numbers that are not known to be small and whole, and narrow types, which wrap around."""
    x = tensor(ROWS)
    b = Builder()
    number = b.cast(x, DType.I64)
    any_number = KernelGraph("any", (x,), tuple(b.ops), (number,))
    assert integers_as_floats(any_number) is any_number
    x = tensor(ROWS, COLUMNS)
    b = Builder()
    narrow = counted(b, x, DType.I8)
    program = KernelGraph("narrow", (x,), tuple(b.ops), (narrow,))
    assert integers_as_floats(program) is program


@pytest.mark.parametrize(
    ("size", "width"), [(FEW + 1, 3), (COLUMNS, 3), (FEW, FEW_ELEMENTS // FEW)]
)
def test_rows_by_index(size: int, width: int) -> None:
    """The tables have many or long rows, and the last row may be missing."""
    x, table, b = tensor(ROWS, COLUMNS), tensor(size, width), Builder()
    rows = gather(b, table, counted(b, x, DType.I64))
    new = integers_as_floats(KernelGraph("rows", (x, table), tuple(b.ops), (rows,)))
    assert any(isinstance(op, Gather) for op in new.ops)


def routed(x: Tensor, gate: Tensor, w: Tensor) -> Tensor:
    """A token's experts in order of their numbers, back in order of their scores, weighted."""
    weights, chosen = (x @ gate).softmax(-1).topk(3, -1)
    _, order = chosen.flatten().sort()
    y = (x[order // 3, :, None] * w[chosen.flatten()[order]]).sum(1)
    y = y * weights.flatten()[order, None]
    back = torch.empty_like(order)
    back[order] = torch.arange(len(order))
    return y[back].view(-1, 3, w.shape[2]).sum(1)


def test_an_order_and_the_way_back_are_kernels() -> None:
    generator = torch.Generator().manual_seed(2)
    inputs = [torch.randn(s, generator=generator) for s in ((1, 16), (16, 8), (8, 16, 32))]
    source = mi.from_torch(routed, *inputs)
    options = executed(budget=120.0, use_cache=False, bounds=FEW_CHOICES)
    optimized = mi.optimize(source, options)
    calls = [s.external.target for s in optimized.steps if s.external is not None]
    assert not calls
    (got,) = emulate(optimized, *inputs)
    torch.testing.assert_close(got, routed(*inputs), rtol=1e-4, atol=1e-4)


RESULTS: dict[str, Callable[[Tensor], Any]] = {
    "a float": lambda x: x.argmax(-1).float(),
    "a float twice": lambda x: (x.argmax(-1).float(), x.argmax(-1).float() + 0.0),
    "a truth value": lambda x: x.argmax(-1) < 3,
    "all of them": lambda x: (x.argmax(-1), x.argmax(-1) < 3, x.argmax(-1).float()),
    "views": lambda x: (x.argmax(-1), x.argmax(-1).view(1, -1), x.argmax(-1).int()),
    "a count": lambda x: ((x > 0).int(), (x > 0).sum(-1), (x > 0).long().view(-1)),
}


@pytest.mark.parametrize("name", RESULTS)
def test_results_are_the_values_that_they_were(name: str) -> None:
    program = RESULTS[name]
    x = torch.randn(ROWS, COLUMNS, generator=torch.Generator().manual_seed(3))
    graph = mi.from_torch(program, x).graph
    new = integers_as_calls(integers_as_floats(graph))
    check_graph(new)
    assert new.outputs == graph.outputs
    assert not any(isinstance(op, External) for op in new.ops)
    for ours, expected in zip(
        evaluate_floats(new, [x.numpy()]), evaluate_floats(graph, [x.numpy()]), strict=True
    ):
        np.testing.assert_array_equal(ours, expected)
