"""Compares the memory that a launch leaves in the emulator with that on a GPU."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, ClassVar

import ml_dtypes
import numpy as np
from emulator_support import harness
from emulator_support.tolerance import Tolerance
from gpu_worker import GpuError, GpuProcess, Launch, View, request_of
from mirage.emulator import Emulator, LaunchResult
from mirage.emulator.launch_arguments import memory_of

Array = np.ndarray[Any, Any]
_TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
}
_MOST_REASONS = 12


@dataclass
class Row:
    """One test function, and how its launches agreed. different: elements whose bits differ;
    nan_payloads: those of them that are NaN on both sides (PTX leaves payloads open); worst: the
    largest difference of the launches with a tolerance, as a fraction of the tolerance; verdict:
    equal, within tolerance, unspecified by PTX, DIFFERENT, ERROR, or not run (no launch that the
    emulator accepts).
    """

    test: str
    launches: int = 0
    elements: int = 0
    different: int = 0
    nan_payloads: int = 0
    worst: float = 0.0
    tolerances: list[str] = field(default_factory=list[str])
    verdict: str = "not run"
    notes: list[str] = field(default_factory=list[str])

    _ORDER: ClassVar = ("not run", "equal", "unspecified", "within tolerance", "DIFFERENT", "ERROR")

    def judge(self, verdict: str, note: str = "") -> None:
        """Keep the worst verdict of the row's launches."""
        if self._ORDER.index(verdict) > self._ORDER.index(self.verdict):
            self.verdict = verdict
        if note and len(self.notes) < _MOST_REASONS:
            self.notes.append(note)

    def state(self, reason: str) -> None:
        """Adds a reason why results may differ."""
        if reason not in self.tolerances and len(self.tolerances) < _MOST_REASONS:
            self.tolerances.append(reason)


def float_type(text: str, size: int) -> Any:
    """Return the float types that words of `size` bytes may have, to recognize NaNs; None if the
    PTX has none."""
    if size == 2:
        return np.dtype(ml_dtypes.bfloat16 if "bf16" in text else np.float16)
    if re.search(r"(add|mul|fma\.rn|max|min)\.f16x2|cvt\.rn(\.relu)?\.f16x2", text):
        return np.dtype(np.float16)
    if ".bf16x2" in text:
        return np.dtype(ml_dtypes.bfloat16)
    if re.search(r"\.f(16|32|64)", text) is None:
        return None
    return np.dtype({4: np.float32, 8: np.float64}.get(size, np.float32))


def _both_nan(text: str, dtype: np.dtype[Any], a: Array, b: Array) -> Array:
    """Return the elements of `dtype` that are NaN on both sides, in their float type if they are
    words."""
    kind = dtype if dtype.kind not in "iub" else float_type(text, dtype.itemsize)
    if kind is None or a.nbytes % kind.itemsize:
        return np.zeros(a.nbytes // dtype.itemsize, bool)
    x, y = (v.view(kind).astype(np.float64) for v in (a, b))
    word: Any = f"u{kind.itemsize}"
    alike = (a.view(word) == b.view(word)) | (np.isnan(x) & np.isnan(y))
    parts = max(dtype.itemsize // kind.itemsize, 1)
    return alike.reshape(-1, parts).all(axis=1).repeat(max(kind.itemsize // dtype.itemsize, 1))


def compare(
    row: Row,
    text: str,
    dtype: np.dtype[Any],
    ours: Array,
    theirs: Array,
    tolerance: Tolerance | None,
) -> None:
    """Add one memory (bytes) of one launch to a row; `dtype` is that of the argument."""
    if tolerance is not None and ours.nbytes % np.dtype(_TYPES[tolerance.kind]).itemsize == 0:
        dtype = np.dtype(_TYPES[tolerance.kind])
    row.elements += ours.nbytes // dtype.itemsize
    if ours.tobytes() == theirs.tobytes():
        return
    word: Any = f"u{dtype.itemsize}"
    different = ours.view(word) != theirs.view(word)
    nan = different & _both_nan(text, dtype, ours, theirs)
    row.nan_payloads += int(nan.sum())
    row.different += int((different & ~nan).sum())
    different &= ~nan
    if not different.any():
        return
    a, b = ours.view(dtype)[different], theirs.view(dtype)[different]
    if tolerance is None:
        at = int(np.argmax(different))
        row.judge("DIFFERENT", f"element {at} as {dtype}: emulator {a[0]}, gpu {b[0]}")
        return
    x, y = a.astype(np.float64), b.astype(np.float64)
    with np.errstate(all="ignore"):
        allowed = tolerance.absolute + tolerance.relative * np.maximum(np.abs(x), np.abs(y))
        part = np.where(x == y, 0.0, np.abs(x - y) / allowed)
    part = np.where(np.isnan(part), np.inf, part)
    row.worst = max(row.worst, float(part.max()))
    if (part > 1).any():
        at = int(np.argmax(part))
        row.judge("DIFFERENT", f"{tolerance.reason}: emulator {a[at]}, gpu {b[at]}")
    else:
        row.judge("within tolerance")


def types_of(request: Launch) -> list[np.dtype[Any]]:
    """Return the element type of each memory: that of the first argument that uses it."""
    views = [v for v in request.arguments if isinstance(v, View)]
    return [next(v.dtype for v in views if v.root == i) for i in range(len(request.roots))]


def launch_on_gpu(row: Row, gpu: GpuProcess, request: Launch) -> list[Array] | None:
    """Return the memories afterwards; None if the launch failed, which is noted in the row."""
    try:
        return gpu.launch(request)
    except GpuError as error:
        maps = [f"{v.like} {v.shape}" for v in request.arguments if isinstance(v, View) and v.like]
        row.judge("ERROR", f"{str(error)[:300]} {'; '.join(maps)}".strip())
        return None


class Both:
    """Stands in for Emulator: launches in the emulator, then on the GPU, and compares."""

    def __init__(self, text: str, row: Row, gpu: GpuProcess | None) -> None:
        self.text = text
        self.row = row
        self.gpu = gpu
        self.emulator = Emulator(text)

    def program(self, name: str) -> Any:
        return self.emulator.program(name)

    def launch(self, name: str, *, args: Any, checks: bool = True, **options: Any) -> LaunchResult:
        stated = harness.open_result
        kernel = self.emulator.module.kernels.get(name)
        if kernel is None:
            return self.emulator.launch(name, args=args, checks=checks, **options)
        roots, request = request_of(self.text, kernel, args, options)
        result = self.emulator.launch(name, args=args, checks=checks, **options)
        if self.gpu is None or not checks:
            return result
        row = self.row
        row.launches += 1
        after = launch_on_gpu(row, self.gpu, request)
        if after is None:
            return result
        row.judge("equal")
        if isinstance(stated, str):
            row.state(stated)
            row.judge("unspecified")
            return result
        if stated is not None:
            row.state(stated.reason)
        ours = [np.array(memory_of(root)) for root in roots]
        for dtype, a, b in zip(types_of(request), ours, after, strict=True):
            compare(row, self.text, dtype, a, b, stated)
        return result
