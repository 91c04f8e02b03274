"""Tensors that hold functions of positions are written as these functions, element by element."""

from __future__ import annotations

import numpy as np
import pytest
from mirage.semantics.domain import Float64
from mirage.semantics.evaluation.evaluate import evaluate
from mirage.semantics.ops.op import TensorType, Value
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.shared_inputs.held_positions import read, with_positions_written

I, J = np.arange(7)[:, None], np.arange(9)[None, :]
ONES = np.ones((7, 9))
SEEN = {
    "causal": J <= I,
    "causal without the diagonal": J < I,
    "of the next": J <= I + 1,
    "the last rows": J <= I + 2,
    "the other side": J >= I,
    "strictly on the other side": J > I,
    "from three back": J >= I - 3,
    "a window": (J <= I) & (J > I - 3),
    "both sides": abs(I - J) <= 2,
    "outside of a window": abs(I - J) > 2,
    "the first columns": (J < 4) & (I >= 0),
    "but the first columns": (J >= 4) & (I >= 0),
    "columns between": (J >= 2) & (J < 5) & (I >= 0),
    "but one diagonal": J != I,
}
NUMBERS = {
    "columns": J + 0.0 * I,
    "rows": I + 0.0 * J,
    "slopes": 0.25 * (J - I),
    "slopes and a number": 0.5 * J - 2.0 * I + 3.0,
    "causal slopes": np.where(J <= I, 0.25 * (J - I), -np.inf),
    "causal infinities": np.where(J <= I, 0.0, -np.inf),
    "a triangle of ones": (J <= I) * 1.0,
    "ones outside of a window": (abs(I - J) > 2) * 1.0,
    "a number in a window": np.where(abs(I - J) <= 2, 1.5, -np.inf),
}
OTHERS = {
    "noise": np.random.default_rng(0).standard_normal((7, 9)),
    "one is missing": np.where((I == 3) & (J == 2), 0.0, J <= I),
    "a product": I * J * 1.0,
    "slopes by 0.1": (0.1 * (J - I)).astype(np.float32) * 1.0,
    "plus infinity": np.where(J <= I, 0.0, np.inf),
    "no number": np.where(J <= I, 0.0, np.nan),
    "two windows": (abs(I - J) == 1) * 1.0,
}


def given(content: Array, dtype: DType) -> Array | None:
    """Return the function that replaces a tensor with these contents; None if it is not
    recognised."""
    held = read(content, dtype)
    if held is None:
        return None
    x = Value(TensorType(content.shape, dtype), "x")
    graph = with_positions_written(KernelGraph("g", (x,), (), (x,)), {0: held})
    assert graph.outputs[0].type == x.type
    (found,) = evaluate(graph, Float64(), [(np.zeros(content.shape),)])
    return np.asarray(found[0])


@pytest.mark.parametrize("name", SEEN)
@pytest.mark.parametrize("shape", [(7, 9), (1, 1, 7, 9)])
def test_masks_are_what_is_below_what(name: str, shape: tuple[int, ...]) -> None:
    mask = SEEN[name].astype(np.float64).reshape(shape)
    found = given(mask, DType.I1)
    assert found is not None
    assert (found == mask).all()


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_linear_in_positions(name: str) -> None:
    found = given(NUMBERS[name] * ONES, DType.F32)
    assert found is not None
    assert (found == NUMBERS[name]).all()


def test_a_row_of_positions() -> None:
    x = np.arange(5) * 2.0 - 1.0
    found = given(x, DType.F32)
    assert found is not None
    assert (found == x).all()


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay_what_they_are(name: str) -> None:
    assert given(OTHERS[name] * ONES, DType.F32) is None
    assert read((OTHERS[name] * ONES != 0) * 1.0, DType.I1) is None or name not in ("noise",)


def test_few_elements_are_any_function() -> None:
    assert read(np.array([3.0, 5.0]), DType.F32) is None
    assert read(np.array([[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]]), DType.I1) is None
    assert read(np.zeros((2, 4, 4)), DType.F32) is None
