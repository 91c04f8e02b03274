#!/usr/bin/env python3
"""Optimizes the gallery's layers (test/python/support/gallery) and checks what comes out.

    python benchmarks/layers.py --out benchmarks/results
    python benchmarks/layers.py 'bert*' llama --width small

Each layer at each width runs in a process of its own, for at most ``--limit`` seconds: import,
search, verification, compilation; then it is executed without a GPU and compared with PyTorch
(layer_run.py). The table says for each how long the stages took, how many kernels there are, how
fast they are predicted to be, how much memory all processes had at most together (and before: the
layer's weights, Python and PyTorch), what the verdicts are, what stays with PyTorch, and how large
the errors are. With ``--resume`` layers that an earlier run into the same folder measured are not
measured again, also where it was interrupted, and those that are not asked for stay. The exit code
is 1 if an executed layer is wrong.
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
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parent / "test" / "python" / "support")]

from gallery import Width, case, cases
from gallery.case import WIDTHS
from mirage.cost import DEFAULT_CHIP

Row = dict[str, Any]
RESULT, PARTIAL = "layers.json", "layers.partial.json"
STAGE = "stage: "  # leads lines on which the child says what is under way


def one(name: str, width: Width, arguments: argparse.Namespace) -> Row:
    """The measurement, in this process."""
    from layer_run import measure
    from mirage.pipeline.options import OptimizeOptions

    def show(stage: str) -> None:
        print(f"{STAGE}{stage.partition(':')[0]}", file=sys.stderr, flush=True)

    options = OptimizeOptions(
        chip=arguments.chip, budget=arguments.budget, jobs=arguments.jobs, use_cache=False,
        verify_seed=0, progress=show,
    )  # fmt: skip
    return measure(case(name), width, options, not arguments.no_execute)


def apart(name: str, width: Width, arguments: argparse.Namespace) -> Row:
    """The measurement by a process of its own, which ends with all its workers."""
    command = [
        sys.executable, str(Path(__file__).resolve()), "--one", name, "--width", width,
        "--chip", arguments.chip, "--budget", str(arguments.budget),
        *(["--jobs", str(arguments.jobs)] if arguments.jobs else []),
        *(["--no-execute"] if arguments.no_execute else []),
    ]  # fmt: skip
    start = time.perf_counter()
    row: Row = {"case": name, "width": width}
    with TemporaryFile("w+") as said:
        child = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=said, text=True, start_new_session=True
        )
        try:
            output, _ = child.communicate(timeout=arguments.limit)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            child.communicate()
            output = ""
        seconds = time.perf_counter() - start
        said.seek(0)
        lines = said.read().splitlines()
    stage = next((x.removeprefix(STAGE) for x in reversed(lines) if x.startswith(STAGE)), "import")
    if seconds >= arguments.limit:
        return {**row, "error": f"{stage}: took more than {arguments.limit:g} s in all"}
    if child.returncode:
        last = next((x for x in reversed(lines) if x and not x.startswith(STAGE)), "no output")
        return {**row, "error": f"{stage}: {last[:200]}", "all_s": seconds}
    return json.loads(output.strip().splitlines()[-1])


def rounded(value: Any) -> Any:
    """Numbers with four digits: the file stays small."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


HEADER = (
    "layer", "width", "ops", "search s", "verify s", "compile s", "total s", "kernels", "own ops",
    "predicted µs", "MiB (before)", "verdicts", "stays with PyTorch", "error, ours / PyTorch", "",
)  # fmt: skip


def cells(row: Row) -> list[str]:
    """One line of the table."""

    def seconds(key: str) -> str:
        return f"{row[key]:.1f}" if key in row else ""

    def counted(key: str) -> str:
        return ", ".join(f"{n} {k}" for k, n in row.get(key, {}).items())

    predicted = row.get("predicted_us")
    errors = ""
    if "error_ours" in row:
        errors = f"{row['error_ours'][0]:.1e} / {row['error_torch'][0]:.1e}"
    time_us = "" if predicted is None else f"{predicted:.1f}"
    state = row.get("error") or {True: "ok", False: "WRONG", None: "not executed"}[row.get("right")]
    memory = f"{row['peak_mib']:.0f}" if "peak_mib" in row else ""
    memory += f" ({row['before_mib']:.0f})" if "before_mib" in row else ""
    return [
        row["case"], row["width"], str(row.get("ops", "")), seconds("search_s"),
        seconds("verify_s"), seconds("compile_s"), seconds("total_s"),
        str(row.get("kernels", "")), str(row.get("own_ops", "")), time_us, memory,
        counted("verdicts"), counted("stays"), errors, state.replace("|", "\\|"),
    ]  # fmt: skip


def markdown(rows: list[Row], command: str) -> str:
    """The table for people."""
    lines = [f"Made by `{command}`.", "", summary_line(rows), ""]
    lines += ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    lines += ["| " + " | ".join(cells(r)) + " |" for r in rows]
    return "\n".join(lines) + "\n"


def summary(rows: list[Row]) -> Row:
    """Counts, and the slowest."""
    total = [(r["total_s"], r["case"], r["width"]) for r in rows if "total_s" in r]
    return {
        "layers": len(rows),
        "optimized": sum("kernels" in r for r in rows),
        "executed": sum("right" in r for r in rows),
        "right": sum(r.get("right") is True for r in rows),
        "wrong": [[r["case"], r["width"]] for r in rows if r.get("right") is False],
        "failed_in": dict(Counter(r["error"].partition(":")[0] for r in rows if "error" in r)),
        "slowest": sorted(total, reverse=True)[:5],
        "largest_mib": max((r["peak_mib"] for r in rows if "peak_mib" in r), default=None),
    }


def summary_line(rows: list[Row]) -> str:
    """The counts as a sentence."""
    s = summary(rows)
    text = (
        f"{s['layers']} layers, {s['optimized']} optimized, {s['executed']} executed, "
        f"{s['right']} with errors of at most twice PyTorch's"
    )
    for seconds, name, _ in s["slowest"][:1]:
        text += f"; the slowest ({name}) {seconds:.1f} s"
    if s["largest_mib"] is not None:
        text += f"; at most {s['largest_mib']:.0f} MiB of all processes together"
    return text


def write(path: Path, text: str) -> None:
    """A file, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    temporary.write_text(text)
    os.replace(temporary, path)


def measured_before(folder: Path) -> dict[tuple[str, str], Row]:
    """What an earlier run measured: one that ended, and one that did not."""
    rows: list[Row] = []
    if (folder / RESULT).exists():
        rows += json.loads((folder / RESULT).read_text())["rows"]
    if (folder / PARTIAL).exists():
        rows += json.loads((folder / PARTIAL).read_text())
    return {(r["case"], r["width"]): r for r in rows}


def arguments_of() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layers", nargs="*", help="names or patterns; all by default")
    parser.add_argument("--width", choices=WIDTHS, help="one of the widths; both by default")
    parser.add_argument("--chip", default=DEFAULT_CHIP)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of search")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a layer in all")
    parser.add_argument("--jobs", type=int, help="processes that search and verify")
    parser.add_argument("--no-execute", action="store_true", help="do not run what was found")
    parser.add_argument("--out", type=Path, help="folder for layers.json and layers.md")
    parser.add_argument("--resume", action="store_true", help="keep what was measured before")
    parser.add_argument("--list", action="store_true", help="print the names and what they are")
    parser.add_argument("--one", metavar="NAME", help="measure one layer and print JSON")
    return parser.parse_args()


def main() -> int:
    """Command line."""
    arguments = arguments_of()
    if arguments.one:
        print(json.dumps(one(arguments.one, arguments.width, arguments)))
        return 0
    chosen = list(cases(*arguments.layers))
    if arguments.list:
        for c in chosen:
            print(f"{c.name:20} {str(c.dtype).removeprefix('torch.'):9} {c.source}")
        return 0
    partial = arguments.out / PARTIAL if arguments.out else None
    before: dict[tuple[str, str], Row] = {}
    if arguments.resume and arguments.out:
        before = measured_before(arguments.out)
    start = time.perf_counter()
    widths = [arguments.width] if arguments.width else WIDTHS
    asked = {(c.name, width) for c in chosen for width in widths}
    rows = [row for key, row in before.items() if key not in asked]
    for width in widths:
        for c in chosen:
            rows.append(before.get((c.name, width)) or rounded(apart(c.name, width, arguments)))
            print("  ".join(x for x in cells(rows[-1]) if x), flush=True)
            if partial is not None:
                write(partial, json.dumps(rows))
    print(summary_line(rows))
    if arguments.out:
        command = shlex.join(["python", *sys.argv])
        result = {
            "command": command,
            "seconds": round(time.perf_counter() - start, 1),
            "machine": f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPU cores",
            "load_average": os.getloadavg()[0],
            "summary": summary(rows),
        }
        lines = ",\n  ".join(json.dumps(r) for r in rows)
        head = json.dumps(result, indent=1).removesuffix("\n}")
        write(arguments.out / RESULT, f'{head},\n "rows": [\n  {lines}\n ]\n}}\n')
        write(arguments.out / "layers.md", markdown(rows, command))
    if partial is not None:
        partial.unlink(missing_ok=True)
    return int(any(r.get("right") is False for r in rows))


if __name__ == "__main__":
    sys.exit(main())
