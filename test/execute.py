"""Executes what a lit test lowers: compiles the IR, runs its PTX in the emulator with all checks,
and compares with float64. One more RUN line does it:

    // RUN: %execute %s
    // RUN: mirage-opt %s --some-passes | %execute - --meaning %s
    // RUN: %execute %s --expect 'a2 = a0 @ a1'

Every `kernel.graph` of every part of the file (`// -----`) must compute its meaning, or that of the
graph of the same name in `--meaning`. A part with a `gpu.func` of thread ops has no meaning to
compare with: `--expect` states in NumPy what its arguments a0, a1, ... hold afterwards; those that
are not assigned are random inputs. It runs as one block.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "test" / "python" / "support")]

import surroundings  # noqa: E402, F401 - before NumPy

# isort: split
import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
from lowering import check_mlir  # noqa: E402
from mirage.emulator import Emulator, TensorMap, Uninitialised  # noqa: E402
from mirage.emulator.run_artifact import TOLERANCE, compare  # noqa: E402
from mirage.errors import MirageError  # noqa: E402
from written_kernels.thread_kernels import compile_ptx  # noqa: E402

Array = np.ndarray[Any, Any]
CHIPS = ("sm_80", "sm_90a")
_DTYPES: dict[str, Any] = {"f16": np.float16, "bf16": ml_dtypes.bfloat16, "f32": np.float32}
_FUNCTION = re.compile(r"gpu\.func\s+@(\w+)\((.*?)\)\s*kernel\s*(.*?)\{\n", re.DOTALL)
_ARGUMENT = re.compile(
    r"%\w+\s*:\s*(?:(memref)<|(!thread\.tensormap)<)((?:\d+x)+)(\w+)(?:, swizzle = (\d+))?>"
)
_ALIAS = re.compile(r"^(!\w+) = (!thread\.tensormap<.*>)$", re.MULTILINE)
SHARED_BYTES = 96 << 10


def functions(text: str) -> list[tuple[str, list[tuple[bool, tuple[int, ...], Any, int]], int]]:
    """Yield the name, arguments (whether it is a tensor map, shape, dtype, swizzle) and threads of
    each kernel."""
    text = re.sub(r"//.*", "", text)
    for name, type_ in _ALIAS.findall(text):
        text = re.sub(rf"{name}\b(?! =)", type_, text)
    found: list[tuple[str, list[tuple[bool, tuple[int, ...], Any, int]], int]] = []
    for name, arguments, attributes in _FUNCTION.findall(text):
        threads = re.search(r"known_block_size = array<i32: (\d+)", attributes)
        parsed = [
            (bool(m[1]), tuple(int(n) for n in m[2].split("x")[:-1]), _DTYPES[m[3]], int(m[4] or 0))
            for m in _ARGUMENT.findall(arguments)
        ]
        if len(parsed) != arguments.count("%"):
            raise SystemExit(f"execute: expected memrefs and tensor maps, got ({arguments})")
        found.append((name, parsed, int(threads.group(1)) if threads else 32))
    return found


def check_functions(text: str, chip: str, expect: str) -> int:
    """Run each `gpu.func` as one block; return their number."""
    kernels = functions(text)
    ptx = compile_ptx(text, chip, "line-info")  # errors name the op
    for name, parameters, threads in kernels:
        generator = np.random.default_rng(0)
        values = {
            f"a{i}": generator.standard_normal(shape).astype(dtype)
            for i, (_, shape, dtype, _) in enumerate(parameters)
        }
        results = dict[str, Any]({n: v.astype(np.float64) for n, v in values.items()})
        exec(expect, {"np": np}, results)
        assigned = re.findall(r"(?:^|;)\s*(a\d+)\s*=", expect)
        arguments: list[Any] = []
        for (is_map, shape, _, swizzle), (key, value) in zip(
            parameters, values.items(), strict=True
        ):
            if is_map:
                mode: Any = f"{swizzle}B" if swizzle else "none"
                arguments.append(TensorMap(value, shape, mode))
            else:
                arguments.append(Uninitialised(value) if key in assigned else value)
        Emulator(ptx).launch(
            name, grid=(1,), block=(threads,), shared_bytes=SHARED_BYTES, args=arguments
        )
        outputs = [values[a] for a in assigned]
        kinds = {np.dtype(t): n for n, t in _DTYPES.items()}
        tolerances = [TOLERANCE[kinds[o.dtype]] for o in outputs]
        compare(outputs, [np.asarray(results[a]) for a in assigned], tolerances)
    return len(kernels)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("input", help="MLIR; - for standard input")
    parser.add_argument("--chip", action="append", choices=CHIPS, help="default: all")
    parser.add_argument("--meaning", type=Path, help="MLIR with what the graphs must compute")
    parser.add_argument("--expect", help="NumPy statements: what arguments hold afterwards")
    parser.add_argument("--tolerance", type=float)
    options = parser.parse_args()
    text = sys.stdin.read() if options.input == "-" else Path(options.input).read_text()
    meaning = options.meaning.read_text() if options.meaning else None
    count = 0
    try:
        for chip in options.chip or CHIPS:
            for part in re.split(r"^// -----.*$", text, flags=re.MULTILINE):
                if options.expect:
                    count += check_functions(part, chip, options.expect)
                else:
                    count += check_mlir(
                        part, chip=chip, meaning=meaning, tolerance=options.tolerance
                    )
    except (MirageError, RuntimeError) as error:
        print(f"execute: {error}", file=sys.stderr)
        return 1
    if not count:
        print("execute: expected a kernel to execute, got none", file=sys.stderr)
        return 1
    print(f"executed {count} kernels")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
