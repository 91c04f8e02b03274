"""Builds kernels of thread ops as text, compiles them and runs their PTX in the emulator."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from mirage import ir
from mirage.compiler.collect import binaries
from mirage.emulator import Emulator, LaunchResult
from mirage.passmanager import PassManager

Array = np.ndarray[Any, Any]
Vector = tuple[int, int]

ROOT = Path(__file__).parents[4]


def mirage_opt() -> str:
    """Return the tool that MIRAGE_OPT names, otherwise that of the build folder, otherwise the one
    on PATH."""
    if chosen := os.environ.get("MIRAGE_OPT"):
        return chosen
    built = ROOT / "build" / "bin" / "mirage-opt"
    found = str(built) if built.exists() else shutil.which("mirage-opt")
    if found is None:
        raise FileNotFoundError("mirage-opt was not found; run 'make build'")
    return found


@dataclass(frozen=True)
class Layout:
    """A register layout; see LinearLayout.h."""

    reg: tuple[Vector, ...]
    lane: tuple[Vector, ...]
    warp: tuple[Vector, ...] = ()
    repeat: Vector = (1, 1)

    def __str__(self) -> str:
        def vectors(basis: tuple[Vector, ...]) -> str:
            return "[" + ", ".join(f"[{r}, {c}]" for r, c in basis) + "]"

        text = f"reg = {vectors(self.reg)}, lane = {vectors(self.lane)}"
        if self.warp:
            text += f", warp = {vectors(self.warp)}"
        return f"#thread.layout<{text}, repeat = [{self.repeat[0]}, {self.repeat[1]}]>"

    @property
    def shape(self) -> Vector:
        """Rows and columns."""
        every = (*self.reg, *self.lane, *self.warp)
        tile = [1 + sum(v[d] for v in every) for d in (0, 1)]
        return tile[0] * self.repeat[0], tile[1] * self.repeat[1]

    def fragment(self, dtype: str, partial: bool = False) -> str:
        """The fragment type."""
        rows, cols = self.shape
        return f"!thread.fragment<{rows}x{cols}x{dtype}, {self}{', partial' if partial else ''}>"

    def reduce(self, dim: int) -> Layout:
        """Of a reduction along `dim`."""

        def drop(v: Vector) -> Vector:
            return (0, v[1]) if dim == 0 else (v[0], 0)

        repeat = (1, self.repeat[1]) if dim == 0 else (self.repeat[0], 1)
        return Layout(
            tuple(drop(v) for v in self.reg if drop(v) != (0, 0)),
            tuple(map(drop, self.lane)),
            tuple(map(drop, self.warp)),
            repeat,
        )

    def transpose(self) -> Layout:
        """Return the layout with rows and columns exchanged."""

        def swap(basis: tuple[Vector, ...]) -> tuple[Vector, ...]:
            return tuple((c, r) for r, c in basis)

        return Layout(swap(self.reg), swap(self.lane), swap(self.warp), self.repeat[::-1])


def _dim(extent: int, instruction: int, warps: int) -> tuple[list[int], list[int], list[int], int]:
    """Bits of one dimension of a product: instruction, registers, warps; and the odd factor."""
    power = extent & -extent
    bits = [1 << i for i in range(power.bit_length() - 1)]
    own = power // warps
    return (
        [b for b in bits if b < instruction],
        [b for b in bits if instruction <= b < own],
        [b for b in bits if b >= max(own, instruction)],
        extent // power,
    )


@dataclass(frozen=True)
class Grid:
    """Warps along the dimensions of a product."""

    m: int = 1
    n: int = 1
    k: int = 1

    @property
    def size(self) -> int:
        """The total number of warps."""
        return self.m * self.n * self.k


def mma_layouts(m: int, n: int, k: int, grid: Grid, bytes_: int) -> tuple[Layout, Layout, Layout]:
    """Layouts of lhs, rhs and accumulator of `thread.mma`."""
    mi, mr, mw, mo = _dim(m, 16, grid.m)
    ni, nr, nw, no = _dim(n, 8, grid.n)
    ki, kr, kw, ko = _dim(k, 16 if bytes_ == 2 else 8, grid.k)

    def row(bits: Sequence[int]) -> tuple[Vector, ...]:
        return tuple((b, 0) for b in bits)

    def col(bits: Sequence[int]) -> tuple[Vector, ...]:
        return tuple((0, b) for b in bits)

    def none(bits: Sequence[int]) -> tuple[Vector, ...]:
        return tuple((0, 0) for _ in bits)

    if bytes_ == 2:
        a = (*col(ki[:1]), *row(mi[3:]), *col(ki[3:])), (*col(ki[1:3]), *row(mi[:3]))
        b = (*row(ki[:1]), *row(ki[3:])), (*row(ki[1:3]), *col(ni))
    else:
        a = (*row(mi[3:]), *col(ki[:1])), (*col(ki[1:]), *row(mi[:3]))
        b = row(ki[:1]), (*row(ki[1:]), *col(ni))
    c = (*col(ni[:1]), *row(mi[3:])), (*col(ni[1:]), *row(mi[:3]))
    return (
        Layout((*a[0], *col(kr), *row(mr)), a[1], (*none(nw), *row(mw), *col(kw)), (mo, ko)),
        Layout((*b[0], *row(kr), *col(nr)), b[1], (*col(nw), *none(mw), *row(kw)), (ko, no)),
        Layout((*c[0], *col(nr), *row(mr)), c[1], (*col(nw), *row(mw), *none(kw)), (mo, no)),
    )


def blocked(rows: int, cols: int, vector: int, warps: int, rows_first: bool = False) -> Layout:
    """Consecutive threads own consecutive vectors; `rows_first` gives the warps rows."""
    power = [rows & -rows, cols & -cols]
    used = [1, 1]

    def take(dim: int, count: int) -> list[Vector]:
        out: list[Vector] = []
        while count > 0 and used[dim] < power[dim]:
            out.append((used[0], 0) if dim == 0 else (0, used[1]))
            used[dim] *= 2
            count -= 1
        return out

    def fill(count: int, dims: Sequence[int]) -> list[Vector]:
        out: list[Vector] = []
        for dim in dims:
            out += take(dim, count - len(out))
        return out + [(0, 0)] * (count - len(out))

    reg = take(1, vector.bit_length() - 1)
    lane = fill(5, (1, 0))
    warp = fill(warps.bit_length() - 1, (0, 1) if rows_first else (1, 0))
    reg += take(1, 64) + take(0, 64)
    return Layout(tuple(reg), tuple(lane), tuple(warp), (rows // power[0], cols // power[1]))


_MLIR = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "int32": "i32",
    "float8_e4m3fn": "f8E4M3FN", "float8_e5m2": "f8E5M2",
}  # fmt: skip


def dtype_of(array: Array) -> str:
    """MLIR's name of an array's element type."""
    return _MLIR[array.dtype.name]


def memref(array: Array) -> str:
    """The memref type of an array, strides included."""
    shape = "x".join(map(str, array.shape))
    strides = ", ".join(str(s // array.itemsize) for s in array.strides)
    if array.flags.c_contiguous:
        return f"memref<{shape}x{dtype_of(array)}>"
    return f"memref<{shape}x{dtype_of(array)}, strided<[{strides}]>>"


@cache
def compile_ptx(text: str, chip: str = "sm_90a", options: str = "") -> str:
    """Return the PTX of a module; if compilation fails, the exception contains the compiler's
    diagnostics.

    ``MIRAGE_OPT`` names a mirage-opt to lower with instead of the bindings.
    """
    if tool := os.environ.get("MIRAGE_OPT"):
        return _printed(tool, text, chip, options)
    pipeline = f"builtin.module(mirage-thread-to-ptx{{chip={chip} {options}}})"
    with ir.Context(load_on_create_dialects=()):
        try:
            module = ir.Module.parse(text)
            PassManager.parse(pipeline).run(module.operation)
        except ir.MLIRError as error:
            raise RuntimeError(str(error)) from None
        return "".join(ptx for _, ptx in binaries(module))


def _printed(tool: str, text: str, chip: str, options: str) -> str:
    pipeline = f"--mirage-thread-to-ptx=chip={chip} {options}".strip()
    result = subprocess.run(
        [tool, "-", pipeline, "--mirage-print-ptx", "-o", os.devnull],
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    return result.stdout


@dataclass(frozen=True)
class PtxasReport:
    """The report of ptxas about one kernel."""

    registers: int
    spills: int
    warnings: tuple[str, ...]


def ptxas(ptx: str, chip: str) -> PtxasReport | None:
    """Assemble PTX; None if there is no ptxas."""
    if shutil.which("ptxas") is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "k.ptx")
        path.write_text(ptx)
        result = subprocess.run(
            ["ptxas", f"-arch={chip}", "-v", str(path), "-o", str(Path(folder, "k.cubin"))],
            capture_output=True,
            text=True,
            check=False,
        )
    if result.returncode != 0:
        raise RuntimeError(result.stderr)
    registers = max(map(int, re.findall(r"Used (\d+) registers", result.stderr)))
    spills = sum(map(int, re.findall(r"(\d+) bytes spill", result.stderr)))
    warnings = re.findall(r".*(?:warning|C75\d\d).*", result.stderr)
    return PtxasReport(registers, spills, tuple(warnings))


@dataclass(frozen=True)
class Kernel:
    """One kernel: `body` refers to its parameters as %a0, %a1, .. and to constants as %c<number>."""

    body: str
    warps: int = 4
    grid: int = 1
    chip: str = "sm_90a"
    shared_bytes: int = 0
    extra_params: tuple[str, ...] = ()

    def text(self, arrays: Sequence[Array]) -> str:
        """The module."""
        params = [f"%a{i}: {memref(a)}" for i, a in enumerate(arrays)] + list(self.extra_params)
        numbers = sorted({int(n) for n in re.findall(r"%c(\d+)\b", self.body)})
        constants = "\n".join(f"    %c{n} = arith.constant {n} : index" for n in numbers)
        return (
            "module {\n  gpu.module @m {\n"
            f"  gpu.func @k({', '.join(params)}) kernel attributes "
            f"{{known_block_size = array<i32: {32 * self.warps}, 1, 1>}} {{\n"
            f"{constants}\n{self.body}\n    gpu.return\n  }}\n  }}\n}}\n"
        )

    def ptx(self, arrays: Sequence[Array]) -> str:
        """Return the PTX, which ptxas (if available) accepts without spills or warnings."""
        ptx = compile_ptx(self.text(arrays), self.chip)
        report = ptxas(ptx, self.chip)
        if report is not None:
            assert report.spills == 0, f"{report.spills} bytes of spills"
            assert not report.warnings, report.warnings
        assert ".local" not in ptx, "local memory"
        return ptx

    def run(self, *arrays: Array, stats: bool = False, **launch: Any) -> LaunchResult:
        """Run with the arrays as arguments, which receive the results. With ``stats``, sectors and
        bank conflicts are counted."""
        module = Emulator(self.ptx(arrays))
        return module.launch(
            "k",
            grid=(self.grid, 1, 1),
            block=(32 * self.warps, 1, 1),
            cluster=launch.pop("cluster", (1, 1, 1)),
            shared_bytes=self.shared_bytes,
            args=[*arrays],
            stats=stats,
            **launch,
        )
