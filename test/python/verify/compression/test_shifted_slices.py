"""Sums of slices that start one after the other, as convolutions of long sequences have them: no
digits are common to the slices, so that every index is a cell."""

from __future__ import annotations

from functools import reduce

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, verify

F32 = DType.F32
ROWS = 8192


def filtered(length: int, *, padded_first: bool, shift: int = 0) -> KernelGraph:
    """Four taps over ``x`` [ROWS, length] with three zeros before it: of the padded tensor, or each
    slice padded on its own. The last tap of a wrong one is shifted."""
    b = Builder()
    x, w = Value(TensorType((ROWS, length), F32)), Value(TensorType((4, 1), F32))

    def zeros(count: int) -> Value:
        return b.broadcast(b.constant(0.0, F32), (ROWS, count))

    whole = b.concat((zeros(3), x), 1)

    def tap(j: int) -> Value:
        at = j - shift if j == 3 else j
        if padded_first or at == 3:
            part = b.slice(whole, (0, at), (ROWS, length)) if at != 3 else x
        else:
            part = b.concat((zeros(3 - at), b.slice(x, (0, 0), (ROWS, length - 3 + at))), 1)
        return b.binary(BinaryFn.MUL, part, b.slice(w, (j, 0), (1, 1)))

    taps = [tap(j) for j in (range(4) if padded_first else reversed(range(4)))]
    y = reduce(lambda s, t: b.binary(BinaryFn.ADD, s, t), taps)
    return KernelGraph("filtered", (x, w), tuple(b.ops), (y,))


@pytest.mark.parametrize("length", [16, 2048, 4093])
def test_taps_are_proved(length: int) -> None:
    first = filtered(length, padded_first=True)
    assert verify(first, filtered(length, padded_first=False)).kind is Kind.PROVED
    wrong = filtered(length, padded_first=False, shift=1)
    assert verify(first, wrong).kind is Kind.REFUTED
