"""Numbers that are known when a program is imported are computed there."""

from __future__ import annotations

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.semantics.scalar import BinaryFn
from torch_programs.imported_values import Tensor, outputs, rand

X, Y = rand(4, 6), rand(4, 6)


@pytest.mark.parametrize("weight", [0.0, 0.1, 0.5, 0.7, 1.0, -2.0])
def test_a_weight_decides_how_to_mix(weight: float) -> None:
    def mixed(x: Tensor, y: Tensor) -> Tensor:
        return torch.lerp(x, y, weight)

    graph = mi.from_torch(mixed, X.float(), Y.float()).program.graph
    functions = {op.function for op in graph.ops if op.operands}
    assert functions <= {BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, None}  # None: views
    ((ours, expected),) = outputs(mixed, (X, Y), typed=False)
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)


def test_what_is_not_kept_for_certain_is_zero_even_where_it_is_no_number() -> None:
    def chosen(x: Tensor) -> Tensor:
        never = torch.tensor(3.0) < torch.tensor(2.0)
        return torch.where(never, x, 1.0)

    x = torch.tensor([torch.nan, torch.inf, 2.0]).double()
    ((ours, expected),) = outputs(chosen, (x,), typed=False)
    np.testing.assert_array_equal(ours, expected)


def test_what_a_cast_rounds_is_rounded() -> None:
    def scaled(x: Tensor) -> Tensor:
        return x * torch.tensor(0.1).half().float()

    ((ours, expected),) = outputs(scaled, (X.float(),), typed=True)
    np.testing.assert_array_equal(ours, expected)
