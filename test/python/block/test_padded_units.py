"""Dimensions of size 1 that a matmul pads: the contents of the padding must not spread."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import compile_mlir
from mirage.emulator.run_artifact import check_artifact
from thorough import some_of

# One query is the only column of the scores; the running maximum of one number rescales a tile.
DECODE = """
kernel.graph @decode(%q: tensor<1x{d}xf16>, %k: tensor<{d}x{t}xf16>, %v: tensor<{t}x{e}xf16>)
    -> tensor<1x{e}xf32> {{
  %y = kernel.launch(%q, %k, %v) grid [] schedule <warps = {warps}, stages = 2>
      : (tensor<1x{d}xf16>, tensor<{d}x{t}xf16>, tensor<{t}x{e}xf16>) -> tensor<1x{e}xf32> {{
  ^bb0(%gq: tensor<1x{d}xf16>, %gk: tensor<{d}x{t}xf16>, %gv: tensor<{t}x{e}xf16>):
    %q1 = block.load %gq [[], []] : tensor<1x{d}xf16> -> !block.tile<1x{d}xf16>
    %qt = block.reshape %q1 : (!block.tile<1x{d}xf16>) -> !block.tile<1x{d}x1xf16>
    %q2 = block.reshape %qt : (!block.tile<1x{d}x1xf16>) -> !block.tile<{d}x1xf16>
    %o, %l = block.loop [n = 4] {{
      %kn = block.load %gk [[], [n]] : tensor<{d}x{t}xf16> -> !block.tile<{d}x{s}xf16>
      %kt = block.transpose %kn [1, 0] : (!block.tile<{d}x{s}xf16>) -> !block.tile<{s}x{d}xf16>
      %a = block.matmul %kt, %q2
          : (!block.tile<{s}x{d}xf16>, !block.tile<{d}x1xf16>) -> !block.tile<{s}x1xf32>
      %r = block.reduce max %a dims [0] : (!block.tile<{s}x1xf32>) -> !block.tile<1x1xf32>
      %m = block.running_max %r : !block.tile<1x1xf32>
      %b = block.binary sub %a, %m
          : (!block.tile<{s}x1xf32>, !block.tile<1x1xf32>) -> !block.tile<{s}x1xf32>
      %e = block.unary exp %b : (!block.tile<{s}x1xf32>) -> !block.tile<{s}x1xf32>
      %vn = block.load %gv [[n], []] : tensor<{t}x{e}xf16> -> !block.tile<{s}x{e}xf16>
      %p = block.binary mul %e, %vn
          : (!block.tile<{s}x1xf32>, !block.tile<{s}x{e}xf16>) -> !block.tile<{s}x{e}xf32>
      %z = block.reduce sum %e dims [0] : (!block.tile<{s}x1xf32>) -> !block.tile<1x1xf32>
      block.accumulate sum %p rescale %m, sum %z rescale %m
          : !block.tile<{s}x{e}xf32>, !block.tile<1x1xf32>
          rescale : !block.tile<1x1xf32>, !block.tile<1x1xf32>
    }} : !block.tile<{s}x{e}xf32>, !block.tile<1x1xf32>
    %w = block.reduce sum %o dims [0] : (!block.tile<{s}x{e}xf32>) -> !block.tile<1x{e}xf32>
    %i = block.unary reciprocal %l : (!block.tile<1x1xf32>) -> !block.tile<1x1xf32>
    %x = block.binary mul %w, %i
        : (!block.tile<1x{e}xf32>, !block.tile<1x1xf32>) -> !block.tile<1x{e}xf32>
    block.store %x [[], []] : !block.tile<1x{e}xf32>
  }}
  kernel.return %y : tensor<1x{e}xf32>
}}"""


@pytest.mark.parametrize("warps", some_of([1, 4, 8], every=2))
@pytest.mark.parametrize(("d", "s", "e"), [(64, 64, 64), (16, 16, 8)])
def test_running_maximum_of_one_number(d: int, s: int, e: int, warps: int) -> None:
    def expected(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> tuple[np.ndarray, ...]:
        scores = q @ k
        weights = np.exp(scores - scores.max())
        return (weights @ v / weights.sum(),)

    text = DECODE.format(d=d, s=s, e=e, t=4 * s, warps=warps)
    check_artifact(compile_mlir(text), expected, tolerance=5e-3)
