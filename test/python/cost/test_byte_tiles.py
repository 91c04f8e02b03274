"""Shared memory of tiles that are bytes in memory and numbers in registers, compared with the
compiler's plan."""

from __future__ import annotations

import pytest
from mirage.compiler import CompileOptions, compile_graph
from mirage.cost.shared_memory_bound import shared_bytes
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, ReduceFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Load,
    Output,
    Schedule,
    TensorType,
    Value,
)


def summed(memory: DType, tile: DType, steps: int = 4) -> Launch:
    """Sums of 64 rows of 512 elements, 128 at a time, or their maxima for exact integers."""
    x = Value(TensorType((64, 512), memory), "x")
    (param,) = params = (Value(x.type, "x"),)
    b, body = Builder(in_block=True), Builder(in_block=True)
    part = Value(TensorType((64, 512 // steps), tile))
    body.ops.append(Load((param,), (part,), ((), ("k",))))
    fn = ReduceFn.MAX if tile.is_integer else ReduceFn.SUM
    total = body.reduce(fn, part, (1,))
    how = AccumulateFn.MAX if tile.is_integer else AccumulateFn.SUM
    (y,) = b.loop(Axis("k", steps), tuple(body.ops), (Accumulator(how, total),))
    result = Value(TensorType((64, 1), DType.I64 if tile.is_integer else DType.F32), "y")
    block = BlockGraph(params, tuple(b.ops), (Output(y, ((), ())),))
    return Launch((x,), (result,), (), block, Schedule(4, 3))


@pytest.mark.parametrize(
    ("memory", "tile", "ring"),
    [
        (DType.I8, DType.F32, 3 * 64 * 128),
        (DType.F8E4M3, DType.F16, 3 * 64 * 128),
        (DType.I8, DType.I64, 0),  # exact integers go to registers
        (DType.I16, DType.F32, 0),
    ],
    ids=str,
)
def test_the_ring_has_the_elements_of_memory(memory: DType, tile: DType, ring: int) -> None:
    launch = summed(memory, tile)
    graph = KernelGraph("one", launch.operands, (launch,), launch.results)
    artifact = compile_graph(graph, CompileOptions(cubin=False, use_cache=False)).artifact
    (kernel,) = artifact.manifest.kernels
    bound = shared_bytes(launch)
    assert bound.staged == ring
    assert ring <= kernel.shared_bytes <= bound.first
