"""Losses as people write them are few kernels, and proofs hold for what the search finds."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F

Tensor = torch.Tensor


def entropy(x: Tensor) -> Tensor:
    return -(F.softmax(x.float(), -1) * F.log_softmax(x.float(), -1)).sum(-1)


def truth_values(x: Tensor) -> Tensor:
    return F.binary_cross_entropy_with_logits(x.float(), x.float().sigmoid())


PROGRAMS: dict[str, tuple[Callable[..., Tensor], tuple[int, int], int]] = {
    "entropy": (entropy, (64, 2048), 1),
    "cross-entropy of truth values": (truth_values, (512, 512), 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_losses(name: str) -> None:
    program, shape, most = PROGRAMS[name]
    graph = mi.from_torch(program, torch.randn(*shape).half())
    found = graph.superoptimize(chip="h200", check_kernels=False, use_cache=False, budget=30)
    assert all(c.verdict.equivalent for c in found.report.checked)
    assert found.report.prediction is not None
    assert 0 < found.report.prediction.launches <= most
