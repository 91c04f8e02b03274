"""Loops whose steps are bounded by integers that blocks read, executed with all checks."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from example_programs.read_loops import READ, ReadLoop, between, expected, integers, with_sum
from lowering import compile_mlir, with_schedule
from mirage.emulator.run_artifact import ArtifactRun, run_artifact
from mirage.mlir_io.text import graph_from_text, graph_to_text
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import BlockGraph, KernelGraph, Loop, StepNumber, Steps, launches
from mirage.transforms.steps.alternate_parts import with_alternating_parts
from mirage.transforms.steps.skip_steps import skip_steps
from thorough import some_of
from written_kernels.warpgroup_attention import Attention

ENGINES = [("sm_80", "warp"), ("sm_90a", "warp"), ("sm_90a", "warpgroup")]
CACHE = Attention(64, 256, heads=3, cached=True)


def compiled(graph: KernelGraph, chip: str, stages: int = 2) -> str:
    scheduled = with_schedule(graph, 4, stages)
    return graph_to_text(scheduled, form="selected")


def run(text: str, chip: str, *inputs: Array) -> ArtifactRun:
    return run_artifact(compile_mlir(text, chip), inputs, stats=False)


def scores(case: ReadLoop) -> Array:
    return np.random.default_rng(1).standard_normal((case.batch, case.keys)).astype(np.float32)


def total(case: ReadLoop, sums: Array, maxima: Array) -> Array:
    return (sums.astype(np.float64) * np.exp(maxima.astype(np.float64))).sum(axis=1)


@pytest.mark.parametrize(
    ("name", "chip", "stages"),
    some_of(
        [(name, *(("sm_80", 3), ("sm_90a", 1))[n % 2]) for n, name in enumerate(READ)], every=3
    ),
)
def test_all_kinds_of_integers(name: str, chip: str, stages: int) -> None:
    """No keys, one, an odd number and all of them, and integers beyond, below zero and at the
    limits of the type, compared with float64."""
    case = READ[name]
    text = compiled(skip_steps(case.graph()), chip, stages)
    assert "block.scalar" in text
    x = scores(case)
    for read in integers(case):
        sums, maxima = run(text, chip, x, *read).outputs
        np.testing.assert_allclose(
            total(case, sums, maxima), expected(case, x, read), rtol=1e-4, err_msg=str(read)
        )


@pytest.mark.parametrize("name", some_of(["keys split", "keys split, a tail"], every=2))
def test_parts_in_turns(name: str) -> None:
    case = READ[name]
    graph = with_alternating_parts(with_sum(skip_steps(case.graph()), case), {})
    text = compiled(graph, "sm_90a", 3)
    assert "[k, s]" in text
    x = scores(case)
    for read in integers(case):
        sums, maxima = run(text, "sm_90a", x, *read).outputs
        np.testing.assert_allclose(
            total(case, sums, maxima), expected(case, x, read), rtol=1e-4, err_msg=str(read)
        )


def attention_text(attention: Attention) -> str:
    graph = skip_steps(graph_from_text(attention.text()).graph)
    return graph_to_text(graph, form="selected")


def inputs_of(a: Attention) -> tuple[Array, Array, Array]:
    rng = np.random.default_rng(3)
    shapes = (a.heads, a.rows, a.dim), (a.heads, a.keys, a.dim), (a.heads, a.keys, a.dim)
    q, k, v = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    return q, k, v


def attended(a: Attention, q: Array, k: Array, v: Array, position: Array) -> Array:
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    seen = np.arange(a.keys) <= position[:, None, None]
    s = np.where(seen, q @ k.transpose(0, 2, 1) * a.scale, -np.inf)
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True) @ v


POSITIONS = [(0, 1, 130), (63, 64, 65), (255, 10**6, 2**62), (191, -1, -(2**63))]
"""The positions of three heads; the result is 0/0 if no key is attended to."""


@pytest.mark.parametrize(
    ("chip", "engine", "keys", "stages"),
    some_of(
        [
            ("sm_80", "warp", 256, 4),
            ("sm_80", "warp", 200, 3),
            ("sm_90a", "warp", 256, 2),
            ("sm_90a", "warp", 256, 1),
            ("sm_90a", "warpgroup", 256, 2),
            ("sm_90a", "warpgroup", 200, 3),
            ("sm_90a", "warpgroup", 256, 1),
        ],
        4,
    ),
)
def test_caches(chip: str, engine: str, keys: int, stages: int) -> None:
    """Heads at different positions of their caches, in both kinds of loops."""
    a = replace(CACHE, keys=keys, stages=stages, engine=engine)
    text = attention_text(a)
    assert "block.scalar" in text
    assert ("wgmma.mma_async" in compile_mlir(text, chip).ptx()) == (engine == "warpgroup")
    q, k, v = inputs_of(a)
    for place in POSITIONS:
        position = np.array(place)
        (out,) = run(text, chip, q, k, v, position).outputs
        with np.errstate(invalid="ignore"):
            want = attended(a, q, k, v, position)
        np.testing.assert_allclose(out.astype(np.float64), want, rtol=0, atol=5e-3)


@pytest.mark.parametrize(("chip", "engine"), ENGINES)
def test_deferred_products_and_turns(chip: str, engine: str) -> None:
    """Two groups of warps, products of the previous step, one step and several."""
    a = replace(CACHE, rows=128, tile=(128, 64), warps=8, engine=engine, stages=3, heads=2)
    text = attention_text(a)
    q, k, v = inputs_of(a)
    for place in ((0, 64), (130, 255)):
        position = np.array(place)
        (out,) = run(text, chip, q, k, v, position).outputs
        np.testing.assert_allclose(
            out.astype(np.float64), attended(a, q, k, v, position), rtol=0, atol=5e-3
        )


@pytest.mark.parametrize(("chip", "engine"), some_of(ENGINES, every=3))
def test_the_trip_count_depends_on_the_position(chip: str, engine: str) -> None:
    a = replace(CACHE, engine=engine, heads=1)
    text = attention_text(a)
    q, k, v = inputs_of(a)

    def products(position: int) -> int:
        return run(text, chip, q, k, v, np.array([position])).counters[0].tensor_core_ops

    steps = [products(n) for n in (-7, 0, 63, 64, 200, 255, 1 << 40)]
    one, two, four = steps[0], steps[3], steps[-1]
    assert steps == [one, one, one, two, four, four, four]
    assert 0 < one < two < four


@pytest.mark.parametrize(("chip", "engine"), ENGINES)
def test_keys_that_nobody_may_see_may_hold_anything(chip: str, engine: str) -> None:
    """Keys beyond the position in tiles that are left out are not read: NaN there gives the same
    result as any number. (The program itself would give NaN: 0 times NaN.)"""
    a = replace(CACHE, engine=engine)
    text = attention_text(a)
    q, k, v = inputs_of(a)
    position = np.array([63, 100, 127])
    want = run(text, chip, q, k, v, position).outputs[0]
    k[:, 128:], v[:, 128:] = np.nan, np.inf
    got = run(text, chip, q, k, v, position).outputs[0]
    np.testing.assert_array_equal(got, want)
    k[:, 64:], v[:, 64:] = np.nan, np.inf
    got = run(text, chip, q, k, v, position).outputs[0]
    np.testing.assert_array_equal(got[0], want[0])
    assert np.isnan(got[1:]).all()  # a tile that is partly visible is computed as in the program
    (meaning,) = evaluate_floats(graph_from_text(a.text()).graph, [q, k, v, position])
    assert np.isnan(meaning).all()


def moved(x: StepNumber, by: int) -> StepNumber:
    return replace(x, constant=x.constant + by)


@pytest.mark.parametrize("chip", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("upper", [False, True])
def test_bounds_that_are_off_by_one_are_noticed(chip: str, upper: bool) -> None:
    case = ReadLoop(between, read=2)
    graph = skip_steps(case.graph())
    (launch,) = launches(graph.ops)

    def broken(op: Loop) -> Loop:
        assert op.steps is not None
        first, end = op.steps.first, op.steps.end
        steps = (first, moved(end, -1)) if upper else (moved(first, 1), end)
        return replace(op, steps=Steps(*steps, op.steps.readings))

    ops = tuple(broken(op) if isinstance(op, Loop) else op for op in launch.body.ops)
    body = BlockGraph(launch.body.params, ops, launch.body.outputs)
    wrong = compiled(replace(graph, ops=(replace(launch, body=body),)), chip)
    x = scores(case)
    # the first visible key is the last one of a tile, the last one the first of another
    read = [np.array([[14], [22]]), np.array([[25], [33]])]
    want = expected(case, x, read)
    right = run(compiled(graph, chip), chip, x, *read).outputs
    np.testing.assert_allclose(total(case, *right), want, rtol=1e-4)
    found = run(wrong, chip, x, *read).outputs
    assert np.all(np.abs(total(case, *found) / want - 1) > 2e-3)
