"""``mirage doctor``: the installed parts, and the missing ones with the features that need them."""

from __future__ import annotations

import argparse
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mirage
from mirage.cli.output import Output

SUMMARY = "report what is installed and what is missing"
DESCRIPTION = """\
Checks every part that mirage can use: its compiled bindings and passes, torch, torch-mlir, the
CUDA driver and GPU, ptxas. Parts that only some commands need are marked; the exit code is 1 if
something that compiling needs is missing."""


@dataclass(frozen=True)
class Finding:
    """The result for one part: whether it is present, its version or problem, and what needs it."""

    part: str
    ok: bool
    detail: str
    needed_for: str
    required: bool


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add no options: the command has none."""


def run(options: argparse.Namespace, output: Output) -> int:
    """Print the findings."""
    findings = [_check(*part) for part in PARTS]
    output.table(
        ("part", "", "found", "needed for"),
        [
            (f.part, "ok" if f.ok else ("MISSING" if f.required else "-"), f.detail, f.needed_for)
            for f in findings
        ],
    )
    missing = [f for f in findings if f.required and not f.ok]
    if missing:
        output.say("missing: " + ", ".join(f.part for f in missing))
    else:
        output.say("everything that searching, verifying and compiling need is there")
    output.result({"ok": not missing, "parts": [vars(f) for f in findings]})
    return 1 if missing else 0


def _check(part: str, probe: Callable[[], str], needed_for: str, required: bool) -> Finding:
    try:
        return Finding(part, True, probe(), needed_for, required)
    except Exception as e:  # any error of a broken installation is the finding
        lines = str(e).strip().splitlines()
        reason = f"{type(e).__name__}: {lines[0]}" if lines else type(e).__name__
        return Finding(part, False, reason, needed_for, required)


def _version() -> str:
    return f"{mirage.__version__}, Python {platform.python_version()} at {sys.prefix}"


def _bindings() -> str:
    from mirage import ir
    from mirage.dialects import block, kernel, thread

    with ir.Context():
        ir.Module.parse(
            "kernel.graph @f(%x: tensor<1xf32>) -> tensor<1xf32> "
            "{ kernel.return %x : tensor<1xf32> }"
        )
    return f"kernel, block and thread dialects ({len([kernel, block, thread])} of 3)"


def _passes() -> str:
    from mirage import ir, passmanager
    from mirage.compiler.compile import PASSES

    with ir.Context():
        passmanager.PassManager.parse(f"builtin.module({','.join(PASSES)})")
    return ", ".join(PASSES)


def _llvm() -> str:
    import shutil
    import subprocess

    beside = shutil.which("mirage-opt", path=str(Path(sys.executable).parent))
    path = beside or shutil.which("mirage-opt")
    if path is None:
        raise FileNotFoundError("not on the PATH")
    run = subprocess.run([path, "--version"], capture_output=True, text=True, check=True)
    return " ".join(line.strip() for line in run.stdout.splitlines() if "version" in line)


def _numpy() -> str:
    import ml_dtypes
    import numpy

    return f"numpy {numpy.__version__}, ml_dtypes {ml_dtypes.__version__}"


def _torch() -> str:
    import torch

    return f"{torch.__version__} (CUDA {torch.version.cuda or 'not built in'})"


def _torch_mlir() -> str:
    from importlib import import_module
    from importlib.metadata import version

    import_module("torch_mlir.ir")
    return version("torch-mlir")


def _cuda_bindings() -> str:
    from importlib import import_module
    from importlib.metadata import version

    import_module("cuda.bindings.driver")
    return version("cuda-bindings")


def _driver() -> str:
    from mirage.runtime.launching.cuda_driver import check, driver

    number = int(check(driver().cuDriverGetVersion(), "version of the driver"))
    return f"CUDA {number // 1000}.{number % 1000 // 10}"


def _gpu() -> str:
    from mirage.runtime.launching.cuda_driver import check, compute_capability, driver

    d: Any = driver()
    count = int(check(d.cuDeviceGetCount(), "number of devices"))
    names: list[str] = []
    for i in range(count):
        raw = check(
            d.cuDeviceGetName(64, check(d.cuDeviceGet(i), f"device {i}")), "name of a device"
        )
        major, minor = compute_capability(i)
        names.append(f"{bytes(raw).split(bytes(1))[0].decode()} (sm_{major}{minor})")
    if not names:
        raise RuntimeError("no device")
    return ", ".join(names)


def _ptxas() -> str:
    from mirage.compiler.ptxas import find_ptxas, ptxas_version

    path = find_ptxas()
    if path is None:
        raise FileNotFoundError(
            "not on the PATH; the driver compiles PTX when an artifact is loaded"
        )
    return f"{ptxas_version(path)} at {path}"


def _cache() -> str:
    from mirage.cache import cache_folder, shared_store
    from mirage.cache.folder import shown_size

    entries = list(shared_store().entries())
    size = shown_size(sum(e.bytes for e in entries))
    return f"{cache_folder()} ({len(entries)} entries, {size})"


PARTS: tuple[tuple[str, Callable[[], str], str, bool], ...] = (
    ("mirage", _version, "everything", True),
    ("numpy", _numpy, "everything", True),
    ("bindings", _bindings, "reading and writing IR", True),
    ("passes", _passes, "compiling", True),
    ("mirage-opt", _llvm, "working on IR by hand", False),
    ("torch", _torch, "importing and running torch programs", True),
    ("torch-mlir", _torch_mlir, "importing torch programs", True),
    ("ptxas", _ptxas, "machine code ahead of time", False),
    ("cuda-bindings", _cuda_bindings, "running on a GPU", False),
    ("driver", _driver, "running on a GPU", False),
    ("GPU", _gpu, "running on a GPU", False),
    ("cache", _cache, "not compiling twice", False),
)
