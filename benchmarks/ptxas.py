#!/usr/bin/env python3
"""Compiles the default choice of every workload for every chip and records the output of ptxas.

    python benchmarks/ptxas.py --out benchmarks/results/ptxas.json

For each workload and chip, this records the registers, spilled bytes, shared memory and PTX size of
each kernel of the candidate that ``mirage optimize`` would take, and the cheaper candidates that it
would skip (because they spill or cannot be lowered). Searched and verified programs are kept as
MLIR in ``--programs``; with ``--reuse`` they are read back, so that a change of the code generator
can be tested without searching again. The exit code is 1 if a program fails or its default choice
spills.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import time
from pathlib import Path
from typing import Any

import kept
from mirage.compiler import CHIPS, Compiled, CompileError, CompileOptions, compile_graph
from mirage.compiler.ptxas import find_ptxas, ptxas_version
from mirage.cost.target import target_for
from mirage.errors import MirageError
from mirage.mlir_io import graph_from_text, graph_to_text
from mirage.pipeline.errors import StageError
from mirage.pipeline.search import add_candidates
from mirage.pipeline.select import select_cheapest
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.pipeline.verify import verify_candidates
from mirage.search import SearchLimits
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.ugraph import External, KernelGraph
from mirage.transforms.partition.partition import partition
from mirage.verify import VerifyOptions
from mirage.workloads import get, names


def main() -> int:
    arguments = parse()
    ptxas = find_ptxas()
    if ptxas is None:
        print("error: expected ptxas on the PATH or in MIRAGE_PTXAS", file=sys.stderr)
        return 2
    report: dict[str, Any] = {
        "command": shlex.join(["python", *sys.argv]),
        "ptxas": ptxas_version(ptxas),
        "workloads": {},
    }
    failed: list[str] = []
    for name in arguments.workloads or names():
        for chip in arguments.chips:
            start = time.monotonic()
            try:
                entry = sweep(name, chip, arguments)
            except MirageError as e:
                entry = {"error": f"{type(e).__name__}: {e}"}
            report["workloads"].setdefault(name, {})[chip] = entry
            if "error" in entry or entry["spilled_bytes"]:
                failed.append(f"{name} for {chip}")
            print(f"{name} {chip}: {describe(entry)}, {time.monotonic() - start:.1f} s", flush=True)
            write(arguments.out, report)
    print(f"{len(failed)} of the default choices fail or spill", *failed, sep="\n  ")
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("workloads", nargs="*", help="names (default: all built-in workloads)")
    parser.add_argument("--chips", nargs="+", choices=CHIPS, default=list(CHIPS))
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument(
        "--programs", type=Path, default=Path("build/programs"), help="folder of searched programs"
    )
    parser.add_argument("--reuse", action="store_true", help="take programs from --programs")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of search a program")
    parser.add_argument("--numerics", action="store_true", help="compare rounding errors too")
    return parser.parse_args()


def write(path: Path, report: dict[str, Any]) -> None:
    kept.write(path, report, "workloads")


def verified_program(name: str, chip: str, arguments: argparse.Namespace) -> KernelGraph:
    """Return the workload with its verified candidates, from the folder if requested."""
    path: Path = arguments.programs / f"{name}.{chip}.mlir"
    if arguments.reuse and path.exists():
        return graph_from_text(path.read_text()).graph
    limits = SearchLimits(budget=arguments.budget)
    candidates, _ = add_candidates(get(name).graph(), target_for(chip), limits)
    stable, _ = stabilize_candidates(candidates)
    verified, _ = verify_candidates(stable, VerifyOptions(numerics=arguments.numerics))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(graph_to_text(verified, form="verified"))
    return verified


def sweep(name: str, chip: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Return the entry of one workload: its default choice, and the cheaper candidates that were
    rejected."""
    verified, target = verified_program(name, chip, arguments), target_for(chip)
    choices = max(len(op.programs) for op in verified.ops if isinstance(op, Alternatives))
    passed: list[str] = []
    spilling: dict[str, Any] | None = None
    for rank in range(max(1, choices - 1)):
        graph, without = select_cheapest(verified, target, rank)
        if without:
            raise StageError(f"{without} parts without a candidate that {chip} can run")
        try:
            entry = describe_parts(compile_parts(graph, chip))
        except CompileError as e:
            passed.append(f"candidate {rank}: {e}")
            continue
        if not entry["spilled_bytes"]:
            return {"candidate": rank, "passed_over": passed, **entry}
        spilling = spilling or {"candidate": rank, **entry}
        passed.append(f"candidate {rank} spills {entry['spilled_bytes']} bytes")
    if spilling is None:
        raise StageError("; ".join(passed))
    return {**spilling, "passed_over": passed}


def compile_parts(graph: KernelGraph, chip: str) -> list[Compiled]:
    parts = (step for step in partition(graph) if not isinstance(step, External))
    return [compile_graph(p.graph, CompileOptions(chip, use_cache=False)) for p in parts]


def describe_parts(parts: list[Compiled]) -> dict[str, Any]:
    """Return registers, spills and memory of each kernel; sizes in bytes."""
    kernels: list[dict[str, Any]] = []
    for part in parts:
        manifest = part.artifact.manifest
        for launch in manifest.kernels:
            usage = manifest.resources[launch.entry]
            kernels.append(
                {
                    "kernel": launch.entry,
                    "grid": launch.grid[0],
                    "threads": launch.block[0],
                    "registers": usage["registers"],
                    "spill_stores": usage["spill_stores"],
                    "spill_loads": usage["spill_loads"],
                    "shared_bytes": launch.shared_bytes,
                }
            )
    ptx = [len(data) for p in parts for n, data in p.artifact.files.items() if n.endswith(".ptx")]
    return {
        "kernels": kernels,
        "ptx_bytes": sum(ptx),
        "spilled_bytes": sum(p.spilled_bytes for p in parts),
        "notes": [note for p in parts for note in p.notes],
    }


def describe(entry: dict[str, Any]) -> str:
    """Return one line for the log."""
    if "error" in entry:
        return f"failed: {entry['error']}"
    registers = max(k["registers"] for k in entry["kernels"])
    shared = max(k["shared_bytes"] for k in entry["kernels"])
    return "; ".join(
        [
            f"{len(entry['kernels'])} kernels, up to {registers} registers, {shared} bytes shared",
            *entry["passed_over"],
            *entry["notes"],
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
