"""Factors with skewed rows: the search's predictions agree with the compiler."""

from __future__ import annotations

import math
import re
from collections import Counter
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from lowering import compile_mlir
from mirage import _target
from mirage.cost import H200
from mirage.cost.features import Resources, features_of
from mirage.cost.kernel_time import estimate
from mirage.cost.predict import predict
from mirage.cost.shared_memory_bound import shared_bytes
from mirage.cost.skewed_rows import is_odd, may_skew
from mirage.mlir_io import graph_from_text
from mirage.search import SearchLimits, superoptimize
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Launch, Loop, TensorType, launches, loops
from mirage.workloads.products import linear_layer
from written_kernels.odd_products import linear, product

TILE = (16, 32, 64)


def launch_of(text: str) -> Launch:
    (launch,) = launches(graph_from_text(text).graph.ops)
    return launch


@pytest.mark.parametrize(
    ("shape", "dtype", "odd"),
    [
        ((64, 4095), DType.F16, True),
        ((64, 4094), DType.F16, False),
        ((1, 4095), DType.F16, False),
        ((4095,), DType.F16, False),
        ((64, 4095), DType.F32, False),
        ((), DType.F16, False),
    ],
)
def test_which_rows_start_at_odd_elements(shape: tuple[int, ...], dtype: DType, odd: bool) -> None:
    assert is_odd(TensorType(shape, dtype)) == odd


def test_tiles_that_start_at_lines() -> None:
    """Of 8 rows, or of 8 columns: the number of 2-byte elements in a line. Whole dimensions are not
    cut."""
    tensor = TensorType((64, 4095), DType.BF16)
    assert np.array_equal(
        may_skew(tensor, (np.array([8, 16, 4, 8, 64]), np.array([64, 8, 64, 4, 4095]))),
        [True, True, False, False, True],
    )
    assert not may_skew(TensorType((64, 4096), DType.BF16), (8, 64))
    assert not may_skew(TensorType((64, 4095), DType.F8E4M3), (16, 64))
    batch = TensorType((2, 64, 4095), DType.F16)
    assert may_skew(batch, (1, 8, 64))
    assert not may_skew(TensorType((2, 63, 4095), DType.F16), (1, 8, 64))


@pytest.mark.parametrize(
    ("text", "skewed"),
    [
        (linear(16, 40, 145, TILE, "f16"), 2),
        (linear(16, 40, 144, TILE, "f16"), 0),
        (linear(12, 40, 145, (4, 32, 64), "f16"), 1),  # blocks of four rows of the left factor
        (linear(16, 48, 145, (16, 12, 64), "bf16"), 1),
        (product(16, 40, 145, TILE, "f16", 3), 1),
        (product(16, 39, 144, TILE, "f16", 3), 0),  # its rows are not contracted
    ],
)
def test_search_and_compiler_agree(text: str, skewed: int) -> None:
    """Return the elements that are copied in whole lines, and the shared memory of the kernel."""
    launch = launch_of(text)
    (loop,) = (op for op in launch.body.ops if isinstance(op, Loop))
    sizes = [float(op.results[0].type.size) for op in loop.body if is_odd(op.operands[0].type)]
    artifact = compile_mlir(text)
    registers = re.search(r"ld\.global[.\w]*\.b(16|32)", artifact.ptx()) is not None
    f = features_of(launch)
    assert (f.odd_step > 0) == registers
    assert len(sizes) - skewed == (0 if not registers else 1)
    assert f.odd_step <= sum(sizes)
    (kernel,) = artifact.manifest.kernels
    assert kernel.shared_bytes <= shared_bytes(launch).total


@pytest.mark.parametrize("columns", [64, 128, 256, 512])
@pytest.mark.parametrize("stride", [511, 513, 1001, 4095, 4097])
def test_both_ends_of_copies_are_alike(columns: int, stride: int) -> None:
    """Rows have the same offsets from multiples of 128 bytes as in the tensor, if tiles start at
    these, and one line more than they fill. Of eight rows at most two share a bank."""
    row = columns * 2
    pitch = row + _target.skewed_pad(row, stride * 2, in_runs=True)
    assert (pitch - stride * 2) % 128 == 0
    assert row + 16 <= pitch < row + 16 + 128
    assert _target.shared_alignment(0, is_skewed=True) == 128
    banks = Counter((i * pitch + 32 * run) // 4 % 32 for i in range(8) for run in range(4))
    assert max(banks.values()) <= 2


def test_steps_run_ahead_of_a_loop_over_odd_rows() -> None:
    """More stages help as they do for aligned rows; reading pairs takes longer."""

    def time(k: int, stages: int) -> float:
        schedule = f"warps = 4, stages = {stages}"
        text = linear(16, 4096, k, (16, 32, 256), "f16", schedule)
        cost = predict(graph_from_text(text).graph, H200)
        assert cost is not None
        return cost.time

    odd, aligned = ({s: time(k, s) for s in (1, 2, 4)} for k in (4095, 4096))
    assert odd[4] < odd[2] < odd[1]
    assert aligned[4] < odd[4] < 1.7 * aligned[4]


@cache
def best_linear(depth: int) -> tuple[Launch, float]:
    """The first kernel of the search's choice for 16 rows by 4096 columns, and the time of all
    kernels, without shifted boxes."""
    graph = linear_layer("linear", 16, 4096, depth).graph()
    limits = SearchLimits(candidates=1, row_classes=1)
    found = superoptimize(graph, H200, limits).candidates[0]
    return next(iter(launches(found.graph.ops))), found.cost.time


def test_the_search_copies_odd_rows_ahead() -> None:
    """A linear layer whose depth is one less than a multiple takes a third more; twice as long if
    threads copied its elements."""

    (kernel, odd), (_, aligned) = best_linear(4095), best_linear(4096)
    assert any(isinstance(op, Loop) for op in kernel.body.ops)
    assert kernel.schedule.stages > 1
    assert features_of(kernel).odd_step == 0
    assert features_of(replace(kernel, schedule=replace(kernel.schedule, stages=1))).odd_step == 0
    assert odd < 1.5 * aligned


MEASURED = [  # columns, depth, warps, stages; bytes of shared memory and µs of 4095 and 4097
    ((32, 128, 4, 6), (86976, 78912), (18.23, 17.88)),
    ((32, 128, 4, 8), (115968, 105216), (17.96, 17.62)),
    ((32, 256, 8, 4), (107136, 101760), (16.93, 17.02)),
    ((32, 512, 16, 3), (154080, 150048), (17.02, 17.52)),
    ((32, 256, 4, 4), (122880, 123904), (12.71, 13.19)),
    ((32, 512, 8, 3), (165888, 166656), (12.61, 13.61)),
    ((32, 512, 4, 3), (165888, 166656), (12.49, 13.54)),
    ((32, 256, 4, 3), (92160, 92928), (13.07, 13.82)),
]


def test_skewed_rows_as_measured() -> None:
    """16 rows by 4096 columns on an H200: within 10 %, and 5 % on average."""
    errors: list[float] = []
    for (columns, depth, warps, stages), shared, measured in MEASURED:
        schedule = f"warps = {warps}, stages = {stages}"
        for k, bytes_, time in zip((4095, 4097), shared, measured, strict=True):
            launch = launch_of(linear(16, 4096, k, (16, columns, depth), "f16", schedule))
            compiled = Resources(32 * warps, bytes_, registers=80)
            predicted = float(estimate(features_of(launch, compiled=compiled), H200)["time"])
            assert predicted == pytest.approx(time, rel=0.1)
            errors.append(abs(math.log(predicted / time)))
    assert sum(errors) / len(errors) < 0.05


def test_short_pieces_of_skewed_rows_cost_more() -> None:
    """Pieces of 64 bytes of K, in parts: 20.3 µs including the kernel that adds them; the best
    tiles without parts 15.9; four parts in pieces of 512 bytes 14.4."""
    best, _ = best_linear(4095)
    (loop,) = loops(best)
    parts = math.prod(axis.extent for axis in (*best.grid, loop.axis) if axis.name.startswith("k"))
    assert 4095 * 2 / parts >= 256
