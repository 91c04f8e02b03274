"""Results keep their digits on activations like those of models: their error is at most twice
PyTorch's, row by row, in the interpreter.
"""

from __future__ import annotations

import copy
import itertools

import numpy as np
import pytest
import torch
from mirage.frontend.torch_import import from_torch
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.semantics.domain import TypedFloat
from mirage.semantics.evaluation.evaluate import evaluate_floats
from thorough import some_of
from torch import nn

ROWS, FEATURES, OUTPUTS = 8, 512, 256
NORMS = {
    "layer norm": lambda dtype: nn.LayerNorm(FEATURES, dtype=dtype),
    "rms norm": lambda dtype: nn.RMSNorm(FEATURES, eps=1e-6, dtype=dtype),
    "softmax": lambda dtype: nn.Softmax(-1),
}
INPUTS = {
    "mean 300": (lambda x: x + 300.0, None),
    "mean 1000": (lambda x: x + 1000.0, None),
    "constant": (lambda x: x * 0.0 + 20.3, None),
    "a channel of 3000": (lambda x: _with_channel(x, 3000.0), 24.0),
    "small": (lambda x: x * 1e-3, 0.01),
}


def _with_channel(x: torch.Tensor, value: float) -> torch.Tensor:
    x[:, 7] = value
    return x


def _set_gain(norm: nn.Module, value: float | None, single: bool) -> None:
    weight = getattr(norm, "weight", None)
    if weight is not None:
        gain = torch.ones(FEATURES)
        if value is not None:
            gain[7 if single else slice(None)] = value
        weight.data.copy_(gain)


@pytest.mark.parametrize(
    ("kind", "dtype"),
    some_of(zip(NORMS, itertools.cycle([torch.float16, torch.bfloat16])), every=3),
)
def test_before_a_linear_layer(kind: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    linear = nn.Linear(FEATURES, OUTPUTS, bias=False, dtype=dtype)
    module = nn.Sequential(NORMS[kind](dtype), linear).eval().requires_grad_(False)
    program = from_torch(module, torch.randn(ROWS, FEATURES).to(dtype)).program
    options = OptimizeOptions(
        chip="h200", compile=False, use_cache=False, jobs=1, candidates=2, verify_seed=0
    )
    optimized = optimize(program, options)
    assert not optimized.report.notes
    held = {p.index: p.data for p in program.parameters}
    for name, (build, gain) in INPUTS.items():
        x = build(torch.randn(ROWS, FEATURES)).to(dtype)
        _set_gain(module[0], gain, single=gain is not None and gain > 1.0)
        exact = copy.deepcopy(module).double()(x.double()).numpy()
        inputs = [held.get(i, x) for i in range(len(program.graph.inputs))]
        arrays = [torch.as_tensor(t).double().numpy() for t in inputs]
        (ours,) = evaluate_floats(optimized.graph, arrays, TypedFloat())
        assert np.isfinite(ours).all(), name
        size = np.linalg.norm(exact, axis=-1)
        errors = [np.linalg.norm(y - exact, axis=-1) for y in (ours, module(x).double().numpy())]
        floor = size * (2.0**-12 if dtype is torch.float16 else 2.0**-9) + 1e-7
        assert (errors[0] <= 2.0 * np.maximum(errors[1], floor)).all(), name


@pytest.mark.parametrize("features", [100, 768, 1000])
def test_the_mean_of_equal_numbers_is_that_number(features: int) -> None:
    """In the compiled program, as in PyTorch: the remaining error is multiplied by up to 300."""
    values = torch.tensor([20.3, 5.7, -1000.0, 0.1, 77.7, 3e-5])
    x = values[:, None].expand(-1, features).to(torch.float16).contiguous()
    norm = nn.LayerNorm(features, elementwise_affine=False)
    options = OptimizeOptions(candidates=2, verify_seed=0, jobs=1, cubin=False)
    optimized = optimize(from_torch(norm, torch.randn(6, features).half()).program, options)
    (y,) = emulate(optimized, x)
    assert (y == 0.0).all()
    infinite = x.clone()
    infinite[0, 0] = torch.inf
    (y,) = emulate(optimized, infinite)
    assert torch.isnan(y[0]).all()
    assert (y[1:] == 0.0).all()
