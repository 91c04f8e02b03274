#!/usr/bin/env python3
"""Runs compiled programs under NVIDIA's compute-sanitizer: memory, races, barriers, initialisation.

    python benchmarks/sanitize.py --artifacts DIR... --out benchmarks/results

Programs are those of the catalogue (compile_all.py) and small ones (sanitize_subjects.py).

There is one process for each tool; they run in parallel. The tool for uninitialised reads does not
track writes of bulk copies from shared memory, so it only runs programs without such copies, on
memory that has not been filled. For the other tools, memory that has not been written is NaN, and
results must be finite. Each tensor has its own memory: PyTorch neither reuses memory nor gives out
parts of a block, within which no tool would see accesses beyond a tensor. Needs a GPU, torch,
cuda-bindings and ``compute-sanitizer``. The exit code is 1 if a tool finds something or does not
run to its end, or if a result is not finite.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sanitize_subjects import Subject
    from torch import Tensor

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

INITCHECK = "initcheck"
TOOLS: dict[str, tuple[str, ...]] = {
    # cuda-bindings looks up functions that the driver may not have
    "memcheck": ("--padding", "32", "--report-api-errors", "no"),
    "racecheck": ("--racecheck-report", "analysis"),
    "synccheck": (),
    INITCHECK: (),
}
BULK_STORE = re.compile(r"cp\.(reduce\.)?async\.bulk(\.tensor\S*?)?\.global\.shared")
DONE = "ran "


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--artifacts", type=Path, nargs="+", required=True)
    parser.add_argument("--only", nargs="*", default=(), help="programs by name (default: all)")
    parser.add_argument("--out", type=Path, help="folder for the results")
    parser.add_argument("--seconds", type=float, default=400.0, help="for each tool")
    parser.add_argument("--inside", choices=("filled", "empty"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    folders = found(arguments.artifacts, arguments.only)
    missing = set(arguments.only) - {f.stem for f in folders}
    if missing or not folders:
        print(f"error: expected artifacts, found none of {sorted(missing) or 'any program'}")
        return 2
    if arguments.inside:
        run(folders, filled=arguments.inside == "filled")
        return 0
    if shutil.which("compute-sanitizer") is None:
        print("error: compute-sanitizer is not on the path; it comes with the CUDA toolkit")
        return 2
    rows = check(folders, arguments)
    for tool, row in rows.items():
        print(
            f"{tool}: {row['errors']} errors, {len(row['ran'])} of {len(row['programs'])} programs"
        )
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
        text = json.dumps({"programs": [f.stem for f in folders], "tools": rows}, indent=1)
        (arguments.out / "sanitizer.json").write_text(text + "\n")
    clean = all(r["errors"] == 0 and r["ran"] == r["programs"] for r in rows.values())
    return 0 if clean else 1


def found(places: Sequence[Path], only: Sequence[str]) -> list[Path]:
    """Return the artifacts in these folders, by name; with ``only``, those of these names."""
    every = {f.stem: f for place in places for f in place.glob("*.mirage") if f.is_dir()}
    return [every[name] for name in sorted(every) if not only or name in only]


def run(folders: list[Path], *, filled: bool) -> None:
    """Run each program once, on separate inputs and outputs that are NaN (``filled``) or empty."""
    import torch
    from sanitize_subjects import SUBJECTS

    if filled:
        torch.use_deterministic_algorithms(True, warn_only=True)  # fills empty tensors with NaN
    for folder in folders:
        small = SUBJECTS.get(folder.stem)
        out = run_small(folder, small) if small else run_workload(folder, filled)
        torch.cuda.synchronize()
        whole = all(bool(torch.isfinite(x).all()) for x in out)
        print(f"{DONE}{folder.stem}{'' if whole else ': NOT FINITE'}", flush=True)


def run_workload(folder: Path, filled: bool) -> tuple[Tensor, ...]:
    """Return the results of a program of the catalogue; with ``filled``, they are NaN before."""
    import torch
    from mirage.runtime import load
    from mirage.workloads import get

    workload = get(folder.stem.partition("@")[0])
    inputs = workload.torch_inputs(0, device="cuda")
    with torch.no_grad():
        like = workload.torch_module()(*(x.to("meta") for x in inputs))
    like = like if isinstance(like, tuple) else (like,)
    out = tuple(torch.empty(x.shape, dtype=x.dtype, device="cuda") for x in like)
    if filled:
        for x in out:
            x.fill_(float("nan"))
    load(folder)(inputs=inputs, out=out)
    return out


def run_small(folder: Path, subject: Subject) -> tuple[Tensor, ...]:
    """Return the result of a small program; PyTorch fills the memory that it returns."""
    from mirage.runtime import load

    result = load(folder, device="cuda")(*subject.inputs("cuda"))
    return result if isinstance(result, tuple) else (result,)


def stores_in_bulk(folder: Path) -> bool:
    """Return whether a kernel copies from shared memory to global memory in bulk."""
    return any(BULK_STORE.search(ptx.read_text()) for ptx in folder.rglob("*.ptx"))


def check(folders: list[Path], arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the report of each tool."""
    own = [sys.executable, __file__, "--artifacts", *map(str, arguments.artifacts)]
    started = time.monotonic()
    running: dict[str, subprocess.Popen[str]] = {}
    logs: dict[str, IO[str]] = {}
    names: dict[str, list[str]] = {}
    for tool, options in TOOLS.items():
        empty = tool == INITCHECK
        names[tool] = [f.stem for f in folders if not (empty and stores_in_bulk(f))]
        if not names[tool]:
            continue
        logs[tool] = TemporaryFile("w+")  # noqa: SIM115 (read at the end)
        inside = ("--inside", "empty" if empty else "filled", "--only", *names[tool])
        running[tool] = subprocess.Popen(
            ["compute-sanitizer", "--tool", tool, *options, *own, *inside],
            stdout=logs[tool],
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
        )
    rows: dict[str, Any] = {}
    for tool, process in running.items():
        try:
            process.wait(max(1.0, arguments.seconds - (time.monotonic() - started)))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)  # the program, too, which uses the GPU
            process.wait()
        logs[tool].seek(0)
        text = logs[tool].read()
        logs[tool].close()
        found = re.findall(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)", text)
        lines = text.splitlines()
        rows[tool] = {
            "programs": names[tool],
            "ran": [x[len(DONE) :] for x in lines if x.startswith(DONE)],
            "errors": sum(map(int, found)) if found else None,
            "seconds": round(time.monotonic() - started, 1),
            "said": [x for x in lines if x.startswith("=========")][:40],
        }
    return rows


if __name__ == "__main__":
    sys.exit(main())
