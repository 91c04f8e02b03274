"""Compiled kernels are run before they are returned; wrong ones are dropped."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import mirage as mi
import pytest
import torch
from damaged_artifacts import Damage, damaged
from mirage.compiler import CompileOptions, compile_graph
from mirage.emulator.emulator import Emulator
from mirage.emulator.run_artifact import run_artifact
from mirage.pipeline.checks import check
from mirage.pipeline.checks.emulated_check import emulated, kernel_ops
from mirage.pipeline.checks.gpu_check import beside_pytorch
from mirage.pipeline.checks.kernel_check import KernelCheck, Outcome
from mirage.pipeline.compile import build
from mirage.pipeline.optimize import optimize
from mirage.pipeline.options import OptimizeOptions
from mirage.pipeline.result import Finalist, Step
from mirage.runtime.serialization.artifact import Artifact
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.search.kernel.problems.aligned import aligned_copies, aligned_type
from mirage.semantics.decompose import decompose
from mirage.semantics.scalar import DType
from mirage.semantics.ugraph import External, KernelGraph, TensorType, Value, launches
from written_kernels.product_kernels import product_kernel


def linear() -> mi.GraphBuilder:
    graph = mi.new_kernel_graph("linear")
    x = graph.new_input(dims=(16, 512), dtype=mi.float16, name="x")
    w = graph.new_input(dims=(512, 200), dtype=mi.float16, name="w")
    graph.mark_output(graph.matmul(graph.rms_norm(x), w))
    return graph


def options(**more: Any) -> OptimizeOptions:
    return OptimizeOptions.of(
        **{"finalists": 3, "verify_seed": 0, "use_cache": False, "cubin": False, "jobs": 1, **more}
    )


def checks_of(step: Step, artifact: Artifact | None = None) -> list[KernelCheck]:
    assert step.compiled is not None
    assert step.graph is not None
    artifact = artifact or step.compiled.artifact
    kernels = zip(kernel_ops(step.graph), artifact.manifest.kernels, strict=True)
    return [emulated(op, kernel, artifact) for op, kernel in kernels]


def subtracted(ptx: str) -> str:
    """Sums that became differences."""
    return re.sub(r"\badd(\.rn)?\.f32\b", r"sub\1.f32", ptx)


def moved(ptx: str) -> str:
    """Blocks that act as the first one."""
    return re.sub(r"mov\.u32\s+(%r\d+), %ctaid\.x;", r"mov.u32 \1, 0;", ptx)


def unsynchronised(ptx: str) -> str:
    return re.sub(r"\b(bar\.sync|barrier\.sync)\b[^;]*;", "", ptx)


@pytest.fixture(scope="module")
def optimized() -> mi.Optimized:
    return optimize(linear(), options())


def test_right_kernels_pass_and_the_manifest_says_so(optimized: mi.Optimized) -> None:
    checks = optimized.report.checks
    assert len(checks) >= len(list(launches(optimized.graph.ops)))
    assert all(c.outcome is Outcome.PASSED for c in checks)
    kept = optimized.artifact.manifest.evidence["checks"]
    assert kept == [c.to_json() for c in checks]
    assert kept == optimized.report.to_json()["checks"]
    assert set(kept[0]) == {"kernel", "how", "outcome", "text"}


@pytest.mark.parametrize("damage", [subtracted, moved, unsynchronised])
def test_wrong_ptx_fails(optimized: mi.Optimized, damage: Damage) -> None:
    (step,) = optimized.steps
    assert step.compiled is not None
    wrong = damaged(step.compiled.artifact, damage)
    assert wrong.files != step.compiled.artifact.files
    assert any(c.outcome is Outcome.FAILED for c in checks_of(step, wrong))


def copied_twice() -> KernelGraph:
    """Two kernels; the second reads the result of the first."""
    x = Value(TensorType((33, 67), DType.F16), "x")
    once, twice = (Value(aligned_type(x.type), name) for name in ("once", "twice"))
    ops = (*aligned_copies([(x, once)]), *aligned_copies([(once, twice)]))
    return KernelGraph("copied_twice", (x,), ops, (twice,))


def impatient(ptx: str) -> str:
    return ptx.replace("griddepcontrol.wait;", "")


@pytest.mark.parametrize("chip", ["sm_90a", "sm_80"])
def test_kernels_that_start_early_wait_for_what_they_read(chip: str) -> None:
    graph = copied_twice()
    artifact = compile_graph(graph, CompileOptions(chip)).artifact
    early = chip == "sm_90a"
    kernels = artifact.manifest.kernels
    assert [k.dependent for k in kernels] == [False, early]
    assert ("griddepcontrol" in artifact.ptx(0)) == early
    for broken in (False, True):
        run = damaged(artifact, impatient) if broken else artifact
        checks = [emulated(*pair, run) for pair in zip(kernel_ops(graph), kernels, strict=True)]
        wrong = Outcome.FAILED if broken and early else Outcome.PASSED
        assert [c.outcome for c in checks] == [Outcome.PASSED, wrong]


def test_blocks_of_several_tiles_are_run_with_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any number of blocks computes the same; the last of five has the fifth and the last of ten
    tiles, and a block that omits one is noticed."""
    launch = product_kernel(128 * 10, 128, 256, (128, 128, 64), 2, 8)
    launch = replace(launch, schedule=replace(launch.schedule, resident=2))
    graph = KernelGraph("tiles", launch.operands, (launch,), launch.results)
    artifact = compile_graph(graph, CompileOptions("sm_90a")).artifact
    (kernel,) = artifact.manifest.kernels
    assert kernel.grid == (2, 1, 1)
    check = emulated(launch, kernel, artifact)
    assert check.outcome is Outcome.PASSED
    assert "of 5," in check.text
    took = int(check.text.split()[-2].replace(",", ""))
    # of three blocks: enough for one tile, not for two
    monkeypatch.setattr("mirage.pipeline.checks.emulated_check.WORK", took // 4)
    check = emulated(launch, kernel, artifact)
    assert check.outcome is Outcome.PASSED
    assert "of 10," in check.text
    monkeypatch.undo()
    broken = damaged(artifact, lambda ptx: ptx.replace("%nctaid.x", "%ntid.x"))
    assert emulated(launch, kernel, broken).outcome is Outcome.FAILED


def break_compiler(
    monkeypatch: pytest.MonkeyPatch, broken: Callable[[int], bool], damage: Damage = subtracted
) -> None:
    """Damage the PTX of some parts between compilation and check."""
    right, count = build.Builder._compile, iter(range(1000))  # pyright: ignore[reportPrivateUsage]

    def wrong(self: build.Builder, part: Any, alone: bool) -> Any:
        compiled = right(self, part, alone)
        if not broken(next(count)):
            return compiled
        return replace(compiled, artifact=damaged(compiled.artifact, damage))

    monkeypatch.setattr(build.Builder, "_compile", wrong)


def test_a_wrong_kernel_costs_its_candidate(
    monkeypatch: pytest.MonkeyPatch, optimized: mi.Optimized
) -> None:
    best = optimized.finalists[0].place  # candidates are compiled in the order of their places
    break_compiler(monkeypatch, lambda number: number == best)
    other = optimize(linear(), options())
    assert other.finalists[0].place == optimized.finalists[1].place
    assert all(f.place != best for f in other.finalists)
    assert any(f"candidate {best} " in n and "is dropped" in n for n in other.report.notes)
    assert all(c.outcome is Outcome.PASSED for c in other.report.checks)


def test_where_all_are_wrong_pytorch_remains(monkeypatch: pytest.MonkeyPatch) -> None:
    break_compiler(monkeypatch, lambda number: True)
    other = optimize(linear(), options())
    assert not other.artifacts
    assert all(isinstance(op, External) for op in other.graph.ops)
    assert any("parts whose kernels are wrong" in n for n in other.report.notes)


def test_the_switch_leaves_it_out(monkeypatch: pytest.MonkeyPatch) -> None:
    break_compiler(monkeypatch, lambda number: True)
    other = optimize(linear(), options(check_kernels=False))
    assert other.report.checks == ()
    assert "checks" not in other.artifact.manifest.evidence


def test_kernels_that_take_too_long_are_named(
    monkeypatch: pytest.MonkeyPatch, optimized: mi.Optimized
) -> None:
    monkeypatch.setattr("mirage.pipeline.checks.emulated_check.WORK", 100)
    (step,) = optimized.steps
    (check, *_) = checks_of(step)
    assert check.outcome is Outcome.UNCHECKED
    assert "more than 100 warp-instructions" in check.text


def test_no_kernel_is_run_beyond_its_time(
    monkeypatch: pytest.MonkeyPatch, optimized: mi.Optimized
) -> None:
    def endless(*arguments: object) -> KernelCheck:
        while True:
            time.sleep(0.01)

    monkeypatch.setattr(check, "at_real_sizes", endless)
    monkeypatch.setattr(check, "LONGEST", 0.1)
    checker = check.Checker(optimized.program, optimized.options.chip, use_cache=False)
    (found,) = checker.of_step(optimized.steps[0])
    assert found.outcome is Outcome.UNCHECKED
    assert found.text == "the time is up"


def test_what_passed_is_not_run_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, optimized: mi.Optimized
) -> None:
    from mirage.pipeline.checks.check import Checker

    monkeypatch.setenv("MIRAGE_CACHE_DIR", str(tmp_path))
    finalist: Finalist = optimized.finalists[0]
    first = Checker(optimized.program, "sm_90a").check(finalist)
    monkeypatch.setattr(Emulator, "launch", lambda *a, **k: pytest.fail("it ran again"))
    again = Checker(optimized.program, "sm_90a").check(finalist)
    assert again.checks == first.checks


def on_the_cpu(
    number: int, compiled: Any, inputs: list[torch.Tensor], follows: bool
) -> list[torch.Tensor]:
    """The emulator in place of a GPU."""
    run = run_artifact(compiled.artifact, [x.double().numpy() for x in inputs], checks=False)
    specs = compiled.artifact.manifest.outputs
    names = [getattr(torch, TORCH_NAMES[spec.dtype]) for spec in specs]
    values = (torch.from_numpy(y.astype("float64")) for y in run.outputs)
    return [y.to(name) for y, name in zip(values, names, strict=True)]


def test_the_whole_program_beside_pytorch(optimized: mi.Optimized) -> None:
    (step,) = optimized.steps
    assert step.compiled is not None

    def compared(steps: tuple[Step, ...], graph: KernelGraph | None = None) -> tuple[Outcome, str]:
        chosen = graph or optimized.graph
        return beside_pytorch(optimized.program, "sm_90a", chosen, steps, on_the_cpu, "cpu")

    outcome, text = compared(optimized.steps)
    assert outcome is Outcome.PASSED, text
    assert "3,200 elements" in text
    wrong = damaged(step.compiled.artifact, subtracted)
    outcome, text = compared((replace(step, compiled=replace(step.compiled, artifact=wrong)),))
    assert outcome is Outcome.FAILED
    assert "differ from PyTorch's" in text
    wrong = damaged(step.compiled.artifact, lambda ptx: ptx.replace("ret;", "trap;"))
    outcome, text = compared((replace(step, compiled=replace(step.compiled, artifact=wrong)),))
    assert outcome is Outcome.FAILED
    assert "TrapError" in text


def test_the_programs_own_ops_are_checked() -> None:
    """Each is a separate kernel, without a launch; those with constants have fewer arguments."""
    whole = optimize(linear(), options(compile=False)).program
    own = decompose(whole.graph, stable=True)
    steps = list(build.Builder(whole, "sm_90a", cubin=False, use_cache=False).steps(own))
    checks = [check for step in steps for check in checks_of(step)]
    assert len(checks) > 1
    assert all(c.outcome is not Outcome.FAILED for c in checks), list(map(str, checks))
    assert 2 * sum(c.outcome is Outcome.PASSED for c in checks) >= len(checks)
