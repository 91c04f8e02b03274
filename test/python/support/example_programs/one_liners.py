"""Programs that fit on one line, for tests of the verifier."""

from __future__ import annotations

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import BlockGraph, KernelGraph, Output, TensorType, Value

from example_programs import graphs


def function(build, *inputs: Value) -> KernelGraph:
    """A program of kernel-level ops."""
    b = Builder()
    y = build(b, *inputs)
    return KernelGraph("f", inputs, tuple(b.ops), y if isinstance(y, tuple) else (y,))


def kernel(inputs, grid, body, stores, shapes) -> KernelGraph:
    """A program of one launch; ``body(builder, *params)`` gives the tiles to store."""
    params = graphs.params_of(inputs)
    b = Builder(in_block=True)
    tiles = body(b, *params)
    outputs = tuple(Output(t, m) for t, m in zip(tiles, stores))
    types = tuple(TensorType(s, DType.F32) for s in shapes)
    op = graphs.launch(inputs, grid, BlockGraph(params, tuple(b.ops), outputs), types)
    return KernelGraph("k", inputs, (op,), op.results)
