"""Programs with positions: proofs, and faults in positions that must not pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from mirage.cost.target import target_for
from mirage.pipeline.search import search_part
from mirage.search import SearchLimits
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluate import evaluate_floats
from mirage.semantics.lookups import loaded
from mirage.semantics.positions import Gather, Iota, Lookup, TileGather, TileIota, gather, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import rename_graph
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
    TensorType,
    Value,
    launches,
    loops,
)
from mirage.transforms.lookups import fused
from mirage.transforms.partition import Part, partition
from mirage.transforms.skip_steps import skip_steps
from mirage.verify import Kind, VerifyOptions, verify

N, D = 16, 8
OPTIONS = VerifyOptions(seed=5, numerics=False)


def value(*shape: int, dtype: DType = DType.F16) -> Value:
    return Value(TensorType(shape, dtype))


Mask = Callable[[Builder, Value, Value], Value]
"""Of a builder, the positions of rows (a column) and of columns (a row)."""


def attention(mask: Mask, n: int = N, heads: int = 2) -> KernelGraph:
    """Attention under a mask made of positions."""
    q, k, v = (value(heads, n, D) for _ in range(3))
    b = Builder()
    i = iota(b, (n,), 0)
    rows, cols = b.reshape(i, (n, 1)), b.reshape(i, (1, n))
    scores = b.matmul(q, b.transpose(k, (0, 2, 1)))
    scores = b.binary(BinaryFn.MUL, scores, b.constant(D**-0.5, DType.F16))
    bias = b.unary(UnaryFn.BIAS, b.cast(mask(b, rows, cols), DType.F16))
    y = b.matmul(b.softmax(b.binary(BinaryFn.ADD, scores, bias), 2), v)
    g = KernelGraph("attention", (q, k, v), tuple(b.ops), (y,))
    check_graph(g)
    return g


def number(b: Builder, n: int) -> Value:
    return b.constant(n, DType.F32 if b.in_block else DType.I64)


def causal(b: Builder, rows: Value, cols: Value) -> Value:
    return b.binary(BinaryFn.LE, cols, rows)


def window(size: int, shift: int = 0) -> Mask:
    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        moved = b.binary(BinaryFn.ADD, rows, number(b, shift)) if shift else rows
        near = b.binary(BinaryFn.LT, b.binary(BinaryFn.SUB, moved, cols), number(b, size))
        return b.binary(BinaryFn.AND, causal(b, rows, cols), near)

    return mask


def blocks(size: int) -> Mask:
    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        r, c = (b.binary(BinaryFn.FLOOR_DIV, x, number(b, size)) for x in (rows, cols))
        return b.binary(BinaryFn.EQ, r, c)

    return mask


def prefix(length: int) -> Mask:
    def mask(b: Builder, rows: Value, cols: Value) -> Value:
        inside = b.binary(BinaryFn.LT, cols, number(b, length))
        return b.binary(BinaryFn.OR, causal(b, rows, cols), inside)

    return mask


MASKS: dict[str, Mask] = {
    "causal": causal,
    "window": window(4),
    "blocks": blocks(4),
    "prefix": prefix(5),
}


@cache
def candidates(name: str) -> tuple[KernelGraph, ...]:
    """What the search finds for attention under a mask, with positions found in its kernels."""
    reference = attention(MASKS[name])
    (part,) = (s.graph for s in partition(reference) if isinstance(s, Part))
    _, result = search_part(part, target_for("h200"), SearchLimits(budget=20))
    found: list[KernelGraph] = []
    for candidate in result.candidates[:2]:
        names = dict(zip(candidate.graph.inputs, part.inputs, strict=True))
        graph = rename_graph(candidate.graph, names)
        lookups = tuple(op for op in reference.ops if isinstance(op, Lookup))
        whole = KernelGraph("c", reference.inputs, (*lookups, *graph.ops), graph.outputs)
        found.append(fused(whole))
    return tuple(found)


@pytest.mark.parametrize("name", list(MASKS))
def test_candidates_are_proved(name: str) -> None:
    for candidate in candidates(name):
        assert not any(isinstance(op, Iota) for op in candidate.ops)
        verdict = verify(attention(MASKS[name]), candidate, OPTIONS)
        assert verdict.kind is Kind.PROVED, verdict


def _strict(b: Builder, rows: Value, cols: Value) -> Value:
    return b.binary(BinaryFn.LT, cols, rows)


def _later(b: Builder, rows: Value, cols: Value) -> Value:
    return b.binary(BinaryFn.LE, rows, cols)


def _shifted(by: int) -> Mask:
    return lambda b, rows, cols: b.binary(
        BinaryFn.LE, cols, b.binary(BinaryFn.ADD, rows, number(b, by))
    )


def _near(b: Builder, rows: Value, cols: Value) -> Value:
    return b.binary(BinaryFn.LT, b.binary(BinaryFn.SUB, rows, cols), number(b, 4))


def _either(b: Builder, rows: Value, cols: Value) -> Value:
    return b.binary(BinaryFn.OR, causal(b, rows, cols), _near(b, rows, cols))


def _what_is_left(b: Builder, rows: Value, cols: Value) -> Value:
    r, c = (b.binary(BinaryFn.REMAINDER, x, number(b, 4)) for x in (rows, cols))
    return b.binary(BinaryFn.EQ, r, c)


def _prefix_of_rows(b: Builder, rows: Value, cols: Value) -> Value:
    inside = b.binary(BinaryFn.LT, rows, number(b, 5))
    return b.binary(BinaryFn.OR, causal(b, rows, cols), inside)


FAULTS: dict[str, tuple[str, Mask]] = {
    "< for <=": ("causal", _strict),
    "swapped": ("causal", _later),
    "one more": ("causal", _shifted(1)),
    "one less": ("causal", _shifted(-1)),
    "only the corner": ("causal", _shifted(N - 2)),
    "window one longer": ("window", window(5)),
    "window one shorter": ("window", window(3)),
    "window shifted": ("window", window(4, 1)),
    "without the window": ("window", causal),
    "without the triangle": ("window", _near),
    "or for and": ("window", _either),
    "blocks one longer": ("blocks", blocks(5)),
    "blocks by what is left": ("blocks", _what_is_left),
    "prefix one longer": ("prefix", prefix(6)),
    "prefix of rows": ("prefix", _prefix_of_rows),
}


@pytest.mark.parametrize("fault", list(FAULTS))
def test_faults_of_masks_are_refuted(fault: str) -> None:
    name, mask = FAULTS[fault]
    for candidate in candidates(name):
        verdict = verify(attention(mask), candidate, OPTIONS)
        assert verdict.kind is Kind.REFUTED, (fault, verdict)
        assert verdict.witness is not None


def test_what_holds_for_these_positions_only_is_not_refuted() -> None:
    """A window as long as the sequence: equal, which needs the order of positions."""
    for candidate in candidates("causal"):
        verdict = verify(attention(window(N)), candidate, OPTIONS)
        assert verdict.kind is Kind.UNKNOWN, verdict
        assert "positions as they are" in verdict.evidence[-1].name


# ---- launches by hand


def masked(dim: int = 0, axes: tuple[str, ...] = ("m",), extent: int = 12) -> KernelGraph:
    """``keep(position of the row < 5, x)`` in two blocks."""
    x, param = value(12, 4, dtype=DType.F32), value(12, 4, dtype=DType.F32)
    b = Builder(in_block=True)
    tile = b.load(param, (("m",), ()), (6, 4))
    size = (6, 1) if dim == 0 else (1, 4)
    position = TileIota((), (value(*size, dtype=DType.F32),), dim, axes, extent)
    b.ops.append(position)
    keep = b.binary(BinaryFn.LT, position.result, b.constant(5.0))
    y = b.binary(BinaryFn.KEEP, keep, tile)
    body = BlockGraph((param,), tuple(b.ops), (Output(y, (("m",), ())),))
    out = value(12, 4, dtype=DType.F32)
    g = KernelGraph("g", (x,), (Launch((x,), (out,), (Axis("m", 2),), body),), (out,))
    check_graph(g)
    return g


def masked_reference() -> KernelGraph:
    x, b = value(12, 4, dtype=DType.F32), Builder()
    rows = b.reshape(iota(b, (12,), 0), (12, 1))
    y = b.binary(BinaryFn.KEEP, b.binary(BinaryFn.LT, rows, number(b, 5)), x)
    return KernelGraph("g", (x,), tuple(b.ops), (y,))


def test_positions_by_hand() -> None:
    # rank 2 in the kernel, rank 1 in the program: other inputs, so not shown, but not refuted
    assert verify(masked_reference(), masked(), OPTIONS).kind in (Kind.PROVED, Kind.UNKNOWN)


@pytest.mark.parametrize(
    "wrong",
    [masked(axes=(), extent=6), masked(dim=1, axes=(), extent=4), masked(extent=7)],
    ids=["not the block's own", "wrong axis", "ends too early"],
)
def test_faults_of_launches_are_refuted(wrong: KernelGraph) -> None:
    assert verify(masked_reference(), wrong, OPTIONS).kind is Kind.REFUTED


# ---- rows by index


def embedding_norm() -> KernelGraph:
    table, ids = value(9, D, dtype=DType.F32), value(6, dtype=DType.I64)
    b = Builder()
    y = b.rms_norm(gather(b, table, ids))
    return KernelGraph("g", (table, ids), tuple(b.ops), (y,))


def gathered_kernel(
    fn: UnaryFn = UnaryFn.RSQRT, map_: tuple[tuple[str, ...], ...] = (("m",), ())
) -> KernelGraph:
    """The same in one kernel that finds its rows."""
    table, ids = value(9, D, dtype=DType.F32), value(6, dtype=DType.I64)
    params = (value(9, D, dtype=DType.F32), value(6, dtype=DType.I64))
    b = Builder(in_block=True)
    tile = TileGather(params, (value(3, D, dtype=DType.F32),), map_)
    b.ops.append(tile)
    squares = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, tile.result), (1,))
    mean = b.binary(BinaryFn.MUL, squares, b.constant(1 / D))
    y = b.binary(
        BinaryFn.MUL, tile.result, b.unary(fn, b.binary(BinaryFn.ADD, mean, b.constant(1e-6)))
    )
    body = BlockGraph(params, tuple(b.ops), (Output(y, (("m",), ())),))
    out = value(6, D, dtype=DType.F32)
    launch = Launch((table, ids), (out,), (Axis("m", 2),), body)
    g = KernelGraph("g", (table, ids), (launch,), (out,))
    check_graph(g)
    return g


def test_rows_are_functions_of_table_and_indices() -> None:
    verdict = verify(embedding_norm(), gathered_kernel(), OPTIONS)
    assert verdict.kind is Kind.PROVED, verdict


def test_faults_of_what_follows_rows_are_refuted() -> None:
    assert verify(embedding_norm(), gathered_kernel(UnaryFn.SQRT), OPTIONS).kind is Kind.REFUTED


def test_other_rows_are_not_the_same() -> None:
    """Indices plus one, or the rows of another table."""
    reference = embedding_norm()
    table, ids = value(9, D, dtype=DType.F32), value(6, dtype=DType.I64)
    b = Builder()
    moved = b.binary(BinaryFn.ADD, ids, number(b, 1))
    y = b.rms_norm(gather(b, table, moved))
    wrong = KernelGraph("g", (table, ids), tuple(b.ops), (y,))
    assert not verify(reference, wrong, OPTIONS).equivalent
    b = Builder()
    y = b.rms_norm(gather(b, b.unary(UnaryFn.NEG, table), ids))
    wrong = KernelGraph("g", (table, ids), tuple(b.ops), (y,))
    assert not verify(reference, wrong, OPTIONS).equivalent


def test_a_program_without_the_rows_is_unknown() -> None:
    table, ids, b = value(9, D, dtype=DType.F32), value(6, dtype=DType.I64), Builder()
    y = b.rms_norm(b.slice(table, (0, 0), (6, D)))
    other = KernelGraph("g", (table, ids), tuple(b.ops), (y,))
    assert verify(embedding_norm(), other, OPTIONS).kind is Kind.UNKNOWN


def test_gathers_of_the_same_rows_are_one() -> None:
    table, ids, b = value(9, D, dtype=DType.F32), value(6, dtype=DType.I64), Builder()
    x = gather(b, table, ids)
    again = Gather((table, ids), (Value(x.type),))
    b.ops.append(again)
    y = b.binary(BinaryFn.SUB, x, again.result)
    doubled = KernelGraph("g", (table, ids), tuple(b.ops), (y,))
    b = Builder()
    x = gather(b, table, ids)
    zero = b.binary(BinaryFn.SUB, x, x)
    assert verify(
        KernelGraph("g", (table, ids), tuple(b.ops), (zero,)), doubled, OPTIONS
    ).equivalent


# ---- loops that leave out steps

TILE = (8, 4)
"""Rows of a block, keys of a step."""


def looped(mask: Mask, n: int = 24, split: int = 1) -> KernelGraph:
    """Sums of exponentials of scores under a mask, in blocks and steps, with a running maximum.
    With ``split`` the grid cuts the keys too, and stores maxima and sums of parts."""
    rows, keys = TILE
    x, param = value(n, n, dtype=DType.F32), value(n, n, dtype=DType.F32)
    parts = -(-n // keys)
    assert parts % split == 0
    outer = ("s",) if split > 1 else ()
    b = Builder(in_block=True)
    row = TileIota((), (value(rows, 1, dtype=DType.F32),), 0, ("m",), n)
    b.ops.append(row)
    step = Builder(in_block=True)
    tile = step.load(param, (("m",), (*outer, "k")), TILE)
    col = TileIota((), (value(1, keys, dtype=DType.F32),), 1, (*outer, "k"), n)
    step.ops.append(col)
    bias = step.unary(UnaryFn.BIAS, mask(step, row.result, col.result))
    scores = step.binary(BinaryFn.ADD, tile, bias)
    if n % keys:
        scores = step.mask(scores, 1, (*outer, "k"), n, -np.inf)
    most = step.reduce(ReduceFn.MAX, scores, (1,))
    m = step.running_max(step.binary(BinaryFn.MAX, most, step.constant(-1e30)))
    e = step.unary(UnaryFn.EXP, step.binary(BinaryFn.SUB, scores, m))
    total = step.reduce(ReduceFn.SUM, e, (1,))
    accumulators = (
        Accumulator(AccumulateFn.SUM, total, m),
        Accumulator(AccumulateFn.LAST, m),
    )
    sums, maxima = b.loop(Axis("k", parts // split), tuple(step.ops), accumulators)
    grid = (Axis("m", -(-n // rows)), *((Axis("s", split),) if split > 1 else ()))
    tile_map = (("m",), outer)
    body = BlockGraph((param,), tuple(b.ops), (Output(sums, tile_map), Output(maxima, tile_map)))
    out = tuple(value(n, split, dtype=DType.F32) for _ in range(2))
    g = KernelGraph("g", (x,), (Launch((x,), out, grid, body),), out)
    check_graph(g)
    return g


STEPPED: dict[str, tuple[Mask, int, int]] = {
    "causal": (causal, 24, 1),
    "causal, a tail": (causal, 22, 1),
    "causal, keys split": (causal, 24, 2),
    "window": (window(5), 24, 1),
    "window, keys split": (window(5), 24, 3),
    "blocks": (blocks(8), 24, 1),
}


def loop_of(graph: KernelGraph) -> Loop:
    (launch,) = launches(graph.ops)
    (loop,) = loops(launch)
    return loop


def with_steps(graph: KernelGraph, steps: Steps | None) -> KernelGraph:
    (launch,) = launches(graph.ops)
    ops = tuple(replace(op, steps=steps) if isinstance(op, Loop) else op for op in launch.body.ops)
    body = BlockGraph(launch.body.params, ops, launch.body.outputs)
    return replace(graph, ops=(replace(launch, body=body),))


@pytest.mark.parametrize("name", list(STEPPED))
def test_steps_left_out_are_shown_to_contribute_nothing(name: str) -> None:
    mask, n, split = STEPPED[name]
    whole = looped(mask, n, split)
    graph = skip_steps(whole)
    assert loop_of(graph).steps is not None
    verdict = verify(whole, graph, OPTIONS)
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.evidence[-1].name == "steps left out"
    assert "on 0 random inputs" not in verdict.evidence[-1].text


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


@pytest.mark.parametrize("name", list(STEPPED))
def test_faults_of_steps_are_refuted(name: str) -> None:
    """Each fault that leaves out what contributes is refuted; others are proved."""
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
    """No mask, one of the scores themselves, one of positions that are an input, and sums that a
    mask does not reach."""

    def nothing(b: Builder, rows: Value, cols: Value) -> Value:
        return b.binary(BinaryFn.LE, b.constant(0.0), b.binary(BinaryFn.ADD, rows, cols))

    def every_other(b: Builder, rows: Value, cols: Value) -> Value:
        return b.binary(BinaryFn.EQ, b.binary(BinaryFn.REMAINDER, cols, b.constant(2.0)), rows)

    for mask in (nothing, every_other):
        assert loop_of(skip_steps(looped(mask))).steps is None


def test_steps_without_a_reason_are_refuted() -> None:
    """The steps of one mask under another one."""
    steps = loop_of(skip_steps(looped(causal))).steps
    assert steps is not None
    for mask in (prefix(13), _later, _shifted(1)):
        whole = looped(mask)
        verdict = verify(whole, with_steps(whole, steps), OPTIONS)
        assert verdict.kind is Kind.REFUTED, verdict


def test_inputs_that_are_no_positions_leave_out_nothing() -> None:
    """The same kernels of numbers that a caller passes: no step is known to be idle, and what
    leaves out steps all the same is not equal."""
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


# ---- what a mask does not reach


def kept_sums(
    also: Callable[[Builder, Value], Accumulator | None],
    n: int = 24,
    bound: Callable[[Builder, Value], Value] | None = None,
) -> KernelGraph:
    """For each row the sum of what a causal mask (or one by ``bound``, of the rows) keeps, and
    what ``also`` accumulates of the tiles. Columns beyond the end are not masked."""
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
