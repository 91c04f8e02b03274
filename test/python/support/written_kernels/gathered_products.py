"""Matrix products of rows by index with the matrices of experts, as text of µGraphs with a schedule
that is set by hand.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil


@dataclass(frozen=True)
class GatheredProduct:
    """``x[rows[b]] @ w[owner[b]]`` for each block of rows: ``block`` rows of ``tokens`` x k with
    one of ``experts`` matrices k x n (``swapped``: stored as n x k). ``gate``: two such products,
    the silu of the first times the second. ``by_row``: the left factor's rows are looked up;
    otherwise it is an input in blocks. ``by_expert``: the right factor is looked up; otherwise it
    is one matrix. ``from_end``: negative indices count from the end. ``resident``: the largest
    number of blocks, each of which has several tiles.
    """

    blocks: int = 4
    block: int = 64
    n: int = 64
    k: int = 128
    tile: tuple[int, int, int] = (64, 64, 64)
    tokens: int = 9
    experts: int = 3
    warps: int = 4
    stages: int = 2
    dtype: str = "f16"
    index: str = "i64"
    swapped: bool = False
    gate: bool = False
    by_row: bool = True
    by_expert: bool = True
    from_end: bool = False
    resident: int = 0
    cluster: int = 1
    engine: str = "warpgroup"

    @property
    def names(self) -> tuple[str, ...]:
        """The inputs, in order."""
        return tuple(name for name, *_ in self._inputs())

    def _inputs(self) -> list[tuple[str, str]]:
        weight = (self.n, self.k) if self.swapped else (self.k, self.n)
        of_all = (self.experts, *weight) if self.by_expert else weight
        x = (self.tokens, self.k) if self.by_row else (self.blocks, self.block, self.k)
        found = [("x", self._tensor(x)), ("w", self._tensor(of_all))]
        if self.gate:
            found.append(("v", self._tensor(of_all)))
        if self.by_row:
            found.append(("rows", f"tensor<{self.blocks}x{self.block}x{self.index}>"))
        if self.by_expert:
            found.append(("owner", f"tensor<{self.blocks}x{self.index}>"))
        return found

    def _tensor(self, shape: tuple[int, ...]) -> str:
        return f"tensor<{'x'.join(map(str, shape))}x{self.dtype}>"

    def text(self) -> str:
        """The module."""
        tm, tn, tk = self.tile
        kinds = dict(self._inputs())
        grid = [("b", self.blocks), ("m", ceil(self.block / tm)), ("n", ceil(self.n / tn))]
        given = ", ".join(f"%{name}" for name in kinds)
        types = ", ".join(kinds.values())
        out = self._tensor((self.blocks, self.block, self.n))
        sums = f"!block.tile<1x{tm}x{tn}xf32>"
        stored = sums.replace("f32", self.dtype)
        left = f"!block.tile<1x{tm}x{tk}x{self.dtype}>"
        if self.by_row:
            body = [self._gather("a", "x", "rows", "[[b], [m], [k]]", left)]
        else:
            body = [f"%a = block.load %gx [[b], [m], [k]] : {kinds['x']} -> {left}"]
        weights = ["w", "v"] if self.gate else ["w"]
        for name in weights:
            body += self._weight(name, kinds[name], (tn, tk))
            right = f"!block.tile<{'1x' if self.by_expert else ''}{tk}x{tn}x{self.dtype}>"
            body.append(f"%p{name} = block.matmul %a, %{name}1 : ({left}, {right}) -> {sums}")
        summed = ", ".join(f"sum %p{name}" for name in weights)
        results = ", ".join([sums] * len(weights))
        body.append(f"block.accumulate {summed} : {results}")
        after, last = [], "%s"
        if self.gate:
            after = [
                f"%h = block.unary silu %s#0 : ({sums}) -> {sums}",
                f"%z = block.binary mul %h, %s#1 : ({sums}, {sums}) -> {sums}",
            ]
            last = "%z"
        extra = f", resident = {self.resident}" if self.resident else ""
        extra += f", cluster = {self.cluster}" if self.cluster > 1 else ""
        lines = [
            f"kernel.graph @grouped({', '.join(f'%{n}: {t}' for n, t in kinds.items())}) -> {out} "
            "attributes {form = #kernel.form<selected>} {",
            f"%r = kernel.launch({given}) grid [{', '.join(f'{a} = {e}' for a, e in grid)}] "
            f"schedule <warps = {self.warps}, stages = {self.stages}, engine = {self.engine}{extra}"
            f"> : ({types}) -> {out} {{",
            f"^bb0({', '.join(f'%g{n}: {t}' for n, t in kinds.items())}):",
            f"%s{':2' if self.gate else ''} = block.loop [k = {ceil(self.k / tk)}] {{",
            *body,
            f"}} : {results}",
            *after,
            f"%o = block.cast {last} : ({sums}) -> {stored}",
            f"block.store %o [[b], [m], [n]] : {stored}",
            "}",
            f"kernel.return %r : {out}",
            "}",
        ]
        return "\n".join(lines) + "\n"

    def _gather(self, name: str, table: str, indices: str, axes: str, tile: str) -> str:
        kinds = dict(self._inputs())
        return (
            f"%{name} = block.gather %g{table}, %g{indices} {axes}"
            f"{' from_end' if self.from_end else ''} : {kinds[table]}, "
            f"{kinds[indices]} -> {tile}"
        )

    def _weight(self, name: str, tensor: str, tile: tuple[int, int]) -> list[str]:
        """The right factor, with as many dimensions as the left one."""
        tn, tk = tile
        shape, axes = ((tn, tk), "[n], [k]") if self.swapped else ((tk, tn), "[k], [n]")
        lead, own = ("1x", "[b], ") if self.by_expert else ("", "")
        held = f"!block.tile<{lead}{'x'.join(map(str, shape))}x{self.dtype}>"
        if self.by_expert:
            lines = [self._gather(f"{name}0", name, "owner", f"[{own}{axes}]", held)]
        else:
            lines = [f"%{name}0 = block.load %g{name} [{axes}] : {tensor} -> {held}"]
        right = f"!block.tile<{lead}{tk}x{tn}x{self.dtype}>"
        if self.swapped:
            order = "[0, 2, 1]" if self.by_expert else "[1, 0]"
            lines.append(f"%{name}1 = block.transpose %{name}0 {order} : ({held}) -> {right}")
        else:
            lines = [lines[0].replace(f"%{name}0 =", f"%{name}1 =")]
        return lines
