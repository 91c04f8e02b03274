"""Whole rows that start at any element, in registers: their columns are in an order in which
threads access them in vectors."""

from __future__ import annotations

import re

import pytest
from faults.noticed import Original
from lowering import check_mlir, compile_mlir
from thorough import some_of


def softmax(rows: int, columns: int, block: int, warps: int, dtype: str = "f16") -> str:
    """Softmax of ``block`` rows per block."""
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
    """The places where single elements of 2 bytes are loaded and stored."""
    return len(re.findall(r"(?:ld|st)\.global(?:\.nc)?\.b16", ptx))


def vectors(ptx: str) -> int:
    return len(re.findall(r"(?:ld|st)\.global(?:\.nc)?\.v4\.b32", ptx))


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("rows", "columns", "block", "warps", "dtype"),
    some_of(
        [
            (9, 1023, 2, 2, "f16"),
            (17, 257, 4, 4, "f16"),
            (8, 509, 8, 2, "bf16"),
            (5, 1021, 1, 4, "f32"),
            (4, 2047, 1, 8, "f16"),
            (3, 1022, 2, 2, "f16"),
        ],
        every=3,
    ),
)
def test_softmax(chip: str, rows: int, columns: int, block: int, warps: int, dtype: str) -> None:
    """Rows at all offsets within a vector or at words, rows that do not exist, and rows that
    several warps share."""
    text = softmax(rows, columns, block, warps, dtype)
    assert vectors(compile_mlir(text, chip).ptx()) >= 2
    check_mlir(text, chip=chip)


def test_few_elements_are_accessed_alone() -> None:
    """32 columns per thread: of the last eight, seven exist."""
    ptx = compile_mlir(softmax(8, 1023, 2, 2)).ptx()
    assert (vectors(ptx), elements(ptx)) == (8, 14)


@pytest.mark.parametrize(("columns", "block", "warps"), [(1, 4, 2), (13, 4, 4), (1025, 1, 2)])
def test_rows_without_vectors(columns: int, block: int, warps: int) -> None:
    """Too few columns for a vector wherever the row starts, or for vectors in each thread."""
    text = softmax(5, columns, block, warps)
    assert vectors(compile_mlir(text).ptx()) == 0
    check_mlir(text)


def product(shape: str, place: str) -> str:
    """Two rows a block of 8x511, times a tile of another tensor of ``shape``."""
    rows = shape.split("x")[0] if shape[0] == "1" else "2"
    tensor, other = "tensor<8x511xf16>", f"tensor<{shape}xf16>"
    tile, second = "!block.tile<2x511xf16>", f"!block.tile<{rows}x511xf16>"
    wide, extended = "!block.tile<2x511xf32>", f"!block.tile<{rows}x511xf32>"
    return f"""
kernel.graph @rows(%a: {tensor}, %b: {other}) -> {tensor}
    attributes {{form = #kernel.form<selected>}} {{
  %y = kernel.launch(%a, %b) grid [m = 4] schedule <warps = 2, stages = 1>
      : ({tensor}, {other}) -> {tensor} {{
  ^bb0(%g: {tensor}, %h: {other}):
    %x = block.load %g [[m], []] : {tensor} -> {tile}
    %v = block.load %h {place} : {other} -> {second}
    %c = block.cast %x : ({tile}) -> {wide}
    %d = block.cast %v : ({second}) -> {extended}
    %p = block.binary mul %c, %d : ({wide}, {extended}) -> {wide}
    block.store %p [[m], []] : {wide}
  }}
  kernel.return %y : {tensor}
}}
"""


@pytest.mark.parametrize(
    ("shape", "place", "ordered"),
    [
        ("8x511", "[[m], []]", True),
        ("1x511", "[[], []]", False),  # the same row for all rows, which start elsewhere
        ("2x511", "[[], []]", False),  # other rows, of the same strides
    ],
)
def test_tiles_that_start_alike(shape: str, place: str, ordered: bool) -> None:
    """The elements that are multiplied belong to the same column."""
    text = product(shape, place)
    assert (vectors(compile_mlir(text).ptx()) > 0) == ordered
    check_mlir(text)


def test_wrong_places_are_noticed() -> None:
    """An address without the start of the row, or without the number of elements before a
    vector."""
    original = Original(compile_mlir(softmax(9, 511, 1, 1)))
    start = r"(neg\.s32[^;]*;\s*and\.b32 \s*%r\d+, %r\d+), 14;"
    for pattern, replacement in (
        (start, r"\1, 6;"),
        (start, r"\1, 0;"),
        (r"setp\.gt\.u32 (\s*%p\d+, %r\d+), 4;", r"setp.gt.u32 \1, 6;"),
    ):
        broken, places = re.subn(pattern, replacement, original.ptx)
        assert places, pattern
        assert original.notices(broken), (pattern, replacement)
