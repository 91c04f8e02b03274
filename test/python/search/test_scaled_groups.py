"""Products whose factor has a scale for each group of summed elements, as quantised weights have:
the sum runs over two axes, and a tile may have one group."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from lowering import check_graph as check_lowered
from mirage.cost import H200
from mirage.search.superoptimize import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph, Launch, View, launches

GROUP = 64


def scaled(rows: int, columns: int, groups: int, dtype: DType = DType.F16) -> KernelGraph:
    """``x @ w.T`` with integers or halves ``w``, each group of which is scaled."""
    depth = groups * GROUP
    x, w, s = (
        tensor("x", rows, depth),
        tensor("w", columns, depth, dtype=dtype),
        tensor("s", columns, groups),
    )
    b = Builder()
    half = w if dtype is DType.F16 else b.cast(w, DType.F16)
    parts = b.reshape(half, (columns, groups, GROUP))
    parts = b.binary(BinaryFn.MUL, parts, b.reshape(s, (columns, groups, 1)))
    factor = b.transpose(b.reshape(parts, (columns, depth)), (1, 0))
    return graph("scaled", (x, w, s), b, b.matmul(x, factor))


@pytest.mark.parametrize("dtype", [DType.F16, DType.I8])
def test_a_step_multiplies_one_group(dtype: DType) -> None:
    program = scaled(16, 1024, 32, dtype)
    best = superoptimize(program, H200).candidates[0].graph
    assert 1 <= len(list(launches(best.ops))) <= 2  # a second one may add parts of the sum
    others = [op for op in best.ops if not isinstance(op, Launch | View)]
    assert not others, others


def test_scaled_groups_are_right() -> None:
    program = scaled(16, 64, 4, DType.I8)
    best = superoptimize(program, H200).candidates[0].graph
    check_lowered(best)
    rng = np.random.default_rng(0)
    inputs = [rng.integers(-9, 9, v.shape).astype(float) for v in program.inputs]
    (got,), (want,) = evaluate_floats(best, inputs), evaluate_floats(program, inputs)
    np.testing.assert_allclose(got, want, rtol=2e-3)
