"""Tests of the registers of loaded tiles that are needed again beside a computed tile."""

from __future__ import annotations

import pytest
from mirage.cost.registers import registers_of
from mirage.mlir_io import graph_from_text
from mirage.semantics.ugraph import Launch, launches


def sums(again: bool, warps: int) -> Launch:
    """Return a kernel that sums the exponentials of rows, and their differences from the maximum or
    the elements themselves: only the latter are needed again."""
    tile, wide, row = "!block.tile<16x512xf16>", "!block.tile<16x512xf32>", "!block.tile<16x1xf32>"
    second = "%e" if again else "%d"
    elements = f"%e = block.cast %t : ({tile}) -> {wide}" if again else ""
    given, added = "tensor<512x8192xf16>", "tensor<512x16xf32>"
    text = f"""kernel.graph @sums(%x: {given}) -> ({added}, {added}) {{
      %0:2 = kernel.launch(%x) grid [m = 32, n = 16] schedule <warps = {warps}, stages = 1>
          : ({given}) -> ({added}, {added}) {{
      ^bb0(%a: {given}):
        %t = block.load %a [[m], [n]] : {given} -> {tile}
        %c = block.cast %t : ({tile}) -> {wide}
        %m = block.reduce max %c dims [1] : ({wide}) -> {row}
        %d = block.binary sub %c, %m : ({wide}, {row}) -> {wide}
        %p = block.unary exp %d : ({wide}) -> {wide}
        %s = block.reduce sum %p dims [1] : ({wide}) -> {row}
        {elements}
        %z = block.reduce sum {second} dims [1] : ({wide}) -> {row}
        block.store %s [[m], [n]], %z [[m], [n]] : {row}, {row}
      }}
      kernel.return %0#0, %0#1 : {added}, {added}
    }}"""
    (launch,) = launches(graph_from_text(text).graph.ops)
    return launch


@pytest.mark.parametrize("warps", [2, 4])
def test_an_element_that_is_needed_again_is_held_beside_the_largest_tile(warps: int) -> None:
    """Cross-entropy by target looks for the target's logit among those whose exponentials it has
    added: 128 elements a thread take 202 registers, of which 120 were expected."""
    held = 16 * 512 / 2 / (32 * warps)  # two elements of 16 bits a register
    needed, alone = (registers_of(sums(again, warps)).wanted for again in (True, False))
    assert needed == pytest.approx(alone + held)
