"""The consequences of ranges for truth values and for masked values."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.bounds.integer_ranges import Range, ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BINARY, UNARY, BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value

NEVER, ALWAYS, EITHER = (0.0, 0.0), (1.0, 1.0), (0.0, 1.0)
TRUTHS = (NEVER, ALWAYS, EITHER)


def ends(truth: Range) -> list[float]:
    return sorted(set(truth))


def truth() -> Value:
    return Value(TensorType((4,), DType.I1))


@pytest.mark.parametrize("fn", [BinaryFn.AND, BinaryFn.OR])
@pytest.mark.parametrize("first", TRUTHS)
@pytest.mark.parametrize("second", TRUTHS)
def test_logic_of_two(fn: BinaryFn, first: Range, second: Range) -> None:
    a, b, x = truth(), truth(), Builder()
    y = x.binary(fn, a, b)
    graph = KernelGraph("f", (a, b), tuple(x.ops), (y,))
    found = {
        float(BINARY[fn].evaluate(np.array(u), np.array(v)))
        for u in ends(first)
        for v in ends(second)
    }
    assert ranges_of(graph, {a: first, b: second})[y] == (min(found), max(found))


@pytest.mark.parametrize("given", TRUTHS)
def test_what_is_not_true(given: Range) -> None:
    a, x = truth(), Builder()
    y = x.unary(UnaryFn.NOT, a)
    graph = KernelGraph("f", (a,), tuple(x.ops), (y,))
    found = {float(UNARY[UnaryFn.NOT].evaluate(np.array(u))) for u in ends(given)}
    assert ranges_of(graph, {a: given})[y] == (min(found), max(found))


@pytest.mark.parametrize(
    ("mask", "kept"), [(NEVER, (0.0, 0.0)), (ALWAYS, (3.0, 5.0)), (EITHER, (0.0, 5.0))]
)
def test_what_a_mask_keeps(mask: Range, kept: Range) -> None:
    a, b, x = truth(), Value(TensorType((4,), DType.I64)), Builder()
    y = x.binary(BinaryFn.KEEP, a, b)
    graph = KernelGraph("f", (a, b), tuple(x.ops), (y,))
    assert ranges_of(graph, {a: mask, b: (3.0, 5.0)})[y] == kept
