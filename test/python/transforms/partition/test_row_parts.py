"""Parts of rows that a program slices are looked up separately."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.copy_launch import copy_launch
from mirage.semantics.domain import Float64
from mirage.semantics.evaluation.evaluate import evaluate
from mirage.semantics.positions import Gather, gather
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.transforms.partition.row_parts import with_row_parts

EXPERTS, TOKENS, WIDTH, INNER = 5, 4, 6, 16
INDICES = {
    "rows": [0, 4, 2, 1],
    "from the end": [-1, -5, 3, 0],
    "no rows": [5, -6, 5, -6],
}


def value(*shape: int, dtype: DType = DType.BF16) -> Value:
    return Value(TensorType(shape, dtype))


def experts(
    cuts: tuple[int, ...] = (0, 8, 16),
    *,
    from_end: bool = True,
    passed_on: bool = False,
    dtype: DType = DType.I64,
) -> KernelGraph:
    """Products of each token with its expert's matrix, cut into parts that are multiplied."""
    table, index, x = value(EXPERTS, INNER, WIDTH), value(TOKENS, dtype=dtype), value(1, WIDTH)
    b = Builder()
    rows = b.transpose(gather(b, table, index, from_end=from_end), (0, 2, 1))
    both = b.reshape(b.matmul(b.broadcast(x, (TOKENS, 1, WIDTH)), rows), (TOKENS, INNER))
    both = b.binary(BinaryFn.MUL, both, b.constant(0.5))
    parts = [b.slice(both, (0, start), (TOKENS, end - start)) for start, end in pairwise(cuts)]
    result = b.binary(BinaryFn.MUL, b.unary(UnaryFn.SILU, parts[0]), parts[-1])
    outputs = (result, both) if passed_on else (result,)
    return KernelGraph("experts", (table, index, x), tuple(b.ops), outputs)


def tables(graph: KernelGraph) -> list[tuple[int, ...]]:
    return [op.operands[0].shape for op in graph.ops if isinstance(op, Gather)]


@pytest.mark.parametrize("dtype", [DType.I32, DType.I64])
@pytest.mark.parametrize("from_end", [False, True])
@pytest.mark.parametrize("which", INDICES)
def test_parts_are_rows_of_parts_of_the_table(which: str, from_end: bool, dtype: DType) -> None:
    graph = experts(from_end=from_end, dtype=dtype)
    new = with_row_parts(graph)
    check_graph(new)
    assert tables(new) == [(5, 8, 6)] * 2
    assert all(op.operands[0] in new.inputs for op in new.ops if op.cut_at is not None)
    rng = np.random.default_rng(0)
    table, x = rng.standard_normal((EXPERTS, INNER, WIDTH)), rng.standard_normal((1, WIDTH))
    inputs = [(table,), (np.array(INDICES[which]),), (x,)]
    (before,), (after,) = (evaluate(g, Float64(), inputs) for g in (graph, new))
    np.testing.assert_allclose(after[0], before[0], rtol=1e-12)
    assert np.isnan(before[0]).all() == (which == "no rows")


def test_parts_that_nothing_reads_are_not_looked_up() -> None:
    graph = with_row_parts(experts((0, 4, 12, 16)))
    assert tables(graph) == [(5, 4, 6)] * 2


@pytest.mark.parametrize(
    "graph",
    [
        pytest.param(experts((0, 3, 5, 8)), id="parts that start between pieces of 16 bytes"),
        pytest.param(experts(passed_on=True), id="the whole is returned"),
    ],
)
def test_other_cuts_stay(graph: KernelGraph) -> None:
    assert with_row_parts(graph) is graph


def test_a_program_without_lookups_stays() -> None:
    graph = experts()
    alone = tuple(op for op in graph.ops if not isinstance(op, Gather))
    (rows,) = (op.result for op in graph.ops if isinstance(op, Gather))
    plain = replace(graph, inputs=(*graph.inputs, rows), ops=alone)
    assert with_row_parts(plain) is plain


def test_what_a_kernel_with_several_results_stores_stays() -> None:
    """A part that is already solved: a slice of one of a kernel's results, next to a lookup."""
    table, index, x = value(EXPERTS, WIDTH), value(TOKENS, dtype=DType.I64), value(TOKENS, INNER)
    one, other = value(TOKENS, INNER), value(TOKENS, INNER)
    b = Builder()
    b.ops.append(copy_launch([(x, one), (x, other)], (1, 1), [(TOKENS, INNER)] * 2, warps=1))
    half = b.slice(one, (0, 0), (TOKENS, INNER // 2))
    outputs = (half, other, gather(b, table, index))
    graph = KernelGraph("solved", (table, index, x), tuple(b.ops), outputs)
    assert with_row_parts(graph) is graph
