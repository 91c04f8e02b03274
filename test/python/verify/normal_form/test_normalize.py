"""Reshapes of reshapes are one; quotients of whole numbers stay in whatever type they are held."""

from __future__ import annotations

import random

import numpy as np
import pytest
from mirage.mlir_io import graph_from_text
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Reshape, TensorType, Value, all_ops
from mirage.verify.normal_form.normalize import normalize

SHAPES = ((24,), (2, 12), (4, 6), (2, 3, 4), (3, 8), (24, 1), (1, 4, 6))


def test_a_reshape_of_a_reshape_is_one() -> None:
    b = Builder()
    x = Value(TensorType((2, 12), DType.F32))
    y = b.reshape(b.reshape(b.reshape(x, (24,)), (4, 6)), (3, 8))
    graph = normalize(KernelGraph("g", (x,), tuple(b.ops), (y,)))
    (only,) = graph.ops
    assert isinstance(only, Reshape)
    assert only.operands == (x,)
    assert graph.outputs == only.results


def test_there_and_back_is_nothing() -> None:
    b = Builder()
    x = Value(TensorType((2, 12), DType.F32))
    y = b.unary(UnaryFn.EXP, b.reshape(b.reshape(x, (24,)), (2, 12)))
    graph = normalize(KernelGraph("g", (x,), tuple(b.ops), (y,)))
    assert [type(op).__name__ for op in graph.ops] == ["Unary"]
    back = b.reshape(b.reshape(x, (24,)), (2, 12))
    assert normalize(KernelGraph("g", (x,), tuple(b.ops), (back,))).outputs == (x,)


def test_what_others_read_stays() -> None:
    b = Builder()
    x = Value(TensorType((2, 12), DType.F32))
    flat = b.reshape(x, (24,))
    y = b.reshape(flat, (4, 6))
    z = b.unary(UnaryFn.EXP, flat)
    graph = normalize(KernelGraph("g", (x,), tuple(b.ops), (y, z)))
    assert sum(isinstance(op, Reshape) for op in graph.ops) == 2
    check_graph(graph)


PLACES = """
kernel.graph @g(%x: tensor<6xf32>, %at: tensor<6xi64>) -> (tensor<1xi64>) {
  %y = kernel.launch(%x, %at) grid [b = 1] schedule <warps = 1, stages = 1>
      : (tensor<6xf32>, tensor<6xi64>) -> (tensor<1xi64>) {
  ^bb0(%p: tensor<6xf32>, %q: tensor<6xi64>):
    %a = block.load %p [[]] : tensor<6xf32> -> !block.tile<6xf32>
    %b = block.load %q [[]] : tensor<6xi64> -> !block.tile<6xf32>
    %c = block.constant 0.5 : !block.tile<f32>
    %e = block.binary eq %a, %c : (!block.tile<6xf32>, !block.tile<f32>) -> !block.tile<6xf32>
    %k = block.binary keep %e, %b
        : (!block.tile<6xf32>, !block.tile<6xf32>) -> !block.tile<6xf32>
    %m = block.reduce max %k dims [0] : (!block.tile<6xf32>) -> !block.tile<1xf32>
    %n = block.constant 4.0 : !block.tile<f32>
    %d = block.binary FN %m, %n : (!block.tile<1xf32>, !block.tile<f32>) -> !block.tile<1xf32>
    block.store %d [[]] : !block.tile<1xf32>
  }
  kernel.return %y : tensor<1xi64>
}
"""


@pytest.mark.parametrize("fn", [BinaryFn.FLOOR_DIV, BinaryFn.REMAINDER])
def test_a_tile_keeps_quotients_of_places(fn: BinaryFn) -> None:
    """The place of a number in a row is whole, though it is chosen by comparing fractions and a
    tile holds it as a float."""
    graph = normalize(graph_from_text(PLACES.replace("FN", fn.value)).graph)
    assert sum(op.function is fn for op in all_ops(graph.ops)) == 1


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_mean_the_same(seed: int) -> None:
    rng = random.Random(seed)
    b = Builder()
    x = Value(TensorType((2, 12), DType.F64))
    values = [x]
    for _ in range(12):
        v = rng.choice(values)
        if rng.random() < 0.7:
            values.append(b.reshape(v, rng.choice(SHAPES)))
        else:
            values.append(b.unary(UnaryFn.EXP, b.unary(UnaryFn.NEG, v)))
    outputs = tuple(dict.fromkeys(rng.sample(values[1:], 3)))
    graph = KernelGraph("g", (x,), tuple(b.ops), outputs)
    new = normalize(graph)
    check_graph(new)
    sources = {op.result: op.operands[0] for op in new.ops if isinstance(op, Reshape)}
    assert not any(v in sources for v in sources.values())
    inputs = [np.random.default_rng(seed).standard_normal((2, 12))]
    for got, want in zip(evaluate_floats(new, inputs), evaluate_floats(graph, inputs), strict=True):
        np.testing.assert_array_equal(got, want)
