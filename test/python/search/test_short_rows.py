"""Transposes that make rows of a few elements, and joins that read slices."""

from __future__ import annotations

import numpy as np
import pytest
from example_programs.search_programs import graph, tensor
from mirage.cost.copy_kernels import copies_in
from mirage.search.program.copied_parts import is_copy, with_copied_parts
from mirage.search.program.short_rows import with_parts_of_short_rows
from mirage.search.superoptimize import searched
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import DType, UnaryFn
from mirage.semantics.ugraph import Concat, KernelGraph, Transpose

Shape = tuple[int, ...]


def turned(shape: Shape, order: Shape, *, product: bool = False) -> KernelGraph:
    x, b = tensor("x", *shape), Builder()
    y = b.transpose(x, order)
    return graph("turned", (x,), b, b.matmul(y, b.transpose(y, (0, 2, 1))) if product else y)


def same(first: KernelGraph, second: KernelGraph) -> bool:
    rng = np.random.default_rng(0)
    inputs = [rng.standard_normal(v.shape) for v in first.inputs]
    return all(
        np.array_equal(a, b)
        for a, b in zip(*(evaluate_floats(g, inputs) for g in (first, second)), strict=True)
    )


@pytest.mark.parametrize(
    ("shape", "order", "parts"),
    [
        ((30, 2, 64), (0, 2, 1), 2),  # pairs of what lies in halves
        ((30, 64, 5), (0, 2, 1), 5),  # halves of what lies in pairs
        ((9, 3, 2, 6, 10), (0, 1, 3, 4, 2), 2),
        ((30, 64, 16), (0, 2, 1), 0),  # tiles of both are large enough
        ((3, 2, 2048), (0, 2, 1), 0),
        ((3, 2, 64), (0, 2, 1), 0),  # less than a tile in total
        ((30, 2, 64), (1, 0, 2), 0),  # rows stay
    ],
)
def test_short_rows_are_taken_apart(shape: Shape, order: Shape, parts: int) -> None:
    first = turned(shape, order)
    second = with_parts_of_short_rows(first)
    check_graph(second)
    joins = [op for op in second.ops if isinstance(op, Concat)]
    assert [len(op.operands) for op in joins] == ([parts] if parts else [])
    assert same(first, second)
    assert bool(parts) or second is first


def test_factors_of_products_are_turned_as_they_are() -> None:
    given = turned((3, 2, 64), (0, 2, 1), product=True)
    assert with_parts_of_short_rows(given) is given


def test_functions_of_elements_are_computed_part_by_part() -> None:
    x, b = tensor("x", 32, 64, 2), Builder()
    given = graph("relu", (x,), b, b.unary(UnaryFn.RELU, b.transpose(x, (0, 2, 1))))
    _, found = searched(given)
    assert not copies_in(found)
    assert any(isinstance(op, Transpose) for op in found.ops)
    assert same(given, found)


def joined(at: int) -> KernelGraph:
    """Columns that are exchanged."""
    x, b = tensor("x", 8, 16), Builder()
    parts = b.slice(x, (0, at), (8, 16 - at)), b.slice(x, (0, 0), (8, at))
    return graph("joined", (x,), b, b.concat(parts, 1))


def test_slices_move_once_into_a_join() -> None:
    given = joined(5)
    assert len(copies_in(given)) == 3
    found = with_copied_parts(given)
    check_graph(found)
    assert not copies_in(found)
    assert sum(map(is_copy, found.ops)) == 2
    assert same(given, found)


def test_whole_tensors_are_joined_by_one_kernel() -> None:
    x, y, b = tensor("x", 8, 16), tensor("y", 8, 3), Builder()
    given = graph("whole", (x, y), b, b.concat((x, y), 1))
    assert with_copied_parts(given) is given


def test_what_is_computed_of_short_rows_is_computed_of_their_parts() -> None:
    """Also in a wider type: the join is the result, which is written anyway."""
    x, b = tensor("x", 2, 64, 64, 3, dtype=DType.F16), Builder()
    pixels = b.cast(b.transpose(x, (0, 3, 1, 2)), DType.F32)
    given = graph("image", (x,), b, b.unary(UnaryFn.EXP, pixels))
    _, found = searched(given)
    check_graph(found)
    assert isinstance(found.ops[-1], Concat)
    assert same(given, found)
