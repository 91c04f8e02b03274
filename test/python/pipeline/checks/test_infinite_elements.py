"""Results of kernels are compared where they are infinite, too: masks fill with minus infinity."""

from __future__ import annotations

import mirage as mi
import pytest
import torch
from damaged_artifacts import damaged
from mirage.pipeline.checks.emulated_check import emulated, kernel_ops
from mirage.pipeline.checks.kernel_check import KernelCheck, Outcome
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions


class Masked(torch.nn.Module):
    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        return (2.0 * x).masked_fill(mask, -torch.inf)


def positive(ptx: str) -> str:
    """Minus infinity of f16 that became infinity."""
    assert "0xFC00" in ptx
    return ptx.replace("0xFC00", "0x7C00")


@pytest.fixture(scope="module")
def masked() -> mi.Optimized:
    given = (torch.zeros(16, 512, dtype=torch.half), torch.zeros(16, 512, dtype=torch.bool))
    options = OptimizeOptions.of(verify_seed=0, use_cache=False, cubin=False, jobs=1)
    return optimize(mi.from_torch(Masked(), *given), options)


def test_they_count_as_compared(masked: mi.Optimized) -> None:
    (check,) = masked.report.checks
    assert check.outcome is Outcome.PASSED, check


def test_other_infinities_are_wrong(masked: mi.Optimized) -> None:
    (step,) = masked.steps
    assert step.compiled is not None
    assert step.graph is not None
    artifact = damaged(step.compiled.artifact, positive)
    (op,), (kernel,) = kernel_ops(step.graph), artifact.manifest.kernels
    check: KernelCheck = emulated(op, kernel, artifact)
    assert check.outcome is Outcome.FAILED, check
