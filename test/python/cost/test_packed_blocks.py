"""Small blocks that run as one: as predicted, and as compiled and run in the emulator."""

from __future__ import annotations

from dataclasses import replace
from math import prod

import numpy as np
import pytest
from mirage.compiler import CompileOptions, compile_graph
from mirage.cost import H200, KernelFeatures, estimate, features_of
from mirage.cost.occupancy import occupancy
from mirage.cost.packed_blocks import packed_together
from mirage.cost.uniform import Num
from mirage.pipeline.checks.emulated_check import emulated
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.pipeline.rank import resources_of
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    Schedule,
    TensorType,
    Value,
)


def copy_of(blocks: Num, warps: Num, **other: float) -> KernelFeatures:
    """Blocks that move 512 bytes each, with nothing in shared memory."""
    moved = KernelFeatures(
        blocks=blocks, warps=warps, stages=1.0, load_once=512.0, live=256.0,
        dram_read=512.0 * blocks, dram_write=512.0 * blocks,
    )  # fmt: skip
    return replace(moved, **other)


def time(features: KernelFeatures) -> float:
    return float(estimate(features, H200)["time"])


def test_a_multiprocessor_holds_more_packed_blocks() -> None:
    """Tiles of 16 x 16 f16, one for each warp: 7.1 µs as blocks of one or of two warps (H200)."""
    packed = copy_of(9408.0, 1.0)
    assert packed_together(packed, H200) == 8
    assert float(occupancy(packed, H200).together) > H200.blocks_sm
    alone = copy_of(9409.0, 1.0)  # 97 times 97
    assert packed_together(alone, H200) == 1
    assert time(packed) < 0.7 * time(alone)


def test_an_array_of_choices() -> None:
    warps = np.array([1.0, 2.0, 4.0, 8.0, 1.0])
    blocks = np.array([9408.0, 9408.0, 9408.0, 9408.0, 8447.0])
    found = packed_together(copy_of(blocks, warps), H200)
    assert found.tolist() == [8, 4, 2, 1, 1]


@pytest.mark.parametrize(
    "other",
    [
        {"steps": 2.0},
        {"dram_write": 33.0 * 32 * 9408},
        {"exchanges_once": 1.0},
        {"mma_once": 1.0},
        {"cluster": 2.0},
    ],
)
def test_blocks_whose_warps_may_meet_stay(other: dict[str, float]) -> None:
    assert packed_together(copy_of(9408.0, 1.0, **other), H200) == 1


def doubled(rows: int, columns: int, warps: int) -> KernelGraph:
    """Each block adds one row to itself."""
    x = Value(TensorType((rows, columns), DType.F32), "x")
    b = Builder(in_block=True)
    part = Value(x.type, "part")
    tile = b.load(part, (("row",), ()), (1, columns))
    output = Output(b.binary(BinaryFn.ADD, tile, tile), (("row",), ()))
    body = BlockGraph((part,), tuple(b.ops), (output,))
    result = Value(x.type, "y")
    grid = (Axis("row", rows),)
    launch = Launch((x,), (result,), grid, body, Schedule(warps=warps, stages=1))
    return KernelGraph("doubled", (x,), (launch,), (result,))


@pytest.mark.parametrize(("rows", "warps", "together"), [(8463, 1, 7), (8464, 2, 4)])
def test_packed_blocks_write_their_own_rows(rows: int, warps: int, together: int) -> None:
    graph = doubled(rows, 64, warps)
    artifact = compile_graph(graph, CompileOptions(chip="h200")).artifact
    (kernel,) = artifact.manifest.kernels
    assert prod(kernel.grid) * together == rows
    assert prod(kernel.block) == 32 * warps * together
    found = emulated(graph.ops[0], kernel, artifact)
    assert found.outcome is Outcome.PASSED, found
    assert f"{3 * together * 64:,} elements" in found.text
    launch = graph.ops[0]
    assert isinstance(launch, Launch)
    (resources,) = resources_of(artifact.manifest)
    compiled = features_of(launch, (), resources)
    assert (compiled.blocks, compiled.warps) == (rows, warps)
    assert packed_together(compiled, H200) == together
