"""Joins move past the ops that read them if less is then copied."""

from __future__ import annotations

import numpy as np
from example_programs.search_programs import graph, tensor
from mirage.cost.copy_kernels import copies_in
from mirage.search.program.late_joins import with_late_joins
from mirage.search.program.shared_views import each_view_once
from mirage.search.superoptimize import searched
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import TypedFloat, evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import Binary, KernelGraph, Matmul, Reshape, Slice


def by_halves() -> KernelGraph:
    """Rotary positions as most models write them."""
    x, c, s, b = tensor("x", 5, 2, 8), tensor("c", 5, 1, 8), tensor("s", 5, 1, 8), Builder()
    low, high = b.slice(x, (0, 0, 0), (5, 2, 4)), b.slice(x, (0, 0, 4), (5, 2, 4))
    turned = b.concat((b.unary(UnaryFn.NEG, high), low), 2)
    first, second = b.binary(BinaryFn.MUL, x, c), b.binary(BinaryFn.MUL, turned, s)
    return graph("halves", (x, c, s), b, b.cast(b.binary(BinaryFn.ADD, first, second), DType.F16))


def by_pairs() -> KernelGraph:
    """Rotate neighbouring elements instead of halves."""
    x, c, s, b = tensor("x", 5, 2, 8), tensor("c", 5, 1, 8), tensor("s", 5, 1, 8), Builder()
    pairs = b.reshape(x, (5, 2, 4, 2))
    even, odd = (b.slice(pairs, (0, 0, 0, i), (5, 2, 4, 1)) for i in (0, 1))
    turned = b.reshape(b.concat((b.unary(UnaryFn.NEG, odd), even), 3), (5, 2, 8))
    first, second = b.binary(BinaryFn.MUL, x, c), b.binary(BinaryFn.MUL, turned, s)
    return graph("pairs", (x, c, s), b, b.cast(b.binary(BinaryFn.ADD, first, second), DType.F16))


def of_planes() -> KernelGraph:
    """Halves that are taken from a view with a separate dimension for them."""
    x, c, s, b = tensor("x", 5, 2, 8), tensor("c", 5, 1, 8), tensor("s", 5, 1, 8), Builder()
    planes = b.reshape(x, (5, 2, 2, 4))
    low, high = (b.slice(planes, (0, 0, i, 0), (5, 2, 1, 4)) for i in (0, 1))
    turned = b.reshape(b.concat((b.unary(UnaryFn.NEG, high), low), 2), (5, 2, 8))
    first, second = b.binary(BinaryFn.MUL, x, c), b.binary(BinaryFn.MUL, turned, s)
    return graph("planes", (x, c, s), b, b.cast(b.binary(BinaryFn.ADD, first, second), DType.F16))


def of_heads() -> KernelGraph:
    """Pairs of heads that were rows of a product, as complex numbers: cast, cut, joined, cast."""
    x, w, f, b = tensor("x", 5, 6), tensor("w", 6, 16), tensor("f", 5, 4, 2), Builder()
    heads = b.transpose(b.reshape(b.matmul(x, w), (5, 2, 8)), (1, 0, 2))
    pairs = b.reshape(b.cast(heads, DType.F32), (2, 5, 4, 2))
    (re, im), (c, s) = (
        [b.slice(v, (0,) * (len(v.shape) - 1) + (i,), (*v.shape[:-1], 1)) for i in (0, 1)]
        for v in (pairs, b.cast(f, DType.F32))
    )
    mul = BinaryFn.MUL
    real = b.binary(BinaryFn.SUB, b.binary(mul, re, c), b.binary(mul, im, s))
    other = b.binary(BinaryFn.ADD, b.binary(mul, re, s), b.binary(mul, im, c))
    joined = b.reshape(b.concat((real, other), 3), (2, 5, 8))
    return graph("heads", (x, w, f), b, b.cast(joined, DType.F16))


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


def test_what_is_cut_is_given() -> None:
    """No computed value is stored just to be sliced, and each part of an input is sliced once."""
    for program in (by_halves(), by_pairs(), of_planes()):
        _, found = searched(program)
        check_graph(found)
        assert same(program, found), program.name
        made = {v: op for op in found.ops for v in op.results}
        cuts = [op for op in found.ops if op.cut_at is not None]
        sources = [op.operands[0] for op in cuts]
        assert all(v not in made or made[v].renames for v in sources), program.name
        assert len(cuts) == 6, program.name


def test_joins_come_last_and_cuts_first() -> None:
    """Nothing is computed from the join, and no slice comes after more than the product."""
    program = of_heads()
    _, found = searched(program)
    check_graph(found)
    assert same(program, found)
    made = {v: op for op in found.ops for v in op.results}
    joins = [op for op in found.ops if op.joined_along is not None]
    assert [op.result.dtype for op in joins] == [DType.F16]
    behind = set(joins)
    for op in found.ops:
        if any(made.get(v) in behind for v in op.operands):
            assert op.renames
            behind.add(op)
    for op in found.ops:
        if op.cut_at is not None:
            source = made.get(op.operands[0])
            while source is not None and source.renames:
                source = made.get(source.operands[0])
            assert source is None or isinstance(source, Matmul)


def test_views_are_there_once() -> None:
    x, b = tensor("x", 4, 12), Builder()
    inner = b.slice(b.slice(x, (0, 2), (4, 8)), (1, 1), (2, 4))
    again = b.slice(x, (1, 3), (2, 4))
    shapes = b.reshape(b.reshape(x, (48,)), (2, 24)), b.reshape(x, (2, 24))
    total = b.binary(BinaryFn.ADD, inner, again), b.binary(BinaryFn.ADD, *shapes)
    program = KernelGraph("views", (x,), tuple(b.ops), total)
    found = each_view_once(program)
    check_graph(found)
    assert [type(op) for op in found.ops] == [Slice, Reshape, Binary, Binary]
    assert same(program, found)
    assert each_view_once(found) is found


def test_a_join_for_the_caller_stays() -> None:
    x, y, b = tensor("x", 3, 8), tensor("y", 3, 5), Builder()
    program = graph("caller", (x, y), b, b.concat((x, y), 1))
    assert with_late_joins(program) is program


def test_what_reads_all_of_it_gets_it() -> None:
    """A softmax over joined scores needs them as one tensor, so nothing is gained."""
    x, y, b = tensor("x", 3, 8), tensor("y", 3, 5), Builder()
    program = graph("softmax", (x, y), b, b.softmax(b.concat((x, y), 1), 1))
    found = with_late_joins(program)
    check_graph(found)
    assert same(program, found)


def test_what_is_joined_in_memory_is_not_wider() -> None:
    """Pairs in 16 bits that products read in f32 are joined in 16 bits, although joins move past
    conversions."""
    x, w = tensor("x", 64, 32, dtype=DType.F16), tensor("w", 32, 16)
    b = Builder()
    pairs = b.reshape(x, (64, 16, 2))
    one, other = (b.slice(pairs, (0, 0, i), (64, 16, 1)) for i in (0, 1))
    turned = b.concat((b.unary(UnaryFn.NEG, other), one), 2)
    wide = b.cast(b.reshape(turned, (64, 32)), DType.F32)
    moved = late(graph("scores", (x, w), b, b.matmul(wide, w)))
    (join,) = (op for op in moved.ops if op.joined_along is not None)
    assert join.result.dtype is DType.F16


def late(program: KernelGraph) -> KernelGraph:
    _, found = searched(program)
    check_graph(found)
    return found


def test_what_a_softmax_reads_is_joined_as_it_is() -> None:
    """Scores of two sets of keys that are widened for a softmax are no factors: each kernel writes
    its part in the type in which it is read."""
    x = tensor("x", 64, 32, dtype=DType.F16)
    keys = [tensor(name, 32, n, dtype=DType.F16) for name, n in (("old", 64), ("new", 16))]
    b = Builder()
    scores = b.concat([b.cast(b.matmul(x, k), DType.F32) for k in keys], 1)
    moved = with_late_joins(graph("scores", (x, *keys), b, b.softmax(scores, 1)))
    check_graph(moved)
    (join,) = (op for op in moved.ops if op.joined_along is not None)
    assert join.result.dtype is DType.F32
