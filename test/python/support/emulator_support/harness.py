"""Builds small kernels around a few instructions, with one input value and one output value for
each thread.
"""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from emulator_support.tolerance import Tolerance
from mirage.emulator import Emulator, LaunchResult

Array = np.ndarray[Any, Any]

HEADER = ".version 8.0\n.target sm_90a\n.address_size 64\n"
_REGISTER = {1: "%h", 2: "%h", 4: "%r", 8: "%d"}


# Replaced by tools that run the same launches elsewhere too, such as on a GPU.
backend: Callable[[str], Any] = Emulator
# What PTX leaves open in the following launches: a tolerance, or a reason why results may be
# anything.
open_result: Tolerance | str | None = None


@contextmanager
def stated(tolerance: Tolerance | str | None) -> Generator[None]:
    """In this context a GPU's results may differ from the emulator's by a tolerance, or (with a
    reason) in any way; with None, and outside of this context, they are the same bit for bit."""
    global open_result
    before, open_result = open_result, tolerance
    try:
        yield
    finally:
        open_result = before


@functools.lru_cache(maxsize=2048)
def emulator(text: str) -> Any:
    """Parse once. With MIRAGE_TEST_PTXAS=1, ptxas must accept the text too."""
    if os.environ.get("MIRAGE_TEST_PTXAS") == "1":
        assemble(text)
    return backend(text)


def assemble(text: str) -> None:
    """Raises if ptxas refuses the text."""
    ptxas = shutil.which("ptxas")
    assert ptxas, "ptxas is not on PATH"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(text)
        command = [ptxas, "-arch=sm_90a", "-o", os.devnull, str(source)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr + text


def kernel(body: str, *, pointers: int = 1, declarations: str = "", module: str = "") -> str:
    """PTX of `test(p0, p1, ...)`: %a0, %a1, ... hold the pointers, %t the thread."""
    params = ", ".join(f".param .u64 p{i}" for i in range(pointers))
    loads = "\n".join(f"ld.param.u64 %a{i}, [p{i}];" for i in range(pointers))
    return f"""{HEADER}{module}
.visible .entry test({params})
{{
.reg .pred %p<20>; .reg .b16 %h<40>; .reg .b32 %r<200>; .reg .b64 %d<60>; .reg .b64 %a<20>;
.reg .f32 %f<160>; .reg .f64 %g<20>; .reg .b32 %t;
{declarations}
{loads}
mov.u32 %t, %tid.x;
{body}
ret;
}}
"""


def launch(
    body: str,
    args: Sequence[Any],
    *,
    threads: int = 32,
    blocks: int = 1,
    declarations: str = "",
    module: str = "",
    **options: Any,
) -> LaunchResult:
    """Runs `kernel(body)`."""
    text = kernel(body, pointers=len(args), declarations=declarations, module=module)
    return emulator(text).launch("test", grid=(blocks,), block=(threads,), args=args, **options)


def elementwise(body: str, inputs: Sequence[Array], result: Any) -> Array:
    """Each thread loads element tid of every input into registers named by width and position
    (%h1, %r2, %d3, counted from 1 over all inputs), runs the body, and stores register 0 of the
    result's width. Returns an array of the dtype `result`."""
    count = len(inputs[0]) if inputs else 32
    dtype = np.dtype(result)
    loads = [f"mul.wide.u32 %d50, %t, {i.itemsize}; add.u64 %d50, %d50, %a{n};\n"
             f"ld.global.b{8 * i.itemsize} {_REGISTER[i.itemsize]}{n + 1}, [%d50];"
             for n, i in enumerate(inputs)]  # fmt: skip
    size = dtype.itemsize
    store = (
        f"mul.wide.u32 %d50, %t, {size}; add.u64 %d50, %d50, %a{len(inputs)};\n"
        f"st.global.b{8 * size} [%d50], {_REGISTER[size]}0;"
    )
    out = np.zeros(count, dtype)
    launch("\n".join([*loads, body, store]), [*inputs, out], threads=count)
    return out
