"""Products of tensors whose rows start at odd elements, as written kernels."""

from __future__ import annotations


def product(m: int, n: int, k: int, tile: tuple[int, int, int], dtype: str, stages: int) -> str:
    """``a b`` in tiles of (rows, columns, depth)."""
    tm, tn, tk = tile
    a, b, c = (f"tensor<{x}x{y}x{dtype}>" for x, y in ((m, k), (k, n), (m, n)))
    grid = f"m = {-(-m // tm)}, n = {-(-n // tn)}"
    ta, tb = f"!block.tile<{tm}x{tk}x{dtype}>", f"!block.tile<{tk}x{tn}x{dtype}>"
    acc = f"!block.tile<{tm}x{tn}xf32>"
    schedule = f"warps = 4, stages = {stages}"
    return f"""
kernel.graph @odd(%a: {a}, %b: {b}) -> {c} attributes {{form = #kernel.form<selected>}} {{
  %c = kernel.launch(%a, %b) grid [{grid}] schedule <{schedule}> : ({a}, {b}) -> {c} {{
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


def linear(
    m: int,
    n: int,
    k: int,
    tile: tuple[int, int, int],
    dtype: str,
    schedule: str = "warps = 4, stages = 3",
    attributes: str = "",
) -> str:
    """``a b^T`` in tiles of (rows, columns, depth): both are contracted along their rows."""
    tm, tn, tk = tile
    a, b, c = (f"tensor<{x}x{y}x{dtype}>" for x, y in ((m, k), (n, k), (m, n)))
    grid = f"m = {-(-m // tm)}, n = {-(-n // tn)}"
    ta, tb, tt = (f"!block.tile<{x}x{y}x{dtype}>" for x, y in ((tm, tk), (tn, tk), (tk, tn)))
    acc = f"!block.tile<{tm}x{tn}xf32>"
    return f"""
kernel.graph @odd(%a: {a}, %b: {b}) -> {c}
    attributes {{form = #kernel.form<selected>{attributes}}} {{
  %c = kernel.launch(%a, %b) grid [{grid}] schedule <{schedule}> : ({a}, {b}) -> {c} {{
  ^bb0(%ga: {a}, %gb: {b}):
    %s = block.loop [k = {-(-k // tk)}] {{
      %x = block.load %ga [[m], [k]] : {a} -> {ta}
      %w = block.load %gb [[n], [k]] : {b} -> {tb}
      %y = block.transpose %w [1, 0] : ({tb}) -> {tt}
      %p = block.matmul %x, %y : ({ta}, {tt}) -> {acc}
      block.accumulate sum %p : {acc}
    }} : {acc}
    block.store %s [[m], [n]] : {acc}
  }}
  kernel.return %c : {c}
}}
"""
