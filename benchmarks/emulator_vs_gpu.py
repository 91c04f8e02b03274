"""Runs the emulator's tests on a GPU too, and compares the memory that both leave.

Every launch that the tests of `test/python/emulator` make, and that the emulator accepts, is
repeated on GPU 0 with the same PTX and the same inputs. Results must agree bit for bit, except that
any NaN matches any NaN; if PTX leaves the result open, they must agree within the tolerance that
the test states (emulator_support/tolerance.py). Each test function runs in a separate process, and
its launches on the GPU in another, so that a kernel that faults affects only its own row. With
--artifact, whole artifacts are compared as well; with --recorded, the launches of the compiler's
tests are (record_launches.py).

    python benchmarks/emulator_vs_gpu.py --out benchmarks/results
    python benchmarks/emulator_vs_gpu.py --out results --artifact build/artifacts/lora.mirage
    python benchmarks/emulator_vs_gpu.py --out results --recorded build/launches.pickle

Writes `emulator_vs_gpu.json` (with --recorded: `compiler_vs_gpu.json`) into the folder.
--emulator-only checks the plumbing without a GPU. The exit code is 1 if anything disagrees.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for folder in ("python", "test/python/support", "benchmarks"):
    sys.path.insert(0, str(ROOT / folder))

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from emulator_comparison import (  # noqa: E402
    Both,
    Row,
    compare,
    launch_on_gpu,
    types_of,
)
from emulator_support import harness  # noqa: E402
from emulator_support.tolerance import Tolerance  # noqa: E402
from gpu_worker import GpuProcess  # noqa: E402

TESTS = ROOT / "test/python/emulator"
_OPTIONS = ("-q", "--no-header", "-p", "no:cacheprovider", "-p", "no:xdist", "--tb=short")
# These launch nothing through the harness.
_ELSEWHERE = ("test_artifact", "test_mutate", "test_compiled")
GROUP_TIMEOUT_S = 300


class _Collector:
    """Collects the test functions, or counts outcomes."""

    def __init__(self) -> None:
        self.groups: dict[str, None] = {}
        self.failed: list[str] = []
        self.passed = 0

    def pytest_collection_finish(self, session: pytest.Session) -> None:
        for item in session.items:
            self.groups[item.nodeid.split("[")[0].split("emulator/")[-1]] = None

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call":
            self.passed += 1


def collect(expression: str) -> list[str]:
    """Return the names `file.py::test` of the test functions."""
    collector = _Collector()
    files = [str(p) for p in sorted(TESTS.glob("test_*.py")) if p.stem not in _ELSEWHERE]
    arguments = [*_OPTIONS, "--collect-only", "-qq", *files]
    pytest.main([*arguments, "-k", expression] if expression else arguments, plugins=[collector])
    return list(collector.groups)


def run_group(group: str, *, gpu: bool) -> dict[str, Any]:
    """One test function in this process."""
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "gpu",
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("gpu")
    row, outcomes = Row(group), _Collector()
    process = GpuProcess() if gpu else None
    harness.backend = lambda text: Both(text, row, process)
    try:
        pytest.main([*_OPTIONS, str(TESTS / group)], plugins=[outcomes])
    finally:
        if process is not None:
            process.close()
    return {"row": asdict(row), "passed": outcomes.passed, "failed": outcomes.failed}


def run_artifact(path: Path, *, gpu: bool) -> dict[str, Any]:
    """One artifact on random inputs, in this process."""
    from mirage.emulator.run_artifact import TOLERANCE, random_inputs
    from mirage.emulator.run_artifact import run_artifact as emulate
    from mirage.runtime import load, read_artifact

    artifact = read_artifact(path)
    inputs = random_inputs(artifact.manifest.inputs)
    row = Row(f"artifact {artifact.manifest.name}")
    outputs = emulate(artifact, inputs, checks=True, stats=False).outputs
    if gpu:
        import torch

        types = {
            "f16": torch.float16,
            "bf16": torch.bfloat16,
            "f32": torch.float32,
            "f64": torch.float64,
        }
        tensors: list[Any] = []
        for spec, value in zip(artifact.manifest.inputs, inputs, strict=True):
            tensor = torch.empty_strided(
                spec.shape, spec.strides, dtype=types[spec.dtype], device="cuda"
            )
            tensor.copy_(torch.from_numpy(np.asarray(value, np.float64)))
            tensors.append(tensor)
        results = load(path)(tensors)
        torch.cuda.synchronize()
        row.launches += 1
        for spec, ours, theirs in zip(artifact.manifest.outputs, outputs, results, strict=True):
            scale = float(np.abs(ours.astype(np.float64)).max(initial=0.0))
            allowed = 2 * TOLERANCE[spec.dtype]
            reason = f"each within {allowed / 2:g} of the exact output's largest magnitude"
            row.state(reason)
            a = np.ascontiguousarray(ours)
            b = np.ascontiguousarray(theirs.double().cpu().numpy().astype(ours.dtype))
            compare(
                row,
                artifact.ptx(),
                a.dtype,
                a.reshape(-1).view(np.uint8),
                b.reshape(-1).view(np.uint8),
                Tolerance(spec.dtype, allowed * scale, 0.0, reason),
            )
    return {"row": asdict(row), "passed": 0, "failed": []}


def run_recorded(path: Path, test: str, *, gpu: bool) -> dict[str, Any]:
    """Run the recorded launches of one test function in this process. Kernels without
    approximations and tensor cores must agree bit for bit; for the others both results must be
    within TOLERANCE of float64, relative to each element and the root mean square of all."""
    from mirage.emulator.run_artifact import TOLERANCE

    row = Row(test)
    process = GpuProcess()
    for name, request, ours in pickle.loads(path.read_bytes()) if gpu else ():
        if name != test:
            continue
        row.launches += 1
        after = launch_on_gpu(row, process, request)
        if after is None:
            continue
        row.judge("equal")
        is_open = re.search(r"mma|\.approx|div\.full", request.ptx) is not None
        for dtype, a, b in zip(types_of(request), ours, after, strict=True):
            tolerance = None
            kind = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}.get(dtype.name)
            if is_open and kind is not None:
                values = a.view(dtype).astype(np.float64)
                values = values[np.isfinite(values)]
                allowed = 2 * TOLERANCE[kind]
                typical = float(np.sqrt(np.mean(values**2))) if values.size else 0.0
                reason = f"approximations or tensor cores: both within {TOLERANCE[kind]} of float64"
                tolerance = Tolerance(kind, allowed * typical + 2.0**-133, allowed, reason)
                row.state(reason)
            compare(row, request.ptx, dtype, a, b, tolerance)
    process.close()
    return {"row": asdict(row), "passed": 0, "failed": []}


def _in_process(arguments: list[str], name: str) -> dict[str, Any]:
    """Return the result of this script with other arguments; an ERROR row if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        result = Path(folder) / "result.json"
        command = [sys.executable, __file__, *arguments, "--result", str(result)]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=GROUP_TIMEOUT_S
            )
            note = (done.stdout + done.stderr)[-500:]
        except subprocess.TimeoutExpired:
            note = f"did not end within {GROUP_TIMEOUT_S} s"
        if result.exists():
            return json.loads(result.read_text())
    row = Row(name)
    row.judge("ERROR", note)
    return {"row": asdict(row), "passed": 0, "failed": [name]}


def write(path: Path, data: Any) -> None:
    """Write a JSON file, completely or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w") as file:
        json.dump(data, file, indent=1)
        file.write("\n")
    os.replace(name, path)


def environment(*, gpu: bool) -> dict[str, str]:
    """Return the versions and the GPU."""
    result = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
    }
    if not gpu:
        return {**result, "gpu": "none asked for"}
    from mirage.runtime.launching.cuda_driver import check, driver

    d = driver()
    check(d.cuInit(0), "start")
    result["driver"] = str(check(d.cuDriverGetVersion(), "driver version"))
    device = check(d.cuDeviceGet(0), "device")
    result["gpu"] = check(d.cuDeviceGetName(64, device), "device name").split(b"\0")[0].decode()
    return result


def table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as text."""
    lines = [
        f"{'test':<80} {'launches':>8} {'elements':>9} {'differ':>7} {'nan':>5} "
        f"{'of allowed':>10}  verdict"
    ]
    lines += [
        f"{r['test']:<80} {r['launches']:>8} {r['elements']:>9} {r['different']:>7} "
        f"{r['nan_payloads']:>5} {r['worst']:>10.2e}  {r['verdict']} {' | '.join(r['notes'])}"
        for r in rows
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, help="folder for emulator_vs_gpu.json")
    parser.add_argument(
        "--artifact", type=Path, action="append", default=[], help="compare this artifact too"
    )
    parser.add_argument("--recorded", type=Path, help="repeat these launches instead of tests")
    parser.add_argument(
        "--emulator-only", action="store_true", help="no GPU: only check that this runs"
    )
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 12))
    parser.add_argument("-k", default="", help="pytest expression that selects tests")
    parser.add_argument("--group", help=argparse.SUPPRESS)
    parser.add_argument("--result", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    gpu = not options.emulator_only
    if options.result is not None:
        if options.recorded:
            one = run_recorded(options.recorded, options.group, gpu=gpu)
        elif options.group:
            one = run_group(options.group, gpu=gpu)
        else:
            one = run_artifact(options.artifact[0], gpu=gpu)
        write(options.result, one)
        return 0
    if options.out is None:
        parser.error("expected --out, the folder for emulator_vs_gpu.json")
    plain = ["--emulator-only"] if options.emulator_only else []
    if options.recorded:
        plain += ["--recorded", str(options.recorded)]
        tests = dict.fromkeys(t for t, _, _ in pickle.loads(options.recorded.read_bytes()))
        groups = list(tests)
    else:
        groups = collect(options.k)
    work = [(["--group", g, *plain], g) for g in groups]
    work += [(["--artifact", str(p), *plain], f"artifact {p}") for p in options.artifact]
    with ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda w: _in_process(*w), work))
    rows = [r["row"] for r in results]
    failed = [name for r in results for name in r["failed"]]
    data = {
        "command": sys.argv,
        "environment": environment(gpu=gpu),
        "tests_passed": sum(r["passed"] for r in results),
        "tests_failed": failed,
        "rows": rows,
    }
    print(table(rows))
    name = "compiler_vs_gpu.json" if options.recorded else "emulator_vs_gpu.json"
    write(options.out / name, data)
    bad = [r for r in rows if r["verdict"] in ("DIFFERENT", "ERROR")]
    print(
        f"{len(rows)} rows, {len(bad)} disagree; {data['tests_passed']} tests passed, "
        f"{len(failed)} failed"
    )
    return 1 if bad or failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
