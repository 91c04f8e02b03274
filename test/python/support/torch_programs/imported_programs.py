"""PyTorch programs that are imported, and compared with PyTorch."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import numpy as np
import torch
from mirage.frontend.dtypes import as_dtype
from mirage.frontend.torch_import import ImportedGraph
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats

Tensor = torch.Tensor


def evaluate(imported: ImportedGraph, inputs: list[Tensor]) -> list[np.ndarray]:
    check_graph(imported.graph)
    bound = [p.data.detach().double().numpy() for p in imported.program.parameters]
    return list(evaluate_floats(imported.graph, [*(x.double().numpy() for x in inputs), *bound]))


def check(
    program: Callable[..., object], *inputs: Tensor, rtol: float = 1e-9, atol: float = 1e-12
) -> ImportedGraph:
    imported = mi.from_torch(program, *inputs)
    with torch.no_grad():
        expected = program(*inputs)
    expected = expected if isinstance(expected, (tuple, list)) else [expected]
    ours = evaluate(imported, list(inputs))
    assert len(ours) == len(expected)
    for value, a, b in zip(imported.graph.outputs, ours, expected, strict=True):
        assert value.shape == tuple(b.shape)
        assert value.dtype is as_dtype(b.dtype)
        np.testing.assert_allclose(a, b.double().numpy(), rtol=rtol, atol=atol)
    return imported


def rand(*shape: int) -> Tensor:
    return torch.randn(
        *shape, dtype=torch.float64, generator=torch.Generator().manual_seed(sum(shape))
    )
