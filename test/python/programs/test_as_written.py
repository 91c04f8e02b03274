"""Programs as people write them: kernels are found for all of them, and compute the same as
PyTorch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.ugraph import Launch, Reshape
from thorough import some_of

Tensor = torch.Tensor
Function = Callable[..., Any]
HALF = torch.float16


def randn(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    generator = torch.Generator().manual_seed(sum(shape) + len(shape))
    return torch.randn(shape, generator=generator).to(dtype)


def cosine_of_rows(a: Tensor, b: Tensor) -> Tensor:
    return (a @ b.t()) / (a.norm(dim=-1, keepdim=True) * b.norm(dim=-1))


def contrastive(a: Tensor, b: Tensor, scale: Tensor) -> Tensor:
    """The training loss of CLIP."""
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    scores, target = scale.exp() * a @ b.t(), torch.arange(a.shape[0])
    return (F.cross_entropy(scores, target) + F.cross_entropy(scores.t(), target)) / 2


BATCH_NORM = (randn(8, 16), randn(16), randn(16).abs() + 0.1, randn(16), randn(16))
KERNELS: dict[str, tuple[Function, tuple[Tensor, ...]]] = {
    "batch norm, statistics as inputs": (
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), BATCH_NORM),
    "batch norm of f16": (
        lambda x, m, v, w, b: F.batch_norm(x, m, v, w, b), tuple(x.half() for x in BATCH_NORM)),
    "by two magnitudes": (
        lambda a, b, c: a / (b.abs() * c.abs()), (randn(16, 32), randn(32, 16).t(), randn(1, 32))),
    "cosine of all rows": (cosine_of_rows, (randn(16, 32), randn(24, 32))),
    "cosine similarity": (
        F.cosine_similarity, (randn(16, 32, dtype=HALF), randn(32, 16, dtype=HALF).t())),
    "pooled and normalized": (
        lambda x: F.normalize(x.mean(1), dim=-1), (randn(4, 16, 32, dtype=HALF),)),
    "contrastive loss": (
        contrastive, (randn(16, 32, dtype=HALF), randn(32, 16, dtype=HALF).t(), randn(dtype=HALF))),
    "soft threshold": (lambda x: F.softshrink(x, 0.5), (randn(16, 32),)),
    "hard threshold": (lambda x: F.hardshrink(x, 0.5), (randn(16, 32, dtype=HALF),)),
    "norms of windows": (
        lambda x: F.layer_norm(x.unfold(1, 4, 4), (4,)), (randn(8, 32, dtype=HALF),)),
    "sum of exponentials": (torch.logaddexp, (randn(16, 32), randn(32, 16).t())),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(KERNELS, 4))
def test_kernels_are_found(name: str) -> None:
    function, inputs = KERNELS[name]
    inputs = tuple(x.contiguous() for x in inputs)
    program = mi.from_torch(function, *inputs)
    found = program.superoptimize(
        candidates=2, finalists=1, jobs=1, budget=30, compile=False, use_cache=False
    )
    kinds = {type(op) for op in found.graph.ops}
    assert kinds - {Reshape} == {Launch}, found.report.notes
    given = [x.double().numpy() for x in inputs]
    (ours,) = evaluate_floats(found.graph, given, TypedFloat())
    theirs = function(*inputs).double().numpy()
    unit = 4e-3 if inputs[0].dtype is HALF else 1e-5
    np.testing.assert_allclose(ours, theirs, rtol=unit, atol=unit * np.abs(theirs).max())
