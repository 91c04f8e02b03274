#!/usr/bin/env python3
"""Times the stages from a program to its verified, selected candidates, for each built-in workload.

    python benchmarks/search.py --out benchmarks/results

Every program runs in a separate process, for at most ``--limit`` seconds: search, stabilisation,
verification of all candidates, and choice; nothing is compiled. A program that misses its goal is
measured up to ``--runs`` times, because machines that others use have slow moments; the shortest
time counts, and all of them are recorded. The results contain wall time by stage and phase,
processor time and peak memory of the process and its workers together, and the time of the search
for programs of 2 to 20 operators. Programs that miss a goal are printed last. The measurements
before an interruption are kept in ``search.partial.json`` and used with ``--resume``.
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
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import kept
from mirage.cost import DEFAULT_CHIP, TARGETS
from mirage.search import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.workloads import get, names
from usage import Memory, processor_time

Row = dict[str, Any]
COMPOUND = ("layer", "swiglu_down", "lora_swiglu", "rope_attention", "qknorm")
"""Parts of the names of programs with several fused parts; all others are single ones."""
GOALS = {"single": 3, "compound": 20, "layer": 60}
"""Seconds from a program to its verified candidates."""
MEMORY_MIB = 2048


def measure(name: str) -> Row:
    """Measure one workload in this process."""
    from mirage.errors import MirageError
    from mirage.pipeline.optimize import optimize
    from mirage.pipeline.options import OptimizeOptions

    program = get(name).program()
    wall, cpu = time.perf_counter(), processor_time()
    row: Row = {"workload": name, "operators": len(decompose(program.graph).ops)}
    options = OptimizeOptions(compile=False, verify_seed=0, fresh=True)
    try:
        with Memory() as memory:
            report = optimize(program, options).report
    except MirageError as error:
        text = str(error).splitlines()[0]
        return {**row, "error": text, "wall_s": time.perf_counter() - wall}
    searches = [s.report.to_json() for s in report.searches]
    return {
        **row,
        "wall_s": time.perf_counter() - wall,
        "cpu_s": processor_time() - cpu,
        "peak_mib": memory.most,
        "stages_s": {k: report.seconds.get(k, 0.0) for k in ("search", "stabilize", "verify")},
        "stop": [s["stop"] for s in searches],
        "search": searches,
        "predicted_us": None if report.prediction is None else report.prediction.time,
        "candidates": len(report.checked),
        "kept": sum(c.kept for c in report.checked),
        "unstable": sum(not e.stable for part in report.exponentials for e in part),
    }


def growing(count: int) -> KernelGraph:
    """Return a program of ``count`` operators: the first ones of a residual, gated network."""
    m, n = 16, 1024
    b = Builder()
    inputs = [Value(TensorType((m, n), DType.F16), "x")]

    def weight() -> Value:
        inputs.append(Value(TensorType((n, n), DType.F16), f"w{len(inputs)}"))
        return inputs[-1]

    def cut() -> bool:
        return len(b.ops) >= count

    x = residual = gate = inputs[0]
    while not cut():
        for step in range(8):
            match step:
                case 0:
                    x = b.rms_norm(x)
                case 1:
                    gate = b.matmul(x, weight())
                case 2:
                    gate = b.unary(UnaryFn.SILU, gate)
                case 3:
                    x = b.matmul(x, weight())
                case 4:
                    x = b.binary(BinaryFn.MUL, gate, x)
                case 5:
                    x = b.matmul(x, weight())
                case 6:
                    x = residual = b.binary(BinaryFn.ADD, residual, x)
                case _:
                    x = b.unary(UnaryFn.TANH, x)
            if cut():
                break
    last = b.ops[-1].result
    needed = {last}
    for op in reversed(b.ops):
        if needed & set(op.results):
            needed.update(op.operands)
    ops = tuple(op for op in b.ops if needed & set(op.results))
    used = tuple(v for v in inputs if v in needed)
    return KernelGraph(f"growing{count}", used, ops, (last,))


def scaling() -> list[Row]:
    """Measure the search time by the number of operators."""
    rows: list[Row] = []
    for count in range(2, 25):
        graph = growing(count)
        wall, cpu = time.perf_counter(), time.process_time()
        result = superoptimize(graph, TARGETS[DEFAULT_CHIP])
        row = {
            "operators": len(graph.ops),
            "wall_s": time.perf_counter() - wall,
            "cpu_s": time.process_time() - cpu,
            "plans": result.report.plans,
            "stop": result.report.stop.value,
        }
        if any(r["operators"] == row["operators"] for r in rows):
            continue  # the last operator leaves another one unused
        rows.append(row)
        print(f"{row['operators']:3} operators {row['wall_s']:6.2f} s", flush=True)
    return [r for r in rows if r["operators"] <= 20]


def apart(name: str, limit: float) -> Row:
    """Return the measurement of one workload by a separate process."""
    command = [sys.executable, str(Path(__file__).resolve()), "--one", name]
    start = time.perf_counter()
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        return {"workload": name, "error": f"took more than {limit:g} s", "wall_s": limit}
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no output"])[-1]
        return {"workload": name, "error": last, "wall_s": time.perf_counter() - start}
    return json.loads(done.stdout.strip().splitlines()[-1])


def measured(name: str, limit: float, runs: int) -> Row:
    """Return the best of up to ``runs`` measurements; one that meets its goal is enough."""
    rows: list[Row] = []
    while len(rows) < runs:
        rows.append(apart(name, limit))
        if "error" in rows[-1]:
            return rows[-1]
        if rows[-1]["wall_s"] <= GOALS[group_of(name)]:
            break
    return {**min(rows, key=lambda r: r["wall_s"]), "all_wall_s": [r["wall_s"] for r in rows]}


def line(row: Row) -> str:
    """Return a measurement as text."""
    if "error" in row:
        return f"{row['workload']:24} {row['error']}"
    stages = " ".join(f"{k} {v:.2f}" for k, v in row["stages_s"].items())
    return (
        f"{row['workload']:24} {row['wall_s']:6.2f} s, cpu {row['cpu_s']:6.2f} s ({stages}) "
        f"{row['peak_mib']:5.0f} MiB {'/'.join(row['stop'])} "
        f"{row['kept']} of {row['candidates']} kept"
    )


def plot(path: Path, growth: list[Row], rows: list[Row]) -> None:
    """Search time against the number of operators."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5))
    axes.plot(
        [r["operators"] for r in growth],
        [r["cpu_s"] for r in growth],
        "o-",
        label="gated residual network, cut after n operators",
    )
    good = [r for r in rows if "error" not in r]
    axes.plot(
        [r["operators"] for r in good],
        [r["stages_s"]["search"] for r in good],
        "x",
        color="gray",
        label="built-in programs (primitive operators)",
    )
    axes.set_xlabel("operators")
    axes.set_ylabel("seconds of search")
    axes.set_yscale("log")
    axes.grid(True, alpha=0.3)
    axes.legend()
    figure.tight_layout()
    temporary = path.with_suffix(".tmp.png")
    figure.savefig(temporary, dpi=120)
    os.replace(temporary, path)


def group_of(name: str) -> str:
    """Return the goal of a program."""
    if "layer" in name:
        return "layer"
    return "compound" if any(part in name for part in COMPOUND) else "single"


def summary(rows: list[Row]) -> Row:
    """Return the slowest and largest programs, with the goals."""
    good = [r for r in rows if "error" not in r]
    groups = {k: [r for r in good if group_of(r["workload"]) == k] for k in GOALS}

    def worst(key: str, chosen: list[Row]) -> Any:
        return max(((r[key], r["workload"]) for r in chosen), default=None)

    def above(key: str) -> dict[str, float]:
        late = (r for k, g in groups.items() for r in g if r[key] > GOALS[k])
        return {r["workload"]: round(r[key], 2) for r in late}

    # other work on the machine increases the wall time, but hardly the processor time
    return {
        "goals": {**GOALS, "mib": MEMORY_MIB},
        "slowest_wall": {k: worst("wall_s", g) for k, g in groups.items()},
        "slowest_cpu": {k: worst("cpu_s", g) for k, g in groups.items()},
        "largest_mib": worst("peak_mib", good),
        "above_goal_wall": above("wall_s"),
        "above_goal_cpu": above("cpu_s"),
        "above_goal_mib": [r["workload"] for r in good if r["peak_mib"] > MEMORY_MIB],
        "failed": {r["workload"]: r["error"] for r in rows if "error" in r},
    }


def write(path: Path, data: Any) -> None:
    """Write JSON, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(data, indent=1) + "\n")
    os.replace(temporary, path)


def misses(found: Row) -> list[str]:
    """Return a line of text for each goal that is missed."""
    lines = [
        f"{name}: {seconds:g} s, goal {GOALS[group_of(name)]} s"
        for name, seconds in found["above_goal_wall"].items()
    ]
    lines += [f"{name}: more than {MEMORY_MIB} MiB" for name in found["above_goal_mib"]]
    lines += [f"{name}: {error}" for name, error in found["failed"].items()]
    return lines


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workloads", nargs="*", help="all by default")
    parser.add_argument("--out", type=Path, help="folder for search.json and search.png")
    parser.add_argument("--limit", type=float, default=120.0, help="seconds for one program")
    parser.add_argument("--runs", type=int, default=3, help="measurements of what misses its goal")
    parser.add_argument("--resume", action="store_true", help="go on after an interruption")
    parser.add_argument("--one", metavar="NAME", help="measure one program and print JSON")
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one)))
        return 0
    partial = arguments.out / "search.partial.json" if arguments.out else None
    before: dict[str, Row] = {}
    if arguments.resume and partial is not None and partial.exists():
        before = {r["workload"]: r for r in json.loads(partial.read_text())}
    start = time.perf_counter()
    rows: list[Row] = []
    for name in arguments.workloads or names():
        rows.append(before.get(name) or measured(name, arguments.limit, arguments.runs))
        print(line(rows[-1]), flush=True)
        if partial is not None:
            write(partial, rows)
    growth = scaling()
    found = summary(rows)
    if arguments.out:
        result = {
            "command": shlex.join(["python", *sys.argv]),
            "seconds": round(time.perf_counter() - start, 1),
            "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPU cores",
            "load_average": os.getloadavg()[0],
            "summary": found,
            "operators": growth,
            "rows": rows,
        }
        kept.write(arguments.out / "search.json", result, "rows", ("search",))
        plot(arguments.out / "search.png", growth, rows)
    if partial is not None:
        partial.unlink()
    lines = misses(found)
    print("\n".join(["", "misses:", *lines] if lines else ["", "no goal is missed"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
