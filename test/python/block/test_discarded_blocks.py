"""Products of which a mask behind the loop discards whole blocks, by an integer that blocks read."""

from __future__ import annotations

import numpy as np
import pytest
from lowering import compile_mlir
from mirage.emulator.run_artifact import ArtifactRun, run_artifact
from mirage.mlir_io.text import graph_from_text, graph_to_text
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import Array
from mirage.transforms.steps.skip_steps import skip_steps

BLOCKS, ROWS, DEPTH, COLUMNS, STEPS = 5, 64, 192, 128, 3
GROUPS = "warps = 4, stages = 2, engine = warpgroup"
SCHEDULES = {
    "warps": ("sm_80", "warps = 4, stages = 2", 10),
    "groups": ("sm_90a", GROUPS, 10),
    "resident": ("sm_90a", f"{GROUPS}, resident = 3", 3),
    "cluster": ("sm_90a", f"{GROUPS}, cluster = 2", 10),
    "resident cluster": ("sm_90a", f"{GROUPS}, resident = 4, cluster = 2", 4),
}
"""The chip, the schedule, and the number of blocks that are started."""


def product(schedule: str, condition: str = "block.binary lt %zero, %n") -> str:
    """The product of five blocks of rows with one matrix, of the blocks that are used."""
    used = "(!block.tile<f32>, !block.tile<1x1x1xf32>) -> !block.tile<1x1x1xf32>"
    if "%n, %zero" in condition:
        used = "(!block.tile<1x1x1xf32>, !block.tile<f32>) -> !block.tile<1x1x1xf32>"
    x, w = "tensor<5x64x192xf16>", "tensor<192x128xf16>"
    u, y = "tensor<5x1x1xi64>", "tensor<5x64x128xf16>"
    return f"""
kernel.graph @blocks(%x: {x}, %w: {w}, %u: {u}) -> {y} {{
  %y = kernel.launch(%x, %w, %u) grid [b = 5, n = 2] schedule <{schedule}> : ({x}, {w}, {u}) -> {y} {{
  ^bb0(%gx: {x}, %gw: {w}, %gu: {u}):
    %s = block.loop [k = 3] {{
      %a = block.load %gx [[b], [], [k]] : {x} -> !block.tile<1x64x64xf16>
      %b = block.load %gw [[k], [n]] : {w} -> !block.tile<64x64xf16>
      %p = block.matmul %a, %b : (!block.tile<1x64x64xf16>, !block.tile<64x64xf16>) -> !block.tile<1x64x64xf32>
      block.accumulate sum %p : !block.tile<1x64x64xf32>
    }} : !block.tile<1x64x64xf32>
    %zero = block.constant 0.0 : !block.tile<f32>
    %n = block.load %gu [[b], [], []] : {u} -> !block.tile<1x1x1xf32>
    %c = {condition} : {used}
    %kept = block.binary keep %c, %s : (!block.tile<1x1x1xf32>, !block.tile<1x64x64xf32>) -> !block.tile<1x64x64xf32>
    block.store %kept [[b], [], [n]] : !block.tile<1x64x64xf32>
  }}
  kernel.return %y : {y}
}}
"""


def without_steps(text: str) -> str:
    return graph_to_text(skip_steps(graph_from_text(text).graph), form="selected")


def factors() -> tuple[Array, Array]:
    rng = np.random.default_rng(5)
    shapes = (BLOCKS, ROWS, DEPTH), (DEPTH, COLUMNS)
    x, w = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    return x, w


def run(text: str, chip: str, *inputs: Array) -> ArtifactRun:
    return run_artifact(compile_mlir(text, chip), inputs, stats=False)


@pytest.mark.parametrize("name", SCHEDULES)
def test_blocks_that_are_not_used_take_one_step(name: str) -> None:
    """Each position of a resident block reads its own integer; a product of no rows does not wait
    for data that nothing copies."""
    chip, schedule, blocks = SCHEDULES[name]
    text = without_steps(product(schedule))
    assert "block.scalar" in text
    artifact = compile_mlir(text, chip)
    assert ("wgmma.mma_async" in artifact.ptx()) == (chip == "sm_90a")
    (kernel,) = artifact.manifest.kernels
    assert kernel.grid[0] == blocks
    x, w = factors()
    for used in ((1, 0, 1, 0, 0), (0, 0, 0, 0, 0), (-3, 2**62, 0, 1, 7)):
        number = np.array(used).reshape(BLOCKS, 1, 1)
        found = run(text, chip, x, w, number)
        (out,) = found.outputs
        expected = np.where(number > 0, x.astype(np.float64) @ w.astype(np.float64), 0.0)
        np.testing.assert_allclose(out.astype(np.float64), expected, rtol=2e-3, atol=2e-2)


@pytest.mark.parametrize("name", ["warps", "resident"])
def test_work_is_that_of_the_used_blocks(name: str) -> None:
    chip, schedule, _ = SCHEDULES[name]
    text = without_steps(product(schedule))
    x, w = factors()

    def products(*used: int) -> int:
        number = np.array(used).reshape(BLOCKS, 1, 1)
        return run(text, chip, x, w, number).counters[0].tensor_core_ops

    every, none, two = products(1, 1, 1, 1, 1), products(0, 0, 0, 0, 0), products(0, 1, 0, 0, 1)
    assert every == STEPS * none
    assert two * BLOCKS == 2 * every + 3 * none


def test_clusters_that_take_the_same_steps_stay() -> None:
    """Blocks of a cluster have the same rows and read the same integer."""
    chip, schedule, _ = SCHEDULES["cluster"]
    assert "multicast" in compile_mlir(without_steps(product(schedule)), chip).ptx()


def test_conditions_that_say_nothing_about_blocks_take_all_steps() -> None:
    """Where the mask may be true, every step counts."""
    text = without_steps(product(GROUPS).replace("keep %c, %s", "mul %c, %s"))
    assert "block.scalar" not in text


def test_one_step_is_taken_in_any_case() -> None:
    text = product(GROUPS).replace("[k = 3]", "[k = 1]").replace("192", "64")
    assert "block.scalar" not in without_steps(text)


def test_the_meaning_with_and_without_the_steps() -> None:
    text = product(GROUPS, "block.binary lt %n, %zero")
    changed, plain = graph_from_text(without_steps(text)).graph, graph_from_text(text).graph
    x, w = (v.astype(np.float64) for v in factors())
    for used in ((1, 0, -1, -5, 0), (0, 0, 0, 0, 0)):
        inputs = [x, w, np.array(used, np.float64).reshape(BLOCKS, 1, 1)]
        ours, its = evaluate_floats(changed, inputs), evaluate_floats(plain, inputs)
        np.testing.assert_array_equal(ours[0], its[0])
