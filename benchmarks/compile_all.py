#!/usr/bin/env python3
"""Searches, verifies and compiles the benchmark programs, for a machine with a GPU and nothing
else.

    python benchmarks/compile_all.py --out build/artifacts

Each program becomes a folder ``<workload>.mirage``; ``summary.json`` has candidates, verdicts,
predictions and times. With ``--top N`` the N best candidates of each program are compiled
(``<workload>.mirage``, ``<workload>@1.mirage``, …), so that a run on a GPU can choose among them.
Exit code 1 if a program fails; the others are compiled all the same.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import Any

from mirage.compiler import (
    CHIPS,
    DEFAULT_CHIP,
    Compiled,
    CompileError,
    CompileOptions,
    compile_graph,
)
from mirage.cost.predict import predict
from mirage.cost.target import target_for
from mirage.errors import MirageError
from mirage.pipeline.errors import StageError
from mirage.pipeline.rank import resources_of
from mirage.pipeline.search import add_candidates
from mirage.pipeline.select import ranking, select_cheapest
from mirage.pipeline.shortlist import shortlist
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.pipeline.verify import Checked, verify_candidates
from mirage.runtime import write_artifact
from mirage.search import SearchLimits
from mirage.semantics.alternatives import Alternatives
from mirage.semantics.describe import describe as words
from mirage.semantics.ugraph import KernelGraph
from mirage.workloads import get

SPARE = 3
"""Candidates to compile besides those that are kept: registers are known only then."""
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
        "--candidates", type=int, default=8, help="candidates to verify of each program"
    )
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of search a program")
    parser.add_argument("--seed", type=int, default=0, help="seed of the search")
    return parser.parse_args()


def compile_program(name: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Compiles one workload; returns its entry in the summary."""
    target = target_for(arguments.chip)
    limits = SearchLimits(
        budget=arguments.budget, seed=arguments.seed, candidates=3 * arguments.candidates
    )
    candidates, results = add_candidates(get(name).graph(), target, limits)
    stable, exponentials = stabilize_candidates(candidates)
    stable, _ = shortlist(stable, target, arguments.candidates, exponentials)
    verified, checked = verify_candidates(stable)
    (part,) = [op for op in verified.ops if isinstance(op, Alternatives)]
    kept = [c for c in checked if c.kept]
    entry: dict[str, Any] = {
        "candidates": len(checked),
        "kept": len(kept),
        "search": [r.report.to_json() for r in results],
        "compiled": [],
        "failures": [],
    }
    done: list[tuple[float, Compiled, KernelGraph]] = []
    for rank, (_, position) in enumerate(ranking(part, target)):
        if len(done) == arguments.top + SPARE:
            break
        graph, _ = select_cheapest(verified, target, rank)
        try:
            compiled = compile_choice(graph, kept[position - 1], arguments.chip)
        except CompileError as e:
            entry["failures"].append(f"candidate {rank} by predicted time: {e}")
            continue
        done.append((compiled.artifact.manifest.prediction["microseconds"], compiled, graph))
    done.sort(key=lambda choice: choice[0])
    for number, (_, compiled, graph) in enumerate(done[: arguments.top]):
        suffix = f"@{number}" if number else ""
        path = write_artifact(compiled.artifact, arguments.out / f"{name}{suffix}.mirage")
        entry["compiled"].append(describe_choice(compiled, graph, path))
    if not entry["compiled"]:
        verdicts = ", ".join(c.verdict.kind.value for c in checked)
        reasons = "\n".join(entry["failures"])
        raise StageError(f"no candidate compiles; verdicts: {verdicts or 'none'}\n{reasons}")
    return entry


def compile_choice(graph: KernelGraph, checked: Checked, chip: str) -> Compiled:
    """One candidate, with its verdict in the manifest, and the predicted time with the resources
    that the compiler reports."""
    verdict = checked.verdict
    compiled = compile_graph(graph, CompileOptions(chip), evidence={
        "verdict": verdict.kind.value, **verdict.to_json()
    })  # fmt: skip
    manifest = compiled.artifact.manifest
    cost = predict(graph, target_for(chip), resources_of(manifest))
    prediction = {"microseconds": float("inf") if cost is None else cost.time}
    artifact = replace(compiled.artifact, manifest=replace(manifest, prediction=prediction))
    return replace(compiled, artifact=artifact)


def describe_choice(compiled: Compiled, graph: KernelGraph, path: Path) -> dict[str, Any]:
    """What the summary says about one artifact."""
    manifest = compiled.artifact.manifest
    return {
        "artifact": path.name,
        "verdict": manifest.evidence["verdict"],
        "bound_log2": manifest.evidence["bound_log2"],
        "predicted_us": manifest.prediction.get("microseconds"),
        "kernels": [k.entry for k in manifest.kernels],
        "description": words(graph),
        "notes": list(compiled.notes),
    }


def describe(entry: dict[str, Any]) -> str:
    """One line for the log."""
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
