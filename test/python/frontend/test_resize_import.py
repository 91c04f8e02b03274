"""Images in another size, against PyTorch."""

from __future__ import annotations

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from torch_programs.imported_programs import check, rand

X = rand(2, 3, 5, 7)


@pytest.mark.parametrize("corners", [False, True])
@pytest.mark.parametrize("size", [(5, 7), (10, 14), (3, 4), (5, 9), (13, 7), (1, 1), (20, 2)])
def test_bilinear(size: tuple[int, int], corners: bool) -> None:
    check(lambda x: F.interpolate(x, size, mode="bilinear", align_corners=corners), X)


@pytest.mark.parametrize("factor", [2.0, 0.5, 1.0, (1.5, 0.75)])
def test_bilinear_by_factors(factor: float | tuple[float, float]) -> None:
    check(lambda x: F.interpolate(x, scale_factor=factor, mode="bilinear"), X)


def test_a_size_that_stays_is_no_product() -> None:
    imported = mi.from_torch(lambda x: F.interpolate(x, (5, 7), mode="bilinear") + 1, X)
    assert len(imported.graph.ops) == 2


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_types(dtype: torch.dtype) -> None:
    check(
        lambda x: (F.interpolate(x, (9, 4), mode="bilinear"), F.interpolate(x, scale_factor=2.0)),
        X.to(dtype), rtol=2e-2, atol=1e-2,
    )  # fmt: skip


def test_nearest() -> None:
    check(lambda x: (F.interpolate(x, scale_factor=2.0), F.interpolate(x, (15, 14))), X)
    check(lambda x: (F.interpolate(x, (8, 8)), F.interpolate(x, scale_factor=0.7)), X)
