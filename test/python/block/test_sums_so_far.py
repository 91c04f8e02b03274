"""Running sums, maxima and products, as separate ops and in kernels."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import compile_mlir
from mirage.emulator.run_artifact import check_artifact
from thorough import some_of

KERNEL = """
kernel.graph @kernel(%x: tensor<{n}x{m}x{t}>) -> tensor<{n}x{m}xf32> {{
  %y = kernel.launch(%x) grid [r = {parts}] schedule <warps = {warps}, stages = 1>
      : (tensor<{n}x{m}x{t}>) -> tensor<{n}x{m}xf32> {{
  ^bb0(%gx: tensor<{n}x{m}x{t}>):
    %a = block.load %gx [[r], []] : tensor<{n}x{m}x{t}> -> !block.tile<{rows}x{m}x{t}>
    %c = block.cumulate sum %a dim 1
        : (!block.tile<{rows}x{m}x{t}>) -> !block.tile<{rows}x{m}xf32>
    %d = block.cumulate max exclusive %c dim 1
        : (!block.tile<{rows}x{m}xf32>) -> !block.tile<{rows}x{m}xf32>
    %e = block.unary relu %d : (!block.tile<{rows}x{m}xf32>) -> !block.tile<{rows}x{m}xf32>
    %f = block.binary add %e, %a
        : (!block.tile<{rows}x{m}xf32>, !block.tile<{rows}x{m}x{t}>) -> !block.tile<{rows}x{m}xf32>
    block.store %f [[r], []] : !block.tile<{rows}x{m}xf32>
  }}
  kernel.return %y : tensor<{n}x{m}xf32>
}}"""


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("n", "m", "rows", "warps", "dtype"),
    [(5, 37, 2, 2, "f16"), (3, 700, 1, 4, "f32"), (4, 16, 2, 8, "bf16")],
)
def test_two_in_one_kernel(n: int, m: int, rows: int, warps: int, dtype: str, chip: str) -> None:
    def expected(x: np.ndarray) -> np.ndarray:
        c = np.cumsum(x, 1)
        most = np.maximum.accumulate(c, 1)
        before = np.concatenate((np.full((n, 1), -np.inf), most[:, :-1]), 1)
        return np.maximum(before, 0) + x

    parts = -(-n // rows)
    text = KERNEL.format(n=n, m=m, t=dtype, rows=rows, parts=parts, warps=warps)
    check_artifact(compile_mlir(text, chip=chip), expected, tolerance=1e-3)


@pytest.mark.parametrize("fn", some_of(["sum reversed", "max", "prod", "prod reversed"], every=3))
@pytest.mark.parametrize(
    ("shape", "dim"), [((2, 3, 5), 0), ((3, 40, 2), 1), ((3, 1030), 1), ((9,), 0)]
)
def test_ops_of_their_own(shape: tuple[int, ...], dim: int, fn: str) -> None:
    x = "x".join(map(str, shape)) + "xf32"
    text = f"""
    kernel.graph @cumulate(%x: tensor<{x}>) -> tensor<{x}> {{
      %y = kernel.cumulate {fn} %x dim {dim} : (tensor<{x}>) -> tensor<{x}>
      kernel.return %y : tensor<{x}>
    }}"""

    def expected(v: np.ndarray) -> np.ndarray:
        if fn == "max":
            return np.maximum.accumulate(v, axis=dim)
        if fn == "prod":
            return np.cumprod(v, dim)
        so_far = np.cumprod if fn.startswith("prod") else np.cumsum
        return np.flip(so_far(np.flip(v, dim), dim), dim)

    check_artifact(compile_mlir(text), expected, tolerance=1e-5)


@pytest.mark.parametrize(
    "fn", some_of(["prod", "prod exclusive", "prod reversed", "prod exclusive reversed"], every=3)
)
@pytest.mark.parametrize(("warps", "m"), [(1, 37), (4, 700), (8, 3)])
def test_products_of_factors_near_one(m: int, warps: int, fn: str) -> None:
    """Rows that tiles do not divide: elements beyond their ends have no effect."""
    text = f"""
    kernel.graph @kernel(%x: tensor<3x{m}xf32>) -> tensor<3x{m}xf32> {{
      %y = kernel.launch(%x) grid [r = 2] schedule <warps = {warps}, stages = 1>
          : (tensor<3x{m}xf32>) -> tensor<3x{m}xf32> {{
      ^bb0(%gx: tensor<3x{m}xf32>):
        %a = block.load %gx [[r], []] : tensor<3x{m}xf32> -> !block.tile<2x{m}xf32>
        %b = block.unary tanh %a : (!block.tile<2x{m}xf32>) -> !block.tile<2x{m}xf32>
        %c = block.unary exp %b : (!block.tile<2x{m}xf32>) -> !block.tile<2x{m}xf32>
        %d = block.cumulate {fn} %c dim 1 : (!block.tile<2x{m}xf32>) -> !block.tile<2x{m}xf32>
        block.store %d [[r], []] : !block.tile<2x{m}xf32>
      }}
      kernel.return %y : tensor<3x{m}xf32>
    }}"""

    def expected(x: np.ndarray) -> np.ndarray:
        x = np.exp(np.tanh(x))
        x = np.flip(x, 1) if "reversed" in fn else x
        y = np.cumprod(x, 1)
        y = np.concatenate((np.ones((3, 1)), y[:, :-1]), 1) if "exclusive" in fn else y
        return np.flip(y, 1) if "reversed" in fn else y

    check_artifact(compile_mlir(text), expected, tolerance=1e-4)
