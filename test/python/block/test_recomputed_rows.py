"""Long rows whose 16-bit elements stay in registers: what is computed from them is computed again
behind a barrier. Executed with all checks."""

from __future__ import annotations

from itertools import pairwise

import pytest
from lowering import check_mlir, compile_mlir
from thorough import thorough

COLUMNS = 65536


def normalized(warps: int, *, squared: bool = False, dtype: str = "f16") -> str:
    """Two rows: a softmax, or each square less the row's maximum."""
    whole, row = f"tensor<2x{COLUMNS}x{dtype}>", f"!block.tile<1x{COLUMNS}xf32>"
    exponentials = f"""
    %d = block.binary sub %w, %m : ({row}, !block.tile<1x1xf32>) -> {row}
    %e = block.unary exp %d : ({row}) -> {row}
    %s = block.reduce sum %e dims [1] : ({row}) -> !block.tile<1x1xf32>
    %y = block.binary div %e, %s : ({row}, !block.tile<1x1xf32>) -> {row}"""
    squares = f"""
    %q = block.binary mul %w, %w : ({row}, {row}) -> {row}
    %y = block.binary sub %q, %m : ({row}, !block.tile<1x1xf32>) -> {row}"""
    return f"""
kernel.graph @rows(%x: {whole}) -> {whole} attributes {{form = #kernel.form<selected>}} {{
  %r = kernel.launch(%x) grid [b = 2] schedule <warps = {warps}, stages = 1>
      : ({whole}) -> {whole} {{
  ^bb0(%g: {whole}):
    %t = block.load %g [[b], []] : {whole} -> !block.tile<1x{COLUMNS}x{dtype}>
    %w = block.cast %t : (!block.tile<1x{COLUMNS}x{dtype}>) -> {row}
    %m = block.reduce max %w dims [1] : ({row}) -> !block.tile<1x1xf32>
    {squares if squared else exponentials}
    block.store %y [[b], []] : {row}
  }}
  kernel.return %r : {whole}
}}
"""


@pytest.mark.parametrize("warps", [16, thorough(32)])
@pytest.mark.parametrize("squared", [False, True])
def test_rows_are_held_in_16_bits(warps: int, squared: bool) -> None:
    text = normalized(warps, squared=squared)
    assert hidden(text) >= COLUMNS // 2 // (32 * warps)  # words of a thread
    check_mlir(text)


def test_rows_of_f32_are_not_computed_again() -> None:
    assert hidden(normalized(32, dtype="f32")) == 0


def hidden(text: str) -> int:
    """Return how many words are hidden from compilers, by inline assembly without instructions."""
    lines = [line.strip() for line in compile_mlir(text).ptx().splitlines()]
    empty = "// begin inline asm", "// end inline asm"
    return sum(pair == empty for pair in pairwise(lines))
