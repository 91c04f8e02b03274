"""Dependence between rows: programs of all kinds, and brute force on the results."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.frontend.torch_import import from_torch
from mirage.mlir_io import graph_from_text
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.independent_rows import why_rows_depend

ROWS = 16


def imported(function: Callable[..., object], *shapes: tuple[int, ...]) -> KernelGraph:
    return from_torch(function, *(torch.zeros(s) for s in shapes)).graph


Shapes = tuple[tuple[int, ...], ...]
INDEPENDENT: dict[str, tuple[Callable[..., object], Shapes, tuple[int, ...]]] = {
    "product": (lambda x, w: x @ w, ((16, 8), (8, 4)), (0,)),
    "norm": (lambda x: torch.nn.functional.layer_norm(x, (8,)), ((16, 8),), (0,)),
    "softmax": (lambda x: x.softmax(-1), ((16, 3, 8),), (0,)),
    "merged": (lambda x, w: x.view(48, 8) @ w, ((16, 3, 8), (8, 4)), (0,)),
    "split": (lambda x: x.view(16, 2, 4).sum(1), ((16, 8),), (0,)),
    "two": (lambda x, y: torch.cat([x, y + 1], 1), ((16, 8), (16, 4)), (0, 1)),
    "batches": (lambda x, y: x @ y, ((16, 3, 8), (16, 8, 4)), (0, 1)),
    "what is so far": (lambda x: x.cumsum(-1) * x.cummax(1)[0], ((16, 8),), (0,)),
    "columns": (lambda x: x[:, 2:6] * x[:, :4], ((16, 8),), (0,)),
}


@pytest.mark.parametrize("name", INDEPENDENT)
def test_independent(name: str) -> None:
    function, shapes, inputs = INDEPENDENT[name]
    graph = imported(function, *shapes)
    assert why_rows_depend(graph, inputs, ROWS) is None
    # Brute force: the first rows do not change if the others do.
    rng = np.random.default_rng(0)
    given = [rng.standard_normal(s) for s in shapes]
    other = [x.copy() for x in given]
    for i in inputs:
        other[i][5:] = np.nan
    for a, b in zip(evaluate_floats(graph, given), evaluate_floats(graph, other), strict=True):
        each = a.shape[0] // ROWS
        np.testing.assert_allclose(np.asarray(a)[: 5 * each], np.asarray(b)[: 5 * each])


@pytest.mark.parametrize(
    ("function", "shapes", "inputs", "why"),
    [
        (lambda x: x - x.mean(0), ((16, 8),), (0,), "relates rows"),
        (lambda x: x.softmax(0), ((16, 8),), (0,), "relates rows"),
        (lambda x: x.cumsum(0), ((16, 8),), (0,), "relates rows"),
        (lambda x: x @ x.T, ((16, 8),), (0,), ""),
        (lambda x, w: w.T @ x.T, ((16, 8), (8, 4)), (0,), "outermost"),
        (lambda x: torch.cat([x[8:], x[:8]]), ((16, 8),), (0,), "relates rows"),
        (lambda x, w: x * w, ((16, 8), (16, 8)), (0,), "tells them apart"),
        (lambda x, w: x * w, ((16, 8), (16, 1)), (0,), "tells them apart"),
        (lambda x: x * torch.arange(16.0)[:, None], ((16, 8),), (0,), ""),
        (lambda x: x.view(8, 16).sum(1), ((16, 8),), (0,), ""),
        (lambda x: x.view(4, 4, 8).sum(1), ((16, 8),), (0,), "relates rows"),
    ],
)
def test_dependent(
    function: Callable[..., object],
    shapes: tuple[tuple[int, ...], ...],
    inputs: tuple[int, ...],
    why: str,
) -> None:
    found = why_rows_depend(imported(function, *shapes), inputs, ROWS)
    assert found is not None
    assert why in found


LAUNCH = """
kernel.graph @g(%x: tensor<16x8xf16>, %w: tensor<8x8xf16>) -> tensor<16x8xf16> {{
  %y = kernel.launch(%x, %w) grid [m = 4] schedule <warps = 1, stages = 1> : (tensor<16x8xf16>, tensor<8x8xf16>) -> tensor<16x8xf16> {{
  ^bb0(%gx: tensor<16x8xf16>, %gw: tensor<8x8xf16>):
    %a = block.load %gx [[m], []] : tensor<16x8xf16> -> !block.tile<4x8xf16>
    {body}
  }}
  kernel.return %y : tensor<16x8xf16>
}}
"""  # noqa: E501
PLAIN = """%b = block.unary square %a : (!block.tile<4x8xf16>) -> !block.tile<4x8xf32>
    block.store %b [[m], []] : !block.tile<4x8xf32>"""
ACROSS = """%s = block.reduce sum %a dims [0] : (!block.tile<4x8xf16>) -> !block.tile<1x8xf32>
    %b = block.binary add %a, %s : (!block.tile<4x8xf16>, !block.tile<1x8xf32>) -> !block.tile<4x8xf32>
    block.store %b [[m], []] : !block.tile<4x8xf32>"""  # noqa: E501
NUMBERED = """%i = block.iota dim 0 [m] extent 16 : !block.tile<4x1xf32>
    %b = block.binary add %a, %i : (!block.tile<4x8xf16>, !block.tile<4x1xf32>) -> !block.tile<4x8xf32>
    block.store %b [[m], []] : !block.tile<4x8xf32>"""  # noqa: E501
BY_BLOCK = """%i = block.iota dim 0 [m] extent 4 : !block.tile<1x1xf32>
    %b = block.binary add %a, %i : (!block.tile<4x8xf16>, !block.tile<1x1xf32>) -> !block.tile<4x8xf32>
    block.store %b [[m], []] : !block.tile<4x8xf32>"""  # noqa: E501


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (PLAIN, None),
        (ACROSS, "relates rows"),
        (NUMBERED, "no rule for TileIota"),
        (BY_BLOCK, "no rule for TileIota"),
    ],
)
def test_kernels(body: str, why: str | None) -> None:
    found = why_rows_depend(graph_from_text(LAUNCH.format(body=body)).graph, (0,), ROWS)
    assert found is None if why is None else found is not None and why in found


MASKED = """%m = block.mask %a dim 0 [m] extent 12 fill 0.0 : !block.tile<4x8xf16>
    %b = block.unary square %m : (!block.tile<4x8xf16>) -> !block.tile<4x8xf32>
    block.store %b [[m], []] : !block.tile<4x8xf32>"""


@pytest.mark.parametrize(
    ("body", "why"), [(PLAIN, None), (ACROSS, "relates rows"), (MASKED, "unequal parts")]
)
def test_a_last_tile_that_is_cut_short(body: str, why: str | None) -> None:
    """12 rows in tiles of 8 are four sizes of 3 rows."""
    text = LAUNCH.format(body=body).replace("16x", "12x").replace("[m = 4]", "[m = 2]")
    graph = graph_from_text(text.replace("<4x", "<8x")).graph
    found = why_rows_depend(graph, (0,), 4)
    assert found is None if why is None else found is not None and why in found


def test_builder_graphs() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input(dims=(ROWS, 8), dtype=mi.float16)
    graph.mark_output(graph.exp(x))
    assert why_rows_depend(graph.program().graph, (0,), ROWS) is None


def test_tiles_across_what_another_op_relates() -> None:
    """Blocks compute 8 of 24 rows, of which sums combine 6 each."""
    graph = mi.new_kernel_graph()
    x = graph.new_input(dims=(24, 8), dtype=mi.float32)
    block = mi.new_threadblock_graph({"m": 3})
    block.new_output(block.square(block.new_input(x, {"m": 0})), {"m": 0})
    (y,) = graph.customized([x], block)
    graph.mark_output(graph.sum(graph.reshape(y, (4, 6, 8)), 1))
    program = graph.program().graph
    assert why_rows_depend(program, (0,), 4) is None
    assert why_rows_depend(program, (0,), 24) is not None
