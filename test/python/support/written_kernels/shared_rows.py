"""Launches whose rows the blocks of a cluster share, as text."""

from __future__ import annotations

from dataclasses import dataclass

_ROW = "!block.tile<{rows}x1xf32>"


@dataclass(frozen=True)
class SharedRows:
    """``rows`` rows of ``n`` elements, of which a block of ``warps`` warps has ``height`` at a time
    and ``cluster`` blocks share the columns. With ``steps``, totals are computed in a loop over as
    many parts of a row, which is then read again."""

    n: int = 512
    rows: int = 6
    height: int = 1
    cluster: int = 4
    warps: int = 2
    steps: int = 0
    dtype: str = "f16"

    def softmax(self) -> str:
        """Maximum, and sum of the exponentials."""
        if not self.steps:
            return self._graph(
                f"""{self._load("%x", "[]", self.n)}
    %m = block.reduce max %x dims [1] : ({self._tile()}) -> {self._one}
    %d = block.binary sub %x, %m : ({self._tile()}, {self._one}) -> {self._tile("f32")}
    %e = block.unary exp %d : ({self._tile("f32")}) -> {self._tile("f32")}
    %l = block.reduce sum %e dims [1] : ({self._tile("f32")}) -> {self._one}
    %r = block.unary reciprocal %l : ({self._one}) -> {self._one}
    %o = block.binary mul %e, %r : ({self._tile("f32")}, {self._one}) -> {self._tile("f32")}"""
            )
        part = -(-self.n // self.steps)
        piece, wide = self._tile(size=part), self._tile("f32", part)
        covered = part * self.steps
        masked = f"\n      %g = block.mask %f dim 1 [k] extent {self.n} fill -inf : {wide}"
        return self._graph(
            f"""    %m, %l = block.loop [k = {self.steps}] {{
  {self._load("%a", "[k]", part)}
      %f = block.cast %a : ({piece}) -> {wide}{masked if covered > self.n else ""}
      %b = block.reduce max %{"g" if covered > self.n else "f"} dims [1] : ({wide}) -> {self._one}
      %u = block.running_max %b : {self._one}
      %c = block.binary sub %{"g" if covered > self.n else "f"}, %u : ({wide}, {self._one}) -> {wide}
      %e = block.unary exp %c : ({wide}) -> {wide}
      %s = block.reduce sum %e dims [1] : ({wide}) -> {self._one}
      block.accumulate last %u, sum %s rescale %u : {self._one}, {self._one} rescale : {self._one}
    }} : {self._one}, {self._one}
{self._load("%x", "[]", covered)}
    %d = block.binary sub %x, %m : ({self._tile(size=covered)}, {self._one}) -> {self._tile("f32", covered)}
    %q = block.unary exp %d : ({self._tile("f32", covered)}) -> {self._tile("f32", covered)}
    %r = block.unary reciprocal %l : ({self._one}) -> {self._one}
    %o = block.binary mul %q, %r : ({self._tile("f32", covered)}, {self._one}) -> {self._tile("f32", covered)}""",
            covered,
        )

    def layer_norm(self) -> str:
        """Mean, and then the sum of squares about it."""
        whole, wide = self._tile(), self._tile("f32")
        return self._graph(
            f"""{self._load("%x", "[]", self.n)}
    %n = block.constant {1 / self.n!r} : !block.tile<f32>
    %s = block.reduce sum %x dims [1] : ({whole}) -> {self._one}
    %mean = block.binary mul %s, %n : ({self._one}, !block.tile<f32>) -> {self._one}
    %d = block.binary sub %x, %mean : ({whole}, {self._one}) -> {wide}
    %q = block.unary square %d : ({wide}) -> {wide}
    %t = block.reduce sum %q dims [1] : ({wide}) -> {self._one}
    %v = block.binary mul %t, %n : ({self._one}, !block.tile<f32>) -> {self._one}
    %e = block.constant 1.0e-03 : !block.tile<f32>
    %w = block.binary add %v, %e : ({self._one}, !block.tile<f32>) -> {self._one}
    %r = block.unary rsqrt %w : ({self._one}) -> {self._one}
    %o = block.binary mul %d, %r : ({wide}, {self._one}) -> {wide}"""
        )

    def moments(self) -> str:
        """Two sums that need no other ones: blocks exchange them at once."""
        whole, wide = self._tile(), self._tile("f32")
        return self._graph(
            f"""{self._load("%x", "[]", self.n)}
    %s = block.reduce sum %x dims [1] : ({whole}) -> {self._one}
    %d = block.binary sub %x, %s : ({whole}, {self._one}) -> {wide}
    %q = block.unary square %x : ({whole}) -> {wide}
    %t = block.reduce sum %q dims [1] : ({wide}) -> {self._one}
    %o = block.binary mul %d, %t : ({wide}, {self._one}) -> {wide}"""
        )

    @property
    def _one(self) -> str:
        return _ROW.format(rows=self.height)

    def _tile(self, dtype: str = "", size: int = 0) -> str:
        return f"!block.tile<{self.height}x{size or self.n}x{dtype or self.dtype}>"

    def _tensor(self, dtype: str) -> str:
        return f"tensor<{self.rows}x{self.n}x{dtype}>"

    def _load(self, name: str, axes: str, size: int) -> str:
        return (
            f"    {name} = block.load %gx [[m], {axes}] : {self._tensor(self.dtype)} -> "
            f"{self._tile(size=size)}"
        )

    def _graph(self, body: str, covered: int = 0) -> str:
        x, y = self._tensor(self.dtype), self._tensor("f32")
        together = f", cluster = {self.cluster}" if self.cluster > 1 else ""
        return f"""
kernel.graph @rows(%in: {x}) -> {y} attributes {{form = #kernel.form<selected>}} {{
  %z = kernel.launch(%in) grid [m = {-(-self.rows // self.height)}] schedule <warps = {self.warps}, stages = 1{together}> : ({x}) -> {y} {{
  ^bb0(%gx: {x}):
{body}
    block.store %o [[m], []] : {self._tile("f32", covered)}
  }}
  kernel.return %z : {y}
}}
"""
