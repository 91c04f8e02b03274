"""Pieces of a tensor in another order: chosen by position, equal to the concatenation."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import Concat, KernelGraph, Slice, TensorType, Value
from mirage.transforms.selections import selected_pieces

Make = Callable[[Builder, Value], tuple[Value, ...]]


def program(
    shape: tuple[int, ...], make: Make, dim: int, read: bool = True, reduced: bool = True
) -> KernelGraph:
    b = Builder()
    x = Value(TensorType(shape, DType.F32), "x")
    y = b.concat(make(b, x), dim)
    z = b.binary(BinaryFn.ADD, y, y) if read else y
    z = b.reduce(ReduceFn.SUM, z, (0,)) if reduced else z
    return KernelGraph("pieces", (x,), tuple(b.ops), (z,))


def piece(b: Builder, x: Value, dim: int, number: int, size: int) -> Value:
    offsets = tuple(number * size if d == dim else 0 for d in range(len(x.shape)))
    sizes = tuple(size if d == dim else n for d, n in enumerate(x.shape))
    return b.slice(x, offsets, sizes)


def turned(dim: int, size: int) -> Make:
    """Rotary positions."""
    return lambda b, x: (
        b.unary(UnaryFn.NEG, piece(b, x, dim, 1, size)), piece(b, x, dim, 0, size),
    )  # fmt: skip


def backwards(b: Builder, x: Value) -> tuple[Value, ...]:
    return tuple(piece(b, x, 1, n, 2) for n in (3, 2, 1, 0))


def later(b: Builder, x: Value) -> tuple[Value, ...]:
    first, *others = (piece(b, x, 1, n, 2) for n in (1, 2, 3))
    return (first, *(b.unary(UnaryFn.EXP, b.unary(UnaryFn.TANH, y)) for y in others))


CHOSEN: dict[str, tuple[tuple[int, ...], Make, int]] = {
    "turned, last": ((3, 8), turned(1, 4), 1),
    "turned, first": ((8, 3), turned(0, 4), 0),
    "turned, inside": ((2, 8, 3), turned(1, 4), 1),
    "backwards": ((3, 8), backwards, 1),
    "functions of the last": ((3, 8), later, 1),
}


@pytest.mark.parametrize("name", CHOSEN)
def test_what_is_chosen_is_what_was_concatenated(name: str) -> None:
    shape, make, dim = CHOSEN[name]
    graph = program(shape, make, dim)
    found = selected_pieces(graph)
    check_graph(found)
    assert not any(isinstance(op, Concat | Slice) for op in found.ops)
    x = np.random.default_rng(0).normal(size=shape)
    x.reshape(-1)[:2] = np.inf, -np.inf  # elements that are not chosen have no effect
    with np.errstate(invalid="ignore"):
        (want,), (got,) = (evaluate_floats(g, [x]) for g in (graph, found))
    np.testing.assert_array_equal(got, want)


def mixed(b: Builder, x: Value) -> tuple[Value, ...]:
    return tuple(piece(b, x, 1, n, 2) for n in (1, 3, 0))


def unlike(b: Builder, x: Value) -> tuple[Value, ...]:
    return (piece(b, x, 1, 1, 2), b.slice(x, (0, 0), (3, 4)))


def two_tensors(b: Builder, x: Value) -> tuple[Value, ...]:
    return (piece(b, x, 1, 1, 4), piece(b, b.unary(UnaryFn.EXP, x), 1, 0, 4))


def three_functions(b: Builder, x: Value) -> tuple[Value, ...]:
    parts = [piece(b, x, 1, n, 2) for n in (2, 1, 0)]
    return (parts[0], b.unary(UnaryFn.NEG, parts[1]), b.unary(UnaryFn.EXP, parts[2]))


def between(b: Builder, x: Value) -> tuple[Value, ...]:
    return (b.slice(x, (0, 3), (3, 4)), b.slice(x, (0, 0), (3, 4)))


@pytest.mark.parametrize("make", [mixed, unlike, two_tensors, three_functions, between])
def test_others_stay(make: Make) -> None:
    graph = program((3, 8), make, 1)
    assert selected_pieces(graph) is graph


def test_what_is_needed_in_memory_stays() -> None:
    graph = program((3, 8), turned(1, 4), 1, read=False)
    assert selected_pieces(graph) is graph


def test_many_small_pieces_stay() -> None:
    graph = program((3, 16), lambda b, x: tuple(piece(b, x, 1, n, 2) for n in range(8)), 1)
    assert selected_pieces(graph) is graph


def test_what_is_stored_element_by_element_stays() -> None:
    """The search computes its pieces in one kernel."""
    graph = program((3, 8), turned(1, 4), 1, reduced=False)
    assert selected_pieces(graph) is graph
