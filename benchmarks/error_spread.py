#!/usr/bin/env python3
"""Errors of compiled programs and of PyTorch against float64 on several draws of inputs: whether a
difference between them is one of the draw.

    python benchmarks/error_spread.py --artifacts build/artifacts --out benchmarks/results NAME...

For each program: the relative L2 errors of ours and of eager PyTorch for each seed, and mean and
standard deviation of their ratio; if the program is attention, also the errors of each of PyTorch's
kernels for it. Needs Python, torch, cuda-bindings and a GPU.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import kept  # noqa: E402
import torch  # noqa: E402
from accuracy import Errors, exact_results, results_of  # noqa: E402
from mirage.runtime import load  # noqa: E402
from mirage.workloads import get  # noqa: E402
from mirage.workloads.workload import Workload  # noqa: E402

Inputs = tuple[torch.Tensor, ...]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help="programs of the catalogue")
    parser.add_argument("--artifacts", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--seconds", type=float, default=480.0, help="start no program after this")
    arguments = parser.parse_args()
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    started, rows = time.monotonic(), list[dict[str, Any]]()
    for name in arguments.names:
        if time.monotonic() - started > arguments.seconds:
            print(f"{name}: no time left")
            continue
        rows.append(spread(name, arguments.artifacts / f"{name}.mirage", arguments.seeds))
        print(rows[-1], flush=True)
        data = {"command": "python " + " ".join(sys.argv), "programs": rows}
        kept.write(arguments.out / "error_spread.json", data, "programs")
    return 0


def spread(name: str, folder: Path, seeds: int) -> dict[str, Any]:
    """Return the errors of one program."""
    workload, program = get(name), load(folder)
    torch.set_float32_matmul_precision("high" if workload.tf32 else "highest")
    errors: dict[str, list[float]] = {}
    for seed in range(seeds):
        inputs = workload.torch_inputs(seed, device="cuda")
        exact = exact_results(workload.exact or workload.module, inputs)
        sides = {"eager": results_of(workload.module, inputs), **kernels(workload, inputs)}
        out = tuple(torch.full_like(x, float("nan")) for x in sides["eager"])
        program(inputs=inputs, out=out)
        for side, results in {"ours": out, **sides}.items():
            errors.setdefault(side, []).append(Errors.of_all(results, exact).l2)
        del inputs, exact, sides, out
        torch.cuda.empty_cache()
    return {"name": name, "seeds": seeds, **summary(errors["ours"], errors["eager"]), **errors}


def summary(ours: list[float], theirs: list[float]) -> dict[str, float]:
    """Mean and standard deviation of the ratio of two errors, and of how many draws ours is the
    larger one."""
    ratios = [a / b for a, b in zip(ours, theirs, strict=True)]
    deviation = statistics.stdev(ratios) if len(ratios) > 1 else 0.0
    larger = sum(a > b for a, b in zip(ours, theirs, strict=True))
    return {"ratio": statistics.mean(ratios), "deviation": deviation, "larger": larger}


def kernels(workload: Workload, inputs: Inputs) -> dict[str, Inputs]:
    """Return the results of PyTorch's kernels for attention, of those that run."""
    from baselines import BACKENDS, with_backend

    found: dict[str, Inputs] = {}
    for native in workload.natives:
        for key, backend in BACKENDS.items() if native.attention and native.alone else ():
            with suppress(RuntimeError):  # this kernel does not support the program
                run = with_backend(backend, native, native.program).program
                found[f"{key} {native.name}".strip()] = results_of(run, native.prepare(inputs))
    return found


if __name__ == "__main__":
    sys.exit(main())
