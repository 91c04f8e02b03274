"""Results that the comparison of the emulator with a GPU treats as equal, and others."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mirage.emulator import TensorMap, Uninitialised
from mirage.emulator.ptx.syntax import Kernel, Site

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))
import gpu_worker
from emulator_comparison import Row, compare, launch_on_gpu
from emulator_support.tolerance import Tolerance, accumulation, approximation

F32 = np.dtype(np.float32)


def judged(a: Any, b: Any, tolerance: Tolerance | None = None, text: str = ".f32") -> Row:
    row = Row("test")
    ours, theirs = (np.ascontiguousarray(v).view(np.uint8) for v in (a, b))
    row.judge("equal")
    compare(row, text, np.asarray(a).dtype, ours, theirs, tolerance)
    return row


def test_bits_decide_where_nothing_is_stated() -> None:
    x = np.array([1.0, -0.0, np.inf, 3.0], np.float32)
    assert judged(x, x).verdict == "equal"
    for i, other in enumerate((np.nextafter(np.float32(1), 2), 0.0, -np.inf, 4.0)):
        y = x.copy()
        y[i] = other
        row = judged(x, y)
        assert (row.verdict, row.different) == ("DIFFERENT", 1)
        assert f"element {i}" in row.notes[0]


def test_nan_payloads_are_open_but_nan_is_not() -> None:
    x = np.array([0x7FFFFFFF, 1], np.uint32)
    y = np.array([0x7FC00000, 1], np.uint32)
    row = judged(x, y)
    assert (row.verdict, row.nan_payloads) == ("equal", 1)
    assert judged(x.view(np.float32), y.view(np.float32)).nan_payloads == 1
    assert judged(x, y, text="add.u32").verdict == "DIFFERENT"
    y[0] = 0x3F800000
    assert judged(x, y).verdict == "DIFFERENT"


def test_tolerances_are_absolute_and_relative() -> None:
    x = np.array([1.0, 1000.0, 0.0], np.float32)
    tolerance = Tolerance("f32", 1e-6, 1e-3, "stated")
    assert judged(x, x * np.float32(1.0009), tolerance).verdict == "within tolerance"
    row = judged(x, x * np.float32(1.0012), tolerance)
    assert row.verdict == "DIFFERENT"
    assert row.worst > 1
    assert judged(x, x + np.float32([0, 0, 2e-6]), tolerance).verdict == "DIFFERENT"
    assert judged(x, np.array([1, np.nan, 0], np.float32), tolerance).verdict == "DIFFERENT"


def test_bounds_follow_sizes_and_formats() -> None:
    a, b = np.ones((4, 32)), np.ones((32, 8))
    one = accumulation(a[:, :16], b[:16], 0, element="f16", result="f32", depth=16)
    two = accumulation(a, b, 0, element="f16", result="f32", depth=16)
    assert one.absolute == pytest.approx(18 * 2**-23 * 16, rel=1e-6)
    assert two.absolute == pytest.approx(2 * 18 * 2**-23 * 32, rel=1e-6)
    small = accumulation(a, b, 0, element="e4m3", result="f32", depth=32)
    assert small.absolute > 100 * two.absolute
    assert approximation("tanh.approx.bf16").absolute >= 2**-8


def test_arguments_keep_sharing_memory_on_their_way() -> None:
    base = np.arange(64, dtype=np.float16).reshape(4, 16)
    arguments = [base[1:], base[:, 8:], Uninitialised(np.zeros(3)), TensorMap(base, (2, 8)), 7]
    kernel = Kernel("k", Site(1, ""))
    options = {"grid": (1,), "block": (32,)}
    roots, request = gpu_worker.request_of("text", kernel, arguments, options)
    assert len(roots) == 2
    sent = pickle.loads(pickle.dumps(request))
    memories = [np.array(r) for r in sent.roots]
    first, second, fresh, tensor, number = (
        gpu_worker._argument(v, memories) for v in sent.arguments
    )
    np.testing.assert_array_equal(second, base[:, 8:])
    first[0, 8] = -1
    assert second[1, 0] == -1
    assert tensor.array[1, 8] == -1
    assert isinstance(fresh, Uninitialised)
    assert number == 7
    assert base[1, 8] == 24


def test_a_worker_that_dies_is_an_error_of_its_launch() -> None:
    class Dead(gpu_worker.GpuProcess):
        def launch(self, request: gpu_worker.Launch) -> list[Any]:
            raise gpu_worker.GpuError("CUDA_ERROR_ILLEGAL_INSTRUCTION")

    row = Row("test")
    kernel = Kernel("k", Site(1, ""))
    _, request = gpu_worker.request_of("text", kernel, [], {"grid": (1,), "block": (1,)})
    assert launch_on_gpu(row, Dead(), request) is None
    assert row.verdict == "ERROR"
    row.judge("equal")
    assert row.verdict == "ERROR"
