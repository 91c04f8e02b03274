#!/usr/bin/env python3
"""Host time of calls on a GPU: how long Python is busy until a call returns.

    .venv/bin/python benchmarks/host_time.py compile --out build/host
    python benchmarks/host_time.py run --artifacts build/host build/sizes --out benchmarks/results

Each artifact and model is called through the compiled launcher (tools/build-launcher.py), if it
exists, and in Python alone, alternating with `torch.add` of two vectors. Programs for any size are
called at one size, at two sizes in turn, and at new sizes, and are compared with the program for
one size. Calls follow each other directly, but are few enough that the GPU's queue is never full.
Programs of several kernels are also launched kernel by kernel, as they are if the addresses of a
call are new or if graphs are turned off (MIRAGE_GRAPHS=0), and then without early starts and in
batches of a tenth, which shows how long the driver takes for these launches and whether it waits
for the GPU. `compile` makes programs of one and of ten kernels; `run` needs Python, torch,
cuda-bindings and a GPU.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

import torch  # noqa: E402
from chip_option import add_chip  # noqa: E402
from mirage.runtime import Executable, load  # noqa: E402
from mirage.runtime.launching import fast  # noqa: E402
from mirage.runtime.models.model import Model, SizedModel  # noqa: E402
from mirage.runtime.serialization.artifact import Artifact  # noqa: E402
from mirage.runtime.serialization.manifest import TORCH_NAMES, TensorSpec  # noqa: E402

BATCH = 50
"""The number of calls between two waits for the GPU."""
SIZES = (33, 100)
"""The sizes at which programs for any size are called."""
WIDTH, LAYERS = 1024, 10
Call = Callable[[], Any]


class Layers(torch.nn.Module):
    """Products, each of which is a kernel."""

    def __init__(self) -> None:
        super().__init__()
        shape = (WIDTH, WIDTH)
        self.weights = torch.nn.ParameterList(torch.zeros(shape).half() for _ in range(LAYERS))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for weight in self.weights:
            x = torch.nn.functional.silu(x @ weight)
        return x


class Sum(torch.nn.Module):
    """One kernel, like `torch.add`."""

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y


def compile_all(arguments: argparse.Namespace) -> int:
    """Programs of one and of ten kernels."""
    import mirage

    arguments.out.mkdir(parents=True, exist_ok=True)
    options = {"chip": arguments.chip, "budget": arguments.budget}
    vector = torch.zeros(1024)
    rows = torch.zeros(16, WIDTH, dtype=torch.float16)
    for name, module, inputs in (("one", Sum(), (vector, vector)), ("ten", Layers(), (rows,))):
        mirage.export(
            module.requires_grad_(False), *inputs, path=arguments.out / f"{name}.mirage",
            options=options, weights="reference",
        )  # fmt: skip
    return 0


def tensor(spec: TensorSpec, rows: int | None = None) -> torch.Tensor:
    """Return a random tensor of a specification, with another number of ``rows``; indices are
    zeros."""
    dtype = getattr(torch, TORCH_NAMES[spec.dtype])
    shape = spec.shape if rows is None else (rows, *spec.shape[1:])
    x = torch.empty_strided(shape, spec.strides, dtype=dtype, device="cuda")
    return x.normal_() if dtype.is_floating_point else x.zero_()


def microseconds(calls: dict[str, Call], rounds: int, batch: int = BATCH) -> dict[str, float]:
    """Return the median time of each function; they take turns."""
    spent: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(rounds + 3):
        for name, call in calls.items():
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(batch):
                call()
            took = time.perf_counter() - begin
            if number >= 3:
                spent[name].append(took * 1e6 / batch)
    return {name: statistics.median(times) for name, times in spent.items()}


def loaded(folder: Path, *, pure: bool = False) -> Any:
    """Load an artifact or a model; ``pure`` without the compiled launcher."""
    state = Layers().state_dict() if folder.name == "ten.mirage" else None
    found = fast.compiled
    if pure:
        fast.compiled = lambda: None  # type: ignore[assignment]
    try:
        program = load(folder) if state is None else load(folder, state=state)
        if isinstance(program, Executable):
            program.prepare()
        return program
    finally:
        fast.compiled = found


def kernel_by_kernel(load_it: Callable[[], Any]) -> Any:
    """Return the program that a function loads, with CUDA graphs turned off."""
    before = os.environ.get(fast.GRAPHS)
    os.environ[fast.GRAPHS] = "0"
    fast.driver_functions.cache_clear()
    try:
        return load_it()
    finally:
        del os.environ[fast.GRAPHS]
        if before is not None:
            os.environ[fast.GRAPHS] = before
        fast.driver_functions.cache_clear()


def without_early_starts(artifact: Artifact) -> Executable:
    """Return a part whose kernels start only after the previous ones have ended."""
    kernels = tuple(replace(k, dependent=False) for k in artifact.manifest.kernels)
    program = Executable(replace(artifact, manifest=replace(artifact.manifest, kernels=kernels)))
    program.prepare()
    return program


def launches_measured(folder: Path, program: Model, rounds: int) -> dict[str, float]:
    """Yield the calls of a model without a CUDA graph, each for one kernel."""
    plain = kernel_by_kernel(lambda: loaded(folder))
    inputs = [tensor(s) for s in program.manifest.inputs]
    kept: list[Any] = []

    def keep() -> None:
        kept.append(program(*inputs))
        if len(kept) == 2 * BATCH:  # no memory is reused before the next round
            del kept[:BATCH]

    calls: dict[str, Call] = {"new results": keep, "kernel by kernel": lambda: plain(*inputs)}
    found = microseconds(calls, rounds)
    few = {"in batches of a tenth": calls["kernel by kernel"]}
    found.update(microseconds(few, rounds, BATCH // 10))
    parts = [program.artifact.part(n) for n in range(len(program.manifest.parts))]
    if len(parts) == 1:
        later = kernel_by_kernel(lambda: without_early_starts(parts[0]))
        given = [tensor(s) for s in parts[0].manifest.inputs]
        found.update(microseconds({"without early starts": lambda: later(*given)}, rounds))
    kernels = sum(len(p.manifest.kernels) for p in parts)
    return {f"{name}, each kernel": time / kernels for name, time in found.items()}


def same(a: Any, b: Any) -> bool:
    """Return whether two results are equal."""
    if isinstance(a, torch.Tensor):
        return torch.equal(a, b)
    return all(map(same, a, b))


def sizes_measured(folder: Path, program: SizedModel, rounds: int) -> dict[str, Any]:
    """Return the row of a model for any size."""
    size = program.manifest.size
    assert size is not None
    specs = program.manifest.inputs

    def inputs(n: int) -> list[torch.Tensor]:
        return [
            tensor(s, n * s.shape[0] // size.stated if i in size.arguments else None)
            for i, s in enumerate(specs)
        ]

    program(*inputs(SIZES[0]))  # the first call of a thread makes the context current
    known, other = (inputs(n) for n in SIZES)
    new = [inputs(n) for n in range(size.at_least, size.at_most + 1) if n not in SIZES]
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for xs in new:
        program(*xs)
    first = (time.perf_counter() - begin) * 1e6 / len(new)
    x = torch.zeros(1024, device="cuda")
    calls: dict[str, Call] = {
        "add": lambda: torch.add(x, x), "call": lambda: program(*known),
        "two sizes in turns, each": lambda: (program(*known), program(*other)),
    }  # fmt: skip
    twin = folder.parent / folder.name.replace(".any.", f".{SIZES[0]}.")
    if twin != folder and twin.exists():
        alone = loaded(twin)
        calls["of one size"] = lambda: alone(*known)
    found = microseconds(calls, rounds)
    found["two sizes in turns, each"] /= 2
    pure = loaded(folder, pure=True)
    return {
        "same": same(program(*known), pure(*known)) and same(program(*other), pure(*other)),
        "kernels": 1, "new sizes": first, **found,
    }  # fmt: skip


def measured(folder: Path, program: Executable | Model, rounds: int) -> dict[str, Any]:
    """Return the row of an artifact or a model."""
    pure = loaded(folder, pure=True)
    inputs = [tensor(s) for s in program.manifest.inputs]
    equal = same(program(*inputs), pure(*inputs))
    x = torch.zeros(1024, device="cuda")
    calls: dict[str, Call] = {
        "nothing": lambda: None, "add": lambda: torch.add(x, x),
        "python": lambda: pure(*inputs), "call": lambda: program(*inputs),
    }  # fmt: skip
    if isinstance(program, Executable):
        out = [y.clone() for y in program(*inputs)]
        calls["call, out"] = lambda: program(inputs=inputs, out=out)
        kernels = len(program.manifest.kernels)
    else:
        parts = [program.artifact.part(n).manifest for n in range(len(program.manifest.parts))]
        kernels = sum(len(p.kernels) for p in parts)
    found = microseconds(calls, rounds)
    if isinstance(program, Model) and kernels > 1:
        found.update(launches_measured(folder, program, rounds))
    each = (found["call"] - found["nothing"]) / kernels if kernels else None
    return {"same": equal, "kernels": kernels, "each kernel": each, **found}


def run_all(arguments: argparse.Namespace) -> int:
    """Measure every program."""
    if not torch.cuda.is_available():
        print("error: no GPU was found, this script measures calls on one", file=sys.stderr)
        return 2
    rows: dict[str, Any] = {}
    for folder in sorted(f for a in arguments.artifacts for f in a.glob("*.mirage")):
        if folder.name.split(".")[1:2] not in (["any"], ["mirage"]):
            continue  # for one size; measured together with that for any size
        program = loaded(folder)
        if isinstance(program, SizedModel):
            row = sizes_measured(folder, program, arguments.rounds)
        elif isinstance(program, Executable | Model):
            row = measured(folder, program, arguments.rounds)
        else:
            continue
        rows[folder.name.removesuffix(".mirage")] = row
        told = {k: round(v, 2) if isinstance(v, float) else v for k, v in row.items()}
        print(folder.name, told, flush=True)
    arguments.out.mkdir(parents=True, exist_ok=True)
    record = {
        "gpu": torch.cuda.get_device_name(), "compiled": fast.compiled() is not None, "rows": rows,
    }  # fmt: skip
    (arguments.out / "host_time.json").write_text(json.dumps(record, indent=1) + "\n")
    return 0 if all(row["same"] for row in rows.values()) else 1


def main() -> int:
    """Command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(required=True)
    c = commands.add_parser("compile", help="export the programs of one and of ten kernels")
    add_chip(c)
    c.add_argument("--budget", type=float, default=30.0, help="seconds of each (%(default)s)")
    c.add_argument("--out", type=Path, required=True, help="folder for the models")
    c.set_defaults(run=compile_all)
    r = commands.add_parser("run", help="measure on a GPU")
    r.add_argument("--artifacts", type=Path, nargs="+", required=True)
    r.add_argument("--out", type=Path, required=True, help="folder for the results")
    r.add_argument("--rounds", type=int, default=40)
    r.set_defaults(run=run_all)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
