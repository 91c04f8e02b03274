#!/usr/bin/env python3
"""Compiles the kernels that programs are compared with, in several processes, for `run.py` on the
same machine.

    python benchmarks/compile_peers.py --processes 14 [--autotune] NAME...

`run.py` then finds the machine code of Inductor's and Triton's kernels in their caches on disk. The
choices among kernels are discarded, because the kernels were timed while others were running:
`run.py` chooses again, with the GPU to itself.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import traceback
from multiprocessing import get_context
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "python")]

CHOICES = ("cache", "fxgraph", "aotautograd")
"""Folders of Inductor's cache that say which of several kernels was the fastest."""
Task = tuple[str, int, int, bool]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME", help="workloads")
    parser.add_argument("--processes", type=int, default=max(1, (os.cpu_count() or 1) - 2))
    parser.add_argument("--autotune", action="store_true", help="for max-autotune too")
    arguments = parser.parse_args()
    os.environ["TORCHINDUCTOR_COMPILE_THREADS"] = "1"
    tasks = [(name, -1, 1, arguments.autotune) for name in arguments.names]
    tasks += [(name, i, 4, False) for name in arguments.names for i in range(4)]
    failed = 0
    with get_context("spawn").Pool(arguments.processes) as pool:
        for name, problem in pool.imap_unordered(compile_one, tasks):
            if problem:
                print(f"{name}: {problem}", file=sys.stderr)
                failed += 1
    forget_choices(inductor_cache())
    return 1 if failed else 0


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
    except Exception:  # one program must not end the others
        return name, traceback.format_exc()
    finally:
        torch.cuda.empty_cache()
    return name, ""


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
