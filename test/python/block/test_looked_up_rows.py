"""Rows by index that all warps copy, some steps ahead of the products that read them; indices are
read one step earlier. Executed with all checks."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache

import numpy as np
import pytest
from faults.noticed import Original
from faults.ptx_mutants import Kind
from lowering import compile_mlir
from mirage.emulator.run_artifact import check_artifact
from thorough import some_of

ROWS, WIDTH = 37, 64


@dataclass(frozen=True)
class LookedUp:
    """``x @ table[ids]`` for each of two lists of ids, in ``steps`` steps of ``tile`` rows."""

    keys: int = 128
    tile: int = 32
    warps: int = 2
    stages: int = 3
    index: str = "i64"
    tables: int = 1
    from_end: bool = False

    @property
    def steps(self) -> int:
        return -(-self.keys // self.tile)

    def text(self) -> str:
        x, t = f"tensor<2x16x{self.keys}xf16>", f"tensor<{ROWS}x{WIDTH}xf16>"
        i, y = f"tensor<2x{self.keys}x{self.index}>", f"tensor<2x16x{WIDTH}xf16>"
        a, b = f"!block.tile<1x16x{self.tile}xf16>", f"!block.tile<1x{self.tile}x{WIDTH}xf16>"
        s = f"!block.tile<1x16x{WIDTH}xf32>"
        tables = [f"t{n}" for n in range(self.tables)]
        body, sums, end = "", [], " from_end" if self.from_end else ""
        for name in tables:
            body += f"""
      %r{name} = block.gather %g{name}, %gi [[b], [k], []]{end} : {t}, {i} -> {b}
      %p{name} = block.matmul %a, %r{name} : ({a}, {b}) -> {s}"""
            sums.append(f"%p{name}")
        total = sums[0]
        if self.tables > 1:
            body += f"\n      %p = block.binary add {', '.join(sums)} : ({s}, {s}) -> {s}"
            total = "%p"
        args = ", ".join(f"%{n}: {t}" for n in tables)
        inner = ", ".join(f"%g{n}: {t}" for n in tables)
        given, types = ", ".join(f"%{n}" for n in tables), ", ".join([t] * self.tables)
        return f"""
kernel.graph @looked_up(%x: {x}, {args}, %ids: {i}) -> {y} {{
  %y = kernel.launch(%x, {given}, %ids) grid [b = 2] schedule <warps = {self.warps}, stages = {self.stages}> : ({x}, {types}, {i}) -> {y} {{
  ^bb0(%gx: {x}, {inner}, %gi: {i}):
    %s = block.loop [k = {self.steps}] {{
      %a = block.load %gx [[b], [], [k]] : {x} -> {a}{body}
      block.accumulate sum {total} : {s}
    }} : {s}
    block.store %s [[b], [], []] : {s}
  }}
  kernel.return %y : {y}
}}
"""


SMALL = LookedUp()


def check(kernel: LookedUp, missing: tuple[int, ...] = ()) -> str:
    """Compare with float64; the rows ``missing`` of the second list do not exist."""
    rng = np.random.default_rng(0)
    x = (rng.standard_normal((2, 16, kernel.keys)) / 4).astype(np.float16)
    tables = [
        (rng.standard_normal((ROWS, WIDTH)) / 4).astype(np.float16) for _ in range(kernel.tables)
    ]
    first = -ROWS if kernel.from_end else 0
    whole = "int32" if kernel.index == "i32" else int
    ids = rng.integers(first, ROWS, (2, kernel.keys)).astype(whole)
    ids[1, list(missing)] = np.resize([first - 1, ROWS], len(missing))

    def expected(x: np.ndarray, *rest: np.ndarray) -> tuple[np.ndarray]:
        *tables, ids = rest
        ids, y = ids.astype(int), 0.0
        for table in tables:
            outside = (ids < first) | (ids >= ROWS)
            found = table.astype(np.float64)[np.where(outside, 0, ids)]
            found[outside] = np.nan
            y = y + x.astype(np.float64) @ found
        return (y,)

    artifact = compile_mlir(kernel.text())
    check_artifact(artifact, expected, inputs=[x, *tables, ids], tolerance=2e-3)
    return artifact.ptx()


@pytest.mark.parametrize("missing", [(), (0,), (31,), (97,), (127,), (5, 6, 40, 126)])
def test_rows_that_do_not_exist(missing: tuple[int, ...]) -> None:
    check(SMALL, missing)


@pytest.mark.parametrize("index", ["i32", "i64"])
@pytest.mark.parametrize("stages", some_of([1, 2, 4], every=2))
def test_indices_and_stages(index: str, stages: int) -> None:
    check(replace(SMALL, index=index, stages=stages), (3,))


@pytest.mark.parametrize("index", ["i32", "i64"])
def test_indices_from_the_end(index: str) -> None:
    check(replace(SMALL, index=index, from_end=True), (3, 64))


@pytest.mark.parametrize(
    ("keys", "tile", "warps"),
    some_of(
        [(50, 16, 2), (90, 32, 1), (40, 32, 8), (100, 64, 1), (16, 16, 4), (72, 48, 4)], every=2
    ),
)
def test_sizes_that_do_not_divide(keys: int, tile: int, warps: int) -> None:
    """Pieces of some threads only, parts of tiles, and more indices than are read ahead."""
    check(LookedUp(keys, tile, warps), (keys - 1,))


def _loads(ptx: str) -> list[int]:
    """The numbers of indices that are read between two branches."""
    return [n for n in (p.count("ld.global") for p in ptx.split("bra")) if n]


def test_indices_are_requested_together() -> None:
    """Without a branch between them, and those of the next step after the copies of this one."""
    ptx = check(replace(SMALL, keys=640))
    assert set(_loads(ptx)) <= {4, 8}
    step = ptx[: ptx.index("mma.sync")].split("cp.async.commit_group")[-1]
    assert step.count("ld.global") == 4
    assert "bra" not in step


def test_tables_share_indices() -> None:
    one, two = check(SMALL), check(replace(SMALL, tables=2))
    assert one.count("ld.global") == two.count("ld.global")


@cache
def _original() -> Original:
    return Original(compile_mlir(LookedUp(keys=192, stages=3).text()))


@pytest.mark.parametrize("kind", ["barrier", "wait"])
def test_missing_synchronisation_is_noticed(kind: Kind) -> None:
    assert not _original().unnoticed(kind)
