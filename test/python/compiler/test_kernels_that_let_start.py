"""Kernels that let the next one start before they wait themselves: how the emulator runs them, and
that a next kernel that relies on more is detected."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from mirage.compiler import CompileOptions
from mirage.compiler.compile import compile_text
from mirage.emulator.run_artifact import early_kernels
from mirage.mlir_io.text import graph_from_text
from mirage.pipeline.checks.emulated_check import emulated, kernel_ops
from mirage.pipeline.checks.kernel_check import Outcome
from mirage.runtime.serialization.artifact import Artifact, sha256

ROW, WEIGHT, TILE = "tensor<1x256xf16>", "tensor<64x256xf16>", "!block.tile<1x128xf16>"
LOADED = "!block.tile<16x128xf16>"
WITH_ITSELF = f"""schedule <warps = 4, stages = 1> : ({ROW}) -> {ROW} {{
  ^bb0(%p: {ROW}):
    %0 = block.load %p [[], [n]] : {ROW} -> {TILE}
    %1 = block.binary FUNCTION %0, %0 : ({TILE}, {TILE}) -> !block.tile<1x128xf32>
    block.store %1 [[], [n]] : !block.tile<1x128xf32>
  }}"""
PROGRAM = f"""
kernel.graph @layer(%x: {ROW}, %w: {WEIGHT}) -> tensor<64xf16>
    attributes {{form = #kernel.form<selected>}} {{
  %a = kernel.launch(%x) grid [n = 2] {WITH_ITSELF.replace("FUNCTION", "add")}
  %b = kernel.launch(%a) grid [n = 2] {WITH_ITSELF.replace("FUNCTION", "mul")}
  %y = kernel.launch(%b, %w) grid [n = 4]
      schedule <warps = 4, stages = 2> : ({ROW}, {WEIGHT}) -> tensor<64xf16> {{
  ^bb0(%p: {ROW}, %q: {WEIGHT}):
    %s = block.loop [k = 2] {{
      %0 = block.load %p [[], [k]] : {ROW} -> {TILE}
      %1 = block.load %q [[n], [k]] : {WEIGHT} -> {LOADED}
      %2 = block.binary mul %0, %1 : ({TILE}, {LOADED}) -> !block.tile<16x128xf32>
      %3 = block.reduce sum %2 dims [1] : (!block.tile<16x128xf32>) -> !block.tile<16x1xf32>
      block.accumulate sum %3 : !block.tile<16x1xf32>
    }} : !block.tile<16x1xf32>
    %4 = block.reshape %s : (!block.tile<16x1xf32>) -> !block.tile<16xf32>
    block.store %4 [[n]] : !block.tile<16xf32>
  }}
  kernel.return %y : tensor<64xf16>
}}
"""


@pytest.fixture(scope="module")
def artifact() -> Artifact:
    options = CompileOptions("sm_90a", cubin=False, use_cache=False, follows=True)
    return compile_text(PROGRAM, options).artifact


def right(artifact: Artifact) -> list[bool]:
    ops = kernel_ops(graph_from_text(PROGRAM).graph)
    ran = [
        emulated(op, kernel, artifact)
        for op, kernel in zip(ops, artifact.manifest.kernels, strict=True)
    ]
    assert all(check.outcome in (Outcome.PASSED, Outcome.FAILED) for check in ran), ran
    return [check.outcome is Outcome.PASSED for check in ran]


def changed(artifact: Artifact, change: Callable[[str], str], number: int) -> Artifact:
    """The artifact with one of its kernels changed."""
    files = dict(artifact.files)
    (module,) = artifact.manifest.modules
    ptx = files[module.ptx].decode()
    begin = ptx.index(f".entry {artifact.manifest.kernels[number].entry}(")
    end = ptx.find(".entry ", begin + 1)
    parts = ptx[:begin], change(ptx[begin:] if end < 0 else ptx[begin:end]), ptx[end:]
    files[module.ptx] = "".join(parts if end >= 0 else parts[:2]).encode()
    modules = (replace(module, ptx_sha256=sha256(files[module.ptx])),)
    return Artifact(replace(artifact.manifest, modules=modules), files)


def without_wait(ptx: str) -> str:
    return ptx.replace("griddepcontrol.wait;", "")


def late_wait(ptx: str) -> str:
    return without_wait(ptx).replace("ret;", "griddepcontrol.wait;\n\tret;")


def test_a_kernel_that_only_waits_lets_the_next_one_load(artifact: Artifact) -> None:
    kernels = artifact.manifest.kernels
    assert early_kernels(artifact) == {kernels[1].entry}
    assert right(artifact) == [True, True, True]


@pytest.mark.parametrize("number", [1, 2])
@pytest.mark.parametrize("change", [without_wait, late_wait])
def test_a_kernel_waits_before_it_reads(
    artifact: Artifact, change: Callable[[str], str], number: int
) -> None:
    expected = [True] * 3
    expected[number] = False
    assert right(changed(artifact, change, number)) == expected
