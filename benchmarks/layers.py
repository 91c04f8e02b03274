#!/usr/bin/env python3
"""Optimizes the gallery's layers (test/python/support/gallery) and checks the results.

    python benchmarks/layers.py --budget 20 --out benchmarks/results
    python benchmarks/layers.py 'bert*' llama --width small

Each layer at each width is optimized by a separate process, one after the other: import, search,
verification and compilation, for at most ``--limit`` seconds. Then the results are executed without
a GPU, several at once, and compared with PyTorch (layer_run.py). For each layer, the table
(layer_table.py) says how long the stages took, how many kernels there are, how fast they are
predicted to be, how much memory all processes had at most together (weights, of which only the
shapes matter, take none), what the verdicts are, how large the errors are, and which parts fell
back.

The measurements of a run that is not finished are kept next to its results. With ``--resume``, an
interrupted run continues from there, and any other run keeps the results of layers that are not
named. The exit code is 1 if the result of an executed layer is wrong.
"""

# ruff: noqa: E402  (threads of matrix products are limited before NumPy loads)

from __future__ import annotations

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import argparse
import json
import multiprocessing
import platform
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "python"), str(HERE.parent / "test" / "python" / "support")]

import kept
from gallery import Width, case, cases
from gallery.case import WIDTHS
from layer_run import execute, measure  # processes are forked, so imports happen once
from layer_table import cells, markdown, summary, summary_line
from mirage.cost import DEFAULT_CHIP
from mirage.pipeline.options import OptimizeOptions

Row = dict[str, Any]
Key = tuple[str, Width]
PARTIAL, FOUND = "layers.partial.json", "layers.found"
PATIENCE = 0.5
"""Seconds within which a process should end by itself."""
DETAILS = ("stop", "kept", "dropped", "notes", "all_s", "execute_s", "dtype")
"""The details of a row that only the raw data contain."""


def apart(work: Callable[[Callable[[str], None]], Row], limit: float) -> Row:
    """Return the result of ``work`` in a separate process, which is ended with all of its workers;
    ``error`` if this takes longer than ``limit`` seconds, or if the process dies. ``work`` gets a
    function with which it reports its progress."""
    ours, theirs = multiprocessing.Pipe(duplex=False)
    child = multiprocessing.get_context("fork").Process(target=_send, args=(work, theirs))
    child.start()
    theirs.close()
    stage, until = "import", time.monotonic() + limit
    row: Row | None = None
    try:
        while row is None and ours.poll(max(0.0, until - time.monotonic())):
            try:
                said = ours.recv()
            except EOFError:
                break
            stage, row = (said, None) if isinstance(said, str) else (stage, said)
        late = row is None and time.monotonic() >= until
    finally:  # also if the user interrupts it
        if row is None and child.pid is not None:
            child.join(0.0 if time.monotonic() >= until else PATIENCE)
            with suppress(ProcessLookupError):
                os.killpg(child.pid, signal.SIGKILL)
        child.join()
    if row is not None:
        return row
    if late:
        return {"error": f"{stage}: took more than {limit:g} s in all"}
    return {"error": f"{stage}: the process died with exit code {child.exitcode}"}


def _send(work: Callable[[Callable[[str], None]], Row], to: Connection) -> None:
    os.setsid()
    stages: set[str] = set()

    def show(text: str) -> None:
        stage = text.partition(":")[0]
        if stage not in stages:
            stages.add(stage)
            to.send(stage)

    to.send(rounded(work(show)))


def rounded(value: Any) -> Any:
    """Round numbers to four digits, to keep the file small."""
    if isinstance(value, float):
        return float(f"{value:.4g}")
    if isinstance(value, dict):
        return {k: rounded(v) for k, v in value.items()}
    return [rounded(v) for v in value] if isinstance(value, list) else value


class Run:
    """The rows of a run, and where its results so far are kept."""

    def __init__(self, arguments: argparse.Namespace, folder: Path) -> None:
        self.arguments, self.folder = arguments, folder
        self.rows: dict[Key, Row] = {}

    def resume(self) -> None:
        """Return the measurements of an earlier run: one that was interrupted, or otherwise a
        complete one."""
        partial, whole = self.folder / PARTIAL, kept.raw_path(self.folder / "layers.json")
        if partial.exists():
            rows = json.loads(partial.read_text())
        else:
            rows = json.loads(whole.read_text())["rows"] if whole.exists() else []
        self.rows = {(r["case"], r["width"]): r for r in rows}

    def optimize(self, keys: Sequence[Key]) -> None:
        """Optimize the layers that are not measured yet, one after the other."""
        a = self.arguments
        main = os.getpid()
        for key in keys:
            if key in self.rows:
                continue
            name, width = key

            def work(show: Callable[[str], None], name: str = name, width: Width = width) -> Row:
                options = OptimizeOptions(
                    chip=a.chip, budget=a.budget, jobs=a.jobs, use_cache=False, verify_seed=0,
                    progress=show,
                )  # fmt: skip
                return measure(case(name), width, options, self._found(name, width), main)

            self._add(key, apart(work, a.limit))

    def execute(self, keys: Sequence[Key]) -> None:
        """Execute the results, several layers at once."""

        def one(key: Key) -> None:
            name, width = key
            row = apart(
                lambda show: execute(case(name), width, self._found(name, width)),
                self.arguments.limit,
            )
            self._add(key, {**self.rows[key], **row})

        todo = [k for k in keys if "right" not in self.rows[k] and self._found(*k).exists()]
        with ThreadPoolExecutor(self.arguments.jobs or len(os.sched_getaffinity(0))) as pool:
            list(pool.map(one, todo))

    def _found(self, name: str, width: Width) -> Path:
        return self.folder / FOUND / f"{name}-{width}.pickle"

    def _add(self, key: Key, row: Row) -> None:
        self.rows[key] = {"case": key[0], "width": key[1], **row}
        print("  ".join(x for x in cells(self.rows[key]) if x), flush=True)
        temporary = self.folder / f"{PARTIAL}.tmp"
        temporary.write_text(json.dumps(list(self.rows.values())))
        temporary.replace(self.folder / PARTIAL)

    def write(self, seconds: float) -> None:
        """Write the results, and remove the other files of the run."""
        order = {c.name: n for n, c in enumerate(cases())}
        found = sorted(
            self.rows.values(), key=lambda r: (WIDTHS.index(r["width"]), order[r["case"]])
        )
        command = shlex.join(["python", *sys.argv])
        machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} CPU cores"
        budget = self.arguments.budget
        data = {
            "command": command,
            "seconds": round(seconds, 1),
            "machine": machine,
            "load_average": os.getloadavg()[0],
            "summary": summary(found, budget),
            "rows": found,
        }
        kept.write(self.folder / "layers.json", data, "rows", DETAILS)
        (self.folder / "layers.md").write_text(markdown(found, command, machine, budget))
        (self.folder / PARTIAL).unlink(missing_ok=True)
        shutil.rmtree(self.folder / FOUND, ignore_errors=True)


def arguments_of() -> argparse.Namespace:
    """Command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("layers", nargs="*", help="names or patterns; all by default")
    parser.add_argument("--width", choices=WIDTHS, help="one of the widths; both by default")
    parser.add_argument("--chip", default=DEFAULT_CHIP)
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of optimization")
    parser.add_argument("--limit", type=float, default=300.0, help="seconds for a layer in all")
    parser.add_argument("--jobs", type=int, help="processes that share the work")
    parser.add_argument("--no-execute", action="store_true", help="do not run what was found")
    parser.add_argument("--out", type=Path, help="folder for layers.json and layers.md")
    parser.add_argument("--resume", action="store_true", help="keep what was measured before")
    parser.add_argument("--list", action="store_true", help="print the names and what they are")
    return parser.parse_args()


def main() -> int:
    """Command line."""
    arguments = arguments_of()
    chosen = list(cases(*arguments.layers))
    if arguments.list:
        for c in chosen:
            print(f"{c.name:20} {str(c.dtype).removeprefix('torch.'):9} {c.source}")
        return 0
    start = time.perf_counter()
    widths = [arguments.width] if arguments.width else WIDTHS
    asked = [(c.name, width) for width in widths for c in chosen]
    with nullcontext(arguments.out) if arguments.out else tempfile.TemporaryDirectory() as folder:
        run = Run(arguments, Path(folder))
        run.folder.mkdir(parents=True, exist_ok=True)
        if arguments.resume:
            run.resume()
        run.optimize(asked)
        print(f"all optimized after {time.perf_counter() - start:.0f} s", flush=True)
        if not arguments.no_execute:
            run.execute(asked)
        if arguments.out:
            run.write(time.perf_counter() - start)
    rows = list(run.rows.values())
    print(summary_line(rows, arguments.budget))
    return int(any(r.get("right") is False for r in rows))


if __name__ == "__main__":
    sys.exit(main())
