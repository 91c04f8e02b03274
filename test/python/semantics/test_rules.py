"""Each structural rule is enforced; test names cite the rule."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from example_programs import graphs
from mirage.semantics.builder import Builder
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    Binary,
    BlockGraph,
    Constant,
    KernelGraph,
    Mask,
    Output,
    Reduce,
    TensorType,
    Unary,
    Value,
)

F32 = DType.F32


ROWS = (Axis("i", 2),)


def fails(rule: str, graph: KernelGraph, match: str | None = None) -> None:
    with pytest.raises(InvalidGraph, match=match) as info:
        check_graph(graph)
    assert info.value.rule == rule
    assert f"[{rule}]" in str(info.value)


def kernel(ops, inputs, outputs) -> KernelGraph:
    return KernelGraph("g", tuple(inputs), tuple(ops), tuple(outputs))


def block(build, *, grid=ROWS, store=(("i",), ()), shape=(4, 6), result=None) -> KernelGraph:
    """One launch on one input; ``build(builder, param)`` gives the stored tile."""
    x = graphs.tensor(*shape, dtype=F32)
    (p,) = params = graphs.params_of((x,))
    b = Builder(in_block=True)
    y = build(b, p)
    body = BlockGraph(params, tuple(b.ops), (Output(y, store),))
    op = graphs.launch((x,), grid, body, (TensorType(result or shape, F32),))
    return kernel([op], [x], op.results)


def rows(b: Builder, p: Value) -> Value:
    return b.load(p, (("i",), ()), (2, 6))


def test_all_hand_written_graphs_pass():
    for pair in graphs.small_pairs().values():
        for graph in (pair.reference, *pair.candidates.values()):
            check_graph(graph)
    check_graph(block(rows))


def test_c1_use_before_definition():
    x = graphs.tensor(2, 2)
    b = Builder()
    y = b.unary(UnaryFn.EXP, b.unary(UnaryFn.NEG, x))
    fails("C1", kernel(b.ops[::-1], [x], [y]), "not defined before it is used")
    fails("C1", kernel(b.ops, [x], []), "at least one output")
    fails("C1", kernel([], [x], [graphs.tensor(2, 2)]))
    fails("C1", kernel([*b.ops, b.ops[0]], [x], [y]), "defined already")


def test_c1_values_of_a_loop_stay_inside():
    def build(b: Builder, p: Value) -> Value:
        inner = Builder(in_block=True)
        t = inner.load(p, (("i",), ("k",)), (2, 3))
        b.loop(Axis("k", 2), tuple(inner.ops), (Accumulator(AccumulateFn.SUM, t),))
        return t

    fails("C1", block(build, result=(4, 3)))


def test_c2_types():
    x = graphs.tensor(2, 3)
    wrong = Value(TensorType((3, 2), DType.F16))
    fails(
        "C2",
        kernel([Unary((x,), (wrong,), UnaryFn.EXP)], [x], [wrong]),
        "expected a result of type 2x3xf16, got 3x2xf16",
    )
    y = graphs.tensor(4, 5)
    z = Value(TensorType((2, 3), DType.F16))
    fails("C2", kernel([Binary((x, y), (z,), BinaryFn.ADD)], [x, y], [z]), "shapes that broadcast")
    fails("C2", kernel([Reduce((x,), (z,), ReduceFn.SUM, (1, 0))], [x], [z]), "sorted distinct")
    fails("C2", kernel([Unary((x, x), (z,), UnaryFn.EXP)], [x], [z]), "expected 1 operands, got 2")


def test_c2_blocks_compute_in_f32():
    def build(b: Builder, p: Value) -> Value:
        t = rows(b, p)
        y = Value(TensorType(t.shape, DType.F16))
        b.ops.append(Unary((t,), (y,), UnaryFn.EXP))
        return y

    fails("C2", block(build), "expected a result of type 2x6xf32, got 2x6xf16")


def test_c3_sizes():
    x = graphs.tensor(0, 3)
    fails("C3", kernel([], [x], [x]), "sizes of at least 1")
    fails("C3", block(rows, grid=(Axis("i", 0),)))


def test_c4_levels():
    def softmax(b: Builder, p: Value) -> Value:
        return b.softmax(rows(b, p), 1)

    fails("C4", block(softmax))
    fails("C4", block(lambda b, p: b.unary(UnaryFn.EXP, p)), "load it first")
    x = graphs.tensor(4, dtype=F32)
    b = Builder()
    y = b.load(x, ((),), (4,))
    fails("C4", kernel(b.ops, [x], [y]))
    fails("C4", block(lambda b, p: b.running_max(rows(b, p))), "expected a loop")


def test_c5_params_and_results():
    graph = block(rows)
    (op,) = graph.ops
    fails(
        "C5", kernel([replace(op, body=replace(op.body, params=()))], graph.inputs, graph.outputs)
    )
    fails(
        "C5", kernel([replace(op, body=replace(op.body, outputs=()))], graph.inputs, graph.outputs)
    )


def test_c6_axes():
    fails("C6", block(rows, grid=(Axis("i", 2), Axis("i", 1))), "unique axis names")
    fails("C6", block(lambda b, p: b.load(p, (("j",), ()), (2, 6))), "got 'j'")
    fails("C6", block(lambda b, p: b.load(p, (("i", "i"), ()), (2, 6))), "distinct axes")


def test_c7_coverage():
    fails(
        "C7", block(lambda b, p: b.load(p, (("i",), ()), (1, 6))), r"tile \* parts >= 4, got 1 \* 2"
    )
    fails("C7", block(rows, result=(5, 6)))


def test_c8_every_grid_axis_is_stored_once():
    both = (Axis("i", 2), Axis("j", 2))
    fails(
        "C8",
        block(lambda b, p: b.load(p, (("i",), ("j",)), (2, 3)), grid=both, result=(4, 3)),
        "axis 'j'",
    )
    check_graph(block(rows, grid=both))  # does not depend on j
    fails(
        "C8",
        block(lambda b, p: b.load(p, (("i",), ()), (2, 6)), store=(("i",), ("i",)), result=(4, 12)),
        "at most once",
    )


def test_c8_masks_and_loops_carry_dependence():
    def build(b: Builder, p: Value) -> Value:
        t = b.load(p, ((), ()), (4, 6))
        return b.mask(t, 1, ("i",), 9, 0.0)

    fails("C8", block(build, store=((), ())))


def loop_with(accumulators):
    def build(b: Builder, p: Value) -> Value:
        inner = Builder(in_block=True)
        t = inner.load(p, (("i",), ("k",)), (2, 3))
        m = inner.running_max(inner.reduce(ReduceFn.MAX, t, (1,)))
        return b.loop(Axis("k", 2), tuple(inner.ops), accumulators(t, m))[0]

    return block(build, result=(4, 3))


def test_c9_accumulators():
    check_graph(loop_with(lambda t, m: (Accumulator(AccumulateFn.SUM, t, m),)))
    fails("C9", loop_with(lambda t, m: (Accumulator(AccumulateFn.MAX, t, m),)), "a sum to rescale")
    fails(
        "C9",
        loop_with(lambda t, m: (Accumulator(AccumulateFn.SUM, t, t),)),
        "running maximum of the same loop",
    )
    fails(
        "C9",
        loop_with(lambda t, m: (Accumulator(AccumulateFn.SUM, graphs.tensor(2, 3, dtype=F32)),)),
    )


def test_c10_constants_and_masks():
    x = Value(TensorType((), F32))
    fails("C10", kernel([Constant((), (x,), math.nan)], [], [x]), "got NaN")
    fails(
        "C10", block(lambda b, p: b.mask(rows(b, p), 0, ("i",), 5, 0.0)), "between 1 and 4, got 5"
    )

    def nan_fill(b: Builder, p: Value) -> Value:
        t = rows(b, p)
        b.ops.append(Mask((t,), (Value(t.type),), 0, ("i",), 3, math.nan))
        return b.ops[-1].result

    fails("C10", block(nan_fill))
