#!/usr/bin/env python3
"""Searches, verifies and compiles the benchmark programs, for a machine that has a GPU and nothing
else.

    python benchmarks/compile_all.py --out build/artifacts

Each program becomes a folder ``<workload>.mirage``; ``summary.json`` has candidates, verdicts,
predictions and times. With ``--top N``, the N best candidates of each program are compiled
(``<workload>.mirage``, ``<workload>@1.mirage``, …), so that a run on a GPU can choose among them.
The exit code is 1 if a program fails; the others are still compiled.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from dataclasses import replace
from math import log2
from pathlib import Path
from typing import Any

from mirage.compiler import CHIPS, DEFAULT_CHIP
from mirage.errors import MirageError
from mirage.pipeline.errors import StageError
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Finalist, Optimized
from mirage.runtime import write_artifact
from mirage.runtime.serialization.artifact import Artifact
from mirage.semantics.describe import describe as words
from mirage.semantics.ugraph import Launch
from mirage.workloads import get

SPARE = 3
"""Candidates to compile in addition to those that are kept: registers are known only then."""
PROGRAMS = tuple(
    name.format(n)
    for name in ("gqa_bs{}_kv4096", "rms_mm6144_bs{}", "rms_mm4096_bs{}", "lora_m{}", "gmlp_m{}")
    for n in (1, 8, 16)
)


def main() -> int:
    arguments = parse()
    summary: dict[str, Any] = {}
    failed = 0
    for name in arguments.programs or PROGRAMS:
        start = time.monotonic()
        entry: dict[str, Any]
        try:
            entry = compile_program(name, arguments)
        except Exception as e:  # the other programs are compiled all the same
            failed += 1
            if not isinstance(e, MirageError):
                traceback.print_exc()
            entry = {"error": f"{type(e).__name__}: {e}"}
        entry["seconds"] = round(time.monotonic() - start, 2)
        summary[name] = entry
        print(f"{name}: {describe(entry)}", flush=True)
        arguments.out.mkdir(parents=True, exist_ok=True)
        (arguments.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    return 1 if failed else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("programs", nargs="*", help="workloads (default: those of the GPU proof)")
    parser.add_argument("--out", type=Path, required=True, help="folder for the artifacts")
    parser.add_argument("--chip", choices=CHIPS, default=DEFAULT_CHIP)
    parser.add_argument("--top", type=int, default=1, help="candidates to compile of each program")
    parser.add_argument(
        "--candidates", type=int, default=OptimizeOptions.candidates, help="candidates to verify"
    )
    parser.add_argument("--budget", type=float, default=60.0, help="seconds for a program")
    parser.add_argument("--seed", type=int, default=0, help="seed of the search")
    return parser.parse_args()


def compile_program(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Compile one workload, as ``mirage optimize`` does; return its entry in the summary."""
    options = OptimizeOptions(
        chip=arguments.chip,
        budget=arguments.budget,
        candidates=max(arguments.candidates, arguments.top),
        finalists=arguments.top + SPARE,
        seed=arguments.seed,
        fresh=True,
    )
    optimized = optimize(get(name).graph(), options)
    report = optimized.report
    entry: dict[str, Any] = {
        "candidates": len(report.checked),
        "kept": sum(c.kept for c in report.checked),
        "search": [r.report.to_json() for r in report.searches],
        "compiled": [],
        "failures": list(report.notes),
    }
    for number, finalist in enumerate(optimized.finalists[: arguments.top]):
        if not finalist.verdicts or not any(isinstance(op, Launch) for op in finalist.graph.ops):
            continue  # the program's own ops are not measured
        suffix = f"@{number}" if number else ""
        chosen, path = optimized.with_finalist(number), arguments.out / f"{name}{suffix}.mirage"
        if chosen.is_one_artifact:
            write_artifact(artifact_of(chosen, finalist), path)
        else:
            chosen.save(path)
        entry["compiled"].append(describe_choice(chosen, finalist, path))
    if not entry["compiled"]:
        verdicts = ", ".join(c.verdict.kind.value for c in report.checked)
        reasons = "\n".join(report.notes)
        raise StageError(f"no candidate compiles; verdicts: {verdicts or 'none'}\n{reasons}")
    return entry


def artifact_of(optimized: Optimized, finalist: Finalist) -> Artifact:
    """Compile one candidate, with the verdicts on its parts in the manifest, and the predicted time
    with the resources that the compiler reports."""
    artifact = optimized.artifact
    evidence = {
        **verdict_of(finalist),
        "evidence": "\n".join(v.evidence or "" for v in finalist.verdicts),
    }
    prediction = {"microseconds": finalist.predicted}
    manifest = replace(artifact.manifest, evidence=evidence, prediction=prediction)
    return replace(artifact, manifest=manifest)


def verdict_of(finalist: Finalist) -> dict[str, Any]:
    bounds = [v.bound_log2 for v in finalist.verdicts if v.kind == "probable"]
    return {
        "verdict": "probable" if bounds else "proved",
        "bound_log2": max(bounds) + log2(len(bounds)) if bounds else None,
    }


def describe_choice(optimized: Optimized, finalist: Finalist, path: Path) -> dict[str, Any]:
    """Return the entry of the summary for one compiled candidate."""
    compiled = [step.compiled for step in finalist.steps if step.compiled is not None]
    return {
        "artifact": path.name,
        **verdict_of(finalist),
        "predicted_us": finalist.predicted,
        "kernels": [k.entry for a in optimized.artifacts for k in a.manifest.kernels],
        "description": words(finalist.graph),
        "notes": [note for c in compiled for note in c.notes],
    }


def describe(entry: dict[str, Any]) -> str:
    """Return one line for the log."""
    if "error" in entry:
        return f"failed after {entry['seconds']} s: {entry['error']}"
    best = entry["compiled"][0]
    notes = "; ".join([*(f.splitlines()[0] for f in entry["failures"]), *best["notes"]])
    return (
        f"{len(best['kernels'])} kernels, {best['verdict']}, {best['predicted_us']:.1f} us "
        "predicted, "
        f"{entry['seconds']} s{'; ' + notes if notes else ''}"
    )


if __name__ == "__main__":
    sys.exit(main())
