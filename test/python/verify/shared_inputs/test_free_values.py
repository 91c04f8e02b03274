"""Intermediate values of programs as inputs: valid choices, and forbidden ones."""

from __future__ import annotations

import numpy as np
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, TensorType, Value
from mirage.verify import Kind, VerifyOptions, verify
from mirage.verify.shared_inputs.free_values import with_free_values

X, Y = Value(TensorType((3, 4), DType.F32), "x"), Value(TensorType((3, 4), DType.F32), "y")
OPTIONS = VerifyOptions(seed=1, numerics=False, work=1e5)


def program(make) -> KernelGraph:  # type: ignore[no-untyped-def]
    b = Builder()
    out = make(b)
    return KernelGraph("f", (X, Y), tuple(b.ops), (out,))


def log_of_sum(b: Builder, x: Value, *, above: float = float("inf")) -> Value:
    most = b.reduce(ReduceFn.MAX, x, (1,))
    infinite = b.binary(BinaryFn.EQ, b.unary(UnaryFn.ABS, most), b.constant(above))
    most = b.binary(BinaryFn.KEEP, b.unary(UnaryFn.NOT, infinite), most)
    each = b.unary(UnaryFn.EXP, b.binary(BinaryFn.SUB, x, most))
    total = b.unary(UnaryFn.LOG, b.reduce(ReduceFn.SUM, each, (1,)))
    return b.binary(BinaryFn.ADD, most, total)


def test_what_keeps_exponentials_small_is_any_number() -> None:
    graph = program(lambda b: log_of_sum(b, X))
    (freed,) = with_free_values(graph, graph)
    first, second = freed.pair
    assert len(first.inputs) == len(second.inputs) == 3
    x, y = np.random.default_rng(0).normal(size=(2, 3, 4))
    for shift in (0.0, -2.0, 3.0):
        (given,) = evaluate_floats(first, [x, y, np.full((3, 1), shift)])
        assert np.allclose(given, evaluate_floats(graph, [x, y])[0])


def test_what_is_zero_elsewhere_is_not() -> None:
    """A number that is dropped where it is 2 is not a number by which others are moved."""
    graph = program(lambda b: log_of_sum(b, X, above=2.0))
    assert not list(with_free_values(graph, program(lambda b: b.unary(UnaryFn.EXP, X))))


def test_shared_values_are_those_that_one_reads_otherwise() -> None:
    def softmax(b: Builder) -> Value:
        e = b.unary(UnaryFn.EXP, X)
        return b.binary(BinaryFn.DIV, e, b.reduce(ReduceFn.SUM, e, (1,)))

    one = program(lambda b: b.binary(BinaryFn.MUL, softmax(b), Y))
    other = program(lambda b: b.binary(BinaryFn.MUL, Y, softmax(b)))
    (freed,) = with_free_values(one, other)
    first, second = freed.pair
    assert [v.shape for v in first.inputs[2:]] == [(3, 4)]
    assert len(first.ops) == len(second.ops) == 1


def test_what_may_be_infinite_is_no_input() -> None:
    """Zero times a masked value is zero for all numbers, and NaN for minus infinity."""

    def masked(b: Builder) -> Value:
        seen = b.binary(BinaryFn.LT, X, Y)
        return b.binary(BinaryFn.ADD, X, b.unary(UnaryFn.BIAS, seen))

    def logarithm(b: Builder) -> Value:
        return b.unary(UnaryFn.LOG, X)

    for made in (masked, logarithm):
        one = program(lambda b, made=made: b.binary(BinaryFn.MUL, made(b), Y))
        other = program(lambda b, made=made: b.binary(BinaryFn.MUL, Y, made(b)))
        assert not list(with_free_values(one, other))


def test_programs_that_differ_in_what_they_make_of_it_stay_different() -> None:
    one = program(lambda b: b.binary(BinaryFn.MUL, log_of_sum(b, X), Y))
    for factor in (1.0 + 1e-6, -1.0, 2.0):
        other = program(
            lambda b, factor=factor: b.binary(
                BinaryFn.MUL, b.binary(BinaryFn.MUL, log_of_sum(b, X), b.constant(factor)), Y
            )
        )
        assert verify(one, other, OPTIONS).kind is not Kind.PROVED
    assert verify(one, program(lambda b: b.binary(BinaryFn.MUL, Y, log_of_sum(b, X))), OPTIONS)
