#!/usr/bin/env python3
"""Checks and times compiled artifacts on a GPU, in comparison with PyTorch.

    python benchmarks/run.py --artifacts DIR --out benchmarks/results

DIR has one folder ``<workload>.mirage`` for each program (see compile_all.py). Needs Python, torch,
cuda-bindings, NumPy and a GPU; matplotlib for the plot. The exit code is 1 if a result is wrong or
a program fails.
"""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import shlex
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import report  # noqa: E402
import timing  # noqa: E402
import torch  # noqa: E402
from accuracy import Errors, exact_results, results_of  # noqa: E402
from baselines import Baseline, baselines  # noqa: E402
from compile_peers import is_autotuned  # noqa: E402
from mirage.errors import MirageError  # noqa: E402
from mirage.runtime import Executable, Model, load  # noqa: E402
from mirage.workloads import get, names  # noqa: E402
from prepared import Inputs, PreparedInputs  # noqa: E402

CHECKED_SEEDS = (0, 1, 2)
ALLOWED = 2.0  # times PyTorch's own error


def main() -> int:
    arguments = parse()
    if not torch.cuda.is_available():
        print("error: no GPU was found, this script measures one", file=sys.stderr)
        return 2
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    groups = find(arguments.artifacts, arguments.only)
    if not groups:
        print(f"error: no folder <workload>.mirage in {arguments.artifacts}", file=sys.stderr)
        return 2
    info = environment()
    with PreparedInputs(list(groups), CHECKED_SEEDS) as prepared:
        rows = run(groups, prepared, info, arguments)
    report.write(arguments.out, rows, info, arguments.stem)
    print(report.markdown(rows, info))
    return 0 if all(row.get("correct") for row in rows) else 1


def run(
    groups: dict[str, dict[str, Path]],
    prepared: PreparedInputs,
    info: dict[str, Any],
    arguments: argparse.Namespace,
) -> list[report.Row]:
    """Measure one program after the other, and write the results so far after each."""
    started = time.monotonic()
    rows: list[report.Row] = []
    for name, folders in groups.items():
        used = time.monotonic() - started
        if used > arguments.seconds:
            reason = f"not run: {used:.0f} s of {arguments.seconds:.0f} s were used"
            rows.append({"name": name, "error": reason})
            continue
        print(f"[{used:5.0f} s] {name}", flush=True)
        try:
            programs = {label: load(folder) for label, folder in folders.items()}
            row = measure(name, programs, prepared.of(name), arguments)
        except Exception as e:  # one bad artifact must not hide the others' results
            if not isinstance(e, MirageError):
                traceback.print_exc()
            row = {"name": name, "error": f"{type(e).__name__}: {e}"}
        rows.append(row)
        print("          " + summary(row), flush=True)
        report.write(arguments.out, rows, info, arguments.stem)
        torch.cuda.empty_cache()
    return rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument(
        "--artifacts", type=Path, required=True, help="folder of <workload>.mirage folders"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for the results")
    parser.add_argument(
        "--stem", default="h200", help="name of the result files (default: %(default)s)"
    )
    parser.add_argument(
        "--only", nargs="*", default=(), help="run only programs that start with one of these"
    )
    parser.add_argument(
        "--rounds",
        type=int,
        default=25,
        help="rounds a median is taken over (default: %(default)s)",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=480.0,
        help="start no program after this (default: %(default)s)",
    )
    parser.add_argument(
        "--autotune",
        nargs="*",
        metavar="NAME",
        help="also compare these programs (default: all) with torch.compile's max-autotune (slow)",
    )
    parser.add_argument(
        "--no-baselines", action="store_true", help="check and time ours and eager only"
    )
    return parser.parse_args()


def find(folder: Path, only: Sequence[str]) -> dict[str, dict[str, Path]]:
    """Return the artifacts of each program, by label (``mirage``, ``mirage@1``, …), in the order of
    ``only``, the beginnings of names, and then of the catalogue.
    """
    groups: dict[str, dict[str, Path]] = {}
    for path in sorted(folder.glob("*.mirage")):
        name, at, number = path.name.removesuffix(".mirage").partition("@")
        if not only or name.startswith(tuple(only)):
            groups.setdefault(name, {})["mirage" + at + number] = path
    order = {name: i for i, name in enumerate(names())}

    def place(name: str) -> tuple[int, int, str]:
        asked = next((i for i, start in enumerate(only) if name.startswith(start)), 0)
        exactly = only.index(name) if name in only else asked
        return exactly, order.get(name, len(order)), name

    return {n: groups[n] for n in sorted(groups, key=place)}


def measure(
    name: str,
    programs: dict[str, Executable],
    drawn: dict[int, Inputs],
    arguments: argparse.Namespace,
) -> report.Row:
    """Check, then time one program: all its candidates and the baselines together."""
    workload = get(name)
    torch.set_float32_matmul_precision("high" if workload.tf32 else "highest")
    module = workload.torch_module()
    inputs = drawn[CHECKED_SEEDS[0]]
    others = (
        {"eager": Baseline(module)}
        if arguments.no_baselines
        else baselines(workload, module, inputs, autotune=is_autotuned(name, arguments.autotune))
    )
    row: report.Row = {"name": name, "candidates": {k: about(p) for k, p in programs.items()}}
    check(row, workload.exact or module, module, programs, drawn)
    del drawn
    if not row["correct"]:
        return row

    size = sum(x.numel() * x.element_size() for x in inputs)
    results = results_of(module, inputs)
    row["bytes"] = size + sum(x.numel() * x.element_size() for x in results)
    copies = timing.copies_needed(size)
    sets = [inputs] + [tuple(x.clone() for x in inputs) for _ in range(copies - 1)]
    outputs = {label: [tuple(map(torch.empty_like, results)) for _ in sets] for label in programs}
    calls: dict[str, timing.Call] = {}
    for label, program in programs.items():

        def call(i: int, program: Any = program, out: Any = outputs[label]) -> None:
            out[i] = results_from(program, sets[i], out[i])

        calls[label] = call
    for label, baseline in others.items():
        calls[label] = keeping(baseline.program, [baseline.prepare(x) for x in sets])

    launches = timing.launches_per_graph(len(sets))
    with torch.no_grad():
        for what, order in (
            ("cold", [i % len(sets) for i in range(launches)]),
            ("hot", [0] * launches),
        ):
            graphs = {key: timing.capture(call, order) for key, call in calls.items()}
            times = timing.time_graphs(graphs, launches, arguments.rounds)
            row[what] = {key: asdict(t) for key, t in times.items()}
            if what == "cold":
                for label, program in programs.items():
                    verify_replay(row, label, graphs[label], outputs[label], program, sets)
            del graphs
        plain = timing.time_plain(calls, max(3, arguments.rounds // 3))
    row["plain"] = {key: asdict(t) for key, t in plain.items()}
    row["best"] = min(programs, key=lambda label: row["cold"][label]["median"])
    row["gigabytes_per_second"] = row["bytes"] / row["cold"][row["best"]]["median"] / 1e3
    return row


def results_from(
    program: Executable | Model, inputs: Sequence[torch.Tensor], out: Sequence[torch.Tensor] = ()
) -> tuple[torch.Tensor, ...]:
    """Return the results, in the memory of ``out`` if it is given and the program is one part;
    programs of several parts write to memory of their own."""
    if not isinstance(program, Model):
        return tuple(program(inputs=inputs, out=out) if out else program(inputs=inputs))
    found = program(*inputs)
    return found if isinstance(found, tuple) else (found,)


def keeping(program: Callable[..., Any], sets: Sequence[tuple[Any, ...]]) -> timing.Call:
    """Make a peer that writes separate results for each set of inputs, like ours. Otherwise a
    result would be freed, and the next launch of the graph would get its memory, which is still in
    L2, so that results would never be written to device memory.
    """
    results: list[Any] = [None] * len(sets)

    def call(i: int) -> None:
        results[i] = program(*sets[i])

    return call


def about(program: Executable | Model) -> dict[str, Any]:
    """Return an artifact's own information; that of its parts, if it has several."""
    if isinstance(program, Model):
        parts = [program.artifact.part(i).manifest for i in range(len(program.manifest.parts))]
        kinds = {part.evidence["verdicts"][0]["kind"] for part in parts}
        evidence: dict[str, Any] = {"verdict": "proved" if kinds == {"proved"} else "probable"}
        predicted: dict[str, Any] = {}
    else:
        parts = [program.manifest]
        evidence, predicted = dict(parts[0].evidence), dict(parts[0].prediction)
    return {
        "chip": program.manifest.chip,
        "compiler": program.manifest.compiler,
        "verdict": evidence.get("verdict", "-"),
        "evidence": evidence,
        "predicted": predicted,
        "resources": {name: r for part in parts for name, r in part.resources.items()},
        "launches": [
            {"entry": k.entry, "grid": k.grid, "block": k.block, "shared_bytes": k.shared_bytes}
            for part in parts
            for k in part.kernels
        ],
    }


def check(
    row: report.Row,
    reference: Callable[..., Any],
    module: torch.nn.Module,
    programs: dict[str, Executable],
    drawn: dict[int, Inputs],
) -> None:
    """Return our errors and PyTorch's against float64 on each input; ours may be twice as large."""
    errors = dict.fromkeys([*programs, "eager"], Errors(0.0, 0.0))
    for inputs in drawn.values():
        exact = exact_results(reference, inputs)
        eager = results_of(module, inputs)
        errors["eager"] = errors["eager"].worst(Errors.of_all(eager, exact))
        for label, program in programs.items():
            out = tuple(torch.full_like(x, float("nan")) for x in eager)
            out = results_from(program, inputs, out)
            errors[label] = errors[label].worst(Errors.of_all(out, exact))
    theirs = errors["eager"]
    wrong = [
        f"{label}: errors l2 {e.l2:.2e}, max {e.max:.2e}; eager {theirs.l2:.2e}, {theirs.max:.2e}"
        for label, e in errors.items()
        if not e.within(ALLOWED, theirs)
    ]
    row["errors"] = {label: asdict(e) for label, e in errors.items()}
    row["correct"] = not wrong
    row["complaint"] = "; ".join(wrong)


def verify_replay(
    row: report.Row,
    label: str,
    graph: torch.cuda.CUDAGraph,
    outputs: list[tuple[torch.Tensor, ...]],
    program: Executable,
    sets: list[tuple[torch.Tensor, ...]],
) -> None:
    """Check that the timed graph writes the same as a single call, in every copy."""
    for out in outputs:
        for t in out:
            t.fill_(float("nan"))
    graph.replay()
    torch.cuda.synchronize()
    for i, out in enumerate(outputs):
        for got, wanted in zip(out, results_from(program, sets[i]), strict=True):
            if not torch.equal(got, wanted):
                row["correct"] = False
                row["complaint"] = (
                    f"graph replay differs from a single call on copy {i} of the inputs"
                )
                return


def summary(row: report.Row) -> str:
    """Return one line for the log."""
    if "error" in row:
        return row["error"].splitlines()[0]
    if not row["correct"]:
        return f"WRONG: {row['complaint']}"
    return ", ".join(f"{side} {t['median']:.2f}" for side, t in row["cold"].items()) + " us cold"


def environment() -> dict[str, Any]:
    """Return where and how the numbers were measured."""
    query = [
        "nvidia-smi",
        "--query-gpu=driver_version,clocks.sm,clocks.max.sm,power.limit",
        "--format=csv,noheader",
    ]
    try:
        smi = subprocess.run(
            query, capture_output=True, text=True, timeout=20, check=False
        ).stdout.strip()
    except OSError:
        smi = ""
    device = torch.cuda.get_device_properties(0)
    return {
        "gpu": device.name,
        "multiprocessors": device.multi_processor_count,
        "driver": smi.split(",")[0] or "unknown",
        "nvidia_smi": smi,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "date": datetime.datetime.now(tz=datetime.timezone.utc).strftime("%Y-%m-%d"),
        "command": shlex.join(
            ["python", *(os.path.relpath(a) if os.path.isabs(a) else a for a in sys.argv)]
        ),
    }


if __name__ == "__main__":
    sys.exit(main())
