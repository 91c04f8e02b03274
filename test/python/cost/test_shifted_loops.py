"""Loops that begin before their first tile: which loops do, compared with the compiler, and their
cost, compared with measurements on an H200."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from lowering import compile_mlir
from mirage.cost.block_analysis import BlockAnalysis
from mirage.cost.boxes import is_box, joined_dims, shifted_steps
from mirage.cost.clusters import with_clusters
from mirage.cost.features import features_of
from mirage.cost.kernel_time import report
from mirage.cost.shared_memory_bound import shared_bytes
from mirage.cost.shifted_loops import shifted_loads
from mirage.cost.target import H200
from mirage.cost.warpgroup_limits import why_no_warpgroups
from mirage.mlir_io.text import graph_from_text
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import Launch, TensorType, launches
from thorough import some_of
from written_kernels.shifted_products import ShiftedProduct


def launch_of(text: str) -> Launch:
    graph = graph_from_text(text).graph
    (launch,) = launches(graph.ops)
    return launch


@pytest.mark.parametrize(
    ("shape", "joined"),
    [
        ((64, 8, 129), 2),
        ((64, 4, 130), 2),
        ((64, 4, 129), 0),
        ((3, 2, 4, 129), 3),
        ((64, 136), 1),
        ((8, 129), 0),
        ((129,), 0),
    ],
)
def test_rows_that_start_at_multiples(shape: tuple[int, ...], joined: int) -> None:
    assert joined_dims(TensorType(shape, DType.F16)) == joined


def test_steps() -> None:
    assert [shifted_steps(k, 64, 2) for k in (57, 58, 64, 121, 122)] == [1, 2, 2, 2, 3]


PRODUCT = ShiftedProduct(groups=128, classes=8, columns=64, depth=131)


MAXIMA = PRODUCT.text.replace("block.accumulate sum", "block.accumulate max")
COMPUTED = re.sub(
    "( *)%p = block.matmul %x, %y",
    r"\1%v = block.unary relu %y : (!block.tile<64x64xf16>) -> !block.tile<64x64xf32>\n"
    r"\1%z = block.cast %v : (!block.tile<64x64xf32>) -> !block.tile<64x64xf16>\n"
    r"\1%p = block.matmul %x, %z",
    PRODUCT.text,
)
LARGE = replace(PRODUCT, groups=512, tile=(512, 32, 64), schedule="warps = 8, stages = 2")


@pytest.mark.parametrize(
    ("text", "is_shifted"),
    some_of([
        (PRODUCT.text, True),
        (replace(PRODUCT, turned=True).text, True),
        (replace(PRODUCT, dtype="bf16", depth=66, classes=4).text, True),
        # four rows of 131 elements do not end at a multiple of 16 bytes, nor does one of 60
        (replace(PRODUCT, classes=4).text, False),
        (replace(PRODUCT, columns=60).text, False),
        # boxes that are too large
        (LARGE.text, False),
        (MAXIMA, False),
        (COMPUTED, False),
    ], every=3),
)  # fmt: skip
def test_the_compiler_agrees(text: str, is_shifted: bool) -> None:
    launch = launch_of(text)
    assert (why_no_warpgroups(launch) is None) == is_shifted
    assert ("wgmma.mma_async" in compile_mlir(text).ptx()) == is_shifted


@pytest.mark.parametrize(
    "schedule", ["warps = 4, stages = 3", "warps = 4, stages = 3, resident = 2"]
)
def test_shared_memory_is_bounded(schedule: str) -> None:
    product = replace(PRODUCT, schedule=schedule)
    (kernel,) = compile_mlir(product.text).manifest.kernels
    bound = shared_bytes(launch_of(product.text))
    assert kernel.shared_bytes <= bound.staged <= kernel.shared_bytes + 2048


def test_neighbours_do_not_copy_for_each_other() -> None:
    launch = launch_of(ShiftedProduct(512, 8, 1024, 4095, (128, 128, 64)).text)
    assert shifted_loads(BlockAnalysis(launch))
    assert with_clusters(launch, H200) is launch
    aligned = launch_of(ShiftedProduct(512, 8, 1024, 4096, (128, 128, 64)).text)
    assert not shifted_loads(BlockAnalysis(aligned))


def time_of(product: ShiftedProduct) -> float:
    launch = launch_of(product.text)
    assert why_no_warpgroups(launch) is None
    return report(features_of(launch), H200).time


@pytest.mark.parametrize(
    ("product", "measured"),
    [
        (ShiftedProduct(128, 8, 1024, 1023, (64, 128, 64), "warps = 4, stages = 8"), 6.49),
        (ShiftedProduct(128, 8, 1024, 1023, (128, 64, 64), "warps = 4, stages = 8"), 8.5),
        (ShiftedProduct(128, 8, 1024, 1023, (128, 64, 128), "warps = 8, stages = 4"), 8.65),
        (ShiftedProduct(128, 8, 1024, 1023, (128, 128, 64), "warps = 8, stages = 6"), 8.9),
        (ShiftedProduct(128, 8, 1024, 1023, (64, 64, 64), "warps = 4, stages = 6"), 9.1),
        (ShiftedProduct(512, 8, 4096, 4095, (128, 256, 64), "warps = 8, stages = 4"), 229.7),
        (
            ShiftedProduct(
                512, 8, 4096, 4095, (128, 256, 64), "warps = 8, stages = 4, resident = 132"
            ),
            225.1,
        ),
    ],
)  # fmt: skip
def test_times_as_measured(product: ShiftedProduct, measured: float) -> None:
    assert time_of(product) == pytest.approx(measured, rel=0.15)


@pytest.mark.parametrize(
    ("tile", "warps", "stages", "measured"),
    [
        ((64, 128, 64), 8, 8, 29.34),
        ((64, 128, 64), 4, 8, 29.7),
        ((32, 256, 64), 8, 5, 34.6),
        ((128, 64, 64), 4, 8, 37.7),
    ],
)
def test_times_of_turned_products_as_measured(
    tile: tuple[int, int, int], warps: int, stages: int, measured: float
) -> None:
    """256 rows of a linear layer with a depth of 4095, whose rows are first transposed by a kernel
    of 3 to 4 µs. The results of a block are in every eighth column."""
    schedule = f"warps = {warps}, stages = {stages}"
    product = ShiftedProduct(512, 8, 256, 4095, tile, schedule, turned=True)
    assert time_of(product) + 3.5 == pytest.approx(measured, rel=0.1)


def test_boxes_of_aligned_rows_are_not_shifted() -> None:
    tensor = TensorType((64, 8, 136), DType.F16)
    assert is_box(tensor, (64, 1, 64))
    assert not is_box(TensorType((64, 8, 129), DType.F16), (64, 1, 64))
