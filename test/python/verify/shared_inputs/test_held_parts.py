"""Tensors that are joins of other held tensors: all parts are found by their elements."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.shared_inputs.held_parts import joined_of_others, with_parts_joined

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((5, 4)), RNG.standard_normal((5, 4))
Z = np.where(X > 0, X, 0.0)
MADE = {
    "twice": np.concatenate([X, X], 1),
    "two": np.concatenate([Y, X], 1),
    "with signs": np.concatenate([-X, Y, X], 1),
    "rows": np.concatenate([X, Y, -Y], 0),
    "zeros of both signs": np.concatenate([-Z, Z], 1),
    "stacked": np.stack([X, Y]),
    "numbers": np.concatenate([np.full((5, 4), -1.0), np.ones((5, 4))], 1),
    "a number and another": np.concatenate([np.full((5, 4), 0.1), -Y], 1),
    "numbers of three rows": np.repeat([[2.0], [0.5], [7.0]], 2, axis=0),
    "halves of each": np.concatenate([X[:, :2], -Y[:, 2:], X[:, 2:], Y[:, :2]], 1),
    "the same": X.copy(),
    "the same in another shape": X.reshape(5, 1, 4, 1),
    "with dimensions of one": np.concatenate([X, Y], 1).reshape(1, 1, 5, 8),
}
OTHERS = {
    "one element": np.concatenate([X, np.where(np.arange(4) == 2, X + 1e-7, X)], 1),
    "rows from the end": np.concatenate([X[::-1], Y], 1),
    "turned": np.concatenate([X.reshape(4, 5), Y.reshape(4, 5)], 1),
    "infinite": np.concatenate([X, np.full_like(X, np.inf)], 1),
    "numbers that follow each other": np.arange(6.0),
    "empty": np.zeros((0, 4)),
}


def written(x: Array, dtype: DType = DType.F32) -> KernelGraph | None:
    """A program of the held tensors that computes ``x``."""
    contents = {0: X, 1: Y, 2: Z, 3: x}
    inputs = tuple(Value(TensorType(a.shape, dtype)) for a in contents.values())
    joined = joined_of_others(inputs, {3: x}, contents)
    if not joined:
        return None
    return with_parts_joined(KernelGraph("g", inputs, (), (inputs[3],)), joined)


@pytest.mark.parametrize("name", MADE)
def test_what_is_made_of_others_is_written_so(name: str) -> None:
    x = MADE[name]
    graph = written(x)
    assert graph is not None
    (found,) = evaluate_floats(graph, [X, Y, Z, np.full(x.shape, np.nan)])
    assert found.shape == x.shape
    assert (found == x).all()


@pytest.mark.parametrize("name", OTHERS)
def test_what_is_not_stays(name: str) -> None:
    assert written(OTHERS[name]) is None


def test_integers_have_no_negatives() -> None:
    assert written(MADE["with signs"], DType.I64) is None


@pytest.mark.parametrize("second", [1.0, -1.0])
def test_what_repeats_itself_is_made_of_its_first_block(second: float) -> None:
    x = RNG.standard_normal((5, 3))
    twice = np.concatenate([x, second * x], 1)
    graph = written(twice)
    assert graph is not None
    (found,) = evaluate_floats(graph, [X, Y, Z, np.concatenate([x, np.full((5, 3), np.nan)], 1)])
    assert (found == twice).all()
