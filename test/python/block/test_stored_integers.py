"""Kernels that write whole numbers and truth values, in every type and past the end of tiles."""

from __future__ import annotations

import pytest
from lowering import check_mlir
from thorough import some_of

KINDS = ("i1", "i8", "i16", "i32", "i64")


def counted(kind: str, rows: int, cols: int) -> str:
    """Twice the position of each column of ``x`` that is at most that of another tensor, minus 3;
    truth values for the comparison itself."""
    x, y = f"tensor<{rows}x{cols}xi64>", f"tensor<{rows}x{cols}x{kind}>"
    tile = "!block.tile<16x32xf32>"
    line = "!block.tile<32xf32>"
    number = f"""
      %p = block.iota dim 0 [n] extent {cols} : {line}
      %k = block.binary keep %c, %p : ({tile}, {line}) -> {tile}
      %v = block.binary add %k, %k : ({tile}, {tile}) -> {tile}
      %three = block.constant 3.0 : !block.tile<f32>
      %r = block.binary sub %v, %three : ({tile}, !block.tile<f32>) -> {tile}"""
    result = "%c" if kind == "i1" else "%r"
    return f"""
kernel.graph @counted(%x: {x}, %t: {x}) -> {y} attributes {{form = #kernel.form<selected>}} {{
  %y = kernel.launch(%x, %t) grid [m = {-(-rows // 16)}, n = {-(-cols // 32)}]
      schedule <warps = 4, stages = 1> : ({x}, {x}) -> {y} {{
  ^bb0(%gx: {x}, %gt: {x}):
    %a = block.load %gx [[m], [n]] : {x} -> {tile}
    %b = block.load %gt [[m], [n]] : {x} -> {tile}
    %c = block.binary le %a, %b : ({tile}, {tile}) -> {tile}{number if kind != "i1" else ""}
    block.store {result} [[m], [n]] : {tile}
  }}
  kernel.return %y : {y}
}}
"""


@pytest.mark.parametrize("kind", some_of(KINDS, every=3))
@pytest.mark.parametrize(("rows", "cols"), [(16, 32), (17, 45), (5, 60)])
def test_results_are_written_as_they_are(kind: str, rows: int, cols: int) -> None:
    check_mlir(counted(kind, rows, cols))
