"""Numbers of the search and the runtime that must agree with the compiler and are written in both;
numbers in `mirage._target` are written once."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mirage.compiler import ptxas
from mirage.cost import (
    accountant,
    cluster_split,
    kernel_features,
    packed_blocks,
    registers,
    shared_tiles,
)
from mirage.cost.target import TARGETS
from mirage.runtime.launching import fast, tensor_maps
from mirage.semantics.indexing import strides
from mirage.semantics.ops import taken_steps

ROOT = Path(__file__).parents[3]
BLOCK, NVVM = "lib/Dialect/Block", "lib/Conversion/ThreadToNVVM"
THREAD = "include/mirage/Dialect/Thread/IR/Thread.h"
PACK = "lib/Dialect/Thread/Transforms/PackBlocks.cpp"
PAIRS = [
    (accountant.GROUP_ROWS, THREAD, "kGroupRows = "),
    (cluster_split.MOST_NUMBERS, f"{BLOCK}/Analysis/ClusterSplit.cpp", "kMostNumbers = "),
    (fast.VERSION, "python/mirage/runtime/native/launcher.c", '"VERSION", '),
    (kernel_features.FEWEST_AHEAD, f"{NVVM}/LateOrder.h", "kFewestAhead = "),
    (kernel_features.MOST_AHEAD, f"{NVVM}/LateOrder.h", "kMostAhead = "),
    (kernel_features.OTHERS, f"{NVVM}/RecomputeValues.cpp", "kOthers = "),
    (kernel_features.OTHERS_BESIDE, f"{NVVM}/RecomputeValues.cpp", "kOthersBeside = "),
    (kernel_features.WARPS_BESIDE, f"{NVVM}/RecomputeValues.cpp", "kWarpsBeside = "),
    (packed_blocks.FEWEST_WAVES, PACK, "kFewestWaves = "),
    (packed_blocks.MOST_STORED, PACK, "kMostStored = "),
    (32 * packed_blocks.MOST_WARPS, PACK, "kMostThreads = "),
    (registers.BESIDE_SUMS, f"{BLOCK}/Transforms/PipelineLoops.cpp", "besideSums = "),
    (registers.MOST_MOVED, f"{BLOCK}/Analysis/RegisterEstimate.cpp", "most = "),
    (shared_tiles.PART_ROWS, THREAD, "kPartRows = "),
    (strides.START, "lib/Dialect/Kernel/IR/Strides.cpp", "kAlign = "),
    (taken_steps.MOST_READ, f"{BLOCK}/IR/BlockOps.cpp", "mostElements = "),
    (tensor_maps.ALIGNMENT, f"{NVVM}/SetTensorMaps.cpp", "kTensorMapAlign = "),
    (tensor_maps.BYTES, f"{NVVM}/SetTensorMaps.cpp", "kTensorMapBytes = "),
]


@pytest.mark.parametrize(("ours", "file", "before"), PAIRS)
def test_numbers_are_those_of_the_compiler(ours: float, file: str, before: str) -> None:
    found = re.findall(rf"(?<!\w){re.escape(before)}(\d+)", (ROOT / file).read_text())
    assert [float(n) for n in found] == [ours]


def test_registers_are_those_of_all_chips() -> None:
    cards = TARGETS.values()
    assert (
        {c.registers_thread for c in cards}
        == {kernel_features.MOST_REGISTERS}
        == {ptxas.MOST_REGISTERS}
    )
    assert (
        {c.registers_sm for c in cards} == {kernel_features.REGISTERS_SM} == {ptxas.REGISTER_FILE}
    )
