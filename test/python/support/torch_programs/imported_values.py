"""The results of an imported program, compared with those of PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import torch
from mirage.frontend.dtypes import as_dtype
from mirage.semantics.check import check_graph
from mirage.semantics.domain import TypedFloat
from mirage.semantics.evaluation.evaluate import evaluate_floats

Tensor = torch.Tensor
Program = Callable[..., Any]


def rand(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape))
    return torch.randn(*shape, dtype=torch.float64, generator=generator).to(dtype)


def outputs(program: Program, inputs: tuple[Tensor, ...], typed: bool) -> list[Any]:
    """Yield pairs of results of the imported program and of PyTorch."""
    imported = mi.from_torch(program, *inputs)
    check_graph(imported.graph)
    expected: Any = program(*inputs)
    expected = list(expected) if isinstance(expected, tuple | list) else [expected]
    held = [p.data for p in imported.program.parameters]  # known at import
    arrays = [x.double().numpy() for x in (*inputs, *held)]
    domain = (TypedFloat(),) if typed else ()
    ours = imported.program.returned(evaluate_floats(imported.graph, arrays, *domain))
    if len(imported.graph.outputs) == len(expected):
        for value, b in zip(imported.graph.outputs, expected, strict=True):
            assert value.shape == tuple(b.shape)
            assert value.dtype is as_dtype(b.dtype)
    return [(a, b.double().numpy()) for a, b in zip(ours, expected, strict=True)]
