#!/usr/bin/env python3
"""Host time of calls on a GPU: how long Python is busy until a call returns.

    python benchmarks/host_time.py --artifacts build/host --out benchmarks/results

For each artifact, by the compiled launcher (tools/build-launcher.py) where it is there, and in
Python alone; with outputs that are given, and without. Beside them, in turns, `torch.add` of two
vectors, and an empty loop. Calls follow one another, few enough that the GPU's queue is never full.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import torch  # noqa: E402
from mirage.runtime import Executable, load  # noqa: E402
from mirage.runtime.manifest import TORCH_NAMES, TensorSpec  # noqa: E402

BATCH = 50
"""Calls between two waits for the GPU."""


def tensor(spec: TensorSpec) -> torch.Tensor:
    """A random tensor of a specification; indices are zeros."""
    dtype = getattr(torch, TORCH_NAMES[spec.dtype])
    x = torch.empty_strided(spec.shape, spec.strides, dtype=dtype, device="cuda")
    return x.normal_() if dtype.is_floating_point else x.zero_()


def microseconds(calls: dict[str, Callable[[], Any]], rounds: int) -> dict[str, float]:
    """The median time of each; they take turns."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 3):
        for name, call in calls.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(BATCH):
                call()
            took = time.perf_counter() - begin
            if number >= 3:
                spent[name].append(took * 1e6 / BATCH)
    return {name: statistics.median(times) for name, times in spent.items()}


def measured(program: Executable, pure: Executable, rounds: int) -> dict[str, Any]:
    """The row of an artifact; ``pure`` is the same, loaded apart."""
    inputs = [tensor(s) for s in program.manifest.inputs]
    out = [y.clone() for y in program(inputs=inputs)]
    pure(inputs=inputs)
    compiled = bool(program._fast)
    pure._fast.clear()
    x = torch.zeros(1024, device="cuda")
    calls: dict[str, Callable[[], Any]] = {
        "nothing": lambda: None,
        "add": lambda: torch.add(x, x),
        "python": lambda: pure(inputs=inputs),
        "python, out": lambda: pure(inputs=inputs, out=out),
    }
    if compiled:
        calls["compiled"] = lambda: program(inputs=inputs)
        calls["compiled, out"] = lambda: program(inputs=inputs, out=out)
    same = all(torch.equal(a, b) for a, b in zip(program(inputs=inputs), pure(inputs=inputs)))
    return {
        "inputs": len(inputs), "outputs": len(out), "kernels": len(program.manifest.kernels),
        "same": same, **microseconds(calls, rounds),
    }  # fmt: skip


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--artifacts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--rounds", type=int, default=40)
    arguments = parser.parse_args()
    if not torch.cuda.is_available():
        print("error: no GPU was found, this script measures calls on one", file=sys.stderr)
        return 2
    rows: dict[str, Any] = {}
    for folder in sorted(arguments.artifacts.glob("*.mirage")):
        programs = [load(folder) for _ in range(2)]
        if not all(isinstance(p, Executable) for p in programs):
            continue  # a whole model
        rows[folder.name.removesuffix(".mirage")] = row = measured(*programs, arguments.rounds)
        print(folder.name, {k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()})
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"gpu": torch.cuda.get_device_name(), "rows": rows}, indent=1)
    (arguments.out / "host_time.json").write_text(text + "\n")
    return 0 if all(row["same"] for row in rows.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
