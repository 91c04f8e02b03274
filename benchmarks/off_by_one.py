#!/usr/bin/env python3
"""The cost of sizes next to a multiple: programs with one row, column or key more or less than a
multiple of the tiles, each compared with the same program at the next aligned size.

    .venv/bin/python benchmarks/off_by_one.py compile --out build/off-by-one
    python benchmarks/off_by_one.py run --artifacts build/off-by-one --out benchmarks/results

`compile` searches, verifies and compiles both programs of each pair, and writes their predicted
times to ``off_by_one_predicted.json``. `run` needs Python, torch, cuda-bindings and a GPU: results
are compared with float64, and times are those of graph replay with cold L2, with both programs of a
pair in turns. The bound for a pair is 1.10 times the time of the aligned size if rows of all
tensors start at multiples of 16 bytes, as boxes of the tensor memory accelerator require, and
otherwise 1.25 times. The exit code is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

from chip_option import add_chip  # noqa: E402
from mirage.semantics.ugraph import KernelGraph  # noqa: E402
from mirage.workloads.attention import plain_attention  # noqa: E402
from mirage.workloads.linear import rms_matmul, softmax_rows  # noqa: E402
from mirage.workloads.products import linear_layer, matmul  # noqa: E402
from mirage.workloads.prompts import prompt_attention  # noqa: E402
from mirage.workloads.workload import Workload  # noqa: E402

ALIGNED = 64
"""Multiples of this are aligned sizes: their rows are whole cache lines."""
START = 16
"""Rows of boxes start at multiples of this number of bytes."""
WITH_BOXES, WITHOUT = 1.10, 1.25
"""The largest permitted ratio of a size's time to that of the aligned size next to it."""
ALLOWED = 2.0
"""The largest permitted ratio of our error against float64 to eager's."""
SEEDS = 3
"""The number of draws of inputs; the worst error of each side counts."""


@dataclass(frozen=True)
class Subject:
    """A program for any size, and the sizes next to a multiple at which it is run."""

    make: Callable[[str, int], Workload]
    sizes: tuple[int, ...]


SUBJECTS = {
    "mm_rows": Subject(lambda name, n: matmul(name, n, 2048, 2048), (1023, 1025, 2047, 2049)),
    "mm_columns": Subject(lambda name, n: matmul(name, 1024, n, 1024), (1023, 1025)),
    "mm_depth": Subject(lambda name, n: matmul(name, 1024, 1024, n), (1023, 1025)),
    "linear_rows": Subject(
        lambda name, n: linear_layer(name, n, 4096, 4096), (15, 17, 63, 65, 255, 257)
    ),
    "linear_columns": Subject(lambda name, n: linear_layer(name, 256, n, 4096), (4095, 4097)),
    "linear_depth": Subject(lambda name, n: linear_layer(name, 16, 4096, n), (4095, 4097)),
    "softmax": Subject(lambda name, n: softmax_rows(name, 4096, n), (1023, 4095, 4097)),
    "softmax_rows": Subject(lambda name, n: softmax_rows(name, n, 4096), (4097,)),
    "rms_mm_rows": Subject(lambda name, n: rms_matmul(name, n, 4096, 4096), (17,)),
    "rms_mm_depth": Subject(lambda name, n: rms_matmul(name, 16, n, 4096), (4097,)),
    "prompt": Subject(
        lambda name, n: prompt_attention(name, 32, 8, n, 128, False), (1023, 1025, 2049)
    ),
    "prompt_causal": Subject(
        lambda name, n: prompt_attention(name, 32, 8, n, 128, True), (1025, 2049)
    ),
    "decode": Subject(
        lambda name, n: plain_attention(name, "one token", 64, 1, 128, n), (4095, 4097)
    ),
}


@dataclass(frozen=True)
class Pair:
    """A program at a size next to a multiple, and at the next aligned size."""

    subject: str
    size: int

    @property
    def sizes(self) -> tuple[int, int]:
        return self.size, -(-self.size // ALIGNED) * ALIGNED

    def program(self, size: int) -> Workload:
        return SUBJECTS[self.subject].make(name_of(self.subject, size), size)

    @property
    def bound(self) -> float:
        """The permitted ratio of the odd size's time to the aligned size's."""
        return WITH_BOXES if permits_boxes(self.program(self.size).graph()) else WITHOUT


def pairs() -> list[Pair]:
    """Return all pairs."""
    return [Pair(name, size) for name, subject in SUBJECTS.items() for size in subject.sizes]


def name_of(subject: str, size: int) -> str:
    return f"{subject}_{size}"


def permits_boxes(graph: KernelGraph) -> bool:
    """Return whether rows of all tensors start at multiples of 16 bytes."""
    tensors = [v.type for v in (*graph.inputs, *graph.outputs) if len(v.shape) > 1]
    return all(t.shape[-1] * t.dtype.bytes % START == 0 for t in tensors)


# ---- compile


def compile_all(arguments: argparse.Namespace) -> int:
    """Compile both programs of each pair, and write their predicted times."""
    predicted: dict[str, float] = {}
    rows: list[dict[str, Any]] = []
    for pair in pairs():
        if arguments.subjects and pair.subject not in arguments.subjects:
            continue
        start = time.monotonic()
        for size in pair.sizes:
            name = name_of(pair.subject, size)
            if name not in predicted:
                predicted[name] = compile_one(pair.program(size), arguments)
        row = compared(pair, *(predicted[name_of(pair.subject, s)] for s in pair.sizes))
        rows.append(row)
        print(f"{said(row)}, compiled in {time.monotonic() - start:.1f} s", flush=True)
    write(arguments.out / "off_by_one_predicted.json", rows, {"chip": arguments.chip})
    return 0


def compile_one(workload: Workload, arguments: argparse.Namespace) -> float:
    """Write one artifact; return its predicted µs."""
    from mirage.pipeline.optimize import optimize
    from mirage.pipeline.options import OptimizeOptions
    from mirage.runtime import write_artifact

    options = OptimizeOptions(chip=arguments.chip, budget=arguments.budget, fresh=True)
    optimized = optimize(workload.graph(), options)
    arguments.out.mkdir(parents=True, exist_ok=True)
    write_artifact(optimized.artifact, arguments.out / f"{workload.name}.mirage")
    predicted = optimized.finalists[0].predicted
    assert predicted is not None
    return predicted


# ---- run


def run_all(arguments: argparse.Namespace) -> int:
    """Check and time all pairs on this machine's GPU."""
    import run
    import torch

    started = time.monotonic()
    rows: list[dict[str, Any]] = []
    for pair in pairs():
        folders = [arguments.artifacts / f"{name_of(pair.subject, s)}.mirage" for s in pair.sizes]
        if not all(folder.exists() for folder in folders):
            continue
        if time.monotonic() - started > arguments.seconds:
            print(f"{pair.subject} {pair.size}: not run, {arguments.seconds} s are over")
            continue
        row = measured(pair, folders, arguments.rounds)
        rows.append(row)
        print(said(row) + ("" if row["correct"] else " WRONG"), flush=True)
        write(arguments.out / "off_by_one.json", rows, run.environment())
        torch.cuda.empty_cache()
    return int(not all(row["correct"] for row in rows))


def measured(pair: Pair, folders: list[Path], rounds: int) -> dict[str, Any]:
    """Measure both programs of a pair together with eager PyTorch."""
    import timing
    import torch
    from mirage.runtime import load

    graphs: dict[str, Any] = {}
    alive: list[Any] = []  # a graph does not keep its inputs alive
    launches = 0
    correct = True
    for size, folder in zip(pair.sizes, folders, strict=True):
        workload = pair.program(size)
        ours, module = load(folder), workload.torch_module()
        inputs = workload.torch_inputs(0, device="cuda")
        correct = is_correct(workload, ours) and correct
        bytes_ = sum(x.numel() * x.element_size() for x in inputs)
        copies = timing.copies_needed(bytes_)
        launches = launches or timing.launches_per_graph(copies)
        sets = [inputs] + [tuple(x.clone() for x in inputs) for _ in range(copies - 1)]
        with torch.no_grad():
            outs = [(torch.empty_like(module(*inputs)),) for _ in sets]
            order = [i % copies for i in range(launches)]
            graphs[f"ours {size}"] = timing.capture(
                lambda i, p=ours, x=sets, y=outs: p(inputs=x[i], out=y[i]), order
            )
            graphs[f"eager {size}"] = timing.capture(lambda i, m=module, x=sets: m(*x[i]), order)
        alive.append((ours, sets, outs))
    times = timing.time_graphs(graphs, launches, rounds)
    odd, aligned = pair.sizes
    row = compared(pair, times[f"ours {odd}"].median, times[f"ours {aligned}"].median)
    eager = [round(times[f"eager {size}"].median, 3) for size in pair.sizes]
    return {**row, "eager": eager[0], "eager_aligned": eager[1], "correct": correct}


def is_correct(workload: Workload, ours: Any) -> bool:
    """Return whether the worst of our errors against float64 on several inputs is at most
    ``ALLOWED`` times the worst of eager's. The largest error of a single draw is a matter of
    chance, and so is an error below a unit in the last place of the largest result."""
    import torch
    from accuracy import Errors, exact_results, results_of

    module = workload.torch_module()
    worst = {"ours": Errors(0.0, 0.0), "eager": Errors(0.0, 0.0)}
    for seed in range(SEEDS):
        inputs = workload.torch_inputs(seed, device="cuda")
        exact = exact_results(workload.exact or module, inputs)
        eager = results_of(module, inputs)
        out = tuple(torch.full_like(x, float("nan")) for x in eager)
        ours(inputs=inputs, out=out)
        for side, results in (("ours", out), ("eager", eager)):
            worst[side] = worst[side].worst(Errors.of_all(results, exact))
    unit = max(torch.finfo(x.dtype).eps for x in eager)
    return worst["ours"].within(ALLOWED, worst["eager"], least=unit)


# ---- results


def compared(pair: Pair, odd: float, aligned: float) -> dict[str, Any]:
    """Return a row of the table."""
    ratio = odd / aligned
    return {
        "program": pair.subject, "size": pair.sizes[0], "aligned": pair.sizes[1],
        "us": round(odd, 3), "us_aligned": round(aligned, 3), "ratio": round(ratio, 3),
        "bound": pair.bound, "kept": ratio <= pair.bound,
    }  # fmt: skip


def said(row: dict[str, Any]) -> str:
    """Return a row in words."""
    return (
        f"{row['program']} {row['size']}: {row['us']:.2f} us, of {row['aligned']} "
        f"{row['us_aligned']:.2f}, {row['ratio']:.2f} times (at most {row['bound']:.2f})"
        + ("" if row["kept"] else " ABOVE")
    )


def write(path: Path, rows: list[dict[str, Any]], info: dict[str, Any]) -> None:
    """The result file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    record = {"command": shlex.join(["python", *sys.argv]), **info}
    lines = ",\n".join(f"  {json.dumps(row)}" for row in rows)
    path.write_text(f'{{\n "environment": {json.dumps(record)},\n "rows": [\n{lines}\n ]\n}}\n')


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    commands = parser.add_subparsers(required=True)
    c = commands.add_parser("compile", help="search, verify and compile the programs")
    c.add_argument("subjects", nargs="*", help=f"some of {', '.join(SUBJECTS)}; all by default")
    add_chip(c)
    c.add_argument("--budget", type=float, default=30.0, help="seconds of each (%(default)s)")
    c.add_argument("--out", type=Path, required=True, help="folder for the artifacts")
    c.set_defaults(run=compile_all)
    r = commands.add_parser("run", help="measure them on a GPU")
    r.add_argument("--artifacts", type=Path, required=True)
    r.add_argument("--out", type=Path, required=True, help="folder for the results")
    r.add_argument("--rounds", type=int, default=11, help="rounds of a median (%(default)s)")
    r.add_argument("--seconds", type=float, default=200.0, help="start nothing after this")
    r.set_defaults(run=run_all)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
