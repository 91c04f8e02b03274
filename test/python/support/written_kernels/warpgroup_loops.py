"""Loops of several products by warpgroups other than attention, as text of µGraphs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HiddenLoop:
    """``silu(x w1) w2`` with a loop over the hidden columns: x (m, k), w1 (k, hidden), w2 (hidden,
    n). ``gate``: times ``x w3``. ``also_sum``: the sum over the hidden columns of ``x w1`` too.
    ``resident``: the largest number of blocks, each of which has several tiles. ``cluster``: blocks
    that copy tiles for each other. ``changed``: of ``silu(x)``.
    """

    m: int = 64
    k: int = 64
    hidden: int = 192
    n: int = 64
    tile: tuple[int, int] = (64, 64)
    warps: int = 4
    stages: int = 2
    dtype: str = "f16"
    gate: bool = False
    also_sum: bool = False
    resident: int = 0
    cluster: int = 1
    changed: bool = False

    def text(self) -> str:
        """The module."""
        tm, th = self.tile
        t = self.dtype

        def tensor(*shape: int, of: str = t) -> str:
            return f"tensor<{'x'.join(map(str, shape))}x{of}>"

        def tile(*shape: int, of: str = "f32") -> str:
            return f"!block.tile<{'x'.join(map(str, shape))}x{of}>"

        x, w1, w2 = tensor(self.m, self.k), tensor(self.k, self.hidden), tensor(self.hidden, self.n)
        y, z = tensor(self.m, self.n), tensor(self.m, self.n, of="f32")
        inputs = [("x", x), ("u", w1), ("v", w2), *([("w", w1)] if self.gate else [])]
        named = ", ".join(f"%{n}: {s}" for n, s in inputs)
        given, types = ", ".join(f"%{n}" for n, _ in inputs), ", ".join(s for _, s in inputs)
        inner = ", ".join(f"%g{n}: {s}" for n, s in inputs)
        tx, tw1, tw2 = tile(tm, self.k, of=t), tile(self.k, th, of=t), tile(th, self.n, of=t)
        h, acc, row = tile(tm, th), tile(tm, self.n), tile(tm, 1)
        first, before = "%xt", []
        if self.changed:
            wide, first = tile(tm, self.k), "%xc"
            before = [
                f"%xs = block.unary silu %xt : ({tx}) -> {wide}",
                f"%xc = block.cast %xs : ({wide}) -> {tx}",
            ]
        body = [
            f"%a = block.load %gu [[], [j]] : {w1} -> {tw1}",
            f"%p = block.matmul {first}, %a : ({tx}, {tw1}) -> {h}",
            f"%s = block.unary silu %p : ({h}) -> {h}",
        ]
        made = "%s"
        if self.gate:
            body += [
                f"%b = block.load %gw [[], [j]] : {w1} -> {tw1}",
                f"%q = block.matmul {first}, %b : ({tx}, {tw1}) -> {h}",
                f"%sq = block.binary mul %s, %q : ({h}, {h}) -> {h}",
            ]
            made = "%sq"
        body += [
            f"%c = block.cast {made} : ({h}) -> {tile(tm, th, of=t)}",
            f"%d = block.load %gv [[j], []] : {w2} -> {tw2}",
            f"%o = block.matmul %c, %d : ({tile(tm, th, of=t)}, {tw2}) -> {acc}",
        ]
        sums, kinds = "sum %o", acc
        if self.also_sum:
            body.append(f"%r = block.reduce sum %p dims [1] : ({h}) -> {row}")
            sums, kinds = "sum %o, sum %r", f"{acc}, {row}"
        body.append(f"block.accumulate {sums} : {kinds}")
        results = z if self.also_sum else y
        name = "%e:2" if self.also_sum else "%e"
        after = (
            [f"%f = block.binary add %e#0, %e#1 : ({acc}, {row}) -> {acc}"]
            if self.also_sum
            else [f"%f = block.cast %e : ({acc}) -> {tile(tm, self.n, of=t)}"]
        )
        stored = acc if self.also_sum else tile(tm, self.n, of=t)
        resident = f", resident = {self.resident}" if self.resident else ""
        resident += f", cluster = {self.cluster}" if self.cluster > 1 else ""
        lines = [
            f"kernel.graph @hidden({named}) -> {results} "
            "attributes {form = #kernel.form<selected>} {",
            f"%res = kernel.launch({given}) grid [i = {-(-self.m // tm)}] schedule <warps = "
            f"{self.warps}, stages = {self.stages}, engine = warpgroup{resident}> : ({types}) -> "
            f"{results} {{",
            f"^bb0({inner}):",
            f"%xt = block.load %gx [[i], []] : {x} -> {tx}",
            *before,
            f"{name} = block.loop [j = {-(-self.hidden // th)}] {{",
            *body,
            f"}} : {kinds}",
            *after,
            f"block.store %f [[i], []] : {stored}",
            "}",
            f"kernel.return %res : {results}",
            "}",
        ]
        return "\n".join(lines) + "\n"


def computed_factor(steps: int = 3, stages: int = 2) -> str:
    """``silu(x) w`` with the silu inside the loop, whose only products have it as a factor."""
    k = 64 * steps
    x, w, y = f"tensor<64x{k}xf16>", f"tensor<{k}x64xf16>", "tensor<64x64xf32>"
    half, wide = "!block.tile<64x64xf16>", "!block.tile<64x64xf32>"
    return f"""kernel.graph @computed(%x: {x}, %w: {w}) -> {y}
attributes {{form = #kernel.form<selected>}} {{
  %r = kernel.launch(%x, %w) grid [] schedule <warps = 4, stages = {stages}, engine = warpgroup>
    : ({x}, {w}) -> {y} {{
  ^bb0(%gx: {x}, %gw: {w}):
    %s = block.loop [k = {steps}] {{
      %a = block.load %gx [[], [k]] : {x} -> {half}
      %u = block.unary silu %a : ({half}) -> {wide}
      %v = block.cast %u : ({wide}) -> {half}
      %b = block.load %gw [[k], []] : {w} -> {half}
      %p = block.matmul %v, %b : ({half}, {half}) -> {wide}
      block.accumulate sum %p : {wide}
    }} : {wide}
    block.store %s [[], []] : {wide}
  }}
  kernel.return %r : {y}
}}
"""
