"""torch.compile(backend="mirage") on programs whose results are not computed by kernels: the
driver's results, kernels in the emulator.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import pytest
import torch
from mirage.frontend.program import Program
from mirage.pipeline.commands.emulate import emulate
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.torch.graph_compiler import backend
from thorough import some_of


def compiled(program: Program, options: Mapping[str, Any]) -> Any:
    return partial(emulate, optimize(program, OptimizeOptions.of(candidates=1, jobs=1, **options)))


host = partial(backend, compiler=compiled, devices=("cpu",))

PROGRAMS: dict[str, Callable[[torch.Tensor, torch.Tensor], Any]] = {
    "an input and a sum": lambda x, y: (x, x + y),
    "a result twice": lambda x, y: ((z := x * y), z, z.t()),
    "views only": lambda x, y: (x.t(), y[1:], x.reshape(24)),
    "an input that is not read": lambda x, y: y * 2,
    "no tensor": lambda x, y: (x + y, None, 3),
    "a call": lambda x, y: (x.cos() * y).sum(),
    "constants": lambda x, y: (torch.ones(3), x * 0.797 * 0.3),
    "no elements": lambda x, y: (x[2:2] * 2, x[2:2].sum(0) + y),
    "f64": lambda x, y: x.double() * y,
}


@pytest.mark.parametrize("name", some_of(PROGRAMS, every=3))
def test_results_are_those_of_pytorch(name: str, caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    function = PROGRAMS[name]
    x, y = torch.randn(4, 6), torch.randn(4, 6)
    got = torch.compile(function, backend=host)(x, y)
    torch.testing.assert_close(got, function(x, y), rtol=1e-3, atol=1e-4)
    assert "stays with PyTorch" not in caplog.text
