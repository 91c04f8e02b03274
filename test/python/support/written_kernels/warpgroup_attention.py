"""Attention over rings and warpgroups, as text of µGraphs with a schedule that is set by hand."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

LOWEST = -1.0e30


@dataclass(frozen=True)
class Attention:
    """``softmax(scale q k^T + bias) v`` with q, k, v of (heads, rows or keys, dim).

    ``tile``: rows and keys of a block's step. ``turned``: k is (heads, dim, keys). ``bias``: an
    additive tensor (rows, keys). ``gains``: factors of the scores of each key, with a separate
    type. ``columns``: those of v, if they differ from ``dim``. ``held``: q is multiplied by the
    scale before the loop, so that it comes from registers. ``seen``: each row attends to the key of
    its own position and to earlier ones, this many in all (0: every row attends to all keys);
    ``cached``: the rows of a head attend to the keys up to a position, an integer for each head
    that is the last input. ``steps``: the loop's attribute on the steps that it takes. ``cluster``:
    blocks that copy keys and values for each other.
    """

    rows: int
    keys: int
    dim: int = 64
    tile: tuple[int, int] = (64, 64)
    heads: int = 1
    warps: int = 4
    stages: int = 2
    dtype: str = "f16"
    out: str = ""
    turned: bool = False
    bias: bool = False
    gains: str = ""
    columns: int = 0
    held: bool = False
    engine: str = "warpgroup"
    scale: float = 0.125
    seen: int = 0
    cached: bool = False
    steps: str = ""
    cluster: int = 1

    def text(self) -> str:
        """The module."""
        tm, tn = self.tile
        d, e, h, t = self.dim, self.columns or self.dim, self.heads, self.dtype
        out = self.out or t
        q, k = f"tensor<{h}x{self.rows}x{d}x{t}>", f"tensor<{h}x{self.keys}x{d}x{t}>"
        v, o = f"tensor<{h}x{self.keys}x{e}x{t}>", f"tensor<{h}x{self.rows}x{e}x{out}>"
        if self.turned:
            k = f"tensor<{h}x{d}x{self.keys}x{t}>"
        bias = f"tensor<{self.rows}x{self.keys}x{t}>"
        extra = [("c", bias)] if self.bias else []
        gains = f"tensor<{h}x1x{self.keys}x{self.gains}>"
        if self.gains:
            extra.append(("e", gains))
        if self.cached:
            extra.append(("n", f"tensor<{h}xi64>"))
        inputs = [("q", q), ("k", k), ("v", v), *extra]
        named = ", ".join(f"%{n}: {x}" for n, x in inputs)
        given, types = ", ".join(f"%{n}" for n, _ in inputs), ", ".join(x for _, x in inputs)
        inner = ", ".join(f"%g{n}: {x}" for n, x in inputs)

        def tile(*shape: int, of: str = "f32") -> str:
            return f"!block.tile<{'x'.join(map(str, (1, *shape)))}x{of}>"

        s, r, acc = tile(tm, tn), tile(tm, 1), tile(tm, e)
        scalar = "!block.tile<f32>"
        tq, tk, tv = tile(tm, d, of=t), tile(d, tn, of=t), tile(tn, e, of=t)
        before = [
            f"%f = block.constant {self.scale:e} : {scalar}",
            f"%x = block.load %gq [[h], [m], []] : {q} -> {tq}",
            f"%row = block.iota dim 0 [m] extent {self.rows} : !block.tile<{tm}x1xf32>",
        ]
        if self.cached:
            before.append(f"%last = block.load %gn [[h]] : tensor<{h}xi64> -> !block.tile<1xf32>")
        factor = "%x"
        if self.held:
            f32 = tile(tm, d)
            before += [
                f"%xf = block.cast %x : ({tq}) -> {f32}",
                f"%xs = block.binary mul %xf, %f : ({f32}, {scalar}) -> {f32}",
                f"%xh = block.cast %xs : ({f32}) -> {tq}",
            ]
            factor = "%xh"
        if self.turned:
            load = [f"%y = block.load %gk [[h], [], [n]] : {k} -> {tk}"]
        else:
            tkt = tile(tn, d, of=t)
            load = [
                f"%yt = block.load %gk [[h], [n], []] : {k} -> {tkt}",
                f"%y = block.transpose %yt [0, 2, 1] : ({tkt}) -> {tk}",
            ]
        body = [
            *load,
            f"%s0 = block.matmul {factor}, %y : ({tq}, {tk}) -> {s}",
        ]
        scores = "%s0"
        if not self.held:
            body.append(f"%s1 = block.binary mul %s0, %f : ({s}, {scalar}) -> {s}")
            scores = "%s1"
        if self.bias:
            tb, whole = f"!block.tile<{tm}x{tn}x{t}>", f"!block.tile<{tm}x{tn}xf32>"
            body += [
                f"%b0 = block.load %gc [[m], [n]] : {bias} -> {tb}",
                f"%b1 = block.cast %b0 : ({tb}) -> {whole}",
                f"%s2 = block.binary add {scores}, %b1 : ({s}, {whole}) -> {s}",
            ]
            scores = "%s2"
        if self.gains:
            te, row = tile(1, tn, of=self.gains), tile(1, tn)
            body += [
                f"%e0 = block.load %ge [[h], [], [n]] : {gains} -> {te}",
                f"%s5 = block.binary mul {scores}, %e0 : ({s}, {row}) -> {s}",
            ]
            if self.gains != "f32":
                body.insert(-1, f"%e1 = block.cast %e0 : ({te}) -> {row}")
                body[-1] = body[-1].replace("%e0", "%e1")
            scores = "%s5"
        if self.seen or self.cached:
            body += self._cached(scores, s) if self.cached else self._mask(scores, s)
            scores = "%s4"
        if self.keys % tn:
            body.append(f"%s3 = block.mask {scores} dim 2 [n] extent {self.keys} fill -inf : {s}")
            scores = "%s3"
        body += [
            f"%r = block.reduce max {scores} dims [2] : ({s}) -> {r}",
            f"%w = block.constant {LOWEST:e} : {scalar}",
            f"%rw = block.binary max %r, %w : ({r}, {scalar}) -> {r}",
            f"%m = block.running_max %rw : {r}",
            f"%z = block.binary sub {scores}, %m : ({s}, {r}) -> {s}",
            f"%p = block.unary exp %z : ({s}) -> {s}",
            f"%l = block.reduce sum %p dims [2] : ({s}) -> {r}",
            f"%ph = block.cast %p : ({s}) -> {tile(tm, tn, of=t)}",
            f"%vt = block.load %gv [[h], [n], []] : {v} -> {tv}",
            f"%o = block.matmul %ph, %vt : ({tile(tm, tn, of=t)}, {tv}) -> {acc}",
            f"block.accumulate sum %o rescale %m, sum %l rescale %m : {acc}, {r} "
            f"rescale : {r}, {r}",
        ]
        after = [
            f"%i = block.unary reciprocal %a#1 : ({r}) -> {r}",
            f"%u = block.binary mul %a#0, %i : ({acc}, {r}) -> {acc}",
        ]
        stored = "%u"
        if out != "f32":
            after.append(f"%uh = block.cast %u : ({acc}) -> {tile(tm, e, of=out)}")
            stored = "%uh"
        cluster = f", cluster = {self.cluster}" if self.cluster > 1 else ""
        lines = [
            f"kernel.graph @attention({named}) -> {o} "
            "attributes {form = #kernel.form<selected>} {",
            f"%res = kernel.launch({given}) grid [h = {h}, m = {ceil(self.rows / tm)}] schedule "
            f"<warps = {self.warps}, stages = {self.stages}, engine = {self.engine}{cluster}> "
            f": ({types}) -> {o} {{",
            f"^bb0({inner}):",
            *before,
            f"%a:2 = block.loop [n = {ceil(self.keys / tn)}] {self.steps} {{",
            *body,
            f"}} : {acc}, {r}",
            *after,
            f"block.store {stored} [[h], [m], []] : {tile(tm, e, of=out)}",
            "}",
            f"kernel.return %res : {o}",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _cached(self, scores: str, s: str) -> list[str]:
        """Minus infinity added beyond the position that the head reads."""
        col = f"!block.tile<1x{self.tile[1]}xf32>"
        return [
            f"%col = block.iota dim 1 [n] extent {self.keys} : {col}",
            f"%sees = block.binary le %col, %last : ({col}, !block.tile<1xf32>) -> {col}",
            f"%cb = block.unary bias %sees : ({col}) -> {col}",
            f"%s4 = block.binary add {scores}, %cb : ({s}, {col}) -> {s}",
        ]

    def _mask(self, scores: str, s: str) -> list[str]:
        """Minus infinity added where a key is masked."""
        tm, tn = self.tile
        row, col = f"!block.tile<{tm}x1xf32>", f"!block.tile<1x{tn}xf32>"
        both, scalar = f"!block.tile<{tm}x{tn}xf32>", "!block.tile<f32>"
        return [
            f"%col = block.iota dim 1 [n] extent {self.keys} : {col}",
            f"%le = block.binary le %col, %row : ({col}, {row}) -> {both}",
            f"%far = block.binary sub %row, %col : ({row}, {col}) -> {both}",
            f"%most = block.constant {self.seen:e} : {scalar}",
            f"%lt = block.binary lt %far, %most : ({both}, {scalar}) -> {both}",
            f"%both = block.binary and %le, %lt : ({both}, {both}) -> {both}",
            f"%bias = block.unary bias %both : ({both}) -> {both}",
            f"%s4 = block.binary add {scores}, %bias : ({s}, {both}) -> {s}",
        ]
