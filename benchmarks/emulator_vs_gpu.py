"""Runs the emulator's own tests on a GPU too and compares what both leave in memory.

Every launch that the tests of `test/python/emulator` make, and that the emulator accepts, is
repeated on GPU 0 with the same PTX and the same inputs. Results must agree bit for bit, except that
any NaN matches any NaN, unless the PTX uses approximations or tensor cores, whose results PTX
leaves open: those must agree within a tolerance. With --artifact, whole artifacts are compared as
well.

    python benchmarks/emulator_vs_gpu.py --out benchmarks/results
    python benchmarks/emulator_vs_gpu.py --out results --artifact build/artifacts/lora.mirage

Writes `emulator_vs_gpu.json` into the folder. --emulator-only checks the plumbing without a GPU.
Exit status 1 if anything disagrees.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import sys
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
for folder in ("python", "test/python", "benchmarks"):
    sys.path.insert(0, str(ROOT / folder))

import ml_dtypes  # noqa: E402
import numpy as np  # noqa: E402
import pytest  # noqa: E402
from emulator_support import harness  # noqa: E402
from gpu_launcher import GpuModule, GpuTimeout, array_of, root_of  # noqa: E402
from mirage.emulator import Dependent, Emulator, LaunchResult, TensorMap, Uninitialised  # noqa: E402
from mirage.runtime.errors import DriverError  # noqa: E402

Array = np.ndarray[Any, Any]

# Results that PTX leaves open: (what the PTX contains, largest difference relative to the larger
# magnitude of the array, or of the element where `each`).
_OPEN: tuple[tuple[str, float, bool], ...] = (
    (r"wgmma\.mma_async|mma\.sync.*\.f16\.f16\.f16\.f16", 2e-3, False),
    (r"wgmma\.mma_async|mma\.sync.*\.f32\.", 1e-5, False),
    (r"\.approx\.(ftz\.)?(f16|bf16)", 2.0**-6, False),
    (r"tanh\.approx|sin\.approx|cos\.approx", 1e-3, False),
    (r"\.approx|div\.full", 2.0**-21, True),
)
# Launches whose result depends on the order of atomics.
_UNORDERED = ("test_atomics_return_old_values",)


@dataclass
class Row:
    """One test: what its launches agreed on."""

    test: str
    launches: int = 0
    elements: int = 0
    different: int = 0
    nan_payloads: int = 0
    worst: float = 0.0
    tolerance: float = 0.0
    verdict: str = "equal"
    note: str = ""


class Recorder:
    """Collects rows; a pytest plugin that knows which test runs."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.current = "?"
        self.failed: list[str] = []
        self.passed = 0
        self.ended = "complete"

    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self.current = item.nodeid.split("emulator/")[-1]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            self.failed.append(report.nodeid)
        elif report.when == "call":
            self.passed += 1

    @property
    def row(self) -> Row:
        name = re.sub(r"\[.*", "", self.current)
        return self.rows.setdefault(name, Row(name))


def _copy(arguments: list[Any]) -> list[Any]:
    """The same arguments over copied memory; views of one base stay views of one."""
    copies: dict[int, tuple[Array, Array]] = {}

    def duplicate(array: Array) -> Array:
        root = root_of(array)
        if id(root) not in copies:
            copies[id(root)] = (root, root.copy())
        new = copies[id(root)][1]
        offset = array.ctypes.data - root.ctypes.data
        flat = new.reshape(-1).view(np.uint8)[offset:]
        return (
            np.lib.stride_tricks.as_strided(
                flat[: array.itemsize].view(array.dtype), array.shape, array.strides
            )
            if array is not root
            else new
        )

    result: list[Any] = []
    for argument in arguments:
        array = array_of(argument)
        if array is None:
            result.append(argument)
        elif isinstance(argument, TensorMap):
            new = duplicate(array)
            result.append(
                TensorMap(
                    new, argument.box, argument.swizzle, argument.oob_fill, argument.element_strides
                )
            )
        elif isinstance(argument, (Uninitialised, Dependent)):
            result.append(type(argument)(duplicate(array)))
        else:
            result.append(duplicate(array))
    return result


def _element_type(text: str, array: Array) -> Any:
    """What unsigned words most likely hold, for telling NaNs and distances."""
    if array.dtype.kind not in "ub" or (array.dtype.itemsize == 1 and "mma" not in text):
        return array.dtype
    size = array.dtype.itemsize
    if re.search(r"mma[^;]*\.(f16\.f16\.f16\.f16|f16\.f16\.f16 )", text):
        return np.dtype(np.float16)
    if size == 1 or size == 4:
        if re.search(r"(add|mul|fma\.rn|max|min)\.f16x2|cvt\.rn(\.relu)?\.f16x2", text):
            return np.dtype(np.float16)
        if re.search(r"\.bf16x2", text):
            return np.dtype(ml_dtypes.bfloat16)
        return np.dtype(np.float32)
    if size == 2:
        return np.dtype(ml_dtypes.bfloat16 if "bf16" in text else np.float16)
    return np.dtype(np.float64)


def compare(row: Row, text: str, ours: Array, theirs: Array) -> None:
    """Adds one array of one launch to a row."""
    a = np.ascontiguousarray(ours).reshape(-1)
    b = np.ascontiguousarray(theirs).reshape(-1)
    row.elements += a.size
    if a.tobytes() == b.tobytes():
        return
    dtype = _element_type(text, a)
    if a.nbytes % dtype.itemsize:
        dtype = a.dtype
    a, b = a.view(np.uint8).view(dtype), b.view(np.uint8).view(dtype)
    word: Any = f"u{dtype.itemsize}"
    different = a.view(word) != b.view(word)
    x, y = a.astype(np.float64), b.astype(np.float64)
    if dtype.kind not in "iu":
        nan = np.isnan(x) & np.isnan(y)
        row.nan_payloads += int((different & nan).sum())
        different &= ~nan
    if not different.any():
        return
    row.different += int(different.sum())
    x, y = x[different], y[different]
    with np.errstate(all="ignore"):
        distance = np.abs(x - y)
    tolerance, each = next(
        ((t, e) for pattern, t, e in _OPEN if re.search(pattern, text)), (0.0, False)
    )
    finite = np.abs(b.astype(np.float64))
    scale: Any = (
        np.maximum(np.abs(x), np.abs(y))
        if each
        else np.max(finite[np.isfinite(finite)], initial=0.0)
    )
    with np.errstate(all="ignore"):
        relative = np.where(distance == 0, 0, distance / scale)
    worst = float(np.max(np.where(np.isnan(relative), np.inf, relative)))
    row.worst = max(row.worst, worst)
    row.tolerance = max(row.tolerance, tolerance)
    if worst > tolerance:
        row.verdict = "DIFFERENT"
        at = int(np.argmax(different))
        row.note = row.note or f"element {at}: emulator {a[at]!r}, gpu {b[at]!r}"
    elif row.verdict == "equal":
        row.verdict = "within tolerance"


class Both:
    """Stands in for Emulator: launches in the emulator, then on the GPU, and compares."""

    def __init__(self, text: str, recorder: Recorder, *, gpu: bool) -> None:
        self.text = text
        self.recorder = recorder
        self.emulator = Emulator(text)
        self.gpu = gpu
        self.module: GpuModule | None = None

    def program(self, name: str) -> Any:
        return self.emulator.program(name)

    def launch(self, name: str, *, args: Any, checks: bool = True, **options: Any) -> LaunchResult:
        arguments = list(args)
        before = _copy(arguments)
        result = self.emulator.launch(name, args=arguments, checks=checks, **options)
        row = self.recorder.row
        if not self.gpu or not checks or row.test.endswith(_UNORDERED):
            return result
        row.launches += 1
        try:
            if self.module is None:
                self.module = GpuModule(self.text)
            self.module.launch(
                self.emulator.module.kernels[name],
                before,
                grid=options["grid"],
                block=options["block"],
                cluster=options.get("cluster", (1, 1, 1)),
                shared_bytes=options.get("shared_bytes", 0),
            )
        except GpuTimeout as error:
            row.verdict, row.note = "ERROR", str(error)
            self.recorder.ended = str(error)
            pytest.exit(str(error), returncode=3)
        except DriverError as error:
            row.verdict, row.note = "ERROR", str(error)[:300]
            if str(error).startswith(("kernel", "copy")):
                self.recorder.ended = str(error)
                pytest.exit(f"the GPU context is lost: {error}", returncode=3)
            return result
        for ours, theirs in zip(arguments, before, strict=True):
            a, b = array_of(ours), array_of(theirs)
            if a is not None and b is not None:
                compare(row, self.text, a, b)
        return result


def compare_artifact(path: Path, recorder: Recorder, *, gpu: bool) -> None:
    """One artifact on random inputs."""
    from mirage.emulator.artifact import random_inputs, run_artifact
    from mirage.runtime import load, read_artifact

    artifact = read_artifact(path)
    inputs = random_inputs(artifact.manifest.inputs)
    recorder.current = f"artifact {artifact.manifest.name}"
    row = recorder.row
    outputs = run_artifact(artifact, inputs, checks=True, stats=False).outputs
    if not gpu:
        return
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
    for ours, theirs in zip(outputs, results, strict=True):
        other = theirs.double().cpu().numpy().astype(ours.dtype)
        compare(row, "mma.sync.f32. " + artifact.ptx(), np.ascontiguousarray(ours), other)
    if row.verdict == "DIFFERENT" and row.worst <= 4e-3:
        row.verdict, row.tolerance, row.note = "within tolerance", 4e-3, ""


def write(out: Path, recorder: Recorder, *, ended: str) -> None:
    """The JSON file, whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    data = {
        "command": sys.argv,
        "environment": environment(),
        "ended": ended,
        "tests_passed": recorder.passed,
        "tests_failed": recorder.failed,
        "rows": [asdict(r) for r in recorder.rows.values()],
    }
    handle, name = tempfile.mkstemp(dir=out, suffix=".tmp")
    with os.fdopen(handle, "w") as file:
        json.dump(data, file, indent=1)
        file.write("\n")
    os.replace(name, out / "emulator_vs_gpu.json")


def environment() -> dict[str, str]:
    """Versions and the GPU."""
    result = {
        "python": platform.python_version(),
        "numpy": np.__version__,
        "ml_dtypes": ml_dtypes.__version__,
    }
    try:
        from mirage.runtime.driver import check, driver

        d = driver()
        result["driver"] = str(check(d.cuDriverGetVersion(), "driver version"))
        device = check(d.cuDeviceGet(0), "device")
        result["gpu"] = check(d.cuDeviceGetName(64, device), "device name").split(b"\0")[0].decode()
    except Exception as error:
        result["gpu"] = f"none: {error}"
    return result


def table(recorder: Recorder) -> str:
    """The rows as text."""
    lines = [
        f"{'test':<88} {'launches':>8} {'elements':>9} {'differ':>7} {'nan':>5} "
        f"{'worst':>9}  verdict"
    ]
    lines += [
        f"{r.test:<88} {r.launches:>8} {r.elements:>9} {r.different:>7} {r.nan_payloads:>5} "
        f"{r.worst:>9.2e}  {r.verdict} {r.note}"
        for r in recorder.rows.values()
    ]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for emulator_vs_gpu.json")
    parser.add_argument(
        "--artifact", type=Path, action="append", default=[], help="compare this artifact too"
    )
    parser.add_argument(
        "--emulator-only", action="store_true", help="no GPU: only check that this runs"
    )
    parser.add_argument("-k", default="", help="pytest expression that selects tests")
    options = parser.parse_args()
    from hypothesis import HealthCheck, settings

    settings.register_profile(
        "gpu",
        derandomize=True,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    settings.load_profile("gpu")
    recorder = Recorder()
    gpu = not options.emulator_only

    def both(text: str) -> Both:
        return Both(text, recorder, gpu=gpu)

    harness.backend = both
    tests = [
        str(p)
        for p in sorted((ROOT / "test/python/emulator").glob("test_*.py"))
        if p.stem not in ("test_artifact",)
    ]
    arguments = [
        "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "--tb=short",
        "--maxfail=20",
        *tests,
    ]
    pytest.main([*arguments, "-k", options.k] if options.k else arguments, plugins=[recorder])
    if recorder.ended == "complete":
        for path in options.artifact:
            compare_artifact(path, recorder, gpu=gpu)
    ended = recorder.ended
    print(table(recorder))
    write(options.out, recorder, ended=ended)
    bad = [r for r in recorder.rows.values() if r.verdict in ("DIFFERENT", "ERROR")]
    print(
        f"{len(recorder.rows)} rows, {len(bad)} disagree; {recorder.passed} tests passed, "
        f"{len(recorder.failed)} failed; {ended}"
    )
    sys.stdout.flush()
    status = 1 if bad or recorder.failed or ended != "complete" else 0
    if ended != "complete":
        os._exit(status)  # a kernel still runs; the driver would wait for it
    return status


if __name__ == "__main__":
    raise SystemExit(main())
