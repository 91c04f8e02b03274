#!/usr/bin/env python3
"""Records the choice for each built-in program and the resulting PTX, as hashes, to show that a
change that should change nothing does not.

    python benchmarks/choices.py --out build/before.json
    python benchmarks/choices.py --out build/after.json --against build/before.json

This takes the stages of the pipeline except verification: search, the rewrite against overflow,
removal of the steps that a mask empties, shortlist, and then the candidate that is predicted to be
the fastest among those that compile. The search stops when it has covered everything, or after
``--budget`` seconds; programs for which it ran out of time are named, since their choices depend on
the machine. The exit code is 1 if a program differs from ``--against`` or fails in a different way.
"""

# ruff: noqa: E402  (threads of matrix products are limited before NumPy loads)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import hashlib
import json
import sys
import time
from pathlib import Path
from typing import Any

from mirage.compiler import CHIPS, DEFAULT_CHIP, CompileError, CompileOptions, compile_graph
from mirage.cost.target import Target, target_for
from mirage.errors import MirageError
from mirage.mlir_io import graph_to_text
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.search import add_candidates
from mirage.pipeline.select import ranking
from mirage.pipeline.shortlist import shortlist
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.search import SearchLimits, StopReason
from mirage.search.limits import SPARE
from mirage.semantics.alternatives import Alternatives, inlined
from mirage.semantics.ugraph import KernelGraph
from mirage.transforms.lookups import fused
from mirage.transforms.steps.skip_steps import skip_steps
from mirage.workloads import get, names

Row = dict[str, Any]
CANDIDATES = OptimizeOptions.candidates
"""Candidates of a part on the shortlist, as the pipeline has by default."""
SEARCHED = SPARE * CANDIDATES


def main() -> int:
    arguments = parse()
    chosen = arguments.programs or list(names())
    known = {} if arguments.against is None else json.loads(arguments.against.read_text())
    rows: dict[str, Row] = {}
    for name in chosen:
        start = time.monotonic()
        rows[name] = record(name, arguments.chip, arguments.budget)
        said = "" if not known else "  same" if same(rows[name], known.get(name)) else "  DIFFERS"
        note = rows[name].get("error") or rows[name]["stop"]
        print(f"{name}: {note}, {time.monotonic() - start:.1f} s{said}", flush=True)
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(json.dumps(rows, indent=1) + "\n")
    if not known:
        return 0
    differing = [name for name, row in rows.items() if not same(row, known.get(name))]
    print(f"{len(rows) - len(differing)} of {len(rows)} programs as in {arguments.against}")
    for name in differing:
        print(f"  differs: {name}")
    return 1 if differing else 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("programs", nargs="*", help="workloads (default: all)")
    parser.add_argument("--out", type=Path, required=True, help="file for the hashes")
    parser.add_argument("--against", type=Path, help="what another version recorded")
    parser.add_argument("--chip", choices=CHIPS, default=DEFAULT_CHIP)
    parser.add_argument("--budget", type=float, default=900.0, help="seconds of search a program")
    return parser.parse_args()


def same(row: Row, known: Row | None) -> bool:
    """Return whether the hashes, or the errors, are those recorded before."""
    keys = ("program", "candidates", "graph", "ptx", "error")
    return known is not None and all(row.get(key) == known.get(key) for key in keys)


def record(name: str, chip: str, budget: float) -> Row:
    """Return the choice for one workload, as hashes."""
    target = target_for(chip)
    graph = get(name).graph()
    row: Row = {"program": digest(graph_to_text(graph))}
    try:
        limits = SearchLimits(budget=budget, candidates=SEARCHED)
        candidates, results = add_candidates(graph, target, limits)
        stable, exponentials = stabilize_candidates(candidates)
        stable = skip_steps(stable)
        short, _ = shortlist(stable, target, CANDIDATES, exponentials)
        stops = {r.report.stop for r in results}
        row["stop"] = StopReason.BUDGET.value if StopReason.BUDGET in stops else "complete"
        row["candidates"] = digest(graph_to_text(short))
        chosen, ptx = compiled(short, target, chip)
    except MirageError as e:
        return {**row, "error": f"{type(e).__name__}: {str(e).splitlines()[0]}"}
    return {**row, "graph": digest(graph_to_text(chosen)), "ptx": ptx}


def compiled(graph: KernelGraph, target: Target, chip: str) -> tuple[KernelGraph, dict[str, str]]:
    """Return the first choice that compiles, and a hash of each of its PTX modules."""
    failure: CompileError | None = None
    parts = [op for op in graph.ops if isinstance(op, Alternatives)]
    orders = {part: [position for _, position in ranking(part, target)] for part in parts}
    for rank in range(max((len(order) for order in orders.values()), default=1)):

        def choose(part: Alternatives, rank: int = rank) -> int:
            order = orders[part]
            return order[min(rank, len(order) - 1)] if order else 0

        chosen = fused(inlined(graph, choose))
        try:
            artifact = compile_graph(chosen, CompileOptions(chip)).artifact
        except CompileError as e:
            failure = e
            continue
        texts = {module.ptx: artifact.files[module.ptx] for module in artifact.manifest.modules}
        return chosen, {file: digest(ptx) for file, ptx in sorted(texts.items())}
    assert failure is not None
    raise failure


def digest(text: str | bytes) -> str:
    """Return a hash that is short enough to read."""
    data = text if isinstance(text, bytes) else text.encode()
    return hashlib.sha256(data).hexdigest()[:16]


if __name__ == "__main__":
    sys.exit(main())
