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


def read_twice(columns: int) -> str:
    """A row less its maximum, which a loop finds first."""
    given, tile = f"tensor<1x{columns}xf16>", f"!block.tile<1x{columns}xf16>"
    step, wide = "!block.tile<1x16384xf16>", "!block.tile<1x16384xf32>"
    row, one = f"!block.tile<1x{columns}xf32>", "!block.tile<1x1xf32>"
    return f"""
kernel.graph @rows(%x: {given}) -> {given} attributes {{form = #kernel.form<selected>}} {{
  %r = kernel.launch(%x) grid [b = 1] schedule <warps = 16, stages = 3> : ({given}) -> {given} {{
  ^bb0(%a: {given}):
    %m = block.loop [n = 8] {{
      %t = block.load %a [[b], [n]] : {given} -> {step}
      %w = block.cast %t : ({step}) -> {wide}
      %k = block.mask %w dim 1 [n] extent {columns} fill -inf : {wide}
      %c = block.reduce max %k dims [1] : ({wide}) -> {one}
      block.accumulate max %c : {one}
    }} : {one}
    %t = block.load %a [[b], []] : {given} -> {tile}
    %y = block.binary sub %t, %m : ({tile}, {one}) -> {row}
    block.store %y [[b], []] : {row}
  }}
  kernel.return %r : {given}
}}
"""


def scaled(warps: int, dtype: str) -> str:
    """A row times its gains and the mean of its squares."""
    whole, gains = f"tensor<1x{COLUMNS}x{dtype}>", f"tensor<{COLUMNS}x{dtype}>"
    tile, row = f"!block.tile<1x{COLUMNS}x{dtype}>", f"!block.tile<1x{COLUMNS}xf32>"
    one, scale = "!block.tile<1x1xf32>", "!block.tile<f32>"
    return f"""
kernel.graph @rows(%x: {whole}, %g: {gains}) -> {whole} attributes {{form = #kernel.form<selected>}} {{
  %r = kernel.launch(%x, %g) grid [b = 1] schedule <warps = {warps}, stages = 1>
      : ({whole}, {gains}) -> {whole} {{
  ^bb0(%a: {whole}, %b: {gains}):
    %t = block.load %a [[b], []] : {whole} -> {tile}
    %q = block.unary square %t : ({tile}) -> {row}
    %s = block.reduce sum %q dims [1] : ({row}) -> {one}
    %c = block.constant 1.52587890625e-05 : {scale}
    %m = block.binary mul %s, %c : ({one}, {scale}) -> {one}
    %h = block.load %b [[]] : {gains} -> !block.tile<{COLUMNS}x{dtype}>
    %p = block.binary mul %t, %h : ({tile}, !block.tile<{COLUMNS}x{dtype}>) -> {row}
    %y = block.binary mul %p, %m : ({row}, {one}) -> {row}
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


@pytest.mark.parametrize("dtype", ["f16", thorough("bf16")])
@pytest.mark.parametrize("warps", [16, thorough(32)])
def test_gains_are_loaded_behind_the_last_barrier(warps: int, dtype: str) -> None:
    """Some of them behind the first store: all together would take as many registers as the row."""
    text = scaled(warps, dtype)
    accesses = [line.split()[0] for line in compile_mlir(text).ptx().splitlines() if line.strip()]
    first = next(i for i, access in enumerate(accesses) if access.startswith("st.global"))
    behind = sum(access.startswith("ld.global") for access in accesses[first:])
    assert 4 * behind >= max(4, COLUMNS // 2 // (32 * warps) - 36)  # at most 32 words come before
    check_mlir(text)


@pytest.mark.parametrize("columns", [thorough(128256), thorough(131072)])
def test_rows_are_loaded_element_by_element_behind_a_loop(columns: int) -> None:
    """A thread has 256 elements, and no registers for all of them. The last ones of 128,256 lie
    beyond the end."""
    text = read_twice(columns)
    accesses = [line.split()[0] for line in compile_mlir(text).ptx().splitlines() if line.strip()]
    first = next(i for i, access in enumerate(accesses) if access.startswith("st.global"))
    assert sum(access.startswith("ld.global") for access in accesses[first:]) > 16
    check_mlir(text)


def test_rows_of_f32_are_not_computed_again() -> None:
    assert hidden(normalized(32, dtype="f32")) == 0


def hidden(text: str) -> int:
    """Return how many words are hidden from compilers, by inline assembly without instructions."""
    lines = [line.strip() for line in compile_mlir(text).ptx().splitlines()]
    empty = "// begin inline asm", "// end inline asm"
    return sum(pair == empty for pair in pairwise(lines))
