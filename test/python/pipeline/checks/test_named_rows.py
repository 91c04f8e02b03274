"""Tables are reduced to the rows that indices name, and the results are unchanged."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from mirage.compiler import CompileOptions, compile_graph
from mirage.pipeline.checks import kernel_values
from mirage.pipeline.checks.emulated_check import emulated
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.pipeline.checks.named_rows import with_named_rows
from mirage.semantics.builder import Builder
from mirage.semantics.domain import Float64
from mirage.semantics.evaluation.evaluate import Sampled, evaluate, evaluate_sampled
from mirage.semantics.positions import Gather, TileGather, gathered
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    TensorType,
    Value,
)

ROWS = 1 << 12
TABLE = Value(TensorType((7, 3), DType.F32), "table")
FIRST = Value(TensorType((2, 2), DType.I64), "first")
SECOND = Value(TensorType((3,), DType.I32), "second")


def taken(table: Value, indices: Value) -> Gather:
    return Gather((table, indices), (Value(gathered(table, indices)),))


def graph_of(*ops: Gather, inputs: tuple[Value, ...] = (TABLE, FIRST, SECOND)) -> KernelGraph:
    return KernelGraph("taken", inputs, ops, tuple(op.result for op in ops))


def values_of(graph: KernelGraph, arrays: tuple[np.ndarray, ...]) -> list[np.ndarray]:
    planes = [(x.astype(np.float64),) for x in arrays]
    return [np.asarray(y[0]) for y in evaluate(graph, Float64(), planes)]


@pytest.mark.parametrize("first", [[[5, 5], [2, 6]], [[0, -1], [7, 6]], [[-1, -1], [9, 9]]])
def test_the_results_are_the_same(first: list[list[int]]) -> None:
    graph = graph_of(taken(TABLE, FIRST), taken(TABLE, SECOND))
    arrays = (
        np.arange(21, dtype=np.float32).reshape(7, 3),
        np.array(first, np.int64),
        np.array([3, 5, -2], np.int32),
    )
    smaller, contents = with_named_rows(graph, arrays)
    named = {i for i in [*np.ravel(first).tolist(), 3, 5] if 0 <= i < 7}
    assert {v.name: v.shape for v in smaller.inputs}["table"] == (len(named), 3)
    for got, want in zip(values_of(smaller, contents), values_of(graph, arrays), strict=True):
        np.testing.assert_array_equal(got, want)


def test_other_readers_need_the_whole_table() -> None:
    b = Builder()
    rows = taken(TABLE, SECOND)
    b.ops.append(rows)
    doubled = b.binary(BinaryFn.ADD, TABLE, TABLE)
    graph = KernelGraph("both", (TABLE, SECOND), tuple(b.ops), (rows.result, doubled))
    arrays = (np.zeros((7, 3), np.float32), np.array([1, 2, 3], np.int32))
    same, contents = with_named_rows(graph, arrays)
    assert (same.inputs, same.ops) == (graph.inputs, graph.ops)
    assert [x.shape for x in contents] == [(7, 3), (3,)]


def test_of_a_huge_table_few_rows_are_converted(monkeypatch: pytest.MonkeyPatch) -> None:
    evaluated: list[int] = []

    def watched(graph: KernelGraph, domain: Any, inputs: Sequence[Sampled], wanted: Any) -> Any:
        evaluated.extend(x.planes[0].size for x in inputs)
        return evaluate_sampled(graph, domain, inputs, wanted)

    monkeypatch.setattr(kernel_values, "evaluate_sampled", watched)
    table = Value(TensorType((ROWS, 4096), DType.BF16), "table")
    indices = Value(TensorType((8,), DType.I64), "indices")
    result = Value(TensorType((8, 4096), DType.BF16))
    tile = Value(TensorType((8, 256), DType.BF16))
    b = Builder(in_block=True)
    b.ops.append(TileGather((table, indices), (tile,), ((), ("n",))))
    square = b.binary(BinaryFn.MUL, tile, tile)
    body = BlockGraph((table, indices), tuple(b.ops), (Output(square, ((), ("n",))),))
    op = Launch((table, indices), (result,), (Axis("n", 16),), body)
    graph = KernelGraph("squares", (table, indices), (op,), (result,))
    artifact = compile_graph(graph, CompileOptions(cubin=False)).artifact
    found = emulated(op, artifact.manifest.kernels[0], artifact)
    assert found.outcome is Outcome.PASSED, found
    assert max(evaluated) <= 8 * 4096
