"""Rows by index that a loop multiplies element by element: copied ahead of the steps that read them,
executed with all checks."""

from __future__ import annotations

import pytest
from lowering import check_mlir, compile_mlir
from thorough import some_of


def weighed(rows: int, width: int, tile: int, *, dtype: str = "bf16", stages: int = 3) -> str:
    """``sum of gates[e] * (x[e] @ w[owner[e], part].T)`` over the steps ``e``, added to ``y``;
    ``w`` are the second halves of the rows of a table."""
    table, part = f"tensor<5x{2 * rows}x{width}x{dtype}>", f"tensor<5x{rows}x{width}x{dtype}>"
    x, y = f"tensor<6x{width}x{dtype}>", f"tensor<{rows}x{dtype}>"
    held, wide = f"!block.tile<1x{tile}x{width}x{dtype}>", f"!block.tile<1x{tile}x{width}xf32>"
    sums = f"!block.tile<1x{tile}x1xf32>"
    types = f"({x}, {y}, {part}, tensor<6xi64>, tensor<6xf32>) -> {y}"
    return f"""
kernel.graph @weighed(%x: {x}, %y: {y}, %w: {table}, %owner: tensor<6xi64>, %gates: tensor<6xf32>)
    -> {y} attributes {{form = #kernel.form<selected>}} {{
  %p = kernel.slice %w [0, {rows}, 0] : ({table}) -> {part}
  %r = kernel.launch(%x, %y, %p, %owner, %gates) grid [n = {-(-rows // tile)}]
      schedule <warps = 4, stages = {stages}> : {types} {{
  ^bb0(%gx: {x}, %gy: {y}, %gw: {part}, %go: tensor<6xi64>, %gg: tensor<6xf32>):
    %s = block.loop [e = 6] {{
      %a = block.load %gx [[e], []] : {x} -> !block.tile<1x{width}x{dtype}>
      %b = block.reshape %a : (!block.tile<1x{width}x{dtype}>) -> !block.tile<1x1x{width}x{dtype}>
      %c = block.gather %gw, %go [[e], [n], []] from_end : {part}, tensor<6xi64> -> {held}
      %d = block.binary mul %b, %c : (!block.tile<1x1x{width}x{dtype}>, {held}) -> {wide}
      %f = block.reduce sum %d dims [2] : ({wide}) -> {sums}
      %g = block.load %gg [[e]] : tensor<6xf32> -> !block.tile<1xf32>
      %h = block.reshape %g : (!block.tile<1xf32>) -> !block.tile<1x1x1xf32>
      %i = block.binary mul %f, %h : ({sums}, !block.tile<1x1x1xf32>) -> {sums}
      block.accumulate sum %i : {sums}
    }} : {sums}
    %t = block.reshape %s : ({sums}) -> !block.tile<{tile}xf32>
    %u = block.load %gy [[n]] : {y} -> !block.tile<{tile}x{dtype}>
    %v = block.binary add %u, %t : (!block.tile<{tile}x{dtype}>, !block.tile<{tile}xf32>) -> !block.tile<{tile}xf32>
    block.store %v [[n]] : !block.tile<{tile}xf32>
  }}
  kernel.return %r : {y}
}}
"""


@pytest.mark.parametrize("stages", [1, 2, 4, 8])
def test_rows_are_copied_ahead(stages: int) -> None:
    """With slots for one step, rows are loaded into registers."""
    text = weighed(32, 128, 16, stages=stages)
    check_mlir(text)
    assert ("cp.async.cg" in compile_mlir(text).ptx()) == (stages > 1)


@pytest.mark.parametrize(
    ("rows", "width", "tile"),
    some_of([(40, 128, 16), (24, 88, 8), (16, 1408, 16), (8, 520, 4)], every=3),
)
@pytest.mark.parametrize("dtype", ["f16", "f32"])
def test_sizes(rows: int, width: int, tile: int, dtype: str) -> None:
    check_mlir(weighed(rows, width, tile, dtype=dtype))


def test_what_is_added_is_there_when_the_loop_ends() -> None:
    """The row that sums are added to is loaded before the loop."""
    ptx = compile_mlir(weighed(32, 512, 16)).ptx()
    last = [at for at in range(len(ptx)) if ptx.startswith("ld.global", at)][-1]
    assert last < ptx.rindex("bra")
