#!/usr/bin/env python3
"""Tries index inputs of all kinds (inside, at the ends, below zero, beyond, huge) in compiled
programs.

    python benchmarks/fuzz_indices.py --inputs 10000 --out benchmarks/results [--keep DIR]
    python benchmarks/fuzz_indices.py --run DIR                  # the kept ones, on a GPU
    python benchmarks/fuzz_indices.py --sanitize DIR --out DIR   # and under compute-sanitizer

Each program is compiled once, and its PTX is executed in the emulator, which stops at any access
outside of a tensor. Every row of an index tensor is one input. Results are compared with those of
PyTorch or, if PyTorch raises an error, with the rules in docs/frontend.md (fuzz_subjects.py). A
lookup that remains a call of PyTorch raises the same error as PyTorch. Index tensors of another
type or shape must be refused by name.

``--keep`` writes the programs, and the inputs and results of the runs that did not raise, for a
GPU: ``--run`` needs mirage.runtime and torch alone. ``--sanitize`` runs them under memcheck, in a
few processes side by side, each of which starts once for all of its programs. Each tensor has its
own memory there: PyTorch would otherwise give out parts of blocks, which memcheck takes for one
piece. A program in which reads beyond the end are planted shows that memcheck sees these. Exit code
1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

from fuzz_subjects import ROWS, SUBJECTS, Subject, draw, outside  # noqa: E402
from planted import plant_reads  # noqa: E402

Tensor = torch.Tensor
RUNS = "runs.pt"
RAN = "ran "
SANITIZER = ("--padding", "32", "--report-api-errors", "no")
"""Memory around each allocation is unused; cuda-bindings looks up functions that the driver may not
have."""
CONTROL, PLANTED = "control", "embedding"
"""The folder of the planted program, and its name."""
COUNTS = ("inputs", "outside", "raised", "refused")


@dataclass
class Outcome:
    """The outcome of a program."""

    inputs: int = 0
    outside: int = 0
    """Inputs with an index outside of its dimension."""
    raised: int = 0
    """Inputs for which the program raised an error, like PyTorch."""
    refused: int = 0
    """Inputs of another type or shape, all of which were refused by name."""
    kinds: Counter[str] = field(default_factory=lambda: Counter())
    wrong: list[str] = field(default_factory=list)
    kept: list[tuple[list[Tensor], Tensor]] = field(default_factory=list)


def fuzz(name: str, inputs: int, seed: int, folder: Path, keep: int = 0) -> Outcome:
    """Test at least this many inputs of a program, which is compiled into ``folder``. Of the runs
    that did not raise an error, ``keep`` are kept."""
    import mirage
    import mirage.runtime

    subject, found = SUBJECTS[name], Outcome()
    rng = random.Random(f"{name} {seed}")
    generator = torch.Generator().manual_seed(seed)
    data = [torch.randn(*shape, generator=generator) for shape in subject.data]
    data = [x.half() for x in data] if subject.half else data
    target = folder / f"{name}.mirage"
    example = [torch.zeros(shape, dtype=subject.dtype) for shape in subject.shapes]
    mirage.export(
        subject.program, *data, *example, path=target, options={"candidates": 1, "cubin": False}
    )
    model = mirage.runtime.load(target, device="cpu")
    refuse(found, model, data, example)
    while found.inputs < inputs:
        # if a call of PyTorch raises an error, the other inputs are not tested
        inside = rng.random() < 0.3
        numbers = range(len(subject.shapes))
        indices = [draw(subject, i, rng, found.kinds, inside) for i in numbers]
        run(found, subject, model, data, indices, keep)
    return found


def run(
    found: Outcome, subject: Subject, model: Any, data: Sequence[Tensor], indices: list[Tensor],
    keep: int,
) -> None:  # fmt: skip
    bad = [outside(subject, i, index) for i, index in enumerate(indices)]
    inside = [
        torch.where(b, 0, index).to(index.dtype) for b, index in zip(bad, indices, strict=True)
    ]
    any_bad = any(bool(b.any()) for b in bad)
    found.inputs += ROWS * len(indices)
    found.outside += sum(int(b.reshape(ROWS, -1).any(-1).sum()) for b in bad)
    theirs = raised_by(subject.program, data, indices)
    if (theirs is not None) != any_bad:
        found.wrong.append(f"PyTorch: {theirs!r}, where the subject says {any_bad}")
    try:
        got = model(*data, *indices)
    except (IndexError, RuntimeError) as error:
        if type(error) not in (IndexError, RuntimeError) or not any_bad:
            found.wrong.append(f"{indices}: {type(error).__name__}: {error}"[:500])
        found.raised += ROWS * len(indices)
        return
    expected = subject.expected(subject.program, data, inside, bad)
    most = subject.tolerance
    right = torch.isclose(got.double(), expected.double(), rtol=most, atol=most, equal_nan=True)
    if not right.all():
        at = tuple(int(n) for n in (~right).nonzero()[0])
        rows = [index.tolist() for index in indices]
        found.wrong.append(f"at {at}: {got[at]} for {expected[at]}, indices {rows}"[:500])
    elif len(found.kept) < keep:
        found.kept.append(([*data, *indices], expected))


def raised_by(program: Any, data: Sequence[Tensor], indices: Sequence[Tensor]) -> Exception | None:
    """Return the error that PyTorch raises, if it raises one."""
    try:
        program(*data, *indices)
    except (IndexError, RuntimeError) as error:
        return error
    return None


def refuse(found: Outcome, model: Any, data: Sequence[Tensor], example: list[Tensor]) -> None:
    """Index tensors of other types and shapes, or missing ones, give an error that names them."""
    for number, index in enumerate(example):
        name = f"args_{len(data) + number}:"
        others = [index.to(t) for t in (torch.int16, torch.uint8, torch.float32, torch.bool)]
        others += [index[:-1], index[..., None], index[:0], index.to_sparse()]
        for other in others:
            given = [*example[:number], other, *example[number + 1 :]]
            found.refused += 1
            try:
                model(*data, *given)
                found.wrong.append(f"{name} of {other.dtype} {tuple(other.shape)} is accepted")
            except Exception as error:  # any exception must name the tensor
                if name not in str(error):
                    found.wrong.append(f"{name} of {other.dtype}: {error!r}"[:300])


def on_gpu(folder: Path, part: str) -> int:
    """Repeat the kept runs of each program on a GPU (with ``part`` "i/n", every n-th one from the
    i-th on); return how many differ from the expected results."""
    import mirage.runtime

    wrong = 0
    first, step = map(int, part.split("/"))
    for path in sorted(folder.glob("*.mirage"))[first::step]:
        runs: list[Any] = torch.load(path / RUNS)
        model = mirage.runtime.load(path, device="cuda")
        tolerance = max(SUBJECTS[path.stem].tolerance, 1e-6)
        for inputs, expected in runs:
            (got,) = tree_leaves(model(*(x.cuda() for x in inputs)))
            got = got.cpu()
            same = torch.isclose(
                got.double(), expected.double(), rtol=tolerance, atol=tolerance, equal_nan=True
            )
            wrong += int(not same.all())
        print(f"{RAN}{path.stem}: {len(runs)} runs", flush=True)
    print(f"{wrong} runs are wrong")
    return wrong


def sanitized(folder: Path, processes: int, seconds: float, out: Path | None) -> bool:
    """Return whether memcheck finds nothing in the kept runs, all of them end in time with correct
    results, and it finds the errors that are planted in another program."""
    own = [sys.executable, __file__, "--run"]
    tool = ["compute-sanitizer", "--tool", "memcheck", *SANITIZER]
    started = time.perf_counter()
    with ThreadPoolExecutor(processes + 1) as pool:
        parts = [[str(folder), "--part", f"{i}/{processes}"] for i in range(processes)]
        parts.append([str(folder / CONTROL), "--part", "0/1"])
        done = [*pool.map(lambda part: _said([*tool, *own, *part], seconds), parts)]
    control = sum(_errors(done.pop()))
    text = "\n".join(done)
    errors = _errors(text)
    ran = re.findall(rf"^{RAN}(\w+): (\d+) runs$", text, re.MULTILINE)
    right = [int(n) for n in re.findall(r"^(\d+) runs are wrong$", text, re.MULTILINE)]
    found = {
        "command": " ".join(tool),
        "programs": len(ran),
        "runs": sum(int(n) for _, n in ran),
        "inputs": ROWS * sum(int(n) for _, n in ran),
        "errors": sum(errors),
        "wrong": sum(right),
        "planted_errors": control,
        "seconds": round(time.perf_counter() - started),
    }
    whole = len(errors) == len(right) == processes and len(ran) == len([*folder.glob("*.mirage")])
    clean = whole and not found["errors"] and not found["wrong"] and control > 0
    print(f"{found}{'' if whole else ', NOT ALL OF THEM RAN'}")
    if not clean:
        print(text[-8000:])
    if out is not None:
        summary = {**found, "whole": whole}
        (out / "index_sanitizer.json").write_text(json.dumps(summary, indent=1) + "\n")
    return clean


def _errors(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"ERROR SUMMARY: (\d+)", text)]


def _said(command: list[str], seconds: float) -> str:
    """Return the output of a command and of the processes that it starts, within a time."""
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTORCH_NO_CUDA_MEMORY_CACHING": "1"},
    ) as process:
        timer = threading.Timer(seconds, os.killpg, (process.pid, signal.SIGKILL))
        timer.start()
        text, _ = process.communicate()
        timer.cancel()
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("--inputs", type=int, default=10_000, help="of all programs together")
    parser.add_argument("--only", nargs="*", default=(), help="programs by name (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, help="folder for the summary")
    parser.add_argument("--keep", type=Path, help="folder for the programs and their runs")
    parser.add_argument("--runs", type=int, default=8, help="that are kept of a program")
    parser.add_argument("--run", type=Path, help="run what was kept, on a GPU")
    parser.add_argument("--part", default="0/1", help="of the kept programs: 'i/n'")
    parser.add_argument("--sanitize", type=Path, help="run what was kept under compute-sanitizer")
    parser.add_argument("--processes", type=int, default=6, help="side by side")
    parser.add_argument("--seconds", type=float, default=300.0, help="for each of them")
    arguments = parser.parse_args()
    if arguments.run:
        return 1 if on_gpu(arguments.run, arguments.part) else 0
    if arguments.sanitize:
        if shutil.which("compute-sanitizer") is None:
            print("error: compute-sanitizer is not on the path; it comes with the CUDA toolkit")
            return 2
        clean = sanitized(arguments.sanitize, arguments.processes, arguments.seconds, arguments.out)
        return 0 if clean else 1
    names = arguments.only or list(SUBJECTS)
    started, rows = time.perf_counter(), {}
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments.keep or Path(scratch)
        folder.mkdir(parents=True, exist_ok=True)
        for name in names:
            runs = arguments.runs if arguments.keep else 0
            found = fuzz(name, -(-arguments.inputs // len(names)), arguments.seed, folder, runs)
            if runs:
                torch.save(found.kept, folder / f"{name}.mirage" / RUNS)
            rows[name] = {
                **{k: getattr(found, k) for k in COUNTS},
                "kinds": dict(sorted(found.kinds.items())),
                "wrong": found.wrong[:3],
            }
            print(f"{name}: {rows[name]}", flush=True)
        if arguments.keep and PLANTED in names:
            target = folder / CONTROL / f"{PLANTED}.mirage"
            plant_reads(folder / target.name, target)
            shutil.copy(folder / target.name / RUNS, target / RUNS)
    wrong = sum(bool(row["wrong"]) for row in rows.values())
    total = {
        k: sum(r[k] for r in rows.values()) for k in ("inputs", "outside", "raised", "refused")
    }
    print(f"{total}, {wrong} programs wrong")
    if arguments.out:
        summary = {
            "command": shlex.join(["python", "benchmarks/fuzz_indices.py", *sys.argv[1:]]),
            **total,
            "wrong": wrong,
            "seconds": round(time.perf_counter() - started),
            "programs": rows,
        }
        text = json.dumps(summary, indent=1) + "\n"
        (arguments.out / "index_fuzz.json").write_text(text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
