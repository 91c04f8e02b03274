"""The kernels of a layer do not depend on how many equal layers there are."""

from __future__ import annotations

from concurrent.futures import Executor

import mirage as mi
import pytest
import torch
from mirage.pipeline.compile.broken import key_of
from mirage.pipeline.optimize import optimize
from mirage.pipeline.parts import all_parts as parts_module
from mirage.pipeline.parts import seconds as seconds_module
from mirage.semantics.ugraph import launches

OPTIONS = mi.OptimizeOptions(
    candidates=1, finalists=1, compile=False, verify_seed=1, jobs=1, budget=600.0, use_cache=False
)


def kernels(layers: int) -> set[str]:
    """Return the kernels of a model whose first part is larger than a layer."""

    def model(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            x = torch.tanh(x @ w)
        for _ in range(layers):
            x = torch.relu(torch.special.i0e(x) @ w)
        return x

    x, w = torch.randn(16, 32), torch.randn(32, 32)
    program = mi.from_torch(model, x, w, allow_fallback=True).program
    return {key_of(launch) for launch in launches(optimize(program, OPTIONS).graph.ops)}


@pytest.mark.thorough
def test_one_layer_and_four_have_the_same_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """At first there is time for one part only, which is the first one with one layer and the layer
    with four; then for both."""
    begun: list[int] = []

    class Noted(parts_module.PartSolver):
        def begin(self, share: float, seconds: float, executor: Executor | None) -> None:
            begun.append(self.number)
            super().begin(share, seconds, executor)

    def estimated(busy: float) -> None:
        monkeypatch.setattr(seconds_module, "busy", lambda _: busy)

    monkeypatch.setattr(parts_module, "FIRST_ANSWERS", 1e9)
    monkeypatch.setattr(parts_module, "PartSolver", Noted)
    monkeypatch.setattr(parts_module.Parts, "_improve", lambda _: estimated(1.0))
    estimated(800.0)
    one = kernels(1)
    estimated(800.0)
    four = kernels(4)
    assert begun == [0, 1]
    assert one == four
