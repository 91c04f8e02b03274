"""Convolutions with padding, groups or patches that overlap are sums of products, unless a call may
remain."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.errors import UnsupportedOpError
from torch import Tensor
from torch_programs.imported_programs import check, rand

B = rand(2, 3, 6, 5)
CASES: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "patches that overlap": (
        lambda x, w: (
            F.conv2d(x, w, padding=1),
            F.conv2d(x, w, w[:, 0, 0, 0], stride=2, padding=(0, 1), dilation=(1, 2)),
            F.conv1d(x[:, :, 0], w[:, :, 0], stride=2, padding=2),
        ),
        (B, rand(5, 3, 2, 2)),
    ),
    "groups": (
        lambda x, w, v: (
            F.conv2d(x, w[:3, :1], padding=1, groups=3),
            F.conv2d(x, w[:, :1], w[:, 0, 0, 0], groups=3),
            F.conv1d(x[:, :2].flatten(2).repeat(1, 2, 1), v, padding=2, groups=2)[..., :-2],
        ),
        (B, rand(6, 1, 3, 3), rand(4, 2, 3)),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_sums_of_products(name: str) -> None:
    program, inputs = CASES[name]
    check(program, *inputs)


def test_a_call_where_one_may_remain() -> None:
    imported = mi.from_torch(
        lambda x, w: F.conv2d(x, w, padding=1), B, rand(5, 3, 2, 2), allow_fallback=True
    )
    assert [s.op for s in imported.stays] == ["aten.convolution"]


def test_a_large_kernel_is_refused() -> None:
    with pytest.raises(UnsupportedOpError, match="81 places"):
        mi.from_torch(lambda x, w: F.conv2d(x, w, padding=4), B, torch.zeros(2, 3, 9, 9))
