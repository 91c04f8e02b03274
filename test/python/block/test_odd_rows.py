"""Products of tensors whose rows start at any element, executed with all checks."""

from __future__ import annotations

import re

import pytest
from faults.noticed import Original
from lowering import check_mlir, compile_mlir


def product(m: int, n: int, k: int, tile: tuple[int, int, int], dtype: str, stages: int) -> str:
    """``a b`` in tiles of (rows, columns, depth)."""
    tm, tn, tk = tile
    a, b, c = (f"tensor<{x}x{y}x{dtype}>" for x, y in ((m, k), (k, n), (m, n)))
    grid = f"m = {-(-m // tm)}, n = {-(-n // tn)}"
    ta, tb = f"!block.tile<{tm}x{tk}x{dtype}>", f"!block.tile<{tk}x{tn}x{dtype}>"
    acc = f"!block.tile<{tm}x{tn}xf32>"
    return f"""
kernel.graph @odd(%a: {a}, %b: {b}) -> {c} attributes {{form = #kernel.form<selected>}} {{
  %c = kernel.launch(%a, %b) grid [{grid}] schedule <warps = 4, stages = {stages}> : ({a}, {b}) -> {c} {{
  ^bb0(%ga: {a}, %gb: {b}):
    %s = block.loop [k = {-(-k // tk)}] {{
      %x = block.load %ga [[m], [k]] : {a} -> {ta}
      %y = block.load %gb [[k], [n]] : {b} -> {tb}
      %p = block.matmul %x, %y : ({ta}, {tb}) -> {acc}
      block.accumulate sum %p : {acc}
    }} : {acc}
    block.store %s [[m], [n]] : {acc}
  }}
  kernel.return %c : {c}
}}
"""


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    ("m", "n", "k"),
    [(35, 37, 41), (33, 35, 64), (32, 33, 64), (33, 41, 65), (32, 131, 35), (64, 63, 127)],
)
@pytest.mark.parametrize("stages", [1, 3])
def test_products(chip: str, m: int, n: int, k: int, stages: int) -> None:
    """An odd number of elements in all, or an even one; rows that end in a tile, or with one."""
    text = product(m, n, k, (32, 32, 32), "f16" if stages == 1 else "bf16", stages)
    ptx = compile_mlir(text, chip).ptx()
    assert re.search(r"prmt\.b32\.f4e|shf\.r", ptx)
    check_mlir(text, chip=chip)


@pytest.mark.parametrize("tile", [(16, 64, 16), (32, 8, 64), (64, 128, 16)])
def test_tiles(tile: tuple[int, int, int]) -> None:
    check_mlir(product(65, 133, 67, tile, "f16", 2))


@pytest.mark.parametrize("tile", [(16, 24, 48), (16, 40, 80), (32, 72, 144)])
@pytest.mark.parametrize("stages", [1, 2])
def test_rows_of_which_threads_have_no_whole_number(
    tile: tuple[int, int, int], stages: int
) -> None:
    """Rows of 3, 5, 6, 9, 10 and 18 pieces: they are shifted as others are, element by element is
    the last one of all only."""
    text = product(65, 133, 149, tile, "f16", stages)
    ptx = compile_mlir(text).ptx()
    assert re.search(r"prmt\.b32\.f4e|shf\.r", ptx)
    assert len(re.findall(r"ld\.global(?:\.nc)?\.b16", ptx)) < len(
        re.findall(r"b32\.f4e|shf\.r", ptx)
    )
    check_mlir(text)


def test_wrong_words_are_noticed() -> None:
    """Shifts that are left out; the last element of all that is not copied."""
    original = Original(compile_mlir(product(35, 37, 41, (32, 32, 32), "f16", 2)))
    ptx = original.ptx
    for pattern, replacement in (
        (r"prmt\.b32\.f4e (\s*%r\d+, %r\d+, %r\d+), %r\d+;", r"prmt.b32.f4e \1, 0;"),
        (r"ld\.global(?:\.nc)?\.b16 (\s*%rs\d+), (\[[^]]+\]);", r"mov.b16 \1, 0;"),
    ):
        found = list(re.finditer(pattern, ptx))
        assert found, pattern
        broken = re.sub(pattern, replacement, ptx)
        assert original.notices(broken), pattern
