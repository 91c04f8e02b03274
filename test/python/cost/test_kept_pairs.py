"""Tests of the registers of rows that stay pairs of 16-bit elements between reductions."""

from __future__ import annotations

import pytest
from mirage.cost.registers import Registers, registers_of
from mirage.mlir_io import graph_from_text
from mirage.semantics.ugraph import launches


def norm(columns: int, kind: str = "f16", warps: int = 16, running: bool = False) -> Registers:
    """Return the registers of rows times the sum of their squares and a gain; if asked for, plus
    the running sums of squares."""
    given, row, gain = f"tensor<64x{columns}x{kind}>", f"1x{columns}x", f"{columns}x{kind}"
    tile, wide, one = f"!block.tile<{row}{kind}>", f"!block.tile<{row}f32>", "!block.tile<1x1xf32>"
    added = f"""%c = block.cumulate sum %q dim 1 : ({wide}) -> {wide}
        %r = block.binary add %y, %c : ({wide}, {wide}) -> {wide}"""
    text = f"""kernel.graph @norm(%x: {given}, %g: tensor<{gain}>) -> {given} {{
      %0 = kernel.launch(%x, %g) grid [m = 64] schedule <warps = {warps}, stages = 1>
          : ({given}, tensor<{gain}>) -> {given} {{
      ^bb0(%a: {given}, %b: tensor<{gain}>):
        %t = block.load %a [[m], []] : {given} -> {tile}
        %q = block.unary square %t : ({tile}) -> {wide}
        %s = block.reduce sum %q dims [1] : ({wide}) -> {one}
        %h = block.load %b [[]] : tensor<{gain}> -> !block.tile<{gain}>
        %p = block.binary mul %t, %h : ({tile}, !block.tile<{gain}>) -> {wide}
        %y = block.binary mul %p, %s : ({wide}, {one}) -> {wide}
        {added if running else ""}
        block.store {"%r" if running else "%y"} [[m], []] : {wide}
      }}
      kernel.return %0 : {given}
    }}"""
    (launch,) = launches(graph_from_text(text).graph.ops)
    return registers_of(launch)


@pytest.mark.parametrize("warps", [16, 32])
def test_rows_of_65536_elements_fit_as_pairs(warps: int) -> None:
    """As f32 they do not: 128 squares of a thread of 16 warps, and the pairs for what comes after
    the sum, were 184 registers of 128. ptxas takes 102 of 16 warps, without spills."""
    assert not norm(65536, warps=warps).spills


@pytest.mark.parametrize(("columns", "kind"), [(131072, "f16"), (65536, "f32")])
def test_longer_rows_do_not_fit(columns: int, kind: str) -> None:
    assert norm(columns, kind).spills


def test_what_is_not_computed_from_pairs_element_by_element_is_kept() -> None:
    assert norm(65536, running=True).spills
