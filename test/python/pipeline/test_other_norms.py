"""Results for other norms, alone and before a linear layer, have at most twice PyTorch's error, row
by row, in the interpreter, on activations like those of models.
"""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.torch_import import from_torch
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.semantics.domain import TypedFloat
from mirage.semantics.evaluation.evaluate import evaluate_floats
from thorough import some_of
from torch import nn

WIDTH = 32


class QKNorm(nn.Module):
    """Attention of queries and keys whose rows are normalized."""

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        q, k = (F.rms_norm(x, (WIDTH,), eps=1e-6) for x in (q, k))
        return F.scaled_dot_product_attention(q, k, v)


class CrossEntropy(nn.Module):
    """The cross-entropy of each row with the last of its classes."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.logsumexp(-1, keepdim=True) - x[..., -1:]


KINDS = {
    "group norm": (lambda: nn.GroupNorm(4, 8, affine=False), ((4, 8, WIDTH),), WIDTH),
    "qk norm": (QKNorm, ((2, 8, WIDTH), (2, 16, WIDTH), (2, 16, WIDTH)), WIDTH),
    "cross entropy": (CrossEntropy, ((24, WIDTH),), 1),
    "log softmax": (lambda: nn.LogSoftmax(-1), ((8, WIDTH),), WIDTH),
}
INPUTS = {
    "mean 300": lambda x: x + 300.0,
    "mean -1000": lambda x: x - 1000.0,
    "constant": lambda x: x * 0.0 + 20.3,
    "a channel of 3000": lambda x: torch.where(torch.arange(WIDTH) == 7, 3000.0, x),
    "small": lambda x: x * 1e-3,
}


# A group norm before a linear layer uses bf16: the result multiplies before it divides, and
# subnormal numbers of f16 lose too many digits.
CASES = [
    (kind, linear, (torch.float16, torch.bfloat16)[(number + linear) % 2])
    for number, kind in enumerate(KINDS)
    for linear in (False, True)
]


@pytest.mark.parametrize(("kind", "linear", "dtype"), some_of(CASES, 9))
def test_other_norms(kind: str, linear: bool, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    make, shapes, width = KINDS[kind]
    last = [nn.Linear(width, 16, bias=False, dtype=dtype)] if linear else []
    module = _Chain(make(), *last).eval().requires_grad_(False)
    program = from_torch(module, *(torch.randn(s).to(dtype) for s in shapes)).program
    options = OptimizeOptions(
        chip="h200", compile=False, use_cache=False, jobs=1, candidates=2, verify_seed=0
    )
    optimized = optimize(program, options)
    assert not optimized.report.notes
    held = {p.index: p.data for p in program.parameters}
    for name, build in INPUTS.items():
        given = [build(torch.randn(s)).to(dtype) for s in shapes]
        exact = copy.deepcopy(module).double()(*(x.double() for x in given)).numpy()
        rest = iter(given)
        inputs = [held[i] if i in held else next(rest) for i in range(len(program.graph.inputs))]
        arrays = [torch.as_tensor(t).double().numpy() for t in inputs]
        (ours,) = evaluate_floats(optimized.graph, arrays, TypedFloat())
        assert np.isfinite(ours).all(), name
        rows = exact.shape[-1] if exact.shape[-1] > 1 else exact.size
        size, *errors = (
            np.linalg.norm(y.reshape(-1, rows), axis=-1)
            for y in (exact, ours - exact, module(*given).double().numpy() - exact)
        )
        floor = size * (2.0**-12 if dtype is torch.float16 else 2.0**-9) + 1e-7 * np.sqrt(rows)
        assert (errors[0] <= 2.0 * np.maximum(errors[1], floor)).all(), (name, errors, floor)


class _Chain(nn.Sequential):
    """Modules in sequence; the first may have several inputs."""

    def forward(self, *xs: torch.Tensor) -> torch.Tensor:
        first, *others = self
        y = first(*xs)
        for module in others:
            y = module(y)
        return y
