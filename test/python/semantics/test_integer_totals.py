"""Totals of integers: their meaning is exact, kernels have the same meaning, and it is proved."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.semantics.builder import ShapeError
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.evaluation.evaluate import Float64, TypedFloat, evaluate
from mirage.semantics.integer_totals import IntegerCumulate, IntegerReduce, IntegerTotal
from mirage.semantics.scalar import CumulateFn, DType, ReduceFn
from mirage.semantics.ugraph import KernelGraph, Launch, TensorType, Value
from mirage.transforms.integer_kernels import with_integer_kernels
from mirage.transforms.partition.calls import calls_of
from mirage.verify import Kind, verify
from mirage.verify.shared_inputs.cut_calls import cut_calls
from thorough import some_of

Array = np.ndarray[Any, np.dtype[Any]]
SHAPES = [(24, 100), (3, 5, 7, 11), (2, 70000), (4096, 300), (1, 1), (300, 1031)]


def reduced(
    shape: tuple[int, ...], fn: ReduceFn, *dims: int, dtype: DType = DType.I64
) -> KernelGraph:
    x = Value(TensorType(shape, dtype))
    result = Value(TensorType(tuple(1 if d in dims else n for d, n in enumerate(shape)), dtype))
    return graph_of(IntegerReduce((x,), (result,), fn, dims))


def scanned(shape: tuple[int, ...], fn: CumulateFn, dim: int, **how: bool) -> KernelGraph:
    x = Value(TensorType(shape, DType.I64))
    return graph_of(IntegerCumulate((x,), (Value(x.type),), fn, dim, **how))


def graph_of(op: IntegerTotal) -> KernelGraph:
    return KernelGraph("g", op.operands, (op,), op.results)


def as_floats(graph: KernelGraph) -> KernelGraph:
    (op,) = graph.ops
    assert isinstance(op, IntegerTotal)
    return KernelGraph("g", graph.inputs, (op.as_floats,), graph.outputs)


def drawn(graph: KernelGraph) -> Array:
    (x,) = graph.inputs
    ends = np.iinfo(x.dtype.numpy)
    return np.random.default_rng(0).integers(ends.min, ends.max, x.shape, endpoint=True)


def computed(graph: KernelGraph, domain: Float64 | TypedFloat, x: Array) -> Array:
    ((y,),) = evaluate(graph, domain, [(x.astype(np.int64),)])
    return y


@pytest.mark.parametrize("domain", [Float64(), TypedFloat()])
def test_sums_wrap_around(domain: Float64 | TypedFloat) -> None:
    for dtype in (DType.I8, DType.I32, DType.I64):
        graph = reduced((5, 40), ReduceFn.SUM, 1, dtype=dtype)
        x = drawn(graph)
        expected = x.astype(dtype.numpy).sum(1, keepdims=True, dtype=dtype.numpy)
        assert np.array_equal(computed(graph, domain, x), expected)


@pytest.mark.parametrize("shape", some_of(SHAPES, every=2, one_value=True))
@pytest.mark.parametrize("fn", some_of(ReduceFn, 2, one_value=True))
def test_kernels_of_reductions(shape: tuple[int, ...], fn: ReduceFn) -> None:
    for dims in ((0,), (len(shape) - 1,), tuple(range(len(shape)))):
        graph = reduced(shape, fn, *dims)
        made = with_integer_kernels(graph)
        check_graph(made)
        assert all(isinstance(op, Launch) for op in made.ops)
        x = drawn(graph)
        for domain in (Float64(), TypedFloat()):
            assert np.array_equal(computed(made, domain, x), computed(graph, domain, x))
        assert verify(as_floats(graph), made).kind is Kind.PROVED


@pytest.mark.parametrize("shape", [(24, 100), (2, 70000), (9000, 3), (3, 5, 130, 7)])
@pytest.mark.parametrize("fn", [CumulateFn.SUM, CumulateFn.MAX])
@pytest.mark.parametrize("reverse", some_of([False, True], 12, one_value=True))
def test_kernels_of_scans(shape: tuple[int, ...], fn: CumulateFn, reverse: bool) -> None:
    for dim in (0, len(shape) - 1):
        graph = scanned(shape, fn, dim, reversed=reverse)
        made = with_integer_kernels(graph)
        check_graph(made)
        x = drawn(graph)
        assert np.array_equal(computed(made, TypedFloat(), x), computed(graph, TypedFloat(), x))
        if len(made.ops) == 1:
            assert verify(as_floats(graph), made).kind is Kind.PROVED
        elif fn is CumulateFn.SUM:  # in finite fields they agree; programs of pieces are not proved
            assert verify(as_floats(graph), made).kind is Kind.UNKNOWN


def test_products_of_rows_that_a_block_holds() -> None:
    graph = scanned((3, 50), CumulateFn.PROD, 1)
    made = with_integer_kernels(graph)
    x = drawn(graph)
    assert np.array_equal(computed(made, TypedFloat(), x), np.cumprod(x, 1))
    (op,) = with_integer_kernels(scanned((3, 5000), CumulateFn.PROD, 1)).ops
    assert not isinstance(op, Launch)


def test_wrong_kernels_are_refuted() -> None:
    graph, other = reduced((24, 1500), ReduceFn.SUM, 1), reduced((24, 1500), ReduceFn.MAX, 1)
    wrong = with_integer_kernels(other)
    assert verify(as_floats(graph), wrong).kind is Kind.REFUTED


def test_text_and_calls() -> None:
    for graph in (
        reduced((5, 8), ReduceFn.MAX, 0),
        scanned((5, 8), CumulateFn.SUM, 1, exclusive=True, reversed=True),
    ):
        again = graph_from_text(graph_to_text(graph)).graph
        assert graph_to_text(again) == graph_to_text(graph)
        made = with_integer_kernels(graph)
        assert graph_to_text(graph_from_text(graph_to_text(made)).graph) == graph_to_text(made)
        assert calls_of(graph.ops[0])[-1].results == graph.outputs


def test_proofs_do_not_look_inside() -> None:
    sums, maxima = (cut_calls(reduced((5, 8), fn, 1)) for fn in ReduceFn)
    assert sums.calls != maxima.calls
    assert not sums.graph.ops


def test_integers_only() -> None:
    graph = reduced((5, 8), ReduceFn.SUM, 1, dtype=DType.F32)
    with pytest.raises((InvalidGraph, ShapeError), match="expected integers"):
        check_graph(graph)
