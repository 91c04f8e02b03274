"""Masks that are held as numbers, moved, and compared again; and masks of masked values."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.cost import H200
from mirage.search import superoptimize
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch, TensorType, Value
from mirage.verify import VerifyOptions, verify
from mirage.verify.evidence.proofs.exact import show
from mirage.verify.pieces.kernel_by_kernel import Piece

OPTIONS = VerifyOptions(seed=5, numerics=False)
G, N = 3, 4
Written = Callable[[Builder, Value, Value], Value]
"""A function of a mask (G x N) and of numbers (G x N x N)."""
ADD, EQ, NE, KEEP = BinaryFn.ADD, BinaryFn.EQ, BinaryFn.NE, BinaryFn.KEEP


def shown(first: KernelGraph, second: KernelGraph) -> bool:
    """Whether a piece is shown, without the proofs for whole programs of few elements."""
    return show(Piece(first, second, second.outputs, second.ops), 5).holds


def program(write: Written) -> KernelGraph:
    """What is written of a mask and numbers."""
    mask = Value(TensorType((G, N), DType.I1), "mask")
    x = Value(TensorType((G, N, N), DType.F32), "x")
    b = Builder()
    y = write(b, mask, x)
    return KernelGraph("f", (mask, x), tuple(b.ops), (y,))


def repeated(b: Builder, mask: Value, flipped: bool = False) -> Value:
    """Repeat a mask along the last dimension, or along the one before it."""
    shape = (G, 1, N) if flipped else (G, N, 1)
    return b.broadcast(b.reshape(mask, shape), (G, N, N))


def asked(plus: float, fn: BinaryFn, number: float, flipped: bool = False) -> Written:
    """The mask as numbers plus a number, repeated and compared, keeps numbers."""

    def write(b: Builder, mask: Value, x: Value) -> Value:
        numbers = b.cast(mask, DType.F32)
        numbers = b.binary(ADD, b.broadcast(b.constant(plus), (G, N)), numbers)
        found = b.binary(fn, repeated(b, numbers, flipped), b.constant(number))
        return b.binary(KEEP, found, x)

    return write


def keeps(b: Builder, mask: Value, x: Value) -> Value:
    return b.binary(KEEP, repeated(b, mask), x)


def drops(b: Builder, mask: Value, x: Value) -> Value:
    return b.binary(KEEP, b.unary(UnaryFn.NOT, repeated(b, mask)), x)


@pytest.mark.parametrize(
    ("fn", "number", "expected"), [(NE, 0, keeps), (EQ, 1, keeps), (EQ, 0, drops), (NE, 1, drops)]
)
def test_a_mask_held_as_moved_numbers(fn: BinaryFn, number: float, expected: Written) -> None:
    assert shown(program(asked(0, fn, number)), program(expected))


@pytest.mark.parametrize(
    "other",
    [asked(1, NE, 0), asked(0, EQ, 0), asked(0, NE, 2), asked(0, NE, 0, flipped=True)],
)
def test_other_questions_are_other_masks(other: Written) -> None:
    assert not verify(program(other), program(keeps), OPTIONS).equivalent


def test_a_tile_holds_a_mask_as_numbers() -> None:
    """The first of two routed experts, hidden from the second choice."""
    place, classes = (Value(TensorType(s, DType.F32)) for s in ((G, 1), (1, N)))
    x = Value(TensorType((G, N), DType.F32))
    b = Builder()
    hot = b.cast(b.binary(EQ, place, classes), DType.F32)
    open_ = b.unary(UnaryFn.NOT, b.binary(NE, hot, b.constant(0.0)))
    limit = b.unary(UnaryFn.BIAS, b.cast(open_, DType.F32))
    y = b.binary(ADD, limit, b.binary(KEEP, open_, x))
    graph = KernelGraph("hidden", (place, classes, x), tuple(b.ops), (hot, y))
    found = superoptimize(graph, H200).candidates[0].graph
    assert any(isinstance(op, Launch) for op in found.ops)
    assert shown(graph, found)


def twice(how: str) -> Written:
    """Numbers kept by a mask, moved, and kept by the mask of the other dimension: one after the
    other, with both masks at once, or with the first mask moved in another way."""

    def write(b: Builder, mask: Value, x: Value) -> Value:
        inner, outer = repeated(b, mask), repeated(b, mask, flipped=True)
        if how == "apart":
            kept = b.transpose(b.binary(KEEP, inner, x), (0, 2, 1))
            return b.binary(KEEP, outer, kept)
        if how == "together":
            inner = b.transpose(inner, (0, 2, 1))
        both = b.binary(BinaryFn.AND, outer, inner)
        return b.binary(KEEP, both, b.transpose(x, (0, 2, 1)))

    return write


def test_a_mask_of_masked_values_that_were_moved() -> None:
    assert shown(program(twice("apart")), program(twice("together")))


def test_the_inner_mask_moves_with_its_values() -> None:
    assert not verify(program(twice("apart")), program(twice("not moved")), OPTIONS).equivalent


# ---- masks compared with each other


LT, LE, AND, OR, NOT = BinaryFn.LT, BinaryFn.LE, BinaryFn.AND, BinaryFn.OR, UnaryFn.NOT
Logic = Callable[[Builder, Value, Value], Value]
LOGIC: dict[BinaryFn, Logic] = {
    LT: lambda b, x, y: b.binary(AND, b.unary(NOT, x), y),
    LE: lambda b, x, y: b.binary(OR, b.unary(NOT, x), y),
    EQ: lambda b, x, y: b.binary(
        AND, b.binary(OR, b.unary(NOT, x), y), b.binary(OR, b.unary(NOT, y), x)
    ),
    NE: lambda b, x, y: b.binary(
        OR, b.binary(AND, b.unary(NOT, x), y), b.binary(AND, b.unary(NOT, y), x)
    ),
}


def of_masks(write: Logic, as_numbers: bool = False) -> KernelGraph:
    """A function of two masks."""
    x, y = (Value(TensorType((G, N), DType.I1), name) for name in "xy")
    b = Builder()
    given = [b.cast(v, DType.F32) for v in (x, y)] if as_numbers else [x, y]
    z = write(b, *given)
    return KernelGraph("f", (x, y), tuple(b.ops), (z,))


@pytest.mark.parametrize("fn", LOGIC)
def test_masks_are_compared_as_logic(fn: BinaryFn) -> None:
    for as_numbers in (False, True):
        first = of_masks(lambda b, x, y: b.binary(fn, x, y), as_numbers)
        assert shown(first, of_masks(LOGIC[fn]))


@pytest.mark.parametrize("fn", LOGIC)
def test_kernels_compare_masks(fn: BinaryFn) -> None:
    graph = of_masks(lambda b, x, y: b.binary(fn, x, y))
    found = superoptimize(graph, H200).candidates[0].graph
    assert any(isinstance(op, Launch) for op in found.ops)
    assert shown(graph, found)


@pytest.mark.parametrize("fn", LOGIC)
def test_other_comparisons_of_masks_are_other_logic(fn: BinaryFn) -> None:
    for other, logic in LOGIC.items():
        pair = of_masks(lambda b, x, y: b.binary(fn, x, y), True), of_masks(logic)
        assert shown(*pair) == (other is fn)
        swapped = of_masks(lambda b, x, y, logic=logic: logic(b, y, x))
        assert shown(pair[0], swapped) == (other is fn and fn in (EQ, NE))


@pytest.mark.parametrize(
    ("fn", "number", "kept"),
    [(LT, 1, False), (LT, 0.5, False), (LE, 0, False), (EQ, 1, True), (NE, 0, True)],
)
def test_a_mask_against_a_number(fn: BinaryFn, number: float, kept: bool) -> None:
    first = of_masks(lambda b, x, y: b.binary(fn, x, b.constant(number)), True)
    same, opposite = (
        of_masks(lambda b, x, y: x), of_masks(lambda b, x, y: b.unary(NOT, x))
    )  # fmt: skip
    assert shown(first, same) == kept
    assert shown(first, opposite) != kept
