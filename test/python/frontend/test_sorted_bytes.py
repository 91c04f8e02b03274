"""Long sorts stay with PyTorch, as sorts of bytes where the integers are known to fit."""

from __future__ import annotations

from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import External
from torch_programs.op_by_op import op_by_op

Tensor = torch.Tensor
SIZE = 5000


def calls(program: Any) -> list[External]:
    return [op for op in program.graph.ops if isinstance(op, External)]


@pytest.mark.parametrize(("low", "high"), [(0, 63), (-128, 127), (-3, -3)])
@pytest.mark.parametrize("descending", [False, True])
def test_small_integers(low: int, high: int, descending: bool) -> None:
    """Values and places are those of a stable sort of the wide integers, whatever is given."""

    def ordered(x: Tensor) -> Any:
        return torch.sort(x.clamp(low, high), stable=True, descending=descending)

    x = torch.randint(-500, 500, (SIZE,), generator=torch.Generator().manual_seed(3))
    program = mi.from_torch(ordered, x, allow_fallback=True)
    (call,) = calls(program)
    assert [v.dtype for v in (*call.operands, *call.results)] == [DType.I8, DType.I8, DType.I64]
    assert [v.dtype for v in program.graph.outputs] == [DType.I64, DType.I64]
    assert [stays.op for stays in program.stays] == ["aten.sort.stable"]
    for got, want in zip(op_by_op(program.program, {})(x), ordered(x), strict=True):
        np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize(("low", "high"), [(0, 128), (-129, 0)])
def test_wider_integers_keep_their_type(low: int, high: int) -> None:
    x = torch.zeros(SIZE, dtype=torch.int64)
    program = mi.from_torch(lambda x: torch.sort(x.clamp(low, high)), x, allow_fallback=True)
    assert DType.I8 not in {v.dtype for call in calls(program) for v in call.operands}
