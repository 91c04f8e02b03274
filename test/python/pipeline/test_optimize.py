"""The driver: its reports at each stage, refusals, and programs that partly stay with torch."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any

import mirage as mi
import numpy as np
import pytest
import torch
from example_programs.built import linear
from mirage.compiler import Compiled, CompileError
from mirage.cost.target import UnknownTargetError
from mirage.frontend.errors import GraphTypeError, InvalidGraphError
from mirage.mlir_io import graph_from_text
from mirage.pipeline import search as search_stage
from mirage.pipeline.call import NotCompiledError
from mirage.pipeline.compile.build import Builder as KernelBuilder
from mirage.pipeline.optimize import compile_graph, optimize
from mirage.pipeline.options import OptimizeOptions, OptionError
from mirage.runtime.errors import ArgumentCountError, ArgumentTypeError
from mirage.search import LimitError, Planner
from mirage.semantics.builder import Builder
from mirage.semantics.describe import describe
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import External, KernelGraph, Launch, TensorType, Value, all_ops
from mirage.verify import Kind, Verdict
from mirage.verify.candidates import together
from mirage.verify.pair.examine import examine
from mirage.workloads import get
from torch_programs.external_calls import call_external

FAST = mi.OptimizeOptions(candidates=2, compile=False, verify_seed=1)


@pytest.fixture(scope="module")
def optimized() -> mi.Optimized:
    return optimize(linear().program(), FAST)


def test_every_stage_can_be_read_back(optimized: mi.Optimized) -> None:
    forms = {name: graph_from_text(text).form for name, text in optimized.mlir.items()}
    assert forms == {
        "reference": "reference",
        "candidates": "candidates",
        "stabilized": "candidates",
        "verified": "verified",
        "selected": "selected",
    }


def test_the_chosen_graph_computes_the_program(optimized: mi.Optimized) -> None:
    assert all(isinstance(op, Launch) for op in optimized.graph.ops)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=v.shape) for v in optimized.graph.inputs]
    expected = evaluate_floats(linear().build(), inputs)
    np.testing.assert_allclose(evaluate_floats(optimized.graph, inputs)[0], expected[0], rtol=1e-9)


def test_the_report(optimized: mi.Optimized) -> None:
    report = json.loads(json.dumps(optimized.report.to_json()))
    assert len(report["verdicts"]) == len(report["candidates"]) == 2
    assert all(v["kind"] in ("proved", "probable") and v["kept"] for v in report["verdicts"])
    assert report["prediction"]["time"] > 0
    assert report["search"][0]["stop"] == "exhausted"
    assert {"search", "stabilize", "verify"} <= set(report["seconds"])


def test_in_words(optimized: mi.Optimized) -> None:
    words = optimized.describe()
    assert words.startswith("kernel 1 of 1: grid n = ")
    assert "@ w" in words
    assert "rsqrt(" in words
    assert "out0[16, 128/n] = " in words


def test_words_for_loops_and_several_kernels() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 30), name="x")
    block = mi.new_threadblock_graph({"m": 2}, {"k": 4})
    t = block.mask(block.new_input(x, {"m": 0, "k": 1}), 1, ["k"], 30, float("-inf"))
    m = block.running_max(block.max(t, 1))
    total = block.accumulate(block.sum(block.exp(t - m), 1), rescale=m)
    block.new_output(block.log(total) + block.accumulate(m, "last"), {"m": 0})
    (y,) = graph.customized([x], block)
    graph.mark_output(y)
    assert describe(graph.build()) == (
        "kernel 1 of 1: grid m = 2, 4 warps, 2 stages\n"
        "  for k in 4 steps over x[4/m, 30/k]:\n"
        "    t0 = mask(x, -inf from 30)\n"
        "    m0 = running_max(max1(t0))\n"
        "    a0 += sum1(exp(t0 - m0)) (rescaled by m0)\n"
        "    a1 = m0\n"
        "  out0[4/m, 1] = log(a0) + a1"
    )


def test_words_for_ops_between_kernels() -> None:
    b = Builder()
    x = Value(TensorType((4, 30), DType.F32), "x")
    rows = b.slice(x, (2, 0), (2, 30))
    joined = b.concat((b.reshape(rows, (60,)), b.reshape(x, (120,))), 0)
    assert describe(KernelGraph("between", (x,), tuple(b.ops), (joined,))) == (
        "tmp0 = x[2:4, :]\ntmp1 = tmp0 as [60]\ntmp2 = x as [120]\nout0 = concat(tmp1, tmp2)"
    )


def test_a_refuted_candidate_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """If the search is wrong, the program's own ops remain."""

    def wrong_search(graph: KernelGraph, *rest: Any, **options: Any) -> Planner:
        b = mi.new_kernel_graph(graph.name)
        x, w = (b.new_input(v.shape, v.dtype) for v in graph.inputs)
        b.mark_output(b.rms_norm(x, eps=0.5) @ w)
        return Planner(b.build(), *rest, **options)

    monkeypatch.setattr(search_stage, "Planner", wrong_search)
    result = optimize(linear().program(), FAST)
    assert {c.verdict.kind for c in result.verdicts} == {Kind.REFUTED}
    assert not any(isinstance(op, Launch) for op in result.graph.ops)
    (note,) = result.report.notes
    assert note.startswith("part 0 keeps its own ops: no candidate passed verification")
    inputs = [np.random.default_rng(0).standard_normal(v.shape) for v in result.graph.inputs]
    (got,), (want,) = (evaluate_floats(g, inputs) for g in (result.graph, linear().program().graph))
    np.testing.assert_allclose(got, want)


def test_the_search_goes_on_without_kernels_that_are_not_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[object] = []

    def strict(reference: KernelGraph, candidate: KernelGraph, *rest: Any) -> object:
        calls.append(candidate)
        if len(calls) <= 1:
            return Verdict(Kind.UNKNOWN, None, (), 0)
        return examine(reference, candidate, *rest)

    monkeypatch.setattr(together, "examine", strict)
    said: list[str] = []
    options = replace(FAST, candidates=1, jobs=1, watch=said.append)  # `strict` counts its calls
    result = optimize(linear().program(), options)
    assert "search: continues without 1 kernels that could not be verified" in said
    assert [c.kept for c in result.verdicts] == [False, True]
    assert any(isinstance(op, Launch) for op in result.graph.ops)


def test_a_kernel_that_does_not_compile_costs_that_kernel_only(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The search continues without it and similar kernels, and its result is compiled."""
    graph = linear().program()
    usual = optimize(graph, replace(FAST, compile=True, cubin=False, finalists=1, jobs=1))
    (first,) = (op for op in usual.graph.ops if isinstance(op, Launch))
    bad = _kinds(first)
    compiled: list[tuple[str, ...]] = []
    real = KernelBuilder._compile  # pyright: ignore[reportPrivateUsage]

    def strict(self: KernelBuilder, part: KernelGraph, alone: bool) -> Compiled:
        kinds = [_kinds(op) for op in part.ops if isinstance(op, Launch)]
        if bad in kinds:
            raise CompileError("no registers are left")
        compiled.extend(kinds)
        return real(self, part, alone)

    monkeypatch.setattr(KernelBuilder, "_compile", strict)
    said: list[str] = []
    options = replace(FAST, compile=True, cubin=False, jobs=1, use_cache=False, watch=said.append)
    result = optimize(graph, options)
    assert any("do not compile" in text for text in said), said
    launches = [op for op in result.graph.ops if isinstance(op, Launch)]
    assert launches
    assert bad not in map(_kinds, launches)
    assert {_kinds(op) for op in launches} <= {*compiled}
    inputs = [np.random.default_rng(0).standard_normal(v.shape) for v in result.graph.inputs]
    (got,), (want,) = (evaluate_floats(g, inputs) for g in (result.graph, graph.graph))
    np.testing.assert_allclose(got, want, rtol=1e-9)


def _kinds(launch: Launch) -> tuple[str, ...]:
    """Return what a kernel computes, regardless of its sizes."""
    return tuple(type(op).__name__ for op in all_ops(launch.body.ops))


def test_superoptimize_of_a_builder() -> None:
    said: list[str] = []
    result = linear().superoptimize(candidates=1, compile=False, watch=said.append)
    assert repr(result) == "<optimized 'linear' for sm_90a: 1 kernels>"
    assert [s.split(":")[0] for s in said] == ["search", "verify"]
    with pytest.raises(NotCompiledError):
        result(torch.zeros(16, 256), torch.zeros(256, 128))


def test_kernels_by_hand_are_not_searched() -> None:
    graph = mi.new_kernel_graph()
    x = graph.new_input((4, 8))
    block = mi.new_threadblock_graph({"m": 2})
    block.new_output(block.exp(block.new_input(x, {"m": 0})), {"m": 0})
    graph.mark_output(*graph.customized([x], block))
    with pytest.raises(InvalidGraphError, match=r"use compile\(\)") as caught:
        graph.superoptimize()
    assert caught.value.location is not None
    assert caught.value.location.file == __file__
    result = compile_graph(graph.program(), FAST)
    assert list(result.mlir) == ["selected"]


def test_ops_without_a_kernel_are_not_compiled() -> None:
    with pytest.raises(
        InvalidGraphError,
        match=r"expected customized kernels only, got rmsnorm; use superoptimize\(\)",
    ):
        linear().compile()


BAD_OPTIONS = [
    ({"chips": "sm_80"}, OptionError, "expected options among chip, budget"),
    ({"budget": 0}, OptionError, "expected a positive number as the budget, got 0"),
    ({"budget": "fast"}, OptionError, "expected a positive number as the budget, got 'fast'"),
    ({"jobs": 0}, OptionError, "expected a positive integer as the number of jobs, got 0"),
    ({"finalists": 2.5}, OptionError, "expected a positive integer as the number of finalists"),
    ({"bounds": {"plans": "x"}}, OptionError, "expected an integer as the bound of plans"),
    ({"chip": 3}, OptionError, "expected the name of a chip, got 3"),
    ({"bounds": {"plan": 3}}, OptionError, "expected bounds among cuts, plans,"),
    ({"bounds": {"plans": 0}}, LimitError, "'plans' to be at least 1, got 0"),
    ({"candidates": 0}, OptionError, "as the number of candidates, got 0"),
    ({"chip": "sm_70"}, UnknownTargetError, "got 'sm_70'"),
]


@pytest.mark.parametrize(
    ("options", "kind", "message"), BAD_OPTIONS, ids=[b[2] for b in BAD_OPTIONS]
)
def test_bad_options(options: dict[str, object], kind: type[Exception], message: str) -> None:
    with pytest.raises(kind) as caught:
        linear().superoptimize(**options)
    assert message in str(caught.value)


class Scan(torch.nn.Module):
    """A program with an op that has no meaning here."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(32, 16).half())

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.silu(torch.special.i0e(x @ self.weight)) * 2


def test_workers() -> None:
    with OptimizeOptions(jobs=1).workers() as none:
        assert none is None
    with OptimizeOptions(jobs=3).workers() as pool:
        assert pool is not None
        assert pool.submit(pow, 2, 5).result() == 32


def test_parts_around_a_call_of_torch() -> None:
    imported = mi.from_torch(Scan(), torch.randn(8, 32).half(), allow_fallback=True)
    result = optimize(imported.program, FAST)
    kinds = [type(op) for op in result.graph.ops]
    assert kinds.count(External) == 1
    assert kinds[0] is Launch
    assert kinds[-1] is Launch
    assert 'kernel.external "aten.special_i0e"' in result.mlir["selected"]
    assert 'kernel.parameter = "weight"' in result.mlir["selected"]


def test_a_program_that_stays_with_torch_runs() -> None:
    def program(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.special.i0e(x), torch.flip(y, [0, 1])

    x, y = torch.randn(4, 6), torch.randn(3, 2)
    imported = mi.from_torch(program, x, y, allow_fallback=True)
    result = optimize(imported.program)
    for call in (lambda: result(x, y), lambda: result([x, y]), lambda: result(inputs=[x, y])):
        a, b = call()
        torch.testing.assert_close(a, torch.special.i0e(x))
        torch.testing.assert_close(b, torch.flip(y, [0, 1]))
    with pytest.raises(ArgumentCountError, match=r"expected 2 input tensors \(x, y\), got 1"):
        result(x)
    with pytest.raises(ArgumentCountError, match="got both"):
        result(x, inputs=[x, y])


def call(target: str, *operands: Value, **arguments: object) -> External:
    return External(operands, (Value(operands[0].type),), target, tuple(arguments.items()))


def test_calls_get_their_arguments() -> None:
    a, b = (Value(TensorType((2, 3), DType.F32)) for _ in range(2))
    values = {a: torch.randn(2, 3), b: torch.randn(2, 3)}
    (y,) = call_external(call("aten.flip", a, dims=(0, 1)), values)
    torch.testing.assert_close(y, values[a].flip(0, 1))
    (y,) = call_external(call("aten.hstack", a, b, tensors=("tensors", 2)), values)
    torch.testing.assert_close(y, torch.hstack([values[a], values[b]]))
    (y,) = call_external(call("aten.lerp.Scalar", a, b, weight=0.25), values)
    torch.testing.assert_close(y, torch.lerp(values[a], values[b], 0.25))
    found = call_external(call("aten.topk", a, k=2, dim=-1, largest=True, sorted=True), values)
    torch.testing.assert_close(found[0], values[a].topk(2).values)


def test_what_can_be_optimized() -> None:
    graph = get("lora_m1").graph()
    result = optimize(graph, FAST)
    assert result.graph.inputs == graph.inputs
    assert optimize(linear(), FAST).graph.ops
    imported = mi.from_torch(torch.nn.Linear(64, 32), torch.randn(16, 64))
    assert optimize(imported, FAST).graph.ops
    with pytest.raises(
        GraphTypeError, match=r"with mirage.from_torch first\), got Linear"
    ) as caught:
        optimize(torch.nn.Linear(64, 32), FAST)  # type: ignore[arg-type]
    assert caught.value.location is not None
    assert caught.value.location.file == __file__


def test_what_is_under_way_is_told() -> None:
    shown: list[str] = []
    optimize(linear().program(), replace(FAST, compile=True, progress=shown.append))
    assert re.fullmatch(r"search: 0 of 1 parts have an answer, \d+ s left", shown[0])
    phases = [text.partition(":")[0] for text in shown]
    assert {"search", "verify", "compile", "check"} <= set(phases)
    best = r"search: \d+ kernels solved, best so far .* us, 0 of 1 parts have an answer, \d+ s left"
    assert any(re.fullmatch(best, text) for text in shown)
    assert all(re.search(r"1 of 1 .*, \d+ s left$", shown[k]) for k in _of("compile", phases))


def _of(phase: str, phases: list[str]) -> list[int]:
    return [k for k, p in enumerate(phases) if p == phase]


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_kernels_are_emulated() -> None:
    """Also together with a call of PyTorch."""

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.linalg.inv(x @ y) @ y

    generator = torch.Generator().manual_seed(0)
    x, y = (torch.randn(8, 8, generator=generator) for _ in range(2))
    fast = replace(FAST, compile=True, use_cache=False, jobs=1)
    optimized = optimize(mi.from_torch(program, x, y, allow_fallback=True), fast)
    for (got,) in (optimized(x, y), optimized(inputs=[x, y])):
        torch.testing.assert_close(got, program(x, y), rtol=1e-3, atol=1e-3)
    with pytest.raises(ArgumentCountError):
        optimized(x)


@pytest.mark.parametrize("given", [3, None])
@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_what_is_no_tensor_is_named(given: Any) -> None:
    graph = mi.from_torch(lambda x: torch.relu(x) * 2, torch.zeros(2, 2))
    optimized = optimize(graph, OptimizeOptions(jobs=1, candidates=1, check_kernels=False))
    with pytest.raises(ArgumentTypeError, match=r"x: expected a torch\.Tensor, got \w+"):
        optimized(given)
