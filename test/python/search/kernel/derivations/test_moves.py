"""The moves of a derivation: each defines its cost, its code in a launch, and its code in a combine
kernel; a class that lacks one of these is an error."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
import pytest
from mirage.cost import H200
from mirage.cost.accountant import Accountant
from mirage.search import SearchLimits, superoptimize
from mirage.search.kernel.derivations.derive import Derivations
from mirage.search.kernel.derivations.moves import (
    SUMS,
    Above,
    Accounts,
    Body,
    Edge,
    EmitError,
    Gather,
    Product,
    Reduction,
    Scale,
)
from mirage.semantics.builder import Builder
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn, DType, ReduceFn
from mirage.semantics.ugraph import Binary, KernelGraph, Launch, TensorType, Value, all_ops


def subclasses(base: type) -> Iterator[type]:
    for each in base.__subclasses__():
        yield each
        yield from subclasses(each)


@dataclass(frozen=True)
class Twice(Edge):
    """A new move: twice a value is the value plus itself."""

    reads: ClassVar[bool] = True

    def account(self, at: Accounts, account: Accountant, size: Any, inside: bool) -> Any:
        account.elementwise(size, 0.5, 0.0, inside)  # cheaper than what it replaces, to be chosen
        return True

    def emit(self, body: Body, row: str | None, col: str | None) -> Value:
        build = body.builder(self.goal)
        x = body.get(self.children[0], row, col)
        return build.binary(BinaryFn.ADD, x, x)

    def combine(self, above: Above) -> Value:
        x = above.get(self.children[0])
        return above.build.binary(BinaryFn.ADD, x, x)


def test_a_move_that_leaves_something_out_cannot_be_written() -> None:
    with pytest.raises(TypeError, match="expected Silent to define combine, emit"):

        class Silent(Edge):  # pyright: ignore[reportUnusedClass]
            def account(self, at: Accounts, account: Accountant, size: Any, inside: bool) -> Any:
                return True


def test_every_move_is_whole() -> None:
    moves = [
        m for m in subclasses(Edge) if m.__module__ == "mirage.search.kernel.derivations.moves"
    ]
    assert len(moves) >= 9
    for move in moves:
        said = all(hasattr(move, name) for name in ("account", "emit", "combine"))
        assert said or move is Reduction, move
    assert set(SUMS) == {"L", "T", "G"}


def test_moves_of_one_sort_differ_from_others() -> None:
    a, b = Scale((1, 1), ((0, 1),), 2), Scale((1, 1), ((0, 1),), 3)
    assert a.sort == b.sort
    assert a != b
    assert Twice((1, 1), ((0, 1),)) != a


def test_a_new_move_is_a_class_and_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is derived, costed, chosen and emitted without any other change."""
    expand = Derivations._expand  # pyright: ignore[reportPrivateUsage]

    def with_twice(self: Derivations, goal: tuple[int, int]) -> Iterator[Edge]:
        for edge in expand(self, goal):
            yield edge
            if isinstance(edge, Scale) and edge.value == 2:
                yield Twice(edge.goal, edge.children)  # the line

    monkeypatch.setattr(Derivations, "_expand", with_twice)
    x, b = Value(TensorType((64, 128), DType.F32), "x"), Builder()
    y = b.binary(BinaryFn.MUL, x, b.constant(2.0))
    graph = KernelGraph("twice", (x,), tuple(b.ops), (y,))
    best = superoptimize(graph, H200, SearchLimits(candidates=1)).candidates[0].graph
    (launch,) = (op for op in best.ops if isinstance(op, Launch))
    fns = [op.fn for op in all_ops(launch.body.ops) if isinstance(op, Binary)]
    assert fns == [BinaryFn.ADD]
    data = np.arange(64.0 * 128).reshape(64, 128)
    (result,) = evaluate_floats(best, [data])
    np.testing.assert_array_equal(result, 2 * data)


def test_what_a_kernel_does_not_have_is_an_error() -> None:
    gather = Gather((1, 2), ((0, 1),), "k", ReduceFn.SUM)
    with pytest.raises(EmitError, match="sum over the grid"):
        gather.emit(cast(Body, None), None, None)
    with pytest.raises(EmitError, match="expected an op of a combine kernel, got product"):
        Product((1, 2), ((0, 1), (0, 1)), "k").combine(cast(Above, None))
