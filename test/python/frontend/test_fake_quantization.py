"""Fake quantization, decomposed: with one scale, with one for each channel, and as tensors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from thorough import some_of
from torch_programs.imported_values import Program, outputs

SCALES = torch.tensor([0.125, 0.3, 2.0])
ZEROS = torch.tensor([0, 3, -7], dtype=torch.int32)
PROGRAMS: dict[str, Program] = {
    "one scale": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.1, 3, -128, 127),
    "few numbers": lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 0, 0, 15),
    "a tensor's scale": lambda x: torch.fake_quantize_per_tensor_affine(
        x, SCALES[1], ZEROS[1], 0, 255
    ),
    "by channel": lambda x: torch.fake_quantize_per_channel_affine(x, SCALES, ZEROS, 0, -128, 127),
    "by the last channel": lambda x: torch.fake_quantize_per_channel_affine(
        x.t(), SCALES, ZEROS, 1, -128, 127
    ),
}


@pytest.mark.parametrize("program", some_of(PROGRAMS.values(), every=3), ids=PROGRAMS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_it_is_what_pytorch_computes(program: Program, dtype: torch.dtype) -> None:
    x = torch.tensor([[-50.0, -0.31, -0.05, 0.0], [0.05, 0.15, 0.3125, 1.0], [7.0, 12.7, 13, 60]])
    for found, expected in outputs(program, (x.to(dtype),), True):
        np.testing.assert_allclose(found, expected, rtol=2.0**-22)
