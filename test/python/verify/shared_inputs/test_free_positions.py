"""Programs with positions: proofs, and faults in positions that must not pass."""

from __future__ import annotations

import random

import pytest
from example_programs.position_masks import (
    Mask,
    blocks,
    causal,
    later,
    moved,
    number,
    prefix,
    value,
    window,
)
from example_programs.position_programs import MASKS, D, N, attention, candidates
from example_programs.stepped_loops import STEPPED, looped
from faults.program_mutants import mutants
from faults.roundings import rounding_faults
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.positions import Gather, Iota, TileGather, TileIota, gather, iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Axis,
    BlockGraph,
    KernelGraph,
    Launch,
    Output,
    Value,
)
from mirage.transforms.steps.skip_steps import skip_steps
from mirage.verify import Kind, VerifyOptions, verify
from thorough import some_of

OPTIONS = VerifyOptions(seed=5, numerics=False)


@pytest.mark.parametrize("name", some_of(list(MASKS), every=2))
def test_candidates_are_proved(name: str) -> None:
    for candidate in candidates(name):
        assert not any(isinstance(op, Iota) for op in candidate.ops)
        verdict = verify(attention(MASKS[name]), candidate, OPTIONS)
        assert verdict.kind is Kind.PROVED, verdict


def _strict(b: Builder, rows: Value, cols: Value) -> Value:
    return b.binary(BinaryFn.LT, cols, rows)


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
    "swapped": ("causal", later),
    "one more": ("causal", moved(1)),
    "one less": ("causal", moved(-1)),
    "only the corner": ("causal", moved(N - 2)),
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


@pytest.mark.parametrize("fault", some_of(list(FAULTS), every=3))
def test_faults_of_masks_are_refuted(fault: str) -> None:
    name, mask = FAULTS[fault]
    for candidate in candidates(name):
        verdict = verify(attention(mask), candidate, OPTIONS)
        assert verdict.kind is Kind.REFUTED, (fault, verdict)
        assert verdict.witness is not None


def test_what_holds_for_these_positions_only_is_proved_for_them() -> None:
    """A window as long as the sequence: equal, which needs the order of positions."""
    for candidate in candidates("causal"):
        verdict = verify(attention(window(N)), candidate, OPTIONS)
        assert verdict.kind is Kind.PROVED, verdict
        assert verdict.holds_for is None


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


def test_rounding_errors_count_under_masks_of_positions() -> None:
    """Errors that are too large on some inputs are measured again at neighbouring inputs; positions
    do not change, since otherwise the masks of the reference would differ between arithmetics."""
    for name in ("causal", "window, keys split"):
        mask, n, split = STEPPED[name]
        whole = looped(mask, n, split)
        rough = [
            m.graph
            for m in mutants(whole, random.Random(0), 60, rounding_faults)
            if m.description.startswith("operand 0 of exp in ")
        ]
        verdict = verify(whole, rough[0], VerifyOptions(seed=5))
        assert verdict.kind is Kind.PROVED, verdict
        assert not verdict.accepted, verdict
        assert verify(whole, skip_steps(whole), VerifyOptions(seed=5)).accepted


# ---- rows by index


def embedding_norm() -> KernelGraph:
    table, ids = value(9, D, dtype=DType.F32), value(6, dtype=DType.I64)
    b = Builder()
    y = b.rms_norm(gather(b, table, ids))
    return KernelGraph("g", (table, ids), tuple(b.ops), (y,))


def gathered_kernel(
    fn: UnaryFn = UnaryFn.RSQRT, map_: tuple[tuple[str, ...], ...] = (("m",), ())
) -> KernelGraph:
    """The same program in one kernel that finds its rows."""
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


def test_a_program_without_the_rows_is_refuted() -> None:
    """It differs where indices name others than the first rows."""
    table, ids, b = value(9, D, dtype=DType.F32), value(6, dtype=DType.I64), Builder()
    y = b.rms_norm(b.slice(table, (0, 0), (6, D)))
    other = KernelGraph("g", (table, ids), tuple(b.ops), (y,))
    assert verify(embedding_norm(), other, OPTIONS).kind is Kind.REFUTED


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
