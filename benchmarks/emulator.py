"""Measures the speed of the emulator: warp-instructions per second and memory, for hand-written
kernels.

    python benchmarks/emulator.py            # prints a table; --out FOLDER also writes JSON

The first row is the program of the stated goal: a 64x256 by 256x64 matmul in f16 by four warps, in
at most 2 s on one core and 500 MB.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for folder in ("python", "test/python/support"):
    sys.path.insert(0, str(ROOT / folder))

import numpy as np  # noqa: E402
from emulator_support import ptx_kernels  # noqa: E402
from emulator_support.ptx_matmul import matmul  # noqa: E402
from mirage.emulator import Counters, Emulator, TensorMap, Uninitialised  # noqa: E402

Launch = Callable[[bool], Counters]


def _normal(*shape: int, dtype: Any = np.float16) -> Any:
    return (np.random.default_rng(0).standard_normal(shape) * 0.5).astype(dtype)


def matmul_case(m: int, n: int, k: int) -> Launch:
    """mma.sync with cp.async."""
    module = Emulator(matmul())
    a, b, c = _normal(m, k), _normal(k, n), np.zeros((m, n), np.float16)
    grid = (-(-n // 64), -(-m // 64))

    def launch(checks: bool) -> Counters:
        args = [a, b, Uninitialised(c), m, n, k]
        return module.launch(
            "matmul", grid=grid, block=(128,), args=args, checks=checks, stats=checks
        ).stats

    return launch


def softmax_case(rows: int, columns: int) -> Launch:
    """Elementwise and shuffles."""
    module = Emulator(ptx_kernels.SOFTMAX)
    x, y = _normal(rows, columns), np.zeros((rows, columns), np.float16)

    def launch(checks: bool) -> Counters:
        args = [x, Uninitialised(y), columns]
        return module.launch(
            "softmax", grid=(rows,), block=(128,), args=args, checks=checks, stats=checks
        ).stats

    return launch


def wgmma_case(k: int) -> Launch:
    """TMA and wgmma."""
    module = Emulator(ptx_kernels.wgmma_tile())
    a, b, d = _normal(64, k), _normal(k, 64), np.zeros((64, 64), np.float32)
    maps = [TensorMap(v, box=(64, 64), swizzle="128B") for v in (a, b)]

    def launch(checks: bool) -> Counters:
        args = [*maps, Uninitialised(d), k]
        return module.launch(
            "tile", grid=(1,), block=(128,), args=args, checks=checks, stats=checks
        ).stats

    return launch


CASES: dict[str, Callable[[], Launch]] = {
    "matmul 64x64x256, 1 block": lambda: matmul_case(64, 64, 256),
    "matmul 512x512x256, 64 blocks": lambda: matmul_case(512, 512, 256),
    "softmax 64x1024, 64 blocks": lambda: softmax_case(64, 1024),
    "wgmma 64x64x4096, 1 block": lambda: wgmma_case(4096),
}


def measure(build: Callable[[], Launch], *, checks: bool, repeat: int) -> dict[str, float]:
    """Return the best of `repeat` launches, without parsing."""
    launch = build()
    best = float("inf")
    counters = launch(checks)
    for _ in range(repeat):
        start = time.perf_counter()
        counters = launch(checks)
        best = min(best, time.perf_counter() - start)
    return {
        "seconds": best,
        "warp_instructions": counters.instructions,
        "warp_instructions_per_second": counters.instructions / best,
        "peak_memory_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="folder for emulator.json")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    rows: dict[str, dict[str, dict[str, float]]] = {}
    print(
        f"{'case':<32} {'checks':>7} {'s':>8} {'warp-instr':>11} "
        f"{'warp-instr/s':>13} {'peak MB':>8}"
    )
    for name, build in CASES.items():
        rows[name] = {}
        for checks in (True, False):
            row = measure(build, checks=checks, repeat=options.repeat)
            rows[name]["checks" if checks else "no checks"] = row
            print(
                f"{name:<32} {'on' if checks else 'off':>7} {row['seconds']:>8.3f} "
                f"{int(row['warp_instructions']):>11,} "
                f"{int(row['warp_instructions_per_second']):>13,} "
                f"{row['peak_memory_mb']:>8.0f}"
            )
    if options.out is not None:
        options.out.mkdir(parents=True, exist_ok=True)
        environment = {
            "python": platform.python_version(),
            "numpy": np.__version__,
            "machine": platform.processor(),
        }
        data = {"command": sys.argv, "environment": environment, "rows": rows}
        handle, temporary = tempfile.mkstemp(dir=options.out, suffix=".tmp")
        with os.fdopen(handle, "w") as file:
            json.dump(data, file, indent=1)
            file.write("\n")
        os.replace(temporary, options.out / "emulator.json")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
