#!/usr/bin/env python3
"""Records how long each kernel of the catalogue takes to compile: our passes, then ptxas.

    .venv/bin/python benchmarks/compile_times.py --out benchmarks/results/compile_times.json

For each workload, the kernels of the candidate that is predicted to be the fastest; kernels that
become the same code count once. Times are seconds of processor time, the least of ``--rounds``, so
that other programs on the machine hardly matter. The summary has the median, the ninth decile, the
slowest kernel, and those that take longer than ``--most`` seconds; rows have the size of their PTX,
which determines most of the time.
"""

# ruff: noqa: E402  (threads of matrix products are limited before NumPy loads)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import resource
import shlex
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import kept
from chip_option import add_chip
from mirage.compiler import CompileError, CompileOptions, compile_graph
from mirage.compiler.compile import with_machine_code
from mirage.compiler.ptxas import find_ptxas, ptxas_version
from mirage.cost.target import Target, target_for
from mirage.errors import MirageError
from mirage.pipeline.compile.broken import group_of, key_of
from mirage.pipeline.search import add_candidates
from mirage.pipeline.select import ranking
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.search import SearchLimits
from mirage.semantics.alternatives import Alternatives, inlined
from mirage.semantics.ugraph import Launch, launches
from mirage.transforms.gathered_copies import with_copied_rows
from mirage.transforms.lookups import fused
from mirage.transforms.steps.skip_steps import skip_steps
from mirage.workloads import get, names

Row = dict[str, Any]
Result = TypeVar("Result")


def main() -> int:
    arguments = parse()
    ptxas = find_ptxas()
    if ptxas is None:
        print("error: expected ptxas on the PATH or in MIRAGE_PTXAS", file=sys.stderr)
        return 2
    rows: dict[str, Row] = {}
    seen: set[str] = set()
    for name in arguments.workloads or names():
        try:
            kernels = first_choice(name, target_for(arguments.chip), arguments.budget)
        except MirageError as error:
            print(f"{name}: {type(error).__name__}: {error}", file=sys.stderr)
            continue
        for number, launch in enumerate(kernels):
            key = key_of(launch)
            if key in seen:
                continue
            seen.add(key)
            try:
                rows[f"{name}/{number}"] = timed(launch, arguments.chip, arguments.rounds)
            except CompileError as error:
                print(f"{name}/{number}: {str(error).splitlines()[0]}", file=sys.stderr)
        report = {
            "command": shlex.join(["python", *sys.argv]),
            "ptxas": ptxas_version(ptxas),
            "summary": summary(rows, arguments.most),
            "kernels": rows,
        }
        kept.write(arguments.out, report, "kernels")
        print(f"{name}: {report['summary']}", flush=True)
    return 0


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("workloads", nargs="*", help="names (default: all built-in workloads)")
    add_chip(parser)
    parser.add_argument("--out", type=Path, required=True, help="JSON file to write")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of search a program")
    parser.add_argument("--rounds", type=int, default=3, help="compilations of a kernel")
    parser.add_argument("--most", type=float, default=0.5, help="seconds a kernel should take")
    return parser.parse_args()


def first_choice(name: str, target: Target, budget: float) -> list[Launch]:
    """Return the kernels of the candidate of a workload that is predicted to be the fastest."""
    found, _ = add_candidates(get(name).graph(), target, SearchLimits(budget=budget))
    stable, _ = stabilize_candidates(found)

    def first(part: Alternatives) -> int:
        order = ranking(part, target)
        return order[0][1] if order else 0

    return list(launches(fused(with_copied_rows(inlined(skip_steps(stable), first), target)).ops))


def timed(launch: Launch, chip: str, rounds: int) -> Row:
    """Return the processor time of compiling one kernel, in seconds. Raises
    :class:`mirage.compiler.CompileError`."""
    graph, options = group_of([launch]), CompileOptions(chip, cubin=False, use_cache=False)
    lowered, passes = least(lambda: compile_graph(graph, options), rounds)
    compiled, assembly = least(lambda: with_machine_code(lowered.artifact), rounds)
    (entry,) = compiled.artifact.manifest.resources.values()
    ptx = [data for file, data in compiled.artifact.files.items() if file.endswith(".ptx")]
    return {
        "passes": round(passes, 3),
        "ptxas": round(assembly, 3),
        "ptx_lines": sum(data.count(b"\n") for data in ptx),
        "registers": entry["registers"],
        "spilled": entry["spill_stores"] + entry["spill_loads"],
    }


def least(call: Callable[[], Result], rounds: int) -> tuple[Result, float]:
    """Return the result of a call, and the least of the seconds that it took."""
    taken = [spent(call) for _ in range(max(1, rounds))]
    return taken[0][0], min(seconds for _, seconds in taken)


def spent(call: Callable[[], Result]) -> tuple[Result, float]:
    """Return the result of a call, and the processor seconds that it and its processes took."""

    def used() -> float:
        usage = (resource.getrusage(w) for w in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        return sum(u.ru_utime + u.ru_stime for u in usage)

    before = used()
    result = call()
    return result, used() - before


def summary(rows: dict[str, Row], most: float) -> dict[str, Any]:
    """Return statistics of the sums of both times, and the kernels above ``most`` seconds."""
    total = {name: row["passes"] + row["ptxas"] for name, row in rows.items()}
    if not total:
        return {"kernels": 0}
    times = sorted(total.values())
    return {
        "kernels": len(times),
        "median": round(statistics.median(times), 3),
        "ninth_decile": round(times[int(0.9 * (len(times) - 1))], 3),
        "slowest": round(times[-1], 3),
        "most": most,
        "above": {name: round(t, 3) for name, t in total.items() if t > most},
    }


if __name__ == "__main__":
    sys.exit(main())
