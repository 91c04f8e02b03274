#!/usr/bin/env python3
"""Compiles the kernels that programs are compared with, in several processes, for `run.py` on the
same machine.

    python benchmarks/compile_peers.py --processes 14 [--autotune [NAME...] --] NAME...

`run.py` then finds the machine code of Inductor's and Triton's kernels in their caches on disk. The
choices among kernels are discarded, because the kernels were timed while others were running:
`run.py` chooses again, with the GPU to itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from multiprocessing import TimeoutError, get_context
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

CHOICES = ("cache", "fxgraph", "aotautograd")
"""Folders of Inductor's cache that say which of several kernels was the fastest."""
Task = tuple[str, int, int, bool]
Worker = Callable[[Task], tuple[str, str]]
_lost = Path()
PARTS = 2
"""The number of parts into which the configurations of a tuned kernel are divided."""


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help="workloads")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1) - 2))
    parser.add_argument(
        "--autotune", nargs="*", metavar="NAME", help="for max-autotune too (default: all)"
    )
    parser.add_argument("--seconds", type=float, default=3600.0, help="stop after this")
    parser.add_argument("--ready", type=Path, help="file for the names of complete programs")
    arguments = parser.parse_args()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    tuned = {n for n in arguments.names if is_autotuned(n, arguments.autotune)}
    tasks = [task for name in arguments.names for task in tasks_of(name, name in tuned)]
    with tempfile.TemporaryDirectory(prefix="mirage-peers-") as lost:
        left = work(tasks, Path(lost), arguments)
    forget_choices(inductor_cache())
    ready = [name for name in arguments.names if not left[name]]
    print(f"{len(ready)} of {len(arguments.names)} programs are ready")
    if arguments.ready:
        arguments.ready.write_text(" ".join(ready) + "\n")
    return 0 if len(ready) == len(arguments.names) else 1


def work(
    tasks: list[Task], lost: Path, arguments: argparse.Namespace, do: Worker | None = None
) -> Counter[str]:
    """Compile until all is done or the time is over; return the number of parts of each program
    that are missing. A process whose GPU context was destroyed ends, and another takes its place;
    it leaves a file in ``lost``, since it cannot return a result."""
    left = Counter(name for name, *_ in tasks)
    ends, done = time.monotonic() + arguments.seconds, 0
    with get_context("spawn").Pool(arguments.processes, started, (lost,)) as pool:
        results = pool.imap_unordered(do or compile_one, tasks)
        while done + len(list(lost.iterdir())) < len(tasks) and time.monotonic() < ends:
            try:
                name, problem = results.next(1.0)
            except TimeoutError:
                continue
            done += 1
            if problem:
                print(f"{name}: {problem}", file=sys.stderr)
            else:
                left[name] -= 1
    for path in lost.iterdir():
        print(f"{path.name}: {path.read_text()}", file=sys.stderr)
    return left


def tasks_of(name: str, autotune: bool) -> list[Task]:
    """Return the parts of the work for a program, which different processes may take."""
    return [(name, -1, 1, autotune), *((name, i, PARTS, False) for i in range(PARTS))]


def is_autotuned(name: str, chosen: Sequence[str] | None) -> bool:
    """Whether ``--autotune`` asks for a program: without names, it asks for all."""
    return chosen is not None and (not chosen or name in chosen)


def started(lost: Path) -> None:
    """Tell a process where to leave a file if its GPU context is destroyed."""
    global _lost
    _lost = lost


def compile_one(task: Task) -> tuple[str, str]:
    """Run each of a program's peers once, or a part of a tuned kernel's configurations; return the
    name and the error."""
    import torch
    from baselines import baselines
    from mirage.workloads import get

    name, part, of, autotune = task
    try:
        if part >= 0:
            from triton_peers import compile_part

            compile_part(name, part, of)
        else:
            workload = get(name)
            inputs = workload.torch_inputs(0, device="cuda")
            torch.set_float32_matmul_precision("high" if workload.tf32 else "highest")
            module = workload.torch_module()
            baselines(workload, module, inputs, autotune=autotune, tuned=False)
        torch.cuda.synchronize()
    except Exception:  # one program must not end the others
        leave_if_broken(name, part, traceback.format_exc())
        return name, traceback.format_exc()
    torch.cuda.empty_cache()
    return name, ""


def leave_if_broken(name: str, part: int, problem: str) -> None:
    """End this process if the GPU executes nothing for it any more, after an illegal access."""
    import torch

    try:
        torch.cuda.synchronize()
        torch.cuda.empty_cache()
    except RuntimeError:
        (_lost / f"{name}.{part}").write_text(problem)
        os._exit(1)


def inductor_cache() -> Path:
    from torch._inductor.runtime.cache_dir_utils import cache_dir

    return Path(cache_dir())


def forget_choices(folder: Path) -> None:
    """Remove the records of which kernel was the fastest, and keep the machine code."""
    for name in CHOICES:
        shutil.rmtree(folder / name, ignore_errors=True)
    for path in folder.glob("**/*.best_config"):
        path.unlink()


if __name__ == "__main__":
    sys.exit(main())
