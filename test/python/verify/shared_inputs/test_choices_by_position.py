"""Choices by positions are joins of the chosen parts."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.builder import Builder
from mirage.semantics.check import check_graph
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.positions import Iota, iota
from mirage.semantics.scalar import BinaryFn, DType, UnaryFn
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.shared_inputs.choices_by_position import with_choices_cut

NOTHING = KernelGraph("nothing", (), (), ())


def chosen(rng: np.random.Generator) -> KernelGraph:
    """Elements of two dimensions that are chosen by random linear inequalities of positions."""
    b = Builder()
    rows, columns = (int(n) for n in rng.integers(1, 7, 2))
    shape = tuple(int(rng.choice([1, n])) for n in (2, rows, columns))[int(rng.integers(0, 3)) :]
    x = Value(TensorType(shape, DType.F32), "x")
    i = b.reshape(iota(b, (rows,), 0), (rows, 1))
    j = iota(b, (columns,), 0)
    mask = None
    for _ in range(int(rng.integers(1, 4))):
        left = (i, j, b.binary(BinaryFn.ADD, i, j), b.binary(BinaryFn.SUB, i, j))
        number = b.constant(int(rng.integers(-2, 7)), DType.I64)
        fn = (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ)[int(rng.integers(3))]
        part = b.binary(fn, left[int(rng.integers(4))], number)
        part = b.unary(UnaryFn.NOT, part) if rng.integers(2) else part
        mask = part if mask is None else b.binary(BinaryFn.OR, mask, part)
    assert mask is not None
    kept = b.binary(BinaryFn.KEEP, mask, b.unary(UnaryFn.EXP, x))
    return KernelGraph("chosen", (x,), tuple(b.ops), (kept,))


def positions_in(graph: KernelGraph) -> int:
    return sum(isinstance(op, Iota) for op in graph.ops)


def test_what_is_joined_is_what_was_chosen() -> None:
    cut = 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        graph = chosen(rng)
        pair = with_choices_cut(graph, NOTHING)
        if pair is None:  # too many pieces
            continue
        found, _ = pair
        check_graph(found)
        cut += not positions_in(found)
        x = rng.standard_normal(graph.inputs[0].shape)
        (expected,), (actual,) = (evaluate_floats(g, [x]) for g in (graph, found))
        assert expected.shape == actual.shape
        assert (expected == actual).all(), seed
    assert cut >= 40


def below(count: int, end: int, n: int = 96) -> KernelGraph:
    b = Builder()
    x = Value(TensorType((count, n), DType.F32), "x")
    mask = b.binary(BinaryFn.LT, iota(b, (n,), 0), b.constant(end, DType.I64))
    kept = b.binary(BinaryFn.KEEP, mask, x)
    return KernelGraph("below", (x,), tuple(b.ops), (kept,))


@pytest.mark.parametrize("end", [48, 72, 90])
def test_few_blocks_are_cut(end: int) -> None:
    found = with_choices_cut(below(4, end), NOTHING)
    assert found is not None
    assert positions_in(found[0]) == 0


def test_many_blocks_are_not() -> None:
    assert with_choices_cut(below(4, 49), NOTHING) is None


def test_what_both_choose_stays() -> None:
    assert with_choices_cut(below(4, 48), below(4, 48)) is None
    assert with_choices_cut(below(4, 48), below(4, 72)) is not None
