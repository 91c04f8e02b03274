"""Launches of several results, read as several launches."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from mirage.search.kernel.problems.aligned import aligned_copies, aligned_type
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Op,
    Output,
    Schedule,
    TensorType,
    Value,
    launches,
)
from mirage.verify import VerifyOptions, verify
from mirage.verify.normal_form.split_launches import with_launches_split
from mirage.verify.verdict import Kind

F32 = DType.F32


def value(*shape: int) -> Value:
    return Value(TensorType(shape, F32))


def looped() -> KernelGraph:
    """Four results: two of one loop, one of the ops around it, one of a separate tensor."""
    x, y = value(16, 32), value(8, 32)
    b = Builder(in_block=True)
    p, q = value(16, 32), value(8, 32)
    gain = b.load(p, (("m",), ()), (8, 32))
    inner = Builder(in_block=True)
    part = inner.load(p, (("m",), ("k",)), (8, 16))
    doubled = inner.binary(BinaryFn.ADD, part, part)
    sums = (Accumulator(AccumulateFn.SUM, part), Accumulator(AccumulateFn.SUM, doubled))
    first, second = b.loop(Axis("k", 2), tuple(inner.ops), sums)
    other = b.load(q, (("m",), ()), (4, 32))
    stored = (first, b.binary(BinaryFn.ADD, gain, gain), second, other)
    outputs = tuple(Output(v, (("m",), ())) for v in stored)
    results = (value(16, 16), value(16, 32), value(16, 16), value(8, 32))
    body = BlockGraph((p, q), tuple(b.ops), outputs)
    launch = Launch((x, y), results, (Axis("m", 2),), body, Schedule(4, 1))
    return KernelGraph("looped", (x, y), (launch,), results)


def test_results_with_ops_in_common_stay_together() -> None:
    graph = looped()
    split = with_launches_split(graph)
    check_graph(split)
    assert [len(x.results) for x in launches(split.ops)] == [2, 1, 1]
    assert [len(x.operands) for x in launches(split.ops)] == [1, 1, 1]
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) for v in graph.inputs]
    for a, b in zip(evaluate_floats(graph, inputs), evaluate_floats(split, inputs), strict=True):
        np.testing.assert_array_equal(a, b)


def test_nothing_else_changes() -> None:
    graph = looped()
    (launch,) = launches(graph.ops)
    body = replace(launch.body, outputs=launch.body.outputs[:1])
    ops: tuple[Op, ...] = (replace(launch, results=launch.results[:1], body=body),)
    alone = KernelGraph("alone", graph.inputs, ops, launch.results[:1])
    assert with_launches_split(alone) is alone


@pytest.mark.parametrize(
    ("rows", "columns", "wrong", "kind"),
    [
        (583, 931, False, Kind.PROVED),
        (257, 257, False, Kind.PROVED),
        (257, 257, True, Kind.REFUTED),
    ],
)
def test_factors_copied_together(rows: int, columns: int, wrong: bool, kind: Kind) -> None:
    """Rows of both are cut by one axis of the grid; ``wrong``: both results are of one factor."""
    a = Value(TensorType((rows, 257), DType.F16))
    b = Value(TensorType((257, columns), DType.F16))
    (copies,) = aligned_copies([(v, Value(aligned_type(v.type))) for v in (a, b)])
    if wrong:
        first, second = copies.body.ops
        again = replace(second, operands=first.operands)
        copies = replace(copies, body=replace(copies.body, ops=(first, again)))
    one, two = copies.results
    m, r = Builder(), Builder()
    product = m.matmul(m.slice(one, (0, 0), (rows, 257)), m.slice(two, (0, 0), (257, columns)))
    candidate = KernelGraph("copied", (a, b), (copies, *m.ops), (product,))
    expected = r.matmul(a, b)
    reference = KernelGraph("product", (a, b), tuple(r.ops), (expected,))
    assert verify(reference, candidate, VerifyOptions(seed=0)).kind is kind
