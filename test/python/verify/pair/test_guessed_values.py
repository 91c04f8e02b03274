"""Long programs without hints are shown by common values."""

from __future__ import annotations

import time

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, Verdict, VerifyOptions, verify
from mirage.verify.needed import needed
from mirage.verify.pair import examine, guessed_values
from mirage.verify.pair.guessed_values import guessed_hint, is_long

BLOCKS, WIDTH = 5, 12
OPTIONS = VerifyOptions(seed=2, numerics=False, work=2e5)
X = Value(TensorType((4, WIDTH), DType.F32), "x")
GAINS = [Value(TensorType((WIDTH,), DType.F32), f"g{i}") for i in range(BLOCKS)]
WEIGHTS = [Value(TensorType((WIDTH, WIDTH), DType.F32), f"w{i}") for i in range(BLOCKS)]


def stack(*, late: bool, eps: float = 1e-5, wrong: int | None = None) -> KernelGraph:
    """Norms and products one after the other; ``late`` puts each norm after its product. The block
    ``wrong`` has the gain of another one."""
    b = Builder()
    x = X
    for i, (g, w) in enumerate(zip(GAINS, WEIGHTS, strict=True)):
        gain = GAINS[0] if i == wrong else g
        squares = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.SQUARE, x), (1,))
        mean = b.binary(BinaryFn.MUL, squares, b.constant(1.0 / WIDTH))
        root = b.unary(UnaryFn.RSQRT, b.binary(BinaryFn.ADD, mean, b.constant(eps)))
        scaled = b.binary(BinaryFn.MUL, x, gain)
        if late:
            y = b.binary(BinaryFn.MUL, b.matmul(scaled, w), root)
        else:
            y = b.matmul(b.binary(BinaryFn.MUL, scaled, root), w)
        x = b.binary(BinaryFn.ADD, x, b.unary(UnaryFn.SILU, y))
    return KernelGraph("stack", (X, *GAINS, *WEIGHTS), tuple(b.ops), (x,))


def evidence(verdict: Verdict, name: str) -> str:
    return next((e.text for e in verdict.evidence if e.name == name), "")


def test_long_programs_are_shown_by_parts() -> None:
    one, other = stack(late=False), stack(late=True)
    assert is_long(one)
    start = time.perf_counter()
    verdict = verify(one, other, OPTIONS)
    assert verdict.kind is Kind.PROVED, verdict
    assert "all proved" in evidence(verdict, "kernel by kernel")
    assert time.perf_counter() - start < 20.0


def test_values_are_found_by_their_numbers() -> None:
    hint = guessed_hint(stack(late=False), stack(late=True), {}, 0)
    assert hint is not None
    assert len(hint.stored) >= 5 * BLOCKS
    assert all(p.type.size == c.type.size for p, c in hint.stored)


def test_few_elements_of_large_values_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Common values of both programs, and views of them."""
    every = guessed_hint(stack(late=False), stack(late=True), {}, 0)
    monkeypatch.setattr(guessed_values, "_COMPARED", 7)
    monkeypatch.setattr(guessed_values, "_DRAWN", 101)  # fewer than a weight has
    few = guessed_hint(stack(late=False), stack(late=True), {}, 0)
    assert every is not None
    assert few is not None
    kinds = [[(p.type, c.type) for p, c in hint.stored] for hint in (every, few)]
    assert kinds[0] == kinds[1]


@pytest.mark.parametrize("wrong", range(1, BLOCKS))
def test_a_fault_in_one_part_is_seen(wrong: int) -> None:
    verdict = verify(stack(late=False), stack(late=True, wrong=wrong), OPTIONS)
    assert verdict.kind is Kind.REFUTED, verdict


def two_softmaxes(*, written: bool, rounded: bool = False) -> KernelGraph:
    """Exponentials of exponentials, which fields do not support."""
    b = Builder()
    x = X
    for i, w in enumerate(WEIGHTS[:2]):
        w = b.cast(b.cast(w, DType.F16), DType.F32) if rounded and i else w
        x = b.matmul(x, w)
        if not written:
            x = b.softmax(x, 1)
            continue
        e = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, x, b.reduce(ReduceFn.MAX, x, (1,))))
        x = b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,)))
    return KernelGraph("softmaxes", (X, *WEIGHTS[:2]), tuple(b.ops), (x,))


def test_short_programs_that_are_unknown_are_tried_by_parts() -> None:
    one, other = two_softmaxes(written=False), two_softmaxes(written=True)
    assert not is_long(one)
    verdict = verify(one, other, VerifyOptions(seed=2))
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.defined
    assert verdict.numerics_hold


@pytest.mark.parametrize("long", [False, True])
def test_rounding_errors_of_the_whole_are_measured(
    monkeypatch: pytest.MonkeyPatch, long: bool
) -> None:
    monkeypatch.setattr(examine, "is_long", lambda _: long)
    verdict = verify(
        two_softmaxes(written=False),
        two_softmaxes(written=True, rounded=True),
        VerifyOptions(seed=2),
    )
    assert verdict.kind is Kind.PROVED, verdict
    assert verdict.numerics_hold is False
    assert not verdict.accepted


def test_a_float_does_not_stand_for_an_integer() -> None:
    """It may have lost digits."""
    i = Value(TensorType((4,), DType.I64), "i")
    b = Builder()
    number = b.cast(b.cast(i, DType.F32), DType.I64)
    doubled = b.binary(BinaryFn.ADD, number, number)
    through = KernelGraph("through", (i,), tuple(b.ops), (doubled,))
    c = Builder()
    same = c.binary(BinaryFn.MUL, i, c.constant(1, DType.I64))
    twice = c.binary(BinaryFn.ADD, same, same)
    kept = KernelGraph("kept", (i,), tuple(c.ops), (twice,))
    assert not verify(kept, through, OPTIONS).equivalent


def test_a_guess_is_believed_by_nobody() -> None:
    """Values that nearly agree are guessed to be the same, and not shown."""
    one, other = stack(late=False), stack(late=True, eps=1e-5 * (1.0 + 1e-6))
    hint = guessed_hint(one, other, {}, 0)
    assert hint is not None
    assert hint.stored
    assert not verify(one, other, OPTIONS).equivalent


def test_what_is_not_shown_ends_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examine, "guessed_hint", lambda *_: None)
    monkeypatch.setattr(examine, "WHOLE_SECONDS", 0.05)
    one, other = stack(late=False), stack(late=True)
    verdict = verify(one, other, OPTIONS)
    assert verdict.kind is Kind.UNKNOWN
    assert "no result within 0.05 s" in evidence(verdict, "both programs as one")
    assert any("more time than 0.05 s" in want for want in needed(verdict))


@pytest.mark.parametrize("merged", [False, True])
def test_values_after_a_softmax_of_many_products_are_found(merged: bool) -> None:
    """Its exponentials do not overflow because of large random numbers; and products of few rows,
    in another order, are the same values."""
    q = Value(TensorType((3, 2, 256), DType.F32), "q")
    k = Value(TensorType((256, 256), DType.F32), "k")
    b = Builder()
    rows = b.reshape(q, (6, 256)) if merged else q
    turned = b.transpose(k, (1, 0))
    weights = b.softmax(b.matmul(b.matmul(rows, turned), turned), 1 if merged else 2)
    y = b.unary(UnaryFn.SILU, b.matmul(weights, k))
    y = b.reshape(y, (3, 2, 256)) if merged else y
    after = KernelGraph("after", (q, k), tuple(b.ops), (y,))
    b = Builder()
    turned = b.transpose(k, (1, 0))
    found = b.softmax(b.matmul(b.matmul(q, turned), turned), 2)
    result = b.unary(UnaryFn.SILU, b.matmul(found, k))
    before = KernelGraph("before", (q, k), tuple(b.ops), (result,))
    hint = guessed_hint(before, after, {}, 0)
    assert hint is not None
    assert weights in {v for _, v in hint.stored}
