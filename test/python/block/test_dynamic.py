"""Kernels that take the number of rows, at several sizes, odd ones among them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from lowering import check_mlir, compile_mlir
from mirage.emulator.errors import EmulatorError
from mirage.emulator.run_artifact import random_inputs, run_artifact
from mirage.runtime.serialization.sizes import at_size

GRAPH = """
kernel.graph @g({arguments}) -> {result}
    attributes {{form = #kernel.form<selected>, dynamic = #kernel.dynamic<bound = {bound}, tensors = [0]>}} {{
{body}
}}
"""


def graph(arguments: str, result: str, bound: int, body: str) -> str:
    return GRAPH.format(arguments=arguments, result=result, bound=bound, body=body)


PREDEFINED = graph(
    "%x: tensor<48x40xf16>, %w: tensor<40xf16>",
    "tensor<48x40xf16>",
    48,
    """
  %y = kernel.unary silu %x : (tensor<48x40xf16>) -> tensor<48x40xf16>
  %z = kernel.binary mul %y, %w : (tensor<48x40xf16>, tensor<40xf16>) -> tensor<48x40xf16>
  kernel.return %z : tensor<48x40xf16>""",
)
TAILS = graph(
    "%x: tensor<24x7xf32>",
    "tensor<24x7xf32>",
    24,
    """
  %y = kernel.launch(%x) grid [m = 2, n = 2] schedule <warps = 1, stages = 1> : (tensor<24x7xf32>) -> tensor<24x7xf32> {
  ^bb0(%gx: tensor<24x7xf32>):
    %a = block.load %gx [[m], [n]] : tensor<24x7xf32> -> !block.tile<16x4xf32>
    %b = block.unary square %a : (!block.tile<16x4xf32>) -> !block.tile<16x4xf32>
    block.store %b [[m], [n]] : !block.tile<16x4xf32>
  }
  kernel.return %y : tensor<24x7xf32>""",
)
DEEP = graph(
    "%x: tensor<6x3x5x8xf32>",
    "tensor<6x3x5x8xf32>",
    6,
    """
  %y = kernel.launch(%x) grid [b = 6, h = 3] schedule <warps = 1, stages = 1> : (tensor<6x3x5x8xf32>) -> tensor<6x3x5x8xf32> {
  ^bb0(%gx: tensor<6x3x5x8xf32>):
    %a = block.load %gx [[b], [h], [], []] : tensor<6x3x5x8xf32> -> !block.tile<1x1x5x8xf32>
    %s = block.reduce sum %a dims [3] : (!block.tile<1x1x5x8xf32>) -> !block.tile<1x1x5x1xf32>
    %b = block.binary mul %a, %s : (!block.tile<1x1x5x8xf32>, !block.tile<1x1x5x1xf32>) -> !block.tile<1x1x5x8xf32>
    block.store %b [[b], [h], [], []] : !block.tile<1x1x5x8xf32>
  }
  kernel.return %y : tensor<6x3x5x8xf32>""",
)
PRODUCT = """
  %r = kernel.launch(%a, %b) grid [m = 2, n = 2] schedule <{schedule}> : (tensor<256x192xf16>, tensor<192x256xf16>) -> tensor<256x256xf16> {{
  ^bb0(%ga: tensor<256x192xf16>, %gb: tensor<192x256xf16>):
    %s = block.loop [k = 3] {{
      %x = block.load %ga [[m], [k]] : tensor<256x192xf16> -> !block.tile<128x64xf16>
      %y = block.load %gb [[k], [n]] : tensor<192x256xf16> -> !block.tile<64x128xf16>
      %p = block.matmul %x, %y : (!block.tile<128x64xf16>, !block.tile<64x128xf16>) -> !block.tile<128x128xf32>
      block.accumulate sum %p : !block.tile<128x128xf32>
    }} : !block.tile<128x128xf32>
    %o = block.cast %s : (!block.tile<128x128xf32>) -> !block.tile<128x128xf16>
    block.store %o [[m], [n]] : !block.tile<128x128xf16>
  }}
  kernel.return %r : tensor<256x256xf16>"""


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("text", [PREDEFINED, TAILS, DEEP], ids=["predefined", "tails", "deep"])
def test_smaller_sizes(text: str, chip: str) -> None:
    assert check_mlir(text, chip=chip) == 1


def test_a_size_beyond_the_rows_is_noticed() -> None:
    """Only the size bounds the accesses: the tests above would notice an access without this
    bound."""
    artifact = compile_mlir(TAILS, "sm_80")
    m = at_size(artifact.manifest, 9)
    assert m.size is not None
    wrong = replace(artifact, manifest=replace(m, size=replace(m.size, value=24)))
    with pytest.raises(EmulatorError):
        run_artifact(wrong, random_inputs(m.inputs))


def test_resident_blocks() -> None:
    schedule = "warps = 8, stages = 2, engine = warpgroup, resident = 3"
    body = PRODUCT.format(schedule=schedule)
    text = graph(
        "%a: tensor<256x192xf16>, %b: tensor<192x256xf16>", "tensor<256x256xf16>", 64, body
    )
    assert check_mlir(text, chip="sm_90a") == 1
