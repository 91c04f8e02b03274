#!/usr/bin/env python3
"""Times the search of this tree and of other trees in turns, to show that a change that should cost
no time costs none.

    git worktree add ../before COMMIT
    python benchmarks/search_times.py --beside before=../before --out benchmarks/results

Each tree has one process with its own ``python/mirage``. It uses its own compiled library (for the
table of chips and the rules for shared memory) if the tree is built, and otherwise that of this
tree. For each program the trees take turns, in a different order each time, ``--runs`` times, each
time in a fork of the tree's process: nothing is kept from one measurement to the next. Programs
whose times differ much are measured ``--again``. All trees do the same: :func:`superoptimize` of a
built-in program for one chip, with the same number of candidates. Processor time counts, because
other work on the machine increases the wall time but hardly the processor time; the medians of both
are recorded. A program that is not the same in two trees (because its ops or shapes differ) is
named and left out of the comparison.
"""

# ruff: noqa: E402  (threads of matrix products are limited before NumPy loads)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import platform
import shlex
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from math import exp, inf, log
from pathlib import Path
from statistics import median
from typing import Any

import kept

Row = dict[str, Any]
HERE = Path(__file__).resolve()
THIS = "this"
"""The name of this tree."""


def serve(chip: str, candidates: int, budget: float) -> None:
    """Measure the programs that standard input names, one JSON object per line."""
    from mirage.cost import TARGETS
    from mirage.search import SearchLimits
    from mirage.workloads import names

    print(json.dumps(list(names())), flush=True)
    target, limits = TARGETS[chip], SearchLimits(candidates=candidates, budget=budget)
    for line in sys.stdin:
        inward, outward = os.pipe()
        child = os.fork()
        if not child:
            os.close(inward)
            with os.fdopen(outward, "w") as answer:
                answer.write(json.dumps(measured(line.strip(), target, limits)))
            os._exit(0)
        os.close(outward)
        with os.fdopen(inward) as answer:
            text = answer.read()
        os.waitpid(child, 0)
        print(text or json.dumps({"error": "the process died"}), flush=True)


def measured(name: str, target: Any, limits: Any) -> Row:
    """Measure one search in this process."""
    from mirage.search import superoptimize
    from mirage.workloads import get

    try:
        graph = get(name).graph()
        wall, cpu = time.perf_counter(), time.process_time()
        report = superoptimize(graph, target, limits).report
    except Exception as error:  # any exception of another tree is its result
        return {"error": f"{type(error).__name__}: {error}".splitlines()[0]}
    return {
        "cpu_s": time.process_time() - cpu,
        "wall_s": time.perf_counter() - wall,
        "stop": report.stop.value,
        "program": [[type(op).__name__, *(r.type.shape for r in op.results)] for op in graph.ops],
    }


class Tree:
    """A tree and its process."""

    def __init__(self, name: str, folder: Path, options: Sequence[str]) -> None:
        self.name = name
        self.commit = _git(folder, "describe", "--always", "--dirty")
        given = [p for p in os.environ.get("PYTHONPATH", "").split(os.pathsep) if p]
        others = [p for p in given if not (Path(p) / "mirage" / "__init__.py").exists()]
        own, here = (str(tree / "build/python_packages") for tree in (folder, HERE.parents[1]))
        compiled = [own] if Path(own).exists() else others or [here]
        path = os.pathsep.join((str(folder.resolve() / "python"), *compiled))
        self._process = subprocess.Popen(
            [sys.executable, str(HERE), "--serve", *options],
            env={**os.environ, "PYTHONPATH": path},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.programs: list[str] = self._read()

    def measure(self, name: str) -> Row:
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return self._read()

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _read(self) -> Any:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"error: the process of {self.name} ended")
        return json.loads(line)


def _git(folder: Path, *words: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(folder), *words], capture_output=True, text=True, check=False
    )
    return done.stdout.strip()


def compared(
    name: str, trees: Sequence[Tree], runs: int, doubtful: float = inf, again: int = 0
) -> Row:
    """Measure one program in all trees that have it, in turns. If it seems to take more than
    ``doubtful`` times as long in this tree as in another one, or the reverse, it is measured
    ``again``."""
    found: dict[str, list[Row]] = {t.name: [] for t in trees if name in t.programs}

    def measure(more: range) -> Row:
        for run in more:
            for i in range(len(trees)):
                tree = trees[(i + run) % len(trees)]
                if tree.name in found:
                    found[tree.name].append(tree.measure(name))
        return medians(name, found)

    row = measure(range(runs))
    ratios = [ratio for tree in found if tree != THIS and (ratio := _ratio(row, tree))]
    if again and any(max(ratio, 1.0 / ratio) > doubtful for ratio in ratios):
        row = measure(range(runs, runs + again))
    return row


def medians(name: str, found: Mapping[str, Sequence[Row]]) -> Row:
    """Return the measurements of one program in each tree, as one row."""
    row: Row = {"workload": name}
    for tree, rows in found.items():
        if errors := [r["error"] for r in rows if "error" in r]:
            row[tree] = {"error": errors[0]}
            continue
        row[tree] = {
            "cpu_s": round(median(r["cpu_s"] for r in rows), 4),
            "wall_s": round(median(r["wall_s"] for r in rows), 4),
            "stop": rows[0]["stop"],
        }
        own = found[THIS][0].get("program")
        if tree != THIS and rows[0]["program"] != own:
            row[tree]["another_program"] = True
    return row


def summary(rows: Sequence[Row], trees: Sequence[str]) -> dict[str, Row]:
    """Return the ratio of this tree's time to that of each other one, for the programs that both
    have."""
    found: dict[str, Row] = {}
    for tree in trees:
        both = [r for r in rows if _comparable(r, tree)]
        ratios = {r["workload"]: _ratio(r, tree) for r in both}
        if not ratios:
            continue
        slowest = sorted(ratios, key=lambda n: -ratios[n])[:5]
        found[tree] = {
            "programs": len(both),
            "cpu_s": round(sum(r[tree]["cpu_s"] for r in both), 2),
            "cpu_s_this": round(sum(r[THIS]["cpu_s"] for r in both), 2),
            "median_cpu_s": round(median(r[tree]["cpu_s"] for r in both), 3),
            "median_cpu_s_this": round(median(r[THIS]["cpu_s"] for r in both), 3),
            "median_ratio": round(median(ratios.values()), 3),
            "geometric_mean_ratio": round(exp(sum(map(log, ratios.values())) / len(ratios)), 3),
            "largest_ratios": {n: round(ratios[n], 2) for n in slowest},
            "other_programs": [r["workload"] for r in rows if _other(r, tree)],
        }
    return found


def _ratio(row: Mapping[str, Any], tree: str) -> float:
    """Return the ratio of this tree's time to another one's; 0 if they cannot be compared."""
    return row[THIS]["cpu_s"] / row[tree]["cpu_s"] if _comparable(row, tree) else 0.0


def _comparable(row: Mapping[str, Any], tree: str) -> bool:
    sides = (row.get(THIS, {}), row.get(tree, {}))
    return all("cpu_s" in s for s in sides) and not _other(row, tree)


def _other(row: Mapping[str, Any], tree: str) -> bool:
    return "another_program" in row.get(tree, {})


def line(row: Row) -> str:
    """Return a measurement as text."""
    sides = (
        f"{tree} {side.get('error') or format(side['cpu_s'], '.3f') + ' s'}"
        for tree, side in row.items()
        if tree != "workload"
    )
    return f"{row['workload']:26} " + ", ".join(sides)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("workloads", nargs="*", help="all of this tree by default")
    parser.add_argument(
        "--beside", metavar="NAME=FOLDER", action="append", default=[], help="another tree"
    )
    parser.add_argument("--out", type=Path, help="folder for search_times.json")
    parser.add_argument("--runs", type=int, default=3, help="measurements of each program")
    parser.add_argument(
        "--again",
        type=int,
        default=0,
        help="further measurements of programs whose times seem to differ by more than --doubtful",
    )
    parser.add_argument("--doubtful", type=float, default=1.2, help="ratio of times for --again")
    parser.add_argument("--chip", help="default: this tree's")
    parser.add_argument("--candidates", type=int, default=18, help="candidates to find")
    parser.add_argument("--budget", type=float, default=300.0, help="seconds a search may take")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    """Command line."""
    arguments = parse()
    if arguments.serve:
        serve(arguments.chip, arguments.candidates, arguments.budget)
        return 0
    if arguments.chip is None:  # other trees may have no default of this name
        from mirage.cost import DEFAULT_CHIP

        arguments.chip = DEFAULT_CHIP
    options = [f"--{n}={getattr(arguments, n)}" for n in ("chip", "candidates", "budget")]
    folders = {THIS: HERE.parents[1]}
    for given in arguments.beside:
        name, _, folder = given.partition("=")
        folders[name] = Path(folder)
    trees = [Tree(name, folder, options) for name, folder in folders.items()]
    start = time.perf_counter()
    rows: list[Row] = []
    for name in arguments.workloads or trees[0].programs:
        rows.append(compared(name, trees, arguments.runs, arguments.doubtful, arguments.again))
        print(line(rows[-1]), flush=True)
    for tree in trees:
        tree.end()
    result = {
        "command": shlex.join(["python", *sys.argv]),
        "seconds": round(time.perf_counter() - start, 1),
        "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPU cores",
        "load_average": os.getloadavg()[0],
        "commits": {t.name: t.commit for t in trees},
        "summary": summary(rows, [t.name for t in trees if t.name != THIS]),
        "rows": rows,
    }
    print(json.dumps(result["summary"], indent=1))
    if arguments.out:
        kept.write(arguments.out / "search_times.json", result, "rows")
    return 0


if __name__ == "__main__":
    sys.exit(main())
