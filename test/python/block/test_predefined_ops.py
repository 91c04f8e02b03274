"""Predefined tensor ops that no launch covers get one of their own."""

from __future__ import annotations

from math import erf

import numpy as np
import pytest
from lowering import compile_mlir
from mirage.emulator.run_artifact import check_artifact
from thorough import some_of

MIXED = """
kernel.graph @mixed(%a: tensor<3x17x40xf16>, %b: tensor<40x33xf16>, %g: tensor<33xf32>)
    -> (tensor<3x33x17xf16>, tensor<1x17x1xf16>, tensor<3x17x33xf32>, tensor<3x17x33xf32>, tensor<5x33xf32>) {
  %p = kernel.matmul %a, %b : (tensor<3x17x40xf16>, tensor<40x33xf16>) -> tensor<3x17x33xf16>
  %e = kernel.unary gelu %p : (tensor<3x17x33xf16>) -> tensor<3x17x33xf16>
  %t = kernel.transpose %e [0, 2, 1] : (tensor<3x17x33xf16>) -> tensor<3x33x17xf16>
  %r = kernel.reduce max %p dims [0, 2] : (tensor<3x17x33xf16>) -> tensor<1x17x1xf16>
  %c = kernel.constant 2.5 : tensor<f32>
  %h = kernel.cast %p : (tensor<3x17x33xf16>) -> tensor<3x17x33xf32>
  %m = kernel.binary mul %h, %g : (tensor<3x17x33xf32>, tensor<33xf32>) -> tensor<3x17x33xf32>
  %n = kernel.binary add %m, %c : (tensor<3x17x33xf32>, tensor<f32>) -> tensor<3x17x33xf32>
  %s = kernel.binary sub %c, %m : (tensor<f32>, tensor<3x17x33xf32>) -> tensor<3x17x33xf32>
  %bb = kernel.broadcast %g : (tensor<33xf32>) -> tensor<5x33xf32>
  kernel.return %t, %r, %n, %s, %bb : tensor<3x33x17xf16>, tensor<1x17x1xf16>, tensor<3x17x33xf32>, tensor<3x17x33xf32>, tensor<5x33xf32>
}
"""


def test_mixed() -> None:
    def expected(a: np.ndarray, b: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, ...]:
        p = a @ b
        gelu = np.vectorize(lambda x: 0.5 * x * (1 + erf(x / 2**0.5)))(p)
        maximum = p.max((0, 2), keepdims=True)
        return (
            gelu.transpose(0, 2, 1),
            maximum,
            p * g + 2.5,
            2.5 - p * g,
            np.broadcast_to(g, (5, 33)),
        )

    check_artifact(compile_mlir(MIXED), expected, tolerance=5e-3)


@pytest.mark.parametrize("fn", ["sum", "max"])
@pytest.mark.parametrize("dim", [0, 1, 2])
@pytest.mark.parametrize("shape", [(2, 3, 5), (1, 70, 2), (3, 1, 1030)])
def test_reductions(shape: tuple[int, ...], dim: int, fn: str) -> None:
    result = tuple(1 if d == dim else n for d, n in enumerate(shape))
    x, y = ("x".join(map(str, s)) + "xf32" for s in (shape, result))
    text = f"""
    kernel.graph @reduce(%x: tensor<{x}>) -> tensor<{y}> {{
      %y = kernel.reduce {fn} %x dims [{dim}] : (tensor<{x}>) -> tensor<{y}>
      kernel.return %y : tensor<{y}>
    }}"""
    reduce = np.sum if fn == "sum" else np.max
    check_artifact(compile_mlir(text), lambda v: reduce(v, axis=dim, keepdims=True))


@pytest.mark.parametrize(
    ("lhs", "rhs"),
    some_of(
        [
            ((5, 3), (3, 7)),
            ((2, 1, 65), (2, 65, 40)),
            ((2, 3, 4, 8), (3, 8, 4)),
            ((70, 129), (129, 66)),
        ],
        every=3,
    ),
)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_matmuls(lhs: tuple[int, ...], rhs: tuple[int, ...], dtype: str) -> None:
    result = np.matmul(np.zeros(lhs), np.zeros(rhs)).shape
    a, b, c = ("x".join(map(str, s)) + "x" + dtype for s in (lhs, rhs, result))
    text = f"""
    kernel.graph @matmul(%a: tensor<{a}>, %b: tensor<{b}>) -> tensor<{c}> {{
      %c = kernel.matmul %a, %b : (tensor<{a}>, tensor<{b}>) -> tensor<{c}>
      kernel.return %c : tensor<{c}>
    }}"""
    check_artifact(compile_mlir(text), np.matmul)


@pytest.mark.parametrize("permutation", [(0, 1, 2), (2, 1, 0), (1, 0, 2), (2, 0, 1)])
def test_transposes(permutation: tuple[int, ...]) -> None:
    shape = (3, 34, 70)
    result = tuple(shape[p] for p in permutation)
    x, y = ("x".join(map(str, s)) + "xbf16" for s in (shape, result))
    text = f"""
    kernel.graph @transpose(%x: tensor<{x}>) -> tensor<{y}> {{
      %y = kernel.transpose %x {list(permutation)} : (tensor<{x}>) -> tensor<{y}>
      kernel.return %y : tensor<{y}>
    }}"""
    check_artifact(compile_mlir(text), lambda v: v.transpose(permutation))
