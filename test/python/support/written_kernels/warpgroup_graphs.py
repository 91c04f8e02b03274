"""Matrix products over rings and warpgroups, as text of µGraphs with a schedule that is set by
hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

SCALE = 0.5


@dataclass(frozen=True)
class Product:
    """``a @ b`` (m x k times k x n) in tiles; ``swapped_a``: the tensor is k x m, ``swapped_b``: n
    x k. ``epilogue``: a bias, a silu and a scale after the loop; ``residual``: a tensor like the
    result is added to it. ``batch``: leading dimension of all tensors, one block each. ``dtype_b``:
    the type of b if it is a different 8-bit type. ``resident``: the largest number of blocks, each
    of which has several tiles. ``cluster``: blocks that copy tiles for each other. ``tf32``:
    factors of f32 are rounded to TF32.
    """

    m: int
    n: int
    k: int
    tile: tuple[int, int, int] = (64, 64, 64)
    warps: int = 4
    stages: int = 3
    dtype: str = "f16"
    out: str = "f16"
    swapped_a: bool = False
    swapped_b: bool = False
    epilogue: bool = False
    residual: bool = False
    batch: int = 0
    engine: str = "warpgroup"
    resident: int = 0
    dtype_b: str = ""
    cluster: int = 1
    tf32: bool = False

    def text(self) -> str:
        """The module."""
        tm, tn, tk = self.tile
        grid = [("m", ceil(self.m / tm)), ("n", ceil(self.n / tn))]
        if self.batch:
            grid.insert(0, ("h", self.batch))
        names = ", ".join(f"{a} = {e}" for a, e in grid)
        a, ta, ma = self._operand(
            self.swapped_a, (self.m, self.k), (tm, tk), ("m", "k"), self.dtype
        )
        kind = self.dtype_b or self.dtype
        b, tb, mb = self._operand(self.swapped_b, (self.k, self.n), (tk, tn), ("k", "n"), kind)
        out, to, mo = self._tensor((self.m, self.n), (tm, tn), ("m", "n"), self.out)
        bias, tbias, mbias = f"tensor<1x{self.n}xf32>", f"!block.tile<1x{tn}xf32>", "[[], [n]]"
        others = [("c", bias)] if self.epilogue else []
        others += [("d", out)] if self.residual else []
        extra = "".join(f", %{name}: {t}" for name, t in others)
        given = ", ".join(["%a", "%b", *(f"%{name}" for name, _ in others)])
        types = ", ".join([a, b, *(t for _, t in others)])
        inner = "".join(f", %g{name}: {t}" for name, t in others)
        lead = "1x" if self.batch else ""
        acc = f"!block.tile<{lead}{tm}x{tn}xf32>"
        after, stored = [], "%s"
        if self.epilogue:
            after = [
                f"%v = block.load %gc {mbias} : {bias} -> {tbias}",
                f"%w = block.binary add %s, %v : ({acc}, {tbias}) -> {acc}",
                f"%u = block.unary silu %w : ({acc}) -> {acc}",
                f"%f = block.constant {SCALE:e} : !block.tile<f32>",
                f"%z = block.binary mul %u, %f : ({acc}, !block.tile<f32>) -> {acc}",
            ]
            stored = "%z"
        if self.residual:
            wide = acc if self.out == "f32" else f"{to}"
            after += [
                f"%d0 = block.load %gd {mo} : {out} -> {to}",
                f"%d1 = block.binary add %d0, {stored} : ({wide}, {acc}) -> {acc}",
            ]
            stored = "%d1"
        if self.out != "f32":
            cast = acc.replace("f32", self.out)
            after.append(f"%o = block.cast {stored} : ({acc}) -> {cast}")
            stored, acc_out = "%o", cast
        else:
            acc_out = acc
        x, xt = self._turned("%x", ta, self.swapped_a)
        y, yt = self._turned("%y", tb, self.swapped_b)
        tf32 = " tf32" if self.tf32 else ""
        body = [
            f"%x = block.load %ga {ma} : {a} -> {ta}",
            f"%y = block.load %gb {mb} : {b} -> {tb}",
            *x[1],
            *y[1],
            f"%p = block.matmul {x[0]}, {y[0]}{tf32} : ({xt}, {yt}) -> {acc}",
            f"block.accumulate sum %p : {acc}",
        ]
        resident = f", resident = {self.resident}" if self.resident else ""
        cluster = f", cluster = {self.cluster}" if self.cluster > 1 else ""
        lines = [
            f"kernel.graph @mm(%a: {a}, %b: {b}{extra}) -> {out} "
            "attributes {form = #kernel.form<selected>} {",
            f"%r = kernel.launch({given}) grid [{names}] schedule <warps = {self.warps}, stages = "
            f"{self.stages}, engine = {self.engine}{resident}{cluster}> : ({types}) -> {out} {{",
            f"^bb0(%ga: {a}, %gb: {b}{inner}):",
            f"%s = block.loop [k = {ceil(self.k / tk)}] {{",
            *body,
            f"}} : {acc}",
            *after,
            f"block.store {stored} {mo} : {acc_out}",
            "}",
            f"kernel.return %r : {out}",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _tensor(
        self, shape: tuple[int, int], tile: tuple[int, int], axes: tuple[str, str], dtype: str
    ) -> tuple[str, str, str]:
        """Types of a tensor and its tile, and the map."""
        sizes, parts = [*map(str, shape)], [*map(str, tile)]
        maps = [f"[{a}]" for a in axes]
        if self.batch:
            sizes, parts, maps = [str(self.batch), *sizes], ["1", *parts], ["[h]", *maps]
        tensor = f"tensor<{'x'.join(sizes)}x{dtype}>"
        held = "f16" if dtype.startswith("f8") else dtype
        return tensor, f"!block.tile<{'x'.join(parts)}x{held}>", f"[{', '.join(maps)}]"

    def _operand(
        self,
        swapped: bool,
        shape: tuple[int, int],
        tile: tuple[int, int],
        axes: tuple[str, str],
        dtype: str,
    ) -> tuple[str, str, str]:
        if swapped:
            shape, tile = (shape[1], shape[0]), (tile[1], tile[0])
            axes = (axes[1], axes[0])
        return self._tensor(shape, tile, axes, dtype)

    def _turned(self, name: str, tile: str, swapped: bool) -> tuple[tuple[str, list[str]], str]:
        """The factor's name and ops that make it, and its type."""
        if not swapped:
            return (name, []), tile
        sizes = tile.removeprefix("!block.tile<").removesuffix(">").split("x")
        turned = "!block.tile<" + "x".join([*sizes[:-3], sizes[-2], sizes[-3], sizes[-1]]) + ">"
        order = "[0, 2, 1]" if self.batch else "[1, 0]"
        line = f"{name}t = block.transpose {name} {order} : ({tile}) -> {turned}"
        return (f"{name}t", [line]), turned
