"""Conversions to integers: their meaning, and the known ranges of the integers."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest
import torch
from mirage.runtime.serialization.manifest import TORCH_NAMES
from mirage.semantics.bounds.integer_ranges import ranges_of
from mirage.semantics.bounds.ranges import number
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.integers import Integers
from mirage.semantics.positions import iota
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Cast, KernelGraph, TensorType, Value
from mirage.transforms.partition.exact_integers import integers_as_calls
from mirage.verify.arithmetic.field import FieldPair
from mirage.verify.arithmetic.primes import draw

FRACTIONS = [0.0, 0.5, -0.5, 1.999, -1.999, 7.0, -100.25, 127.0]
INTEGERS = [0, 1, -1, 127, 128, -129, 2**31 - 1, 2**31, -(2**31) - 1, 2**40 + 3, -(2**33) + 5]


def value(*shape: int, dtype: DType = DType.F32) -> Value:
    return Value(TensorType(shape, dtype))


def cast_graph(source: DType, target: DType, size: int) -> KernelGraph:
    b = Builder()
    x = value(size, dtype=source)
    y = b.cast(x, target)
    return KernelGraph("cast", (x,), tuple(b.ops), (y,))


def as_torch(dtype: DType) -> torch.dtype:
    return getattr(torch, TORCH_NAMES[dtype.value])


@pytest.mark.parametrize("domain", [None, TypedFloat()])
@pytest.mark.parametrize("target", [DType.I8, DType.I16, DType.I32, DType.I64])
@pytest.mark.parametrize("source", [DType.F16, DType.BF16, DType.F32, DType.F64, DType.I64])
def test_as_pytorch_has_them(source: DType, target: DType, domain: TypedFloat | None) -> None:
    numbers = torch.tensor(INTEGERS if source.is_integer else FRACTIONS, dtype=as_torch(source))
    given = [numbers.double().numpy()]
    graph = cast_graph(source, target, len(numbers))
    (got,) = evaluate_floats(graph, given, *([domain] if domain else []))
    np.testing.assert_array_equal(got, numbers.to(as_torch(target)).double().numpy())


def test_what_residues_are_cut_to_is_one_function_of_them() -> None:
    (cast,) = cast_graph(DType.F32, DType.I64, 3).ops
    assert isinstance(cast, Cast)
    assert cast.cuts
    assert not cast.identity
    field = FieldPair(draw(random.Random(3), 22, 1 << 25), 7)
    given = np.array([5, 6, 5])
    (first, *_) = cast.compute(field, [(given, given)], 0, (3,))
    assert first[0] == first[2]
    assert first[0] != first[1]
    assert (first != given).any()


@pytest.mark.parametrize(
    ("source", "target"),
    [(DType.F32, DType.I64), (DType.I64, DType.I32), (DType.I16, DType.I8)],
)
def test_what_cuts_is_exact_arithmetic(source: DType, target: DType) -> None:
    """Even for numbers that kernels hold, which would not change."""
    b = Builder()
    x = value(4, dtype=source)
    y = b.cast(b.cast(x, target), DType.F32)
    called = integers_as_calls(KernelGraph("cast", (x,), tuple(b.ops), (y,)))
    first = called.ops[0]
    assert isinstance(first, Integers)
    assert [str(step) for step in first.formula.steps] == ["load 0", f"cast 0 : {target.value}"]


# ---- ranges


def count_of(b: Builder, x: Value) -> Value:
    """Return the number of elements that are not zero, in each row."""
    truth = b.binary(BinaryFn.NE, x, b.constant(0.0))
    return b.reduce(ReduceFn.SUM, b.cast(truth, DType.F32), (1,))


def known(b: Builder, *inputs: Value) -> dict[Value, tuple[float, float]]:
    return ranges_of(KernelGraph("ranges", inputs, tuple(b.ops), (b.ops[-1].result,)))


def test_counts_are_whole() -> None:
    b = Builder()
    x = value(3, 50)
    y = count_of(b, x)
    z = b.cast(b.binary(BinaryFn.SUB, y, b.constant(2.0)), DType.I64)
    ranges = known(b, x)
    assert ranges[y] == (0, 50)
    assert ranges[z] == (-2, 48)


def test_of_numbers_beyond_all_doubles_nothing_is_known() -> None:
    """The verifier compares with such a number in place of infinity."""
    b = Builder()
    beyond = b.constant(Fraction(10) ** 331)
    assert known(b)[beyond] == (-np.inf, np.inf)
    assert number(Fraction(10) ** 331).wild.all()


def test_of_other_floats_nothing_is_known() -> None:
    """Not even if they seem to be limited, since they may be NaN."""
    b = Builder()
    x = value(3, 50)
    limited = b.binary(BinaryFn.MIN, b.unary(UnaryFn.RELU, x), b.constant(5.0))
    floor = b.unary(UnaryFn.FLOOR, limited)
    half = b.binary(BinaryFn.MUL, count_of(b, x), b.constant(0.5))
    integers = [b.cast(v, DType.I64) for v in (limited, floor, half)]
    ranges = known(b, x)
    for v in (limited, floor, half, *integers):
        assert all(abs(end) == float("inf") for end in ranges[v]), ranges[v]


def test_floats_are_exact_up_to_where_their_type_is() -> None:
    b = Builder()
    line = iota(b, (4000,), 0)
    wide, narrow = b.cast(line, DType.F32), b.cast(line, DType.F16)
    square = b.binary(BinaryFn.MUL, wide, wide)
    cube = b.binary(BinaryFn.MUL, square, wide)
    ranges = known(b)
    assert ranges[wide] == (0, 3999)
    assert ranges[square] == (0, 3999**2)
    assert abs(ranges[narrow][0]) == abs(ranges[cube][0]) == float("inf")


def test_sums_have_as_many_terms_as_were_added() -> None:
    b = Builder()
    line = iota(b, (8,), 0)
    total = b.reduce(ReduceFn.SUM, b.binary(BinaryFn.SUB, line, b.constant(2.0, DType.I64)), (0,))
    most = b.reduce(ReduceFn.MAX, line, (0,))
    ranges = known(b)
    assert ranges[total] == (-16, 40)
    assert ranges[most] == (0, 7)


def test_what_wraps_around_may_be_anything() -> None:
    b = Builder()
    line = b.binary(BinaryFn.MUL, iota(b, (8,), 0), b.constant(2.0**30, DType.I64))
    narrow, byte = b.cast(line, DType.I32), b.cast(iota(b, (200,), 0), DType.I8)
    small = b.cast(iota(b, (100,), 0), DType.I8)
    ranges = known(b)
    assert abs(ranges[narrow][0]) == float("inf")
    assert ranges[byte] == (-128, 127)
    assert ranges[small] == (0, 99)
