"""Large programs in parts: the places of cuts, and the parts together are the program."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.signature import signature
from mirage.semantics.ugraph import KernelGraph, Matmul, Op, TensorType, Unary, Value, View
from mirage.transforms.partition.divide import LARGEST, divide, weight
from mirage.transforms.partition.partition import Part, partition, parts_to_search

F32 = DType.F32


def layers(count: int, width: int = 8) -> KernelGraph:
    """Layers with a residual: a norm over the last dimension, a product, and a function of the
    product."""
    build = Builder()
    x = Value(TensorType((4, width), F32))
    inputs = [x]
    for _ in range(count):
        inputs.append(Value(TensorType((width, 4 * width), F32)))
        inputs.append(Value(TensorType((4 * width, width), F32)))
        inputs.append(Value(TensorType((width,), F32)))
        gain = inputs[-1]
        h = build.layer_norm(x, gain, gain)
        h = build.unary(UnaryFn.TANH, build.matmul(h, inputs[-3]))
        x = build.binary(BinaryFn.ADD, x, build.matmul(h, inputs[-2]))
    return KernelGraph("layers", tuple(inputs), tuple(build.ops), (x,))


def parts_of(graph: KernelGraph) -> list[KernelGraph]:
    """The parts that are searched."""
    return [step.graph for step in parts_to_search(graph) if isinstance(step, Part)]


def test_small_programs_stay_whole() -> None:
    graph = layers(2)
    assert parts_of(graph) == [graph]


def test_equal_layers_are_cut_alike() -> None:
    parts = parts_of(layers(48))
    assert all(sum(map(weight, part.ops)) <= LARGEST for part in parts)
    different = {signature(part) for part in parts}
    assert len(parts) > 4 * len(different)
    # Cuts are where only the residual is passed on, never inside a layer.
    assert all([v.shape for v in part.outputs] == [(4, 8)] for part in parts)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [((39, 9), [48]), ((29, 39, 9), [29, 48]), ((8, 39, 9), [8, 48]), ((8, 29, 39), [37, 39]),
     ((39, 20), [39, 20]), ((43, 11), [43, 11])],
)  # fmt: skip
def test_a_remainder_goes_to_a_neighbour(weights: tuple[int, ...], expected: list[int]) -> None:
    build = Builder()
    narrow = Value(TensorType((1,), F32))
    y = narrow
    for count in weights:  # one number is passed on between two runs, many inside them
        y = build.broadcast(y, (64,))
        for _ in range(count - 1):
            y = build.unary(UnaryFn.TANH, y)
        y = build.reduce(ReduceFn.SUM, y, (0,))
    ops = tuple(build.ops)
    runs = divide(ops, {v: op for op in ops for v in op.results})
    assert [sum(map(weight, run)) for run in runs] == expected
    assert [op for run in runs for op in run] == list(ops)


@pytest.mark.parametrize("count", [9, 20])
def test_the_parts_together_are_the_program(count: int) -> None:
    assert_same(layers(count))


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_random_chains_with_branches(data: st.DataObject) -> None:
    build = Builder()
    inputs = [Value(TensorType((3, 5), F32)) for _ in range(3)]
    values = list(inputs)
    for _ in range(data.draw(st.integers(1, 120))):
        x, y = (values[-data.draw(st.integers(1, min(6, len(values))))] for _ in range(2))
        if data.draw(st.booleans()):
            values.append(build.unary(UnaryFn.TANH, x))
        else:
            values.append(build.binary(BinaryFn.ADD, x, y))
    outputs = dict.fromkeys((values[-1], values[len(values) // 2]))
    outputs = tuple(v for v in outputs if v not in inputs)
    if outputs:
        assert_same(KernelGraph("chain", tuple(inputs), tuple(build.ops), outputs))


def assert_same(graph: KernelGraph) -> None:
    """The parts, run one after the other, give the program's results."""
    rng = np.random.default_rng(1)
    given_inputs = [rng.standard_normal(v.shape) for v in graph.inputs]
    known = dict(zip(graph.inputs, given_inputs, strict=True))
    for part in parts_of(graph):
        check_graph(part)
        known.update(
            zip(part.outputs, evaluate_floats(part, [known[v] for v in part.inputs]), strict=True)
        )
    for v, expected in zip(graph.outputs, evaluate_floats(graph, given_inputs), strict=True):
        np.testing.assert_allclose(known[v], expected, rtol=1e-12)


def test_a_view_that_leaves_a_part_and_is_read_by_another() -> None:
    """The reader contains the view, of a tensor that the part also passes on."""
    build = Builder()
    x, w = (Value(TensorType(shape, F32)) for shape in ((4, 8), (8, 8)))
    seen = build.reshape(build.matmul(x, w), (4, 2, 4))
    h = x
    for _ in range(6):
        h = build.unary(UnaryFn.TANH, h)
    y = build.binary(BinaryFn.ADD, build.reshape(h, (4, 2, 4)), seen)
    graph = KernelGraph("program", (x, w), tuple(build.ops), (seen, y))
    steps = partition(graph, 3)
    assert len(steps) > 1
    known = set(graph.inputs)
    for step in steps:
        assert isinstance(step, Part)
        assert known.issuperset(step.graph.inputs)
        known.update(step.graph.outputs)
    assert known.issuperset(graph.outputs)


def test_numbers_are_not_handed_over() -> None:
    """Both places are equally good for the bytes, and the middle is more even, although a number is
    used before and after it."""
    build, x = Builder(), Value(TensorType((4, 8), F32))
    number = build.constant(2.0)
    y = build.binary(BinaryFn.ADD, x, number)
    for _ in range(3):
        y = build.unary(UnaryFn.TANH, y)
    y = build.binary(BinaryFn.ADD, y, number)
    for _ in range(3):
        y = build.unary(UnaryFn.TANH, y)
    ops = [op for op in build.ops if op.operands]
    definitions = {v: op for op in build.ops for v in op.results}
    assert [len(run) for run in divide(ops, definitions, 7)] == [4, 4]


def normalised(rows: int, width: int = 512) -> tuple[list[Op], list[list[Op]]]:
    """Layers of a product with a residual whose norm has a gain, in runs of about a layer."""
    build = Builder()
    x = Value(TensorType((rows, width), F32))
    for _ in range(6):
        gain, w = Value(TensorType((width,), F32)), Value(TensorType((width, width), F32))
        total = build.reduce(ReduceFn.SUM, build.unary(UnaryFn.SQUARE, x), (1,))
        h = build.binary(BinaryFn.MUL, x, build.unary(UnaryFn.RSQRT, total))
        h = build.matmul(build.binary(BinaryFn.MUL, h, gain), w)
        x = build.binary(BinaryFn.ADD, x, build.unary(UnaryFn.TANH, h))
    ops = [op for op in build.ops if op.operands]
    return ops, divide(ops, {v: op for op in build.ops for v in op.results}, 8)


def test_rows_are_summed_where_they_are_made() -> None:
    """The next run begins with the product; a few rows are passed on only if that costs the
    least."""
    for rows, first in ((32, Matmul), (16, Unary), (1, Unary)):
        ops, runs = normalised(rows)
        assert [op for run in runs for op in run] == ops
        starts = [next(op for op in run if not isinstance(op, View)) for run in runs[1:]]
        assert len(starts) >= 4
        assert all(isinstance(op, first) for op in starts)
