"""Joins that products sum over belong to the parts of the products."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import Concat, External, KernelGraph, TensorType, Value
from mirage.transforms.partition.partition import Part, partition
from mirage.transforms.partition.summed_joins import summed_joins


def step(parts: tuple[int, int] = (8, 4), keys: tuple[int, int] = (8, 4), *, given: bool = False,
         summed: bool = True, dtype: DType = DType.F32) -> KernelGraph:  # fmt: skip
    """A query of two parts, joined before a call stores keys and multiplied by these afterwards,
    always in f32."""
    b = Builder()

    def wide(v: Value) -> Value:
        return v if dtype is DType.F32 else b.cast(v, DType.F32)

    shapes = [(6, 16), *((16, n) for n in (*parts, keys[0])), (6, keys[1])]
    inputs = [Value(TensorType(shape, dtype)) for shape in shapes]
    h = b.unary(UnaryFn.TANH, inputs[0])
    first, second, new = (b.matmul(h, w) for w in inputs[1:4])
    query = wide(b.concat((first, second), 1))
    stored = Value(new.type)
    b.ops.append(External((new,), (stored,), "aten.abs.default"))
    key = wide(b.concat((stored, inputs[4]), 1))
    other = b.transpose(key, (1, 0)) if summed else b.matmul(b.transpose(key, (1, 0)), key)
    y = b.matmul(query, other)
    return KernelGraph("step", tuple(inputs), tuple(b.ops), (y, query) if given else (y,))


def handed(graph: KernelGraph) -> set[tuple[int, ...]]:
    """Return the shapes of the tensors that the first part passes on."""
    (first, *_) = (s.graph for s in partition(graph) if isinstance(s, Part))
    return {v.shape for v in first.outputs}


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
def test_the_parts_are_handed_over(dtype: DType) -> None:
    graph = step(dtype=dtype)
    assert len(summed_joins(graph)) == 2
    assert handed(graph) == {(6, 8), (6, 4)}
    random = np.random.default_rng(0)
    values = {v: random.standard_normal(v.shape) for v in graph.inputs}
    x, first, second, new, cached = values.values()
    h = np.tanh(x)
    wanted = h @ first @ np.abs(h @ new).T + h @ second @ cached.T
    for s in partition(graph):
        if isinstance(s, Part):
            found = evaluate_floats(s.graph, [values[v] for v in s.graph.inputs])
            values.update(zip(s.graph.outputs, found, strict=True))
        else:
            values[s.results[0]] = np.abs(values[s.operands[0]])
    np.testing.assert_allclose(values[graph.outputs[0]], wanted)


@pytest.mark.parametrize(
    "graph",
    [step(keys=(4, 8)), step(given=True), step(summed=False)],
    ids=["parts of other lengths", "the caller gets it", "the other factor is no join"],
)
def test_a_join_that_stays_is_written_where_it_is_made(graph: KernelGraph) -> None:
    made = [op for op in graph.ops if isinstance(op, Concat)]
    assert made[0] not in summed_joins(graph)
    assert (6, 12) in handed(graph)
