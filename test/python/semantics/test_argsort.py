"""Places of elements in order: their meaning is that of PyTorch, and kernels have the same."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.semantics.argsort import Argsort
from mirage.semantics.builder import ShapeError
from mirage.semantics.check import InvalidGraph, check_graph
from mirage.semantics.evaluation.evaluate import Float64, TypedFloat, evaluate
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import KernelGraph, Launch, TensorType, Value
from mirage.transforms.integer_kernels import with_integer_kernels
from mirage.transforms.partition.calls import calls_of


def ordered(
    shape: tuple[int, ...], dim: int, count: int, *, descending: bool, dtype: DType = DType.F32
) -> KernelGraph:
    x = Value(TensorType(shape, dtype))
    sizes = tuple(count if d == dim else n for d, n in enumerate(shape))
    op = Argsort((x,), (Value(TensorType(sizes, DType.I64)),), dim, descending)
    return KernelGraph("g", (x,), (op,), op.results)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("shape", [(7, 100), (3, 5, 11), (1, 1), (2, 600)])
def test_kernels_have_the_meaning_of_pytorch(shape: tuple[int, ...], descending: bool) -> None:
    x = torch.randint(-9, 9, shape, generator=torch.Generator().manual_seed(0)).double()
    x.view(-1)[::7] = torch.nan
    x.view(-1)[1::5] = -0.0
    for dim in {0, len(shape) - 1}:
        count = -(-shape[dim] // 2)
        graph = ordered(shape, dim, count, descending=descending)
        made = with_integer_kernels(graph)
        check_graph(graph)
        check_graph(made)
        assert all(isinstance(op, Launch) for op in made.ops)
        expected = x.argsort(dim=dim, stable=True, descending=descending).narrow(dim, 0, count)
        for domain in (Float64(), TypedFloat()):
            for one in (graph, made):
                ((found,),) = evaluate(one, domain, [(x.numpy(),)])
                assert np.array_equal(found, expected.numpy())


def test_text_and_calls() -> None:
    for count in (8, 3):
        graph = ordered((5, 8), 1, count, descending=True, dtype=DType.I32)
        for one in (graph, with_integer_kernels(graph)):
            assert graph_to_text(graph_from_text(graph_to_text(one)).graph) == graph_to_text(one)
        assert calls_of(graph.ops[0])[-1].results == graph.outputs


def test_no_more_places_than_elements() -> None:
    with pytest.raises((InvalidGraph, ShapeError), match="at most 8 places"):
        check_graph(ordered((5, 8), 1, 9, descending=False))
