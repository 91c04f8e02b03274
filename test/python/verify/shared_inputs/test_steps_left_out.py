"""Loops that leave out steps: proofs, and faults that must not pass."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from example_programs.position_masks import Mask, causal, later, moved, prefix, value
from example_programs.stepped_loops import STEPPED, TILE, loop_of, looped, with_steps
from faults.equal_variants import equal_variants
from faults.program_mutants import mutants
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.evaluation.tile_lookups import loaded
from mirage.semantics.positions import Iota, TileIota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import (
    AccumulateFn,
    Accumulator,
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Loop,
    Output,
    StepNumber,
    Steps,
    Value,
    launches,
    loops,
)
from mirage.transforms.steps.skip_steps import skip_steps
from mirage.verify import Kind, VerifyOptions, verify
from thorough import some_of

OPTIONS = VerifyOptions(seed=5, numerics=False)


@pytest.mark.parametrize("name", some_of(list(STEPPED), every=3))
def test_steps_left_out_are_shown_to_contribute_nothing(name: str) -> None:
    mask, n, split = STEPPED[name]
    whole = looped(mask, n, split)
    graph = skip_steps(whole)
    assert loop_of(graph).steps is not None
    verdict = verify(whole, graph, OPTIONS)
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.evidence[-1].name == "steps left out"
    assert "on 0 random inputs" not in verdict.evidence[-1].text


class Doubled(random.Random):
    """Chooses the variant that is doubled and halved."""

    def choice(self, seq: Any) -> Any:
        name = "doubled and halved"
        return name if name in seq else super().choice(seq)


@pytest.mark.parametrize("site", some_of([1, 4, 8], 1))
def test_steps_left_out_are_shown_with_a_value_that_is_doubled_and_halved(site: int) -> None:
    whole = looped(*STEPPED["blocks of two tiles"])
    graph = skip_steps(whole)
    variants = [f for f in equal_variants(graph, Doubled(0)) if f.kind == "there and back"]
    (mutant,) = mutants(graph, Doubled(0), 1, lambda *_: iter([variants[site]]))
    assert verify(whole, mutant.graph, OPTIONS).kind is Kind.PROVED


def shifted(x: StepNumber, by: int) -> StepNumber:
    return replace(x, constant=x.constant + by * x.divisor)


def wrong_steps(right: Steps) -> Iterator[tuple[str, Steps]]:
    first, end = right.first, right.end
    yield "one fewer at the end", Steps(first, shifted(end, -1))
    yield "one fewer at the start", Steps(shifted(first, 1), end)
    yield "shifted", Steps(shifted(first, 1), shifted(end, 1))
    yield "shifted back", Steps(shifted(first, -1), shifted(end, -1))
    yield "of other tiles", Steps(first, replace(end, divisor=2 * end.divisor))
    yield "of other tiles at the start", Steps(replace(first, divisor=3 * first.divisor), end)
    yield "for no block but the first", Steps(first, replace(end, terms=()))
    yield "first for last", Steps(end, first)
    for by in (-TILE[0], -1, 1, TILE[0]):
        yield f"groups that begin {by} rows later", Steps(_regrouped(first, by), end)
        yield f"groups that end {by} rows later", Steps(first, _regrouped(end, by))


def _regrouped(x: StepNumber, by: int) -> StepNumber:
    """With groups of rows that begin elsewhere."""
    quotients = tuple((replace(q, constant=q.constant + by), n) for q, n in x.quotients)
    return replace(x, quotients=quotients)


def _divided(fn: BinaryFn, size: int, ahead: int = 0) -> Mask:
    """Compare the blocks of keys with those of rows that are ``ahead``."""

    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        moved = b.binary(BinaryFn.ADD, rows, b.constant(ahead)) if ahead else rows
        r, c = (b.binary(BinaryFn.FLOOR_DIV, x, b.constant(size)) for x in (moved, cols))
        return b.binary(fn, c, r)

    return mask


@pytest.mark.parametrize("ahead", [-1, 1])
@pytest.mark.parametrize("size", some_of([15, 16, 17], every=4))
@pytest.mark.parametrize("fn", [BinaryFn.EQ, BinaryFn.LE, BinaryFn.LT])
def test_other_blocks_are_refuted(fn: BinaryFn, size: int, ahead: int) -> None:
    """Off by one, or ``<`` for ``<=``: each with the steps of its own mask."""
    for right in (BinaryFn.EQ, BinaryFn.LE):
        whole = looped(_divided(right, 16), 48)
        wrong = skip_steps(
            looped(_divided(fn, size, 0 if (fn, size) != (right, 16) else ahead), 48)
        )
        assert verify(whole, wrong, OPTIONS).kind is Kind.REFUTED


@pytest.mark.parametrize("name", some_of(STEPPED, 12))
def test_faults_of_steps_are_refuted(name: str) -> None:
    """Each fault that leaves out contributing steps is refuted; others are proved."""
    mask, n, split = STEPPED[name]
    whole = looped(mask, n, split)
    right = loop_of(skip_steps(whole)).steps
    assert right is not None
    refuted = 0
    for fault, steps in wrong_steps(right):
        wrong = with_steps(whole, steps)
        verdict = verify(whole, wrong, OPTIONS)
        same = _computes_the_same(whole, wrong)
        assert verdict.kind is (Kind.PROVED if same else Kind.REFUTED), (fault, verdict)
        refuted += not same
    assert refuted >= 3


def _computes_the_same(first: KernelGraph, second: KernelGraph) -> bool:
    x = np.random.default_rng(1).standard_normal(first.inputs[0].shape)
    results = [evaluate_floats(g, [x]) for g in (first, second)]
    return all(np.allclose(a, b, rtol=1e-9) for a, b in zip(*results, strict=True))


def test_steps_that_a_mask_does_not_empty_are_not_left_out() -> None:
    """No mask, a mask from the scores themselves, one from positions that are an input, and sums
    that a mask does not reach."""

    def nothing(b: Builder, rows: Value, cols: Value) -> Value:
        return b.binary(BinaryFn.LE, b.constant(0.0), b.binary(BinaryFn.ADD, rows, cols))

    def every_other(b: Builder, rows: Value, cols: Value) -> Value:
        return b.binary(BinaryFn.EQ, b.binary(BinaryFn.REMAINDER, cols, b.constant(2.0)), rows)

    for mask in (nothing, every_other):
        assert loop_of(skip_steps(looped(mask))).steps is None


def test_steps_without_a_reason_are_refuted() -> None:
    """The steps of one mask with another mask."""
    steps = loop_of(skip_steps(looped(causal))).steps
    assert steps is not None
    for mask in (prefix(13), later, moved(1)):
        whole = looped(mask)
        verdict = verify(whole, with_steps(whole, steps), OPTIONS)
        assert verdict.kind is Kind.REFUTED, verdict


def test_inputs_that_are_no_positions_leave_out_nothing() -> None:
    """The same kernels with numbers that a caller passes: no step is known to be idle, and a kernel
    that leaves out steps nevertheless is not equal."""
    free: list[KernelGraph] = []
    for graph in (looped(causal), skip_steps(looped(causal))):
        g = loaded(graph)
        made = tuple(op.result for op in g.ops if isinstance(op, Iota))
        ops = tuple(op for op in g.ops if not isinstance(op, Iota))
        free.append(replace(g, inputs=(*g.inputs, *made), ops=ops))
        check_graph(free[-1])
    whole, wrong = free
    assert loop_of(skip_steps(whole)).steps is None
    assert loop_of(wrong).steps is not None
    verdict = verify(whole, wrong, OPTIONS)
    assert verdict.kind in (Kind.REFUTED, Kind.UNKNOWN), verdict


# ---- values that a mask does not reach


def kept_sums(
    also: Callable[[Builder, Value], Accumulator | None],
    n: int = 24,
    bound: Callable[[Builder, Value], Value] | None = None,
) -> KernelGraph:
    """For each row the sum of the elements that a causal mask (or one by ``bound``, of the rows)
    keeps, and the values that ``also`` accumulates from the tiles. Columns beyond the end are not
    masked."""
    rows, keys = TILE
    x, param = value(n, n, dtype=DType.F32), value(n, n, dtype=DType.F32)
    b, step = Builder(in_block=True), Builder(in_block=True)
    row = TileIota((), (value(rows, 1, dtype=DType.F32),), 0, ("m",), n)
    col = TileIota((), (value(1, keys, dtype=DType.F32),), 1, ("k",), n)
    b.ops.append(row)
    limit = row.result if bound is None else bound(b, row.result)
    tile = step.load(param, (("m",), ("k",)), TILE)
    step.ops.append(col)
    seen = step.binary(BinaryFn.LE, col.result, limit)
    kept = step.binary(BinaryFn.KEEP, seen, step.binary(BinaryFn.ADD, tile, step.constant(1.0)))
    sums = Accumulator(AccumulateFn.SUM, step.reduce(ReduceFn.SUM, kept, (1,)))
    more = also(step, tile)
    accumulators = (sums,) if more is None else (sums, more)
    results = b.loop(Axis("k", -(-n // keys)), tuple(step.ops), accumulators)
    body = BlockGraph((param,), tuple(b.ops), tuple(Output(r, (("m",), ())) for r in results))
    out = tuple(value(n, r.shape[1], dtype=DType.F32) for r in results)
    g = KernelGraph("g", (x,), (Launch((x,), out, (Axis("m", -(-n // rows)),), body),), out)
    check_graph(g)
    return g


def nothing_else(b: Builder, tile: Value) -> None:
    return None


def accumulated(fn: AccumulateFn) -> Callable[[Builder, Value], Accumulator]:
    reduced = ReduceFn.SUM if fn is AccumulateFn.SUM else ReduceFn.MAX
    return lambda b, tile: Accumulator(fn, b.reduce(reduced, tile, (1,)))


def running(b: Builder, tile: Value) -> Accumulator:
    m = b.running_max(b.reduce(ReduceFn.MAX, tile, (1,)))
    return Accumulator(AccumulateFn.LAST, m)


def summed(b: Builder, rows: Value) -> Value:
    """Five, as a loop's sum of ones: more than each of them."""
    step = Builder(in_block=True)
    one = step.constant(1.0)
    ones = step.binary(BinaryFn.MAX, one, one)
    (total,) = b.loop(Axis("j", 5), tuple(step.ops), (Accumulator(AccumulateFn.SUM, ones),))
    return total


UNREACHED: dict[str, KernelGraph] = {
    "a sum": kept_sums(accumulated(AccumulateFn.SUM)),
    "a maximum": kept_sums(accumulated(AccumulateFn.MAX)),
    "the last tile": kept_sums(accumulated(AccumulateFn.LAST)),
    "a running maximum": kept_sums(running),
    "columns beyond the end": kept_sums(nothing_else, n=22),
    "a bound that a loop has summed": kept_sums(nothing_else, bound=summed),
}


def main_loop(graph: KernelGraph) -> Loop:
    (launch,) = launches(graph.ops)
    (loop,) = (loop for loop in loops(launch) if loop.axis.name == "k")
    return loop


def test_what_the_mask_reaches_alone_leaves_out_steps() -> None:
    assert main_loop(skip_steps(kept_sums(nothing_else))).steps is not None


@pytest.mark.parametrize("name", list(UNREACHED))
def test_what_a_mask_does_not_reach_keeps_all_steps(name: str) -> None:
    whole = UNREACHED[name]
    assert main_loop(skip_steps(whole)).steps is None
    steps = Steps(StepNumber(()), StepNumber((("m", 2),), 2))
    if name == "a bound that a loop has summed":
        steps = Steps(StepNumber(()), StepNumber((), 1))
    (launch,) = launches(whole.ops)
    ops = tuple(
        replace(op, steps=steps) if op is main_loop(whole) else op for op in launch.body.ops
    )
    body = BlockGraph(launch.body.params, ops, launch.body.outputs)
    wrong = replace(whole, ops=(replace(launch, body=body),))
    assert not _computes_the_same(whole, wrong)
    verdict = verify(whole, wrong, OPTIONS)
    assert verdict.kind is Kind.REFUTED, verdict
