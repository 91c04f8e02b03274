"""The part to which an op belongs if there are calls of PyTorch between parts."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Boundary, External, KernelGraph, Op, TensorType, Value
from mirage.transforms.partition.partition import Part, Step, partition
from torch_programs.external_calls import call_external


def f32(*shape: int) -> Value:
    return Value(TensorType(shape, DType.F32))


def call(build: Builder, target: str, *operands: Value) -> Value:
    """The result of a call, as large as its first operand."""
    result = Value(operands[0].type)
    build.ops.append(External(operands, (result,), target))
    return result


def computed(steps: tuple[Step, ...]) -> list[set[Op]]:
    """The ops of the parts, one after the other."""
    return [set(s.graph.ops) for s in steps if isinstance(s, Part)]


def layer(build: Builder, x: Value, position: Value, weights: tuple[Value, Value]) -> Value:
    """A product of a position's angle, as in rotary attention, and a residual."""
    h = build.matmul(build.unary(UnaryFn.TANH, x), weights[0])
    h = build.binary(BinaryFn.MUL, h, build.unary(UnaryFn.COS, position))
    return build.binary(BinaryFn.ADD, x, build.matmul(h, weights[1]))


def test_what_no_call_needs_waits_for_those_that_read_it() -> None:
    """No part is cut that passes nothing to a call: equal layers stay equal."""
    build = Builder()
    x, angle, *weights = f32(4, 8), f32(4, 8), *(f32(8, 8) for _ in range(4))
    position = call(build, "aten.abs.default", angle)
    y = layer(build, x, position, (weights[0], weights[1]))
    y = layer(build, y, position, (weights[2], weights[3]))
    graph = KernelGraph("layers", (x, angle, *weights), tuple(build.ops), (y,))
    first, *others = partition(graph)
    assert isinstance(first, External)
    assert len(others) == 1
    assert computed(tuple(others)) == [set(build.ops[1:])]


def test_products_of_what_a_call_reads_stay_together() -> None:
    """A query is computed with keys that are stored in a cache, although it is read later."""
    build = Builder()
    x, cache, keys, queries = f32(1, 8), f32(4, 8), f32(8, 8), f32(8, 8)
    h = build.unary(UnaryFn.TANH, x)
    key, query = build.matmul(h, keys), build.matmul(h, queries)
    stored = call(build, "aten.maximum.default", cache, key)
    scores = build.matmul(query, build.transpose(stored, (1, 0)))
    graph = KernelGraph("step", (x, cache, keys, queries), tuple(build.ops), (scores, stored))
    before, after = computed(partition(graph))
    assert {op.result for op in before} == {h, key, query}
    assert scores in {op.result for op in after}


def test_a_function_that_reads_little_goes_with_its_reader() -> None:
    """Kept values of an input are not stored for the part that adds to it; sums of the same size
    are."""
    build = Builder()
    x, rows = f32(4, 8), f32(4, 8)
    most = build.reduce(ReduceFn.MAX, rows, (1,))
    near = build.binary(BinaryFn.MUL, most, x)
    twice = build.binary(BinaryFn.ADD, build.unary(UnaryFn.TANH, rows), x)
    other = call(build, "aten.abs.default", most)
    y = build.binary(BinaryFn.ADD, build.binary(BinaryFn.MUL, near, other), twice)
    graph = KernelGraph("step", (x, rows), tuple(build.ops), (y,))
    first, second = (s.graph for s in partition(graph) if isinstance(s, Part))
    assert first.outputs == (most,)
    assert {near, twice, y} <= {v for op in second.ops for v in op.results}


def test_what_reads_a_cache_stays_before_what_may_store_into_it() -> None:
    build = Builder()
    x, cache = f32(4, 8), f32(4, 8)
    old = build.unary(UnaryFn.TANH, cache)
    stored = call(build, "aten.maximum.default", cache, build.unary(UnaryFn.SQUARE, x))
    y = build.binary(BinaryFn.ADD, old, stored)
    graph = KernelGraph("step", (x, cache), tuple(build.ops), (y, stored))
    before, after = computed(partition(graph))
    assert old in {op.result for op in before}
    assert {op.result for op in after} == {y}


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_the_steps_in_order_are_the_program(data: st.DataObject) -> None:
    build = Builder()
    inputs = [f32(3, 5) for _ in range(3)]
    values = list(inputs)
    for _ in range(data.draw(st.integers(1, 25))):
        x, y = (values[-data.draw(st.integers(1, min(6, len(values))))] for _ in range(2))
        match data.draw(st.sampled_from(["call", "sum", "function", "view"])):
            case "call":
                values.append(call(build, "aten.maximum.default", x, y))
            case "sum":
                values.append(build.binary(BinaryFn.ADD, x, y))
            case "function":
                values.append(build.unary(UnaryFn.TANH, x))
            case _:
                values.append(build.reshape(build.reshape(x, (5, 3)), (3, 5)))
    outputs = dict.fromkeys((values[-1], values[len(values) // 2]))
    outputs = tuple(v for v in outputs if v not in inputs)
    if not outputs:
        return
    graph = KernelGraph("program", tuple(inputs), tuple(build.ops), outputs)
    rng = np.random.default_rng(1)
    given_inputs = [rng.standard_normal(v.shape) for v in inputs]
    known = run(partition(graph, data.draw(st.sampled_from([4, 1000]))), graph, given_inputs)
    expected = run((*build.ops,), graph, given_inputs)
    for v in outputs:
        np.testing.assert_allclose(known[v], expected[v], rtol=1e-12)


def run(
    steps: tuple[Step | Op, ...], graph: KernelGraph, given_inputs: list[np.ndarray]
) -> dict[Value, np.ndarray]:
    """Return the results of the steps, one after the other, in float64."""
    known = dict(zip(graph.inputs, given_inputs, strict=True))
    for step in steps:
        if isinstance(step, External):
            tensors = {v: torch.from_numpy(known[v]) for v in step.operands}
            results = call_external(step, tensors)
            known.update((v, x.numpy()) for v, x in zip(step.results, results, strict=True))
            continue
        assert not isinstance(step, Boundary)
        part = step.graph if isinstance(step, Part) else alone(step)
        check_graph(part)
        found = evaluate_floats(part, [known[v] for v in part.inputs])
        known.update(zip(part.outputs, found, strict=True))
    return known


def alone(op: Op) -> KernelGraph:
    return KernelGraph("op", tuple(dict.fromkeys(op.operands)), (op,), op.results)
