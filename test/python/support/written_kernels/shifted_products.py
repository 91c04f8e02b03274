"""Products with a factor whose rows start at any element, for boxes that are shifted, as written
kernels."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ShiftedProduct:
    """``a b`` of ``groups`` times ``classes`` rows of ``a`` in tiles of (rows, columns, depth); or,
    ``turned``, the transpose of ``b^T a^T``, with ``b`` as the left factor."""

    groups: int
    classes: int
    columns: int
    depth: int
    tile: tuple[int, int, int] = (64, 64, 64)
    schedule: str = "warps = 4, stages = 3"
    dtype: str = "f16"
    turned: bool = False

    def _tensor(self, *shape: int) -> str:
        return f"tensor<{'x'.join(map(str, shape))}x{self.dtype}>"

    def _tile(self, *shape: int, dtype: str = "") -> str:
        return f"!block.tile<{'x'.join(map(str, shape))}x{dtype or self.dtype}>"

    @property
    def text(self) -> str:
        """The kernel's graph."""
        rows, columns, depth = self.tile
        a = self._tensor(self.groups, self.classes, self.depth)
        b = self._tensor(self.depth, self.columns)
        parts = -(-self.groups // rows), -(-self.columns // columns), -(-self.depth // depth)
        loaded, left = self._tile(rows, 1, depth), self._tile(rows, depth)
        right = self._tile(depth, columns)
        if self.turned:
            c, stored, cuts = (
                self._tensor(self.columns, self.groups, self.classes),
                self._tile(columns, rows, 1, dtype="f32"),
                "[[n], [g], [j]]",
            )
            turned = self._tile(columns, depth), self._tile(depth, rows)
            sums = self._tile(columns, rows, dtype="f32")
            product = f"""
      %yt = block.transpose %y [1, 0] : ({right}) -> {turned[0]}
      %xt = block.transpose %x [1, 0] : ({left}) -> {turned[1]}
      %p = block.matmul %yt, %xt : ({turned[0]}, {turned[1]}) -> {sums}"""
        else:
            c, stored, cuts = (
                self._tensor(self.groups, self.classes, self.columns),
                self._tile(rows, 1, columns, dtype="f32"),
                "[[g], [j], [n]]",
            )
            sums = self._tile(rows, columns, dtype="f32")
            product = f"""
      %p = block.matmul %x, %y : ({left}, {right}) -> {sums}"""
        grid = f"g = {parts[0]}, j = {self.classes}, n = {parts[1]}"
        schedule = f"{self.schedule}, engine = warpgroup"
        return f"""
kernel.graph @shifted(%a: {a}, %b: {b}) -> {c} attributes {{form = #kernel.form<selected>}} {{
  %c = kernel.launch(%a, %b) grid [{grid}] schedule <{schedule}> : ({a}, {b}) -> {c} {{
  ^bb0(%ga: {a}, %gb: {b}):
    %s = block.loop [k = {parts[2]}] {{
      %r = block.load %ga [[g], [j], [k]] : {a} -> {loaded}
      %x = block.reshape %r : ({loaded}) -> {left}
      %y = block.load %gb [[k], [n]] : {b} -> {right}{product}
      block.accumulate sum %p : {sums}
    }} : {sums}
    %o = block.reshape %s : ({sums}) -> {stored}
    block.store %o {cuts} : {stored}
  }}
  kernel.return %c : {c}
}}
"""
