"""Joins move past what is computed of them where less is copied afterwards."""

from __future__ import annotations

import numpy as np
from mirage.cost.copies import copies_in
from mirage.search.program.late_joins import with_late_joins
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph
from search_programs import graph, tensor


def by_halves() -> KernelGraph:
    """Rotary positions as most models write them."""
    x, c, s, b = tensor("x", 5, 2, 8), tensor("c", 5, 1, 8), tensor("s", 5, 1, 8), Builder()
    low, high = b.slice(x, (0, 0, 0), (5, 2, 4)), b.slice(x, (0, 0, 4), (5, 2, 4))
    turned = b.concat((b.unary(UnaryFn.NEG, high), low), 2)
    first, second = b.binary(BinaryFn.MUL, x, c), b.binary(BinaryFn.MUL, turned, s)
    return graph("halves", (x, c, s), b, b.cast(b.binary(BinaryFn.ADD, first, second), DType.F16))


def by_pairs() -> KernelGraph:
    """The same with neighbours in the place of halves."""
    x, c, s, b = tensor("x", 5, 2, 8), tensor("c", 5, 1, 8), tensor("s", 5, 1, 8), Builder()
    pairs = b.reshape(x, (5, 2, 4, 2))
    even, odd = (b.slice(pairs, (0, 0, 0, i), (5, 2, 4, 1)) for i in (0, 1))
    turned = b.reshape(b.concat((b.unary(UnaryFn.NEG, odd), even), 3), (5, 2, 8))
    first, second = b.binary(BinaryFn.MUL, x, c), b.binary(BinaryFn.MUL, turned, s)
    return graph("pairs", (x, c, s), b, b.cast(b.binary(BinaryFn.ADD, first, second), DType.F16))


def inputs_only() -> KernelGraph:
    x, y, b = tensor("x", 3, 8), tensor("y", 3, 5), Builder()
    return graph("inputs", (x, y), b, b.unary(UnaryFn.TANH, b.concat((x, y), 1)))


def same(first: KernelGraph, second: KernelGraph) -> bool:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) for v in first.inputs]
    want, got = (evaluate_floats(g, inputs, TypedFloat()) for g in (first, second))
    return all(np.allclose(a, b, rtol=2e-3, atol=2e-3) for a, b in zip(want, got, strict=True))


def test_rotary_positions_copy_nothing() -> None:
    for program in (by_halves(), by_pairs(), inputs_only()):
        assert copies_in(program)
        found = with_late_joins(program)
        check_graph(found)
        assert not copies_in(found), program.name
        assert same(program, found), program.name


def test_a_join_for_the_caller_stays() -> None:
    x, y, b = tensor("x", 3, 8), tensor("y", 3, 5), Builder()
    program = graph("caller", (x, y), b, b.concat((x, y), 1))
    assert with_late_joins(program) is program


def test_what_reads_all_of_it_gets_it() -> None:
    """A softmax over joined scores needs them as one tensor: nothing is gained."""
    x, y, b = tensor("x", 3, 8), tensor("y", 3, 5), Builder()
    program = graph("softmax", (x, y), b, b.softmax(b.concat((x, y), 1), 1))
    found = with_late_joins(program)
    check_graph(found)
    assert same(program, found)
