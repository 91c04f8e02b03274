"""Joins of joins."""

from __future__ import annotations

import mirage as mi
import numpy as np
import torch
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ops.movements import Concat
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.transforms.nested_joins import flat_joins


def inputs(*widths: int, kind: DType = DType.F32) -> list[Value]:
    return [Value(TensorType((4, n), kind)) for n in widths]


def joins(graph: KernelGraph) -> list[int]:
    return [len(op.operands) for op in graph.ops if isinstance(op, Concat)]


def same(graph: KernelGraph, found: KernelGraph) -> None:
    check_graph(found)
    rng = np.random.default_rng(0)
    arrays = [rng.normal(size=v.shape) for v in graph.inputs]
    pairs = zip(evaluate_floats(graph, arrays), evaluate_floats(found, arrays), strict=True)
    for want, got in pairs:
        np.testing.assert_array_equal(got, want)


def test_joins_of_joins_are_one() -> None:
    b, (x, y, z, w) = Builder(), inputs(3, 5, 2, 4)
    out = b.concat((w, b.concat((b.concat((x, y), 1), z), 1)), 1)
    graph = KernelGraph("joins", (x, y, z, w), tuple(b.ops), (out,))
    found = flat_joins(graph)
    assert joins(found) == [4]
    same(graph, found)


def test_a_join_that_the_caller_gets_stays() -> None:
    b, (x, y, z) = Builder(), inputs(3, 5, 2)
    inner = b.concat((x, y), 1)
    outputs = inner, b.concat((inner, z), 1)
    graph = KernelGraph("joins", (x, y, z), tuple(b.ops), outputs)
    found = flat_joins(graph)
    assert joins(found) == [2, 3]
    same(graph, found)


def test_other_dimensions_and_types_stay() -> None:
    b, (x, y, z) = Builder(), inputs(3, 5, 8)
    out = b.concat((b.concat((x, y), 1), z), 0)
    graph = KernelGraph("dims", (x, y, z), tuple(b.ops), (out,))
    assert flat_joins(graph) is graph
    b, (x, y) = Builder(), [*inputs(3, kind=DType.F16), *inputs(5, kind=DType.BF16)]
    (z,) = inputs(2, kind=DType.F16)
    out = b.concat((b.concat((x, y), 1), z), 1)
    graph = KernelGraph("types", (x, y, z), tuple(b.ops), (out,))
    assert flat_joins(graph) is graph


def test_a_cache_that_is_joined_twice_is_not_copied() -> None:
    def program(*xs: torch.Tensor) -> torch.Tensor:
        q, k, k1, k2, v, v1, v2 = xs
        k = torch.cat([torch.cat([k, k1], 1), k2], 1)
        v = torch.cat([torch.cat([v, v1], 1), v2], 1)
        return torch.softmax(q @ k.transpose(1, 2) * 0.125, -1) @ v

    generator = torch.Generator().manual_seed(0)
    rows = (16, 256, 64, 64, 256, 64, 64)
    xs = [torch.randn(2, n, 64, generator=generator).half() for n in rows]
    imported = mi.from_torch(program, *xs)
    assert joins(imported.graph) == [3, 3]
    found = mi.optimize(imported, mi.OptimizeOptions(candidates=1, verify_seed=1, cubin=False))
    assert joins(found.graph) == []
