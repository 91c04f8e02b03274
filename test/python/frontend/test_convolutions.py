"""Convolutions with padding, groups or patches that overlap are sums of products, unless a call may
remain; those of each channel by itself are always, if their kernels are small."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import pytest
import torch
import torch.nn.functional as F
from mirage.frontend.errors import UnsupportedOpError
from mirage.pipeline.commands.emulate import emulate
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


CHANNELWISE: dict[str, tuple[Callable[..., object], tuple[Tensor, ...]]] = {
    "causal": (
        lambda x, w, c: F.silu(
            F.conv1d(x.transpose(1, 2), w, c, padding=3, groups=4)[..., : x.shape[1]]
        ),
        (rand(2, 9, 4), rand(4, 1, 4), rand(4)),
    ),
    "causal, of half the channels": (
        lambda x, w: F.conv1d(x.transpose(1, 2).chunk(2, 1)[0], w, padding=2, groups=4)[..., :5],
        (rand(2, 5, 8), rand(4, 1, 3)),
    ),
    "causal, of what is computed": (
        lambda x, w: F.conv1d(x.mT[:, :4] * x.mT[:, 4:].exp(), w, padding=2, groups=4)[
            ..., : x.shape[1]
        ],
        (rand(2, 5, 8), rand(4, 1, 3)),
    ),
    "a later part": (
        lambda x, w: F.conv1d(x.mT, w, padding=2, groups=4)[..., 2:],
        (rand(1, 6, 4), rand(4, 1, 3)),
    ),
    "without padding, channels first": (
        lambda x, w, c: F.conv1d(x, w, c, groups=4, dilation=2),
        (rand(2, 4, 9), rand(4, 1, 4), rand(4)),
    ),
    "images": (
        lambda x, w, c: (
            F.conv2d(x.permute(0, 3, 1, 2), w, c, padding=1, groups=3),
            F.conv2d(x.movedim(3, 1), w, stride=2, padding=(0, 1), dilation=(1, 2), groups=3),
        ),
        (rand(2, 6, 5, 3), rand(3, 1, 3, 2), rand(3)),
    ),
}


@pytest.mark.parametrize("name", CHANNELWISE)
def test_each_channel_by_itself(name: str) -> None:
    program, inputs = CHANNELWISE[name]
    imported = mi.from_torch(program, *(x.float() for x in inputs), allow_fallback=True)
    assert not imported.stays
    check(program, *inputs)


def test_each_channel_by_itself_in_one_kernel() -> None:
    _, (x, w, c) = CHANNELWISE["causal"]
    inputs = [t.float() for t in (x.repeat(1, 2, 4), w.repeat(4, 1, 1), c.repeat(4))]

    def of_more(x: Tensor, w: Tensor, c: Tensor) -> Tensor:
        return F.silu(F.conv1d(x.mT, w, c, padding=3, groups=16)[..., : x.shape[1]])

    options = mi.OptimizeOptions(chip="h200", fresh=True, use_cache=False, check_kernels=True)
    optimized = mi.optimize(mi.from_torch(of_more, *inputs, allow_fallback=True), options)
    assert optimized.kernels == 1
    (got,) = emulate(optimized, *inputs)
    torch.testing.assert_close(got, of_more(*inputs), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [3, 7])
def test_large_kernels_and_channels_first_stay(size: int) -> None:
    def program(x: Tensor, w: Tensor) -> Tensor:
        x = x if size == 3 else x.permute(0, 3, 1, 2)
        return F.conv2d(x, w, padding=3, groups=3)

    x = B if size == 3 else B.permute(0, 2, 3, 1).contiguous()
    imported = mi.from_torch(program, x, rand(3, 1, size, size), allow_fallback=True)
    assert [s.op for s in imported.stays] == ["aten.convolution"]


def test_a_large_kernel_is_refused() -> None:
    with pytest.raises(UnsupportedOpError, match="81 places"):
        mi.from_torch(lambda x, w: F.conv2d(x, w, padding=4), B, torch.zeros(2, 3, 9, 9))
