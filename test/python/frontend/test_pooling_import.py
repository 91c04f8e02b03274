"""Windows: maxima and means, nearest pixels, elements at steps."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from thorough import some_of
from torch_programs.imported_values import Program, Tensor, outputs, rand

IMAGE = rand(2, 3, 7, 11)


def stored(x: Tensor) -> tuple[Tensor, ...]:
    y = x.clone()
    y[:, :, ::2] = 0
    z = x.clone()
    z[..., 1:9:3] = x[..., :3] * 2
    return y, z


CASES: dict[str, Program] = {
    "side by side": lambda x: F.max_pool2d(x, 2),
    "overlapping": lambda x: F.max_pool2d(x, 3, 1, 1),
    "with a stride": lambda x: F.max_pool2d(x, 3, 2, 1),
    "of other sizes": lambda x: F.max_pool2d(x, (2, 3), (1, 2)),
    "up to the end": lambda x: F.max_pool2d(x, 3, 2, 1, ceil_mode=True),
    "apart": lambda x: F.max_pool2d(x, 2, 1, dilation=2),
    "of a line": lambda x: F.max_pool1d(x[0], 3, 2, 1),
    "of a line, apart": lambda x: F.max_pool1d(x[0], 3, 2, 0, 2),
    "of a volume": lambda x: F.max_pool3d(x[None], (1, 2, 3)),
    "means": lambda x: F.avg_pool2d(x, 2),
    "means beyond the end": lambda x: F.avg_pool2d(x, 100, ceil_mode=True),
    "means of one window": lambda x: F.avg_pool2d(x, x.shape[-2:], 2),
    "means of one padded window": lambda x: F.avg_pool2d(x, (5, 6), 9, (2, 3), ceil_mode=True),
    "maxima beyond the end": lambda x: F.max_pool2d(x, 90, 100, 1, ceil_mode=True),
    "means, overlapping": lambda x: F.avg_pool2d(x, 3, 1, 1),
    "means of what is there": lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
    "means up to the end": lambda x: F.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
    "sums": lambda x: F.avg_pool2d(x, 2, divisor_override=1),
    "means of a line": lambda x: F.avg_pool1d(x[0], 3, 1, 1),
    "means of a volume": lambda x: F.avg_pool3d(x[None], (3, 2, 2), 1),
    "any number of windows": lambda x: F.adaptive_avg_pool2d(x, (3, 4)),
    "any number of maxima": lambda x: F.adaptive_max_pool2d(x, (3, 5)),
    "one mean of channels last": lambda x: F.adaptive_avg_pool2d(x.transpose(1, 3), 1).flatten(1),
    "one": lambda x: F.adaptive_max_pool2d(x, 1),
    "areas": lambda x: F.interpolate(x, (3, 5), mode="area"),
    "response": lambda x: F.local_response_norm(x, 2),
    "nearest, smaller": lambda x: F.interpolate(x, (5, 9)),
    "nearest, larger": lambda x: F.interpolate(x, scale_factor=1.5),
    "nearest, half": lambda x: F.interpolate(x, scale_factor=0.5),
    "windows": lambda x: (x.unfold(3, 3, 2), x.unfold(-2, 4, 1)),
    "windows side by side": lambda x: (x.unfold(3, 2, 2), x.unfold(-2, 2, 3), x.unfold(1, 1, 1)),
    "stores at steps": stored,
}


@pytest.mark.parametrize("name", some_of(CASES))
def test_windows(name: str) -> None:
    for ours, expected in outputs(CASES[name], (IMAGE,), typed=False):
        np.testing.assert_allclose(ours, expected, rtol=1e-6, atol=1e-7)


def test_maxima_are_exact_and_keep_what_is_no_number() -> None:
    x = IMAGE.half()
    x[0, 0, 2, 3], x[0, 1] = torch.nan, -torch.inf
    for name in ("side by side", "with a stride", "any number of maxima"):
        ((ours, expected),) = outputs(CASES[name], (x,), typed=True)
        np.testing.assert_array_equal(ours, expected)
