"""Whole rows that start at any element, in registers: their columns are in an order in which
threads access them in vectors."""

from __future__ import annotations

import re

import pytest
from faults.noticed import Original
from lowering import check_mlir, compile_mlir


def softmax(rows: int, columns: int, block: int, warps: int, dtype: str = "f16") -> str:
    """Softmax of ``block`` rows a block."""
    tensor = f"tensor<{rows}x{columns}x{dtype}>"
    tile, wide, row = (
        f"!block.tile<{block}x{n}x{t}>" for n, t in ((columns, dtype), (columns, "f32"), (1, "f32"))
    )
    cast = f"block.cast %t : ({tile}) -> {wide}" if dtype != "f32" else ""
    x = "%x" if cast else "%t"
    return f"""
kernel.graph @softmax(%a: {tensor}) -> {tensor} attributes {{form = #kernel.form<selected>}} {{
  %y = kernel.launch(%a) grid [m = {-(-rows // block)}] schedule <warps = {warps}, stages = 1>
      : ({tensor}) -> {tensor} {{
  ^bb0(%g: {tensor}):
    %t = block.load %g [[m], []] : {tensor} -> {tile}
    {"%x = " + cast if cast else ""}
    %m = block.reduce max {x} dims [1] : ({wide}) -> {row}
    %d = block.binary sub {x}, %m : ({wide}, {row}) -> {wide}
    %e = block.unary exp %d : ({wide}) -> {wide}
    %s = block.reduce sum %e dims [1] : ({wide}) -> {row}
    %q = block.binary div %e, %s : ({wide}, {row}) -> {wide}
    block.store %q [[m], []] : {wide}
  }}
  kernel.return %y : {tensor}
}}
"""


def elements(ptx: str) -> int:
    """The single elements of 2 bytes that are loaded and stored."""
    return len(re.findall(r"(?:ld|st)\.global(?:\.nc)?\.b16", ptx))


def vectors(ptx: str) -> int:
    return len(re.findall(r"(?:ld|st)\.global(?:\.nc)?\.v4\.b32", ptx))


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("rows", "columns", "block", "warps", "dtype"),
    [
        (9, 1023, 2, 2, "f16"),
        (9, 1025, 1, 2, "bf16"),
        (17, 257, 4, 4, "f16"),
        (8, 509, 8, 2, "bf16"),
        (5, 1021, 1, 4, "f32"),
        (4, 2047, 1, 8, "f16"),
        (3, 1022, 2, 2, "f16"),  # rows start at words
    ],
)
def test_softmax(
    chip: str, rows: int, columns: int, block: int, warps: int, dtype: str
) -> None:
    """Rows at all places within a vector, rows that are not there, and rows of several warps."""
    text = softmax(rows, columns, block, warps, dtype)
    assert "ordered" in lowered(text)
    check_mlir(text, chip=chip)
