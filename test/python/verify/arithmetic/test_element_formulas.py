"""Formulas of elements, written out."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.verify.arithmetic.element_formulas import MOST_READ, Formulas, NoFormulaError

F32 = DType.F32


def test_equal_are_the_same_functions_of_the_same_elements() -> None:
    d = Formulas()
    x, y = d.elements((3,)), d.elements((3,))
    total, other = (d.binary(BinaryFn.SUB, a, b, F32) for a, b in ((x, y), (y, x)))
    assert d.equal(total, d.binary(BinaryFn.SUB, x, y, F32)).all()
    assert not d.equal(total, other).any()
    assert not d.equal(d.unary(UnaryFn.EXP, x, F32), d.unary(UnaryFn.NEG, x, F32)).any()
    assert not d.equal(x, y).any()
    assert not d.equal(x, tuple(p[::-1] for p in x))[[0, 2]].any()


def test_operands_of_different_formulas_commute() -> None:
    d = Formulas()
    x, two = d.elements((3,)), d.constant(2.0, F32)
    first, second = (d.binary(BinaryFn.MUL, a, b, F32) for a, b in ((x, two), (two, x)))
    assert d.equal(first, second).all()
    first, second = (d.binary(BinaryFn.SUB, a, b, F32) for a, b in ((x, two), (two, x)))
    assert not d.equal(first, second).any()


def test_a_tensor_of_several_formulas() -> None:
    d = Formulas()
    x, y = d.elements((4,)), d.elements((4,))
    kept = d.select(np.array([True, False, True, False]), x, 0.0, F32)
    total = d.binary(BinaryFn.ADD, kept, y, F32)
    zero = d.binary(BinaryFn.ADD, d.constant(0.0, F32), y, F32)
    whole = d.binary(BinaryFn.ADD, x, y, F32)
    assert d.equal(total, zero).tolist() == [False, True, False, True]
    assert d.equal(total, whole).tolist() == [True, False, True, False]
    joined = d.concat((x, total), 0)
    assert d.equal(joined, d.concat((x, whole), 0)).tolist() == [*[True] * 5, False, True, False]


def test_what_is_no_formula() -> None:
    d = Formulas()
    x = d.elements((2, 2))
    for call in (
        lambda: d.matmul(x, x, F32),
        lambda: d.reduce(ReduceFn.SUM, x, (0,), F32),
        lambda: d.rescale(x, x, x, F32),
        lambda: d.rows(x, x),
    ):
        with pytest.raises(NoFormulaError):
            call()


def test_formulas_are_short() -> None:
    d = Formulas()
    x = y = d.elements((2,))
    for _ in range(MOST_READ - 1):
        y = d.binary(BinaryFn.SUB, y, x, F32)
    with pytest.raises(NoFormulaError):
        d.binary(BinaryFn.SUB, y, x, F32)
