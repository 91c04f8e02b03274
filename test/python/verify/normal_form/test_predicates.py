"""Masks that are written in several ways, and similar masks that differ."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.cost import H200
from mirage.search import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.positions import iota
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify

OPTIONS = VerifyOptions(seed=5, numerics=False)
N = 12
ADD, SUB, LT, LE, EQ, NE = (
    BinaryFn.ADD, BinaryFn.SUB, BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE
)  # fmt: skip
AND, OR, MIN, MAX = BinaryFn.AND, BinaryFn.OR, BinaryFn.MIN, BinaryFn.MAX
Mask = Callable[[Builder, Value, Value], Value]


def kept(mask: Mask, positions: bool = True) -> KernelGraph:
    """x, masked by positions (or by two tensors of numbers)."""
    x, r, c = (
        Value(TensorType(s, DType.F32), name)
        for s, name in (((N, N), "x"), ((N, 1), "r"), ((1, N), "c"))
    )
    b = Builder()
    places = (iota(b, (N, 1), 0), iota(b, (1, N), 1)) if positions else (r, c)
    y = b.binary(BinaryFn.KEEP, mask(b, *places), x)
    return KernelGraph("kept", (x, r, c), tuple(b.ops), (y,))


def not_(b: Builder, x: Value) -> Value:
    return b.unary(UnaryFn.NOT, x)


def moved(b: Builder, x: Value, by: int) -> Value:
    return b.binary(ADD, x, b.constant(by, x.dtype))


def near(b: Builder, r: Value, c: Value) -> Value:
    return b.binary(LT, b.binary(SUB, r, c), b.constant(4, r.dtype))


def causal(b: Builder, r: Value, c: Value) -> Value:
    return b.binary(LE, c, r)


def not_as_a_line(b: Builder, x: Value) -> Value:
    return b.reshape(not_(b, b.reshape(x, (x.type.size,))), x.shape)


SAME: dict[str, tuple[Mask, Mask]] = {
    "not the opposite, in another shape": (
        causal,
        lambda b, r, c: not_as_a_line(b, b.binary(LT, r, c)),
    ),
    "of the opposite's elements in another shape": (
        causal,
        lambda b, r, c: not_(b, b.transpose(b.transpose(b.binary(LT, r, c), (1, 0)), (1, 0))),
    ),
    "not the opposite": (causal, lambda b, r, c: not_(b, b.binary(LT, r, c))),
    "a difference": (
        causal,
        lambda b, r, c: b.binary(LE, b.constant(0, r.dtype), b.binary(SUB, r, c)),
    ),
    "in another order": (
        lambda b, r, c: b.binary(AND, causal(b, r, c), near(b, r, c)),
        lambda b, r, c: b.binary(AND, near(b, r, c), causal(b, r, c)),
    ),
    "twice": (causal, lambda b, r, c: b.binary(AND, causal(b, r, c), causal(b, r, c))),
    "by De Morgan": (
        lambda b, r, c: b.binary(AND, causal(b, r, c), near(b, r, c)),
        lambda b, r, c: not_(
            b, b.binary(OR, b.binary(LT, r, c), not_(b, b.binary(LT, r, moved(b, c, 4))))
        ),
    ),
    "not equal": (
        lambda b, r, c: b.binary(NE, r, c),
        lambda b, r, c: not_(b, b.binary(EQ, c, r)),
    ),
}
NEXT: tuple[Mask, Mask] = (causal, lambda b, r, c: b.binary(LT, c, moved(b, r, 1)))
"""The same comparisons of whole numbers."""
OTHER: dict[str, tuple[Mask, Mask]] = {
    "less for at most": (causal, lambda b, r, c: b.binary(LT, c, r)),
    "exchanged": (causal, lambda b, r, c: b.binary(LE, r, c)),
    "not, and no less": (causal, lambda b, r, c: not_(b, b.binary(LE, r, c))),
    "or for and": (
        lambda b, r, c: b.binary(AND, causal(b, r, c), near(b, r, c)),
        lambda b, r, c: b.binary(OR, causal(b, r, c), near(b, r, c)),
    ),
    "half of De Morgan": (
        lambda b, r, c: not_(b, b.binary(AND, causal(b, r, c), near(b, r, c))),
        lambda b, r, c: b.binary(AND, not_(b, causal(b, r, c)), not_(b, near(b, r, c))),
    ),
    "the next but one": (causal, lambda b, r, c: b.binary(LT, c, moved(b, r, 2))),
}


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("name", SAME)
def test_the_same_mask_is_proved(name: str, positions: bool) -> None:
    first, second = (kept(mask, positions) for mask in SAME[name])
    assert verify(first, second, OPTIONS).kind is Kind.PROVED


@pytest.mark.parametrize("positions", [True, False])
@pytest.mark.parametrize("name", OTHER)
def test_another_mask_is_not(name: str, positions: bool) -> None:
    first, second = (kept(mask, positions) for mask in OTHER[name])
    verdict = verify(first, second, OPTIONS)
    assert not verdict.equivalent
    rarely = not positions and name in ("less for at most", "not, and no less")  # for equal numbers
    assert verdict.kind is Kind.REFUTED or rarely


def test_no_number_is_between_whole_ones_only() -> None:
    first, second = (kept(mask) for mask in NEXT)
    assert verify(first, second, OPTIONS).kind is Kind.PROVED
    first, second = (kept(mask, positions=False) for mask in NEXT)
    assert verify(first, second, OPTIONS).kind is Kind.REFUTED


def test_what_is_kept_of_whole_numbers_is_whole() -> None:
    """Or zero; otherwise there may be numbers in between."""

    def some(b: Builder, r: Value) -> Value:
        return b.binary(BinaryFn.KEEP, b.binary(LT, r, b.constant(5, r.dtype)), r)

    pair: tuple[Mask, Mask] = (
        lambda b, r, c: b.binary(LE, c, some(b, r)),
        lambda b, r, c: b.binary(LT, c, moved(b, some(b, r), 1)),
    )
    assert verify(*(kept(mask) for mask in pair), OPTIONS).kind is Kind.PROVED
    assert not verify(*(kept(mask, positions=False) for mask in pair), OPTIONS).equivalent


@pytest.mark.parametrize("fn", [AND, OR])
@pytest.mark.parametrize("known", [0, 1])
def test_known_truth_values_are_numbers_in_kernels(fn: BinaryFn, known: int) -> None:
    """A window without an end, as models write it, and the kernel that is found for it."""
    b = Builder()
    r, c = Value(TensorType((1,), DType.I64)), Value(TensorType((256,), DType.I64))
    mask = b.binary(fn, b.constant(known, DType.I1), b.binary(LT, r, c))
    y = b.binary(BinaryFn.MUL, b.cast(mask, DType.F32), b.constant(-3))
    program = KernelGraph("mask", (r, c), tuple(b.ops), (y,))
    found = superoptimize(program, H200).candidates[0].graph
    assert any(isinstance(op, Launch) for op in found.ops)
    assert verify(program, found, OPTIONS).kind is Kind.PROVED


def test_only_truth_values_have_a_minimum_for_a_conjunction() -> None:
    """In a kernel truth values are numbers: a conjunction of other numbers is not a minimum."""
    for fn, other in ((AND, MIN), (OR, MAX)):
        a, c = (Value(TensorType((N,), DType.F32)) for _ in range(2))
        graphs: list[KernelGraph] = []
        for used in (fn, other):
            b = Builder()
            y = b.binary(used, a, c)
            y = b.cast(y, DType.F32) if y.dtype is not DType.F32 else y
            graphs.append(KernelGraph("f", (a, c), tuple(b.ops), (y,)))
        assert not verify(graphs[0], graphs[1], OPTIONS).equivalent


# ---- infinity


def against(fn: BinaryFn, number: float, doubled: bool = False) -> Mask:
    """``r fn number``, or the same of ``2 r / 2``."""

    def mask(b: Builder, r: Value, c: Value) -> Value:
        if doubled:
            r = b.binary(BinaryFn.MUL, b.binary(ADD, r, r), b.constant(0.5))
        return b.binary(fn, r, b.constant(number, r.dtype))

    return mask


@pytest.mark.parametrize("fn", [LT, LE, EQ, NE])
@pytest.mark.parametrize("number", [float("inf"), float("-inf")])
def test_what_is_compared_with_infinity(fn: BinaryFn, number: float) -> None:
    first, second = (kept(against(fn, number, doubled), False) for doubled in (False, True))
    assert verify(first, second, OPTIONS).kind is Kind.PROVED


@pytest.mark.parametrize(
    "pair",
    [
        ((LT, float("inf")), (LE, float("inf"))),
        ((LT, float("inf")), (LT, float("-inf"))),
        ((EQ, float("inf")), (EQ, 65504.0)),
    ],
)
def test_infinity_is_no_other_number(
    pair: tuple[tuple[BinaryFn, float], tuple[BinaryFn, float]],
) -> None:
    first, second = (kept(against(*side), False) for side in pair)
    assert not verify(first, second, OPTIONS).equivalent


def cut_and_joined(b: Builder, x: Value) -> Value:
    h = N // 2
    return b.concat([b.slice(x, (0, i), (N, h)) for i in (0, h)], 1)


STILL_TRUE: dict[str, Callable[[Builder, Value], Value]] = {
    "negated twice": lambda b, x: b.unary(UnaryFn.NEG, b.unary(UnaryFn.NEG, x)),
    "times one": lambda b, x: b.binary(BinaryFn.MUL, x, b.constant(1.0)),
    "the larger of itself": lambda b, x: b.binary(MAX, x, x),
    "doubled and halved": lambda b, x: b.binary(BinaryFn.MUL, b.binary(ADD, x, x), b.constant(0.5)),
    "cut and joined": cut_and_joined,
    "one less its opposite": lambda b, x: b.binary(
        SUB, b.constant(1.0), b.binary(SUB, b.constant(1.0), x)
    ),
}


@pytest.mark.parametrize("name", STILL_TRUE)
def test_truth_values_that_were_computed_with_are_truth_values(name: str) -> None:
    def both(change: Callable[[Builder, Value], Value]) -> Mask:
        def mask(b: Builder, r: Value, c: Value) -> Value:
            some, other = (b.cast(t, DType.F32) for t in (causal(b, r, c), near(b, r, c)))
            return b.binary(AND, change(b, some), other)

        return mask

    pair = both(lambda b, x: x), both(STILL_TRUE[name])
    assert verify(*(kept(mask) for mask in pair), OPTIONS).kind is Kind.PROVED


def test_sums_of_truth_values_are_none() -> None:
    """They are 2 if both are true, and so is their minimum."""

    def summed(fn: BinaryFn) -> Mask:
        def mask(b: Builder, r: Value, c: Value) -> Value:
            some, other = (b.cast(t, DType.F32) for t in (causal(b, r, c), near(b, r, c)))
            y = b.binary(fn, b.binary(ADD, some, other), b.binary(ADD, some, b.constant(1.0)))
            return y if y.dtype is DType.F32 else b.cast(y, DType.F32)

        return mask

    first, second = (kept_times(summed(fn)) for fn in (AND, MIN))
    assert not verify(first, second, OPTIONS).equivalent


def kept_times(mask: Mask) -> KernelGraph:
    """A mask of positions as a number, times x."""
    x = Value(TensorType((N, N), DType.F32), "x")
    b = Builder()
    places = iota(b, (N, 1), 0), iota(b, (1, N), 1)
    y = b.binary(BinaryFn.MUL, mask(b, *places), x)
    return KernelGraph("times", (x,), tuple(b.ops), (y,))
