"""Parts whose kernels are predicted to be much slower than PyTorch's calls are left to PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import mirage
import pytest
import torch
from mirage.cost import H200
from mirage.cost.fused_ops import op_by_op
from mirage.frontend.program import Program
from mirage.pipeline.compile.left_parts import MARGIN, without_slow_products, without_slower_parts
from mirage.pipeline.optimize import load_found, optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.parts.part_data import of_own_ops
from mirage.semantics.alternatives import applied_to, parts_of
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.substitute import renewed
from mirage.semantics.ugraph import Elementwise, External, KernelGraph, TensorType, Value
from mirage.torch.background import load_program
from thorough import some_of

NO_SEARCH: dict[str, int] = dict.fromkeys(("plans", "goals", "cuts", "columns"), 1)
"""Limits that leave a program with its own ops, whose products have fixed tiles."""
OPTIONS: dict[str, Any] = {"chip": "h200", "bounds": NO_SEARCH, "jobs": 1}


def large_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return x @ w


def small_product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    return torch.relu(x[:16] @ w)


def tensors() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.zeros(1024, 2048).bfloat16(), torch.zeros(2048, 1024).bfloat16()


def program(function: Any) -> Program:
    return mirage.from_torch(function, *tensors()).program


def part(number: int, large: bool) -> KernelGraph:
    build = Builder()
    shape = (1024, 2048) if large else (16, 2048)
    x, w = (Value(TensorType(s, DType.F16)) for s in (shape, (2048, 1024)))
    y = build.unary(UnaryFn.RELU, build.matmul(x, w))
    return KernelGraph(f"part{number}", (x, w), tuple(build.ops), (y,))


def test_only_parts_that_are_clearly_slower_are_left_in_all_places() -> None:
    large, again, small = part(0, True), part(1, True), part(2, False)
    ops = (of_own_ops(large), of_own_ops(small))
    ops = (ops[0], applied_to(ops[0], again), ops[1])
    graphs = (large, again, small)
    inputs = tuple(v for g in graphs for v in g.inputs)
    whole = KernelGraph("all", inputs, ops, tuple(v for g in graphs for v in g.outputs))
    found, left = without_slower_parts(whole, H200)
    assert [(p.number, p.places) for p in left] == [(0, 2)]
    assert left[0].kernels > MARGIN * left[0].calls
    assert left[0].calls == op_by_op(large, H200).time
    assert parts_of(found) == [ops[2]]
    assert sum(isinstance(op, External) for op in found.ops) == 4
    assert found.outputs == whole.outputs


def test_a_near_tie_stays_ours() -> None:
    small = part(0, False)
    op = of_own_ops(small)
    whole = KernelGraph("one", small.inputs, (op,), small.outputs)
    assert without_slower_parts(whole, H200) == (whole, ())


def test_slow_products_of_parts_without_time_are_calls_in_all_places() -> None:
    """Views that only they read are then views of PyTorch; the other ops remain kernels."""
    build = Builder()
    x, w = (Value(TensorType(s, DType.F16)) for s in ((32, 1, 2048), (4096, 2048)))
    y = build.unary(UnaryFn.RELU, build.matmul(x, build.transpose(w, (1, 0))))
    rows = KernelGraph("rows", (x, w), tuple(build.ops), (y,))
    first = of_own_ops(rows)
    second = applied_to(first, renewed(rows))
    small = of_own_ops(part(2, False))
    ops = (first, second, small)
    inputs = tuple(v for op in ops for v in op.operands)
    whole = KernelGraph("all", inputs, ops, tuple(v for op in ops for v in op.results))
    found, left = without_slow_products(whole, [first, small], H200)
    (only,) = left
    assert (only.number, only.places, only.products) == (0, 2, 1)
    assert only.kernels > MARGIN * only.calls
    assert str(only).startswith("1 product of part 0, for which the time ran out, stays with")
    targets = [op.target for op in found.ops if isinstance(op, External)]
    assert targets == 2 * ["aten.permute.default", "aten.matmul.default"]
    assert parts_of(found) == [small]
    assert sum(isinstance(op, Elementwise) for op in found.ops) == 2
    assert without_slow_products(whole, [small], H200) == (whole, ())


def test_the_report_says_which_parts_are_left_and_so_does_a_later_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path))
    given, options = program(large_product), OptimizeOptions(**OPTIONS, pytorch_where_faster=True)
    optimized = optimize(given, options)
    assert not optimized.artifacts
    (left,) = optimized.report.left
    assert str(left) in optimized.report.notes
    assert "part 0 stays with PyTorch, whose calls are predicted to take" in str(left)
    assert optimized.report.to_json()["left"][0]["places"] == 1
    again = load_found(given, options)
    assert again is not None
    assert again.report.left == (left,)
    kernels = optimize(given, replace(options, pytorch_where_faster=False))
    assert kernels.artifacts
    assert not kernels.report.left


class NotRun:
    """A result that is not executed, which would take long in the emulator."""

    def __init__(self, optimized: Any) -> None:
        self.optimized = optimized

    def __call__(self, *inputs: torch.Tensor) -> list[torch.Tensor]:
        outputs = self.optimized.program.graph.outputs
        return [torch.zeros(v.shape, dtype=torch.bfloat16) for v in outputs]


def compile_here(program: Program, options: Mapping[str, Any]) -> Any:
    optimize(program, OptimizeOptions.of(**options))
    return NotRun(load_program(program, options))


@pytest.mark.parametrize("function", some_of([large_product, small_product], every=2))
def test_a_graph_of_such_parts_alone_stays_with_pytorch(function: Any) -> None:
    """PyTorch may have one op for several of ours, so the graph runs unchanged."""
    x, w = tensors()

    def explained(**more: Any) -> str:
        options = {**OPTIONS, **more}
        found = mirage.torch.explain(
            function, x, w, compiler=compile_here, options=options, devices=("cpu",)
        )
        return str(found)

    if function is large_product:
        assert "stays with PyTorch: its calls are predicted to take" in explained()
        text = explained(pytorch_where_faster=False)
        assert "1 kernel" in text
        assert "not expected to be faster than PyTorch" in text
    else:
        assert "2 kernels" in explained()
