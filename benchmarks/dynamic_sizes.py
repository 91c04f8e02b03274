#!/usr/bin/env python3
"""Programs for any number of rows: exported on a machine with MLIR, and run on a GPU at random
sizes, compared with eager PyTorch and with the same program compiled for one size.

    .venv/bin/python benchmarks/dynamic_sizes.py compile --out build/sizes
    python benchmarks/dynamic_sizes.py run --artifacts build/sizes --out benchmarks/results
    .venv/bin/python benchmarks/dynamic_sizes.py predict --out benchmarks/results

`predict` compares the predicted times of the kernels of each class with those of the kernels that
are found for a single size, without a GPU. `run` needs Python, torch, cuda-bindings and a GPU.
Inputs are surrounded by NaN, which must not affect any result, and results are compared with
float64. The exit code is 1 if a result is wrong.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import shlex
import sys
import time
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import torch  # noqa: E402
import torch.nn.functional as fn  # noqa: E402
from chip_option import add_chip  # noqa: E402

MOST = 256
MORE = (1, 7, 33, 100, 255, MOST)
SIZES = 20
"""Random sizes are added to these; for each of these there is a program of this single size."""
ALLOWED = 2.0
"""The largest permitted ratio of our error against float64 to eager's."""
Inputs = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Subject:
    """A program, the shapes of a row of its inputs, and which of those have rows."""

    function: Callable[..., torch.Tensor]
    shapes: tuple[tuple[int, ...], ...]
    rows: tuple[bool, ...]

    def inputs(self, n: int, device: str, seed: int = 0) -> Inputs:
        """Random tensors, each surrounded by NaN."""
        generator = torch.Generator(device).manual_seed(seed)
        found: list[torch.Tensor] = []
        for shape, has_rows in zip(self.shapes, self.rows, strict=True):
            whole = (n, *shape) if has_rows else shape
            count = math.prod(whole)
            memory = torch.full((count + 2048,), float("nan"), dtype=torch.float16, device=device)
            x = memory[1024 : 1024 + count].view(whole)
            x.copy_(torch.randn(whole, generator=generator, device=device) * 0.5)
            found.append(x)
        return tuple(found)

    def module(self) -> torch.nn.Module:
        """The program as a module whose arguments are named by their number."""

        class Program(torch.nn.Module):
            def forward(self, *xs: torch.Tensor) -> torch.Tensor:
                return function(*xs)

        function = self.function
        return Program()


SUBJECTS = {
    "linear": Subject(
        lambda x, w: fn.gelu(x @ w, approximate="tanh"), ((1024,), (1024, 1024)), (True, False)
    ),
    "softmax": Subject(lambda x: torch.softmax(x * 2, -1), ((4096,),), (True,)),
    "attention": Subject(
        fn.scaled_dot_product_attention, ((8, 1, 64), (8, 512, 64), (8, 512, 64)), (True,) * 3
    ),
}


def compile_all(arguments: argparse.Namespace) -> int:
    """Compile one model for all sizes, and one for each single size that is run."""
    import mirage

    options = {"chip": arguments.chip, "budget": arguments.budget}
    arguments.out.mkdir(parents=True, exist_ok=True)
    rows = torch.export.Dim("rows", min=1, max=MOST)
    for name, subject in chosen(arguments).items():
        begin = time.perf_counter()
        shapes = tuple({0: rows} if has else None for has in subject.rows)
        mirage.export(
            subject.module(), *subject.inputs(16, "cpu"), path=arguments.out / f"{name}.any.mirage",
            options=options, dynamic_shapes=shapes,
        )  # fmt: skip
        for n in sizes_of(name):
            mirage.export(
                subject.module(), *subject.inputs(n, "cpu"), options=options,
                path=arguments.out / f"{name}.{n}.mirage",
            )  # fmt: skip
        print(f"{name}: {time.perf_counter() - begin:.0f} s", flush=True)
    return 0


def predict_all(arguments: argparse.Namespace) -> int:
    """Compare the predicted times of the kernels of the classes at each size with those that a
    search for that size alone finds."""
    import mirage
    from mirage.cost import target_for
    from mirage.cost.predict import predict
    from mirage.pipeline.size_costs import Compared, predicted_at

    target = target_for(arguments.chip)
    options = {"chip": arguments.chip, "budget": arguments.budget, "check_kernels": False}
    rows = torch.export.Dim("rows", min=1, max=MOST)
    found: list[dict[str, Any]] = []
    for name, subject in SUBJECTS.items():
        if arguments.programs and name not in arguments.programs:
            continue
        shapes = tuple({0: rows} if has else None for has in subject.rows)
        classes = mirage.from_torch(
            subject.module(), *subject.inputs(16, "cpu"), dynamic_shapes=shapes
        ).superoptimize(**options)
        inputs = tuple(i for i, has in enumerate(subject.rows) if has)
        for n in sizes_of(name):
            number = bisect_left([c.at_most for c in classes.classes], n)
            chosen, below = classes.classes[number], classes.classes[:number]
            least = 1 + (below[-1].at_most if below else 0)
            own = Compared(inputs, least, chosen.at_most, target)
            graph = own.restaged(chosen.optimized.graph)
            ours = predicted_at(graph, inputs, chosen.at_most, n, target)
            alone = mirage.from_torch(subject.module(), *subject.inputs(n, "cpu"))
            twin = predict(alone.superoptimize(**options).graph, target)
            assert ours is not None
            assert twin is not None
            row = {"program": name, "size": n, "class": chosen.at_most, "ours": ours.time,
                   "twin": twin.time, "ratio": ours.time / twin.time}  # fmt: skip
            found.append(row)
            print({k: round(v, 3) if isinstance(v, float) else v for k, v in row.items()},
                  flush=True)  # fmt: skip
    record = {"command": f"python {shlex.join(sys.argv)}", "chip": arguments.chip, "rows": found}
    arguments.out.mkdir(parents=True, exist_ok=True)
    text = json.dumps(record, indent=1) + "\n"
    (arguments.out / "dynamic_sizes_predicted.json").write_text(text)
    slow = [r for r in found if r["ratio"] > 1.1]
    print(f"{len(found)} sizes, {len(slow)} predicted above 1.1 of their twins")
    return int(bool(slow))


def chosen(arguments: argparse.Namespace) -> dict[str, Subject]:
    """Return the programs that the command line names, or all."""
    return {name: SUBJECTS[name] for name in arguments.programs or SUBJECTS}


def sizes_of(name: str) -> list[int]:
    """Return the sizes at which a program is run."""
    return sorted({*random.Random(name).sample(range(1, MOST + 1), SIZES), *MORE})


def run_all(arguments: argparse.Namespace) -> int:
    """Measures every program."""
    from mirage.runtime import load

    rows: list[dict[str, Any]] = []
    for name, subject in chosen(arguments).items():
        model = load(arguments.artifacts / f"{name}.any.mirage")
        for n in sizes_of(name):
            twin = arguments.artifacts / f"{name}.{n}.mirage"
            row = {"program": name, "size": n, **_measured(
                subject, n, model, load(twin) if twin.exists() else None, arguments.rounds
            )}  # fmt: skip
            rows.append(row)
            print(_said(row), flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    record = {
        "command": f"python {shlex.join(sys.argv)}", "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__, "rows": rows,
    }  # fmt: skip
    (arguments.out / "dynamic_sizes.json").write_text(json.dumps(record, indent=1) + "\n")
    wrong = [r for r in rows if not r["correct"]]
    slow = [r for r in rows if r["twin"] and r["ours"] > 1.1 * r["twin"]]
    print(f"{len(rows)} sizes, {len(wrong)} wrong, {len(slow)} slower than 1.1 of their twins")
    return int(bool(wrong))


def _measured(subject: Subject, n: int, model: Any, twin: Any, rounds: int) -> dict[str, Any]:
    import timing

    xs = subject.inputs(n, "cuda", seed=n)
    exact = subject.function(*(x.double() for x in xs))
    eager = subject.function(*xs)
    got = model(*xs)
    errors = [float((y.double() - exact).abs().max()) for y in (got, eager)]
    sides = {"ours": lambda _: model(*xs), "eager": lambda _: subject.function(*xs)}
    if twin is not None:
        sides["twin"] = lambda _: twin(*xs)
    launches = 16
    graphs = {side: timing.capture(call, [0] * launches) for side, call in sides.items()}
    times = timing.time_graphs(graphs, launches, rounds)
    begin = time.perf_counter()
    for _ in range(100):
        model(*xs)
    host = (time.perf_counter() - begin) * 1e4
    torch.cuda.synchronize()
    return {
        "error": errors[0], "eager_error": errors[1], "host": host,
        "correct": bool(torch.isfinite(got).all()) and errors[0] <= ALLOWED * errors[1] + 1e-4,
        "ours": times["ours"].median, "eager": times["eager"].median,
        "twin": times["twin"].median if twin is not None else None,
    }  # fmt: skip


def _said(row: dict[str, Any]) -> str:
    twin = "" if row["twin"] is None else f", for this size alone {row['twin']:.2f}"
    return (
        f"{row['program']} at {row['size']}: {row['ours']:.2f} us, eager {row['eager']:.2f}{twin}, "
        f"host {row['host']:.1f} us, error {row['error']:.2e} (eager {row['eager_error']:.2e})"
        + ("" if row["correct"] else " WRONG")
    )


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    commands = parser.add_subparsers(required=True)
    c = commands.add_parser("compile", help="export the programs")
    c.add_argument("programs", nargs="*", help="some of them; all by default")
    add_chip(c)
    c.add_argument("--budget", type=float, default=30.0, help="seconds of each (%(default)s)")
    c.add_argument("--out", type=Path, required=True, help="folder for the models")
    c.set_defaults(run=compile_all)
    p = commands.add_parser("predict", help="compare predicted times, without a GPU")
    p.add_argument("programs", nargs="*", help="some of them; all by default")
    add_chip(p)
    p.add_argument("--budget", type=float, default=30.0, help="seconds of each (%(default)s)")
    p.add_argument("--out", type=Path, required=True, help="folder for the results")
    p.set_defaults(run=predict_all)
    r = commands.add_parser("run", help="measure them on a GPU")
    r.add_argument("programs", nargs="*", help="some of them; all by default")
    r.add_argument("--artifacts", type=Path, required=True)
    r.add_argument("--out", type=Path, required=True, help="folder for the results")
    r.add_argument("--rounds", type=int, default=15, help="rounds of a median (%(default)s)")
    r.set_defaults(run=run_all)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
