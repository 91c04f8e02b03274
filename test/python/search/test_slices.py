"""Slices move to where they cost nothing: contiguous rows of weights."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from hypothesis import given, settings
from hypothesis import strategies as st
from mirage.cost import H200
from mirage.cost.copy_kernels import copies_in, is_address
from mirage.search import superoptimize
from mirage.search.program.slices import cut_bytes, with_early_slices
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.decompose import decompose
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.region import contiguous_start
from mirage.semantics.scalar import BinaryFn, ReduceFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph, Launch, Slice, Value, launches


def halves(b: Builder, x: Value, dim: int) -> tuple[Value, Value]:
    sizes = tuple(n // 2 if i == dim else n for i, n in enumerate(x.shape))
    second = tuple(n if i == dim else 0 for i, n in enumerate(sizes))
    return b.slice(x, (0,) * len(sizes), sizes), b.slice(x, second, sizes)


def gated() -> KernelGraph:
    """One weight for gate and up, with a bias, as PyTorch's linear layer stores it."""
    x, w, c, b = tensor("x", 8, 64), tensor("w", 96, 64), tensor("c", 96), Builder()
    both = b.binary(BinaryFn.ADD, b.matmul(b.rms_norm(x), b.transpose(w, (1, 0))), c)
    gate, up = halves(b, both, 1)
    return graph("gated", (x, w, c), b, b.binary(BinaryFn.MUL, b.unary(UnaryFn.SILU, gate), up))


def heads() -> KernelGraph:
    """Query, key and value of one weight; the heads of each are a block of dimensions."""
    x, w, b = tensor("x", 4, 64), tensor("w", 12 * 16, 64), Builder()
    each = b.reshape(b.matmul(x, b.transpose(w, (1, 0))), (4, 12, 16))
    parts = [b.slice(each, (0, at, 0), (4, 4, 16)) for at in (0, 4, 8)]
    q, k, v = (b.transpose(p, (1, 0, 2)) for p in parts)
    scores = b.softmax(b.matmul(q, b.transpose(k, (0, 2, 1))), 2)
    return graph("heads", (x, w), b, b.matmul(scores, v))


def permuted() -> KernelGraph:
    """Query, key and value of one tensor, as ``qkv.permute(2, 0, 3, 1, 4).unbind(0)``: contiguous
    parts of a transpose, which would have to be stored."""
    x, b = tensor("x", 2, 8, 3, 4, 16), Builder()
    turned = b.transpose(x, (2, 0, 3, 1, 4))
    parts = [b.slice(turned, (at, 0, 0, 0, 0), (1, 2, 4, 8, 16)) for at in range(3)]
    return graph("permuted", (x,), b, *(b.binary(BinaryFn.MUL, p, p) for p in parts))


def sums() -> KernelGraph:
    """Through sums, products of batches, joins and repeated dimensions."""
    x, y, w = tensor("x", 4, 6, 8), tensor("y", 4, 6, 8), tensor("w", 6, 8, 16)
    b = Builder()
    joined = b.concat((x, y), 0)
    product = b.matmul(b.transpose(joined, (1, 0, 2)), w)
    total = b.binary(BinaryFn.DIV, product, b.reduce(ReduceFn.SUM, product, (2,)))
    wide = b.broadcast(total, (3, 6, 8, 16))
    first, second = (b.slice(wide, (0, 0, at, 0), (3, 6, 2, 16)) for at in (2, 4))
    return graph("sums", (x, y, w), b, b.binary(BinaryFn.SUB, first, second))


@pytest.mark.parametrize("make", [gated, heads, sums])
def test_nothing_is_copied(make: Callable[[], KernelGraph]) -> None:
    program = decompose(make(), stable=True)
    moved = with_early_slices(program)
    check_graph(moved)
    slices = [op for op in moved.ops if isinstance(op, Slice)]
    assert slices
    assert all(op.operands[0] in program.inputs and is_address(op) for op in slices)
    assert cut_bytes(moved) < cut_bytes(program)
    assert not copies_in(moved)
    rng = np.random.default_rng(0)
    inputs = [rng.normal(size=v.shape) for v in program.inputs]
    for got, expected in zip(
        evaluate_floats(moved, inputs), evaluate_floats(program, inputs), strict=True
    ):
        np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-9)


def test_parts_of_a_permuted_tensor_are_read_where_they_lie() -> None:
    whole = permuted()
    moved = with_early_slices(whole)
    sources = {op.operands[0] for op in moved.ops if isinstance(op, Slice)}
    assert sources <= set(moved.inputs)
    x = np.random.default_rng(2).standard_normal(whole.inputs[0].shape)
    for a, b in zip(evaluate_floats(moved, [x]), evaluate_floats(whole, [x]), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_gated_projection_is_one_kernel() -> None:
    best = superoptimize(gated(), H200).candidates[0].graph
    assert sum(isinstance(op, Launch) for op in best.ops) == 1
    assert all(isinstance(op, Launch) or is_address(op) for op in best.ops)


def columns() -> KernelGraph:
    """Columns of a weight are not contiguous: copying those of the result is cheaper."""
    x, w, b = tensor("x", 8, 64), tensor("w", 64, 96), Builder()
    gate, up = halves(b, b.matmul(x, w), 1)
    return graph("columns", (x, w), b, b.binary(BinaryFn.MUL, gate, up))


def also_whole() -> KernelGraph:
    """The whole product is needed, too: recomputing its parts would be more work."""
    x, w, b = tensor("x", 8, 64), tensor("w", 96, 64), Builder()
    both = b.matmul(x, b.transpose(w, (1, 0)))
    gate, up = halves(b, both, 1)
    total = b.reduce(ReduceFn.SUM, b.unary(UnaryFn.EXP, both), (1,))
    return graph(
        "whole", (x, w), b, b.binary(BinaryFn.MUL, b.binary(BinaryFn.MUL, gate, up), total)
    )


@pytest.mark.parametrize("make", [columns, also_whole])
def test_what_costs_more_stays(make: Callable[[], KernelGraph]) -> None:
    program = make()
    assert with_early_slices(program) is program


@st.composite
def blocks(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    sizes = tuple(draw(st.integers(1, n)) for n in shape)
    return (
        shape,
        sizes,
        tuple(draw(st.integers(0, n - s)) for n, s in zip(shape, sizes, strict=True)),
    )


@settings(max_examples=200, deadline=None)
@given(blocks())
def test_contiguous_start(
    block: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]],
) -> None:
    shape, sizes, offsets = block
    places = np.arange(prod(shape)).reshape(shape)
    part = places[tuple(slice(o, o + n) for o, n in zip(offsets, sizes, strict=True))].ravel()
    together = bool((np.diff(part) == 1).all())
    assert contiguous_start(shape, sizes, offsets) == (part[0] if together else None)


@settings(max_examples=200, deadline=None)
@given(blocks(), st.data())
def test_blocks_of_reshapes(
    block: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]], data: st.DataObject
) -> None:
    """Whether it moves or not, it is the same block; factors of the shape are combined in a new
    way."""
    shape, sizes, offsets = block
    old: list[int] = [1]
    for n in shape:
        if data.draw(st.booleans()):
            old.append(n)
        else:
            old[-1] *= n
    x, b = tensor("x", *old), Builder()
    y = b.unary(UnaryFn.EXP, b.slice(b.reshape(x, shape), offsets, sizes))
    program = graph("reshaped", (x,), b, y)
    moved = with_early_slices(program)
    value = np.random.default_rng(0).normal(size=old)
    (got,), (expected,) = evaluate_floats(moved, [value]), evaluate_floats(program, [value])
    np.testing.assert_array_equal(got, expected)


def test_a_part_of_a_result_in_another_shape_is_an_address() -> None:
    """The caller gets a product, and a kernel reads columns of its heads: it is written once."""
    b, x, w, c = Builder(), tensor("x", 1, 256), tensor("w", 256, 768), tensor("c", 4, 64)
    y = b.matmul(x, w)
    heads = b.reshape(y, (4, 192))
    turned = b.binary(BinaryFn.MUL, b.slice(heads, (0, 128), (4, 64)), c)
    program = graph("heads", (x, w, c), b, y, turned)
    best = superoptimize(program, H200).candidates[0].graph
    product, other = launches(best.ops)
    assert [v.type.size for v in product.results] == [768]
    assert [v.type.size for v in other.results] == [256]
    random = np.random.default_rng(0)
    inputs = [random.standard_normal(v.shape) for v in program.inputs]
    pairs = zip(evaluate_floats(best, inputs), evaluate_floats(program, inputs), strict=True)
    for mine, its in pairs:
        np.testing.assert_allclose(mine, its, rtol=1e-9, atol=1e-9)


@given(st.integers(0, 1), st.integers(0, 2), st.booleans())
def test_elements_of_a_part_in_another_shape_are_cut_at_once(
    row: int, col: int, turned: bool
) -> None:
    """One element of each window: of its row, and then of the neighbours in that row."""
    b, x = Builder(), tensor("x", 4, 2, 12)
    first = b.slice(b.unary(UnaryFn.EXP, x), (0, row, 0), (4, 1, 12))
    windows = b.reshape(first, (4, 4, 3) if turned else (2, 2, 1, 4, 3))
    rank = len(windows.shape)
    y = b.slice(windows, (0,) * (rank - 1) + (col,), (*windows.shape[:-1], 1))
    program = graph("element", (x,), b, y)
    early = with_early_slices(program)
    check_graph(early)
    assert len([op for op in early.ops if isinstance(op, Slice)]) == 1
    value = np.random.default_rng(0).normal(size=x.shape)
    (got,), (expected,) = evaluate_floats(early, [value]), evaluate_floats(program, [value])
    np.testing.assert_allclose(got, expected, rtol=1e-12)
