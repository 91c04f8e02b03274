"""Results of the rewrite for each kind of program, compiled and executed in the emulator with
scores of magnitude 1e4.
"""

from __future__ import annotations

import numpy as np
import pytest
from example_programs.attention_graphs import SUM, tensor
from example_programs.stability_graphs import block, joined_attention, joined_reference, two_passes
from lowering import compile_graph, with_schedule
from mirage.emulator.run_artifact import check_artifact
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Accumulator, Axis, KernelGraph, Value
from mirage.transforms import stabilize
from mirage.workloads.linear import softmax_rows
from thorough import some_of

PARTS = {
    "one kernel": (96, 1),
    "normalised": (96, 16),
    "one loop": (64, 64),
    "split": (64, 16),
}


def run(graph: KernelGraph, reference: KernelGraph, chip: str, scale: float) -> None:
    """The first input is ``scale`` times as large as the others."""
    result = stabilize(graph)
    assert not result.unstable
    safe = stabilize(reference).graph
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape).astype(np.float32) for v in graph.inputs]
    inputs[0] = inputs[0] * np.float32(scale)
    half = graph.inputs[0].dtype.is_half
    given = [x.astype(np.float16) if half else x for x in inputs]

    def expected(*values: np.ndarray) -> tuple[np.ndarray, ...]:
        found = tuple(np.asarray(x) for x in evaluate_floats(safe, list(values)))
        assert all(np.isfinite(x).all() for x in found)
        return found

    artifact = compile_graph(with_schedule(result.graph, 4, 2), chip)
    check_artifact(artifact, expected, inputs=given)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("kind", some_of(PARTS, every=3))
def test_joined_attention(kind: str, chip: str) -> None:
    parts, half = PARTS[kind], DType.F16
    graph = joined_attention(kind=kind, rows=16, dim=16, parts=parts, tile=32, dtype=half)
    run(graph, joined_reference(2, 16, 16, parts, half), chip, 1e4)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("what", ["softmax", "cross entropy"])
def test_two_passes(what: str, chip: str) -> None:
    graph = two_passes(rows=4, columns=300, tiles=(128, 64), what=what)
    run(graph, graph, chip, 1e4)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
def test_softmax_in_two_kernels(chip: str) -> None:
    """A row of 300, whose sum one kernel takes in parts, and its exponentials again in the next."""
    program = softmax_rows("rows", 4, 300).graph()
    (x,) = program.inputs
    gx, b, body = Value(x.type), Builder(in_block=True), Builder(in_block=True)
    e = body.unary(UnaryFn.EXP, body.load(gx, (("m",), ("s", "t")), (2, 64)))
    e = body.mask(e, 1, ("s", "t"), 300, 0.0)
    total = body.reduce(ReduceFn.SUM, e, (1,))
    (total,) = b.loop(Axis("t", 3), tuple(body.ops), (Accumulator(SUM, total),))
    d = tensor(4, 2)
    grid = (Axis("m", 2), Axis("s", 2))
    first = block((x,), grid, (gx,), b, ((total, (("m",), ("s",)), d),))
    gx, gd, b, out = Value(x.type), Value(d.type), Builder(in_block=True), program.outputs[0]
    e = b.unary(UnaryFn.EXP, b.load(gx, (("m",), ("n",)), (4, 128)))
    s = b.reduce(ReduceFn.SUM, b.load(gd, (("m",), ()), (4, 2)), (1,))
    y, result = b.binary(BinaryFn.DIV, e, s), Value(out.type)
    grid = (Axis("m", 1), Axis("n", 3))
    second = block((x, d), grid, (gx, gd), b, ((y, (("m",), ("n",)), result),))
    run(KernelGraph("rows", (x,), (first, second), (result,)), program, chip, 1e4)
