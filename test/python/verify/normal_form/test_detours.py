"""Values that are the same as others are read as these; others are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify.normal_form.detours import without_detours

Written = Callable[[Builder, Value], Value]


def halved(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.MUL, b.binary(BinaryFn.ADD, x, x), b.constant(0.5))


def joined(b: Builder, x: Value, at: int = 3) -> Value:
    first, last = b.slice(x, (0, 0), (4, 3)), b.slice(x, (0, at), (4, 8 - at))
    return b.concat((first, last), 1)


def thirds(b: Builder, x: Value) -> Value:
    return b.binary(BinaryFn.DIV, b.binary(BinaryFn.MUL, x, b.constant(3)), b.constant(3))


SAME: dict[str, Written] = {
    "doubled and halved": halved,
    "negated twice": lambda b, x: b.unary(UnaryFn.NEG, b.unary(UnaryFn.NEG, x)),
    "the larger of itself": lambda b, x: b.binary(BinaryFn.MAX, x, x),
    "cut and joined": joined,
    "a wider type and back": lambda b, x: b.cast(b.cast(x, DType.F64), DType.F32),
}
OTHERS: dict[str, Written] = {
    "negated once": lambda b, x: b.unary(UnaryFn.NEG, x),
    "a factor that rounds": thirds,
    "a narrower type and back": lambda b, x: b.cast(b.cast(x, DType.F16), DType.F32),
    "less itself": lambda b, x: b.binary(BinaryFn.SUB, x, x),
    "cut and joined, one part twice": lambda b, x: b.concat(
        (b.slice(x, (0, 0), (4, 4)), b.slice(x, (0, 0), (4, 4))), 1
    ),
}


def of(written: Written) -> KernelGraph:
    b, x = Builder(), Value(TensorType((4, 8), DType.F32), "x")
    y = b.unary(UnaryFn.EXP, written(b, b.unary(UnaryFn.EXP, x)))
    return KernelGraph("main", (x,), tuple(b.ops), (y,))


@pytest.mark.parametrize("name", SAME)
def test_a_value_that_is_the_same_as_another_is_read_as_that(name: str) -> None:
    found = without_detours(of(SAME[name]))
    last = found.ops[-1]
    assert [op.function for op in found.ops if op.result in last.operands] == [UnaryFn.EXP]


@pytest.mark.parametrize("name", OTHERS)
def test_a_value_that_may_differ_stays(name: str) -> None:
    graph = of(OTHERS[name])
    assert without_detours(graph) is graph
