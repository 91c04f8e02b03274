"""Shared memory and registers, compared with the compiler's plan and the assembler's report."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache

import pytest
from mirage.compiler import CompileError, CompileOptions, compile_graph
from mirage.compiler.ptxas import find_ptxas
from mirage.cost import H200, CheckError, Resources, check_launch
from mirage.cost.features import features_of
from mirage.cost.registers import registers_of
from mirage.cost.shared_memory_bound import shared_bytes
from mirage.mlir_io.text import graph_from_text
from mirage.pipeline.search import add_candidates
from mirage.pipeline.stabilize import stabilize_candidates
from mirage.search import SearchLimits
from mirage.semantics.alternatives import parts_of
from mirage.semantics.builder import Builder
from mirage.semantics.positions import TileGather
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    Schedule,
    TensorType,
    Value,
)
from mirage.workloads import get
from thorough import some_of

PROGRAMS = ("gqa_bs8_kv4096", "rms_mm6144_bs8", "lora_m16", "gmlp_m1", "decode_b1", "mm_1024")


@cache
def kernels(name: str) -> list[Launch]:
    """All kernels that the search finds."""
    graph, _ = add_candidates(get(name).graph(), H200, SearchLimits(candidates=24))
    stable, _ = stabilize_candidates(graph)
    (part,) = parts_of(stable)
    return [op for p in part.programs[1:] for op in p.ops if isinstance(op, Launch)]


def launches(name: str, count: int) -> Iterator[Launch]:
    """Some of the kernels that the search finds, with their schedules and with others."""
    rng = random.Random(0)
    found = kernels(name)
    for launch in found[:2] + rng.sample(found, min(count, len(found))):
        other = Schedule(rng.choice((4, 8, 16)), rng.choice((1, 2, 3, 4)))
        yield from (launch, replace(launch, schedule=other))


def planned_bytes(launch: Launch) -> int:
    """Return the shared memory in the compiler's plan; if it exceeds the limit, from the
    message."""
    operands = tuple(dict.fromkeys(launch.operands))
    graph = KernelGraph("one", operands, (launch,), launch.results)
    try:
        compiled = compile_graph(graph, CompileOptions(cubin=False, use_cache=False))
    except CompileError as error:
        found = re.search(r"shared memory on \S+, got (\d+)", str(error))
        if found is None:
            raise
        return int(found.group(1))
    (kernel,) = compiled.artifact.manifest.kernels
    return kernel.shared_bytes


@pytest.mark.parametrize("name", some_of(PROGRAMS, 6))
def test_the_bound_is_never_below_the_plan(name: str) -> None:
    for launch in launches(name, 4):
        bound, plan = shared_bytes(launch), planned_bytes(launch)
        assert bound.staged <= bound.total <= bound.first
        assert plan <= bound.first, (launch.grid, launch.schedule)


def flash(rows: int, keys: int, warps: int) -> Launch:
    """Unscaled attention of ``rows`` rows in one block, with ``keys`` of 4096 keys per step."""
    sizes = ((rows, 64), (64, 4096), (4096, 64))
    q, k, v = (Value(TensorType(s, DType.F16), n) for s, n in zip(sizes, "qkv", strict=True))
    params = tuple(Value(x.type, x.name) for x in (q, k, v))
    b, body = Builder(in_block=True), Builder(in_block=True)
    left = b.load(params[0], ((), ()), (rows, 64))
    right = body.load(params[1], ((), ("n",)), (64, keys))
    e = body.unary(UnaryFn.EXP, body.matmul(left, right))
    last = body.load(params[2], (("n",), ()), (keys, 64))
    sums = (body.matmul(body.cast(e, DType.F16), last), body.reduce(ReduceFn.SUM, e, (1,)))
    accumulators = tuple(Accumulator(AccumulateFn.SUM, x) for x in sums)
    num, den = b.loop(Axis("n", 4096 // keys), tuple(body.ops), accumulators)
    y = b.binary(BinaryFn.DIV, num, den)
    result = Value(TensorType((rows, 64), DType.F16), "y")
    block = BlockGraph(params, tuple(b.ops), (Output(y, ((), ())),))
    return Launch((q, k, v), (result,), (), block, Schedule(warps, 2))


GATED = """
module {
  kernel.graph @gated(%p: tensor<6x1408xbf16>, %q: tensor<6x1408xbf16>, %w: tensor<6x2048x1408xbf16>) -> tensor<1x2048xbf16> attributes {form = #kernel.form<selected>} {
    %y = kernel.launch(%p, %q, %w) grid [n = 128] schedule <warps = 8, stages = 2> : (tensor<6x1408xbf16>, tensor<6x1408xbf16>, tensor<6x2048x1408xbf16>) -> tensor<1x2048xbf16> {
    ^bb0(%gp: tensor<6x1408xbf16>, %gq: tensor<6x1408xbf16>, %gw: tensor<6x2048x1408xbf16>):
      %l = block.loop [b = 6] {
        %1 = block.load %gp [[b], []] : tensor<6x1408xbf16> -> !block.tile<1x1408xbf16>
        %2 = block.load %gq [[b], []] : tensor<6x1408xbf16> -> !block.tile<1x1408xbf16>
        %0 = block.binary mul %1, %2 : (!block.tile<1x1408xbf16>, !block.tile<1x1408xbf16>) -> !block.tile<1x1408xf32>
        %3 = block.cast %0 : (!block.tile<1x1408xf32>) -> !block.tile<1x1408xbf16>
        %4 = block.load %gw [[b], [n], []] : tensor<6x2048x1408xbf16> -> !block.tile<1x16x1408xbf16>
        %5 = block.transpose %4 [0, 2, 1] : (!block.tile<1x16x1408xbf16>) -> !block.tile<1x1408x16xbf16>
        %6 = block.matmul %3, %5 : (!block.tile<1x1408xbf16>, !block.tile<1x1408x16xbf16>) -> !block.tile<1x1x16xf32>
        block.accumulate sum %6 : !block.tile<1x1x16xf32>
      } : !block.tile<1x1x16xf32>
      %7 = block.reshape %l : (!block.tile<1x1x16xf32>) -> !block.tile<1x16xf32>
      block.store %7 [[], [n]] : !block.tile<1x16xf32>
    }
    kernel.return %y : tensor<1x2048xbf16>
  }
}
"""  # noqa: E501


def test_what_a_factor_of_one_row_is_computed_from_has_more_rows() -> None:
    (launch,) = (op for op in graph_from_text(GATED).graph.ops if isinstance(op, Launch))
    slots = 2 * (16 + 2 * 8) * 1408 * 2
    assert slots <= planned_bytes(launch) <= shared_bytes(launch).staged


def test_what_the_plan_refuses_is_refused() -> None:
    """16 warps that share the contraction over 256 keys add up 16 results of 64 x 64."""
    large = flash(64, 256, 16)
    with pytest.raises(CheckError, match="bytes of shared memory"):
        check_launch(large, H200)
    for launch in (large, flash(64, 128, 4), flash(128, 128, 8), flash(64, 64, 4)):
        assert planned_bytes(launch) <= shared_bytes(launch).first
    check_launch(flash(64, 128, 4), H200)
    check_launch(flash(128, 128, 8), H200)


def residual_of_rows(schedule: Schedule) -> Launch:
    """The product of 512 x 512 and 512 x 2048 plus 512 rows of a table, named by indices."""
    types = (
        TensorType((512, 512), DType.BF16),
        TensorType((512, 2048), DType.BF16),
        TensorType((4096, 2048), DType.BF16),
        TensorType((512,), DType.I64),
    )
    operands = tuple(Value(t, n) for t, n in zip(types, ("x", "w", "rows", "i"), strict=True))
    x, w, rows, indices = params = tuple(Value(v.type, v.name) for v in operands)
    b, body = Builder(in_block=True), Builder(in_block=True)
    left = body.load(x, (("m",), ("k",)), (128, 64))
    right = body.load(w, (("k",), ("n",)), (64, 256))
    accumulators = (Accumulator(AccumulateFn.SUM, body.matmul(left, right)),)
    (product,) = b.loop(Axis("k", 8), tuple(body.ops), accumulators)
    row = Value(TensorType((128, 256), DType.BF16))
    gathered = TileGather((rows, indices), (row,), (("m",), ("n",)))
    y = b.binary(BinaryFn.ADD, row, product)
    *loop, last = b.ops
    block = BlockGraph(params, (*loop, gathered, last), (Output(y, (("m",), ("n",))),))
    result = Value(TensorType((512, 2048), DType.BF16), "y")
    return Launch(operands, (result,), (Axis("m", 4), Axis("n", 8)), block, schedule)


@pytest.mark.parametrize("schedule", [Schedule(8, 4, True, 16), Schedule(8, 4, True)])
def test_gathered_rows_are_not_exchanged(schedule: Schedule) -> None:
    """Threads read the elements that they need from the table, as they do with a loaded tile."""
    launch = residual_of_rows(schedule)
    check_launch(launch, H200)
    assert planned_bytes(launch) <= shared_bytes(launch).total


@pytest.mark.skipif(find_ptxas() is None, reason="no ptxas")
def test_registers_are_near_what_the_assembler_reports() -> None:
    errors: list[float] = []
    for name in ("gqa_bs8_kv4096", "rms_mm6144_bs8", "lora_m16"):
        for launch in launches(name, 2):
            operands = tuple(dict.fromkeys(launch.operands))
            graph = KernelGraph("one", operands, (launch,), launch.results)
            try:
                compiled = compile_graph(graph, CompileOptions())
            except CompileError:
                continue
            (report,) = compiled.artifact.manifest.resources.values()
            errors.append(abs(registers_of(launch).used - report["registers"]))
    assert len(errors) > 8
    assert sum(errors) / len(errors) < 40


def test_warpgroups_that_the_compiler_did_without() -> None:
    """No warp is left to copy for a group of four: all warps multiply."""
    groups = next(k for k in kernels("mm_1024") if k.schedule.warpgroups)
    for threads in (128, 256):
        found = features_of(groups, (), Resources(threads, 65536, 128))
        assert found.warps == 4.0
        assert bool(found.warpgroups) == (threads > 128)
