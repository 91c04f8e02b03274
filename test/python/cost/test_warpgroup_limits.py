"""The conditions and resources of warpgroups: the search's predictions agree with the compiler."""

from __future__ import annotations

import random
from dataclasses import replace
from functools import cache

import pytest
from mirage.compiler import CompileOptions, compile_graph
from mirage.cost.block_analysis import BlockAnalysis
from mirage.cost.compilable import CheckError, check_launch
from mirage.cost.features import features_of
from mirage.cost.shared_memory_bound import shared_bytes
from mirage.cost.target import H200
from mirage.cost.warpgroup_limits import why_no_warpgroups
from mirage.mlir_io.text import graph_from_text
from mirage.runtime.serialization.artifact import Artifact
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import (
    KernelGraph,
    Launch,
    Loop,
    Matmul,
    Output,
    TensorType,
    Value,
    launches,
)
from thorough import some_of
from written_kernels.gathered_products import GatheredProduct
from written_kernels.product_kernels import product_kernel
from written_kernels.warpgroup_attention import Attention
from written_kernels.warpgroup_graphs import Product


@cache
def compiled(launch: Launch) -> Artifact:
    """Return the only kernel."""
    graph = KernelGraph("one", launch.operands, (launch,), launch.results)
    return compile_graph(graph, CompileOptions(cubin=False, use_cache=False)).artifact


def agree(launch: Launch) -> bool:
    """Return whether warpgroups multiply; both sides must agree."""
    why = why_no_warpgroups(launch)
    ptx = compiled(launch).ptx()
    assert ("wgmma.mma_async" in ptx) == (why is None), (launch.schedule, why)
    assert ("mma.sync" in ptx) == (why is not None)
    return why is None


def tiles() -> list[tuple[tuple[int, int, int], int]]:
    """Tiles and warps, of which groups can share some."""
    rows, columns = (32, 48, 64, 96, 128, 192, 256), (8, 16, 32, 64, 80, 96, 128, 160)
    spread = [((m, n, k), w) for m in rows for n in columns for k in (16, 32, 64) for w in (4, 8)]
    fixed = [((96, 64, 64), 4), ((64, 96, 64), 4), ((64, 96, 64), 8), ((128, 96, 64), 8)]
    return fixed + random.Random(1).sample(spread, 12)


def test_search_and_compiler_agree_on_tiles() -> None:
    found = [
        agree(product_kernel(2 * tile[0], 2 * tile[1], 2 * tile[2], tile, 2, warps))
        for tile, warps in tiles()
    ]
    assert found[:4] == [False, True, False, True]
    assert 4 < sum(found) < len(found) - 4


def test_search_and_compiler_agree_on_tensors() -> None:
    """Rows that boxes cannot begin at, and factors that are computed."""
    assert agree(product_kernel(128, 128, 136, (64, 64, 64), 2, 4))
    assert not agree(product_kernel(128, 128, 132, (64, 64, 64), 2, 4))
    assert agree(product_kernel(128, 131, 128, (64, 64, 64), 2, 4))


def test_search_and_compiler_agree_on_looked_up_rows() -> None:
    """In pieces of 16 bytes on the right; other factors come from registers, only on the left."""
    for product, expected in (
        (GatheredProduct(), True),
        (GatheredProduct(by_expert=False, swapped=True), True),
        (GatheredProduct(by_row=False), True),
        (GatheredProduct(n=68), False),
        (GatheredProduct(k=132, tile=(64, 64, 16)), True),
        (GatheredProduct(k=132, swapped=True), False),
    ):
        (launch,) = launches(graph_from_text(product.text()).graph.ops)
        assert agree(launch) == expected, product


def test_a_right_factor_that_is_computed_is_refused() -> None:
    launch = product_kernel(128, 128, 128, (64, 64, 64), 2, 4)
    (loop,) = (op for op in launch.body.ops if isinstance(op, Loop))
    (product,) = (op for op in loop.body if isinstance(op, Matmul))
    b = Builder(in_block=True)
    changed = b.cast(b.unary(UnaryFn.RELU, product.operands[1]), DType.F16)
    other = replace(product, operands=(product.operands[0], changed))
    body = (*(op for op in loop.body if op is not product), *b.ops, other)
    ops = tuple(replace(op, body=body) if op is loop else op for op in launch.body.ops)
    launch = replace(launch, body=replace(launch.body, ops=ops))
    assert not agree(launch)
    with pytest.raises(CheckError, match="a right factor that is loaded and not changed"):
        check_launch(launch, H200)


@pytest.mark.parametrize(
    ("columns", "resident", "residual"),
    some_of(
        [
            (2048, 0, False),
            (2048, 4, True),
            (2056, 0, True),
            (2056, 4, False),
            (2049, 0, False),
            (2049, 4, True),
        ],
        3,
    ),
)
def test_shared_memory_is_what_is_planned(columns: int, resident: int, residual: bool) -> None:
    """The memory consists of slots, barriers, and the buffers for results. Sums of products stay in
    registers, so that a tensor can be added to them even if rings fill the memory."""
    for tile, stages, warps in (
        ((128, 256, 64), 4, 8),
        ((128, 256, 64), 3, 8),
        ((256, 128, 64), 3, 8),
        ((64, 256, 64), 4, 8),
        ((64, 96, 64), 8, 4),
        ((64, 32, 64), 2, 4),
    ):
        launch = product_kernel(
            1024, columns, 512, tile, stages, warps, residual=residual, resident=resident
        )
        bound = shared_bytes(launch).total
        if bound > H200.shared_block:
            with pytest.raises(CheckError, match="bytes of shared memory"):
                check_launch(launch, H200)
            continue
        (kernel,) = compiled(launch).manifest.kernels
        if columns % 8 == 0:
            assert kernel.shared_bytes == bound, (tile, stages)
        else:  # threads exchange what they store in rows, or the tile is small
            assert kernel.shared_bytes <= bound


@pytest.mark.parametrize(
    "attention",
    [
        Attention(64, 192, 48, held=True),
        Attention(512, 512, 64, (128, 64), warps=8, stages=3, held=True),
        Attention(512, 512, 128, (128, 128), warps=8, held=True),
    ],
)
def test_factors_of_all_steps_take_shared_memory(attention: Attention) -> None:
    """They take no registers while the loop runs."""
    launch = launch_of(attention)
    (kernel,) = compiled(launch).manifest.kernels
    bound = shared_bytes(launch)
    rings = shared_bytes(launch_of(replace(attention, held=False))).staged
    assert bound.staged == rings  # in place of the tile that is loaded else
    assert bound.staged <= kernel.shared_bytes <= bound.total
    (factor,) = BlockAnalysis(launch).kept
    assert factor.dtype is DType.F16


@pytest.mark.parametrize(
    ("attention", "turns"),
    some_of(
        [
            (Attention(256, 256, 64, (128, 128), warps=8, stages=3), True),
            (Attention(256, 256, 64, (256, 64), warps=8, stages=3, held=True), True),
            (Attention(256, 256, 128, (128, 128), warps=8), True),
            (Attention(256, 256, 256, (128, 64), warps=8), True),
            (Attention(256, 256, 64, (128, 128), warps=8, stages=1), False),
            (Attention(256, 512, 128, (128, 256), warps=8), False),
            (Attention(256, 256, 128, (256, 64), warps=8), False),
        ],
        every=2,
    ),
)
def test_search_and_compiler_agree_on_turns(attention: Attention, turns: bool) -> None:
    """If registers cannot hold a factor until the next step, products wait for each other. If they
    can, those of the first step are emitted before the loop."""
    launch = launch_of(attention)
    rows, keys = attention.tile
    once = (attention.dim + keys) // 16 * rows // 128
    found = compiled(launch).ptx().count("wgmma.mma_async")
    assert (found > once) == turns, (found, once)
    assert features_of(launch).serial != turns


def launch_of(attention: Attention) -> Launch:
    """Return the kernel in the text."""
    (launch,) = graph_from_text(attention.text()).graph.ops
    assert isinstance(launch, Launch)
    return launch


def test_a_sum_is_added_to_where_it_is() -> None:
    """Moving a tile of 128 x 256 in f32 to other threads would take 132 KiB."""
    launch = product_kernel(2048, 2048, 512, (128, 256, 64), 4, 8, residual=True, resident=132)
    check_launch(launch, H200)
    wide = product_kernel(2048, 2048, 512, (128, 256, 64), 4, 8, resident=132)
    assert shared_bytes(launch) == shared_bytes(wide)


def test_results_of_f32_take_twice_the_room() -> None:
    launch = product_kernel(1024, 1024, 512, (128, 128, 64), 2, 8)
    (output,) = launch.body.outputs
    result = Value(TensorType(launch.results[0].shape, DType.F32))
    body = replace(launch.body, outputs=(Output(output.value, output.map),))
    wide = replace(launch, results=(result,), body=body)
    narrow, double = (compiled(x).manifest.kernels[0].shared_bytes for x in (launch, wide))
    assert shared_bytes(launch).total == narrow
    assert shared_bytes(wide).total == double


BYTES = Product(128, 128, 256, (64, 64, 128), dtype="f8E4M3FN", out="bf16", swapped_b=True)


@pytest.mark.parametrize(
    ("product", "fits"),
    some_of(
        [
            (BYTES, True),
            (replace(BYTES, tile=(64, 128, 64), dtype_b="f8E5M2"), True),
            (replace(BYTES, tile=(64, 64, 32), k=96, batch=2), True),
            (replace(BYTES, swapped_b=False), False),
            (replace(BYTES, swapped_a=True), False),
            (replace(BYTES, tile=(64, 64, 256)), False),
            (replace(BYTES, tile=(64, 64, 48), k=96), False),
            (replace(BYTES, dtype_b="f16"), False),
            (replace(BYTES, k=248), False),
        ],
        every=3,
    ),
)
def test_search_and_compiler_agree_on_eight_bits(product: Product, fits: bool) -> None:
    """Both factors of 8 bits, with rows along the contraction, of at most 128 a step."""
    (launch,) = graph_from_text(product.text()).graph.ops
    assert isinstance(launch, Launch)
    assert agree(launch) == fits
    if fits:
        check_launch(launch, H200)
        assert compiled(launch).manifest.kernels[0].shared_bytes <= shared_bytes(launch).total
