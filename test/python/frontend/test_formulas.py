"""Vectors of integers that are formulas of positions."""

from __future__ import annotations

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.frontend.torch_import.known_tensors.formulas import Line, line_of
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import Iota

I = np.arange(60)
LINES: dict[str, tuple[np.ndarray, Line]] = {
    "positions": (I, Line(1, 0)),
    "in steps": (3 * I - 5, Line(3, -5)),
    "backwards": (59 - I, Line(-1, 59)),
    "quotients": (I // 7, Line(1, 0, 7)),
    "quotients that begin in a run": ((I + 3) // 7 * 2 - 1, Line(2, -1, 7, 3)),
    "starts of blocks": (I // 8 * 8, Line(8, 0, 8)),
    "two halves": (I // 30, Line(1, 0, 30)),
    "one that differs": (I // 59, Line(1, 0, 59)),
    "remainders": (I % 10, Line(1, 0, period=10)),
    "two that alternate": (I % 2 + 4, Line(1, 4, period=2)),
    "quotients of remainders": (I % 30 // 7, Line(1, 0, 7, period=30)),
    "rows that are repeated": (I // 3 % 4, Line(1, 0, 3, period=12)),
}


@pytest.mark.parametrize("name", LINES)
def test_lines(name: str) -> None:
    data, line = LINES[name]
    assert line_of(data) == line
    for cut in (0, 5, 11):
        if line.period is None:
            assert np.array_equal(line.moved(cut).of(I[cut:]), data[: len(I) - cut])


@pytest.mark.parametrize("at", [0, 1, 7, 30, 58, 59])
@pytest.mark.parametrize("name", LINES)
def test_what_differs_somewhere_is_another_line_or_none(name: str, at: int) -> None:
    data = LINES[name][0].copy()
    data[at] += 1
    found = line_of(data)
    assert found is None or np.array_equal(found.of(I), data)


def test_what_is_no_line() -> None:
    for data in ([0] * 30 + [1] * 20 + [2] * 10, [5] * 60, [*range(30), *range(30, 0, -1)]):
        assert line_of(np.asarray(data)) is None


def test_quotients_that_are_compared_are_computed_and_indices_are_read() -> None:
    def compared(x: torch.Tensor) -> torch.Tensor:
        i = torch.arange(288) // 5
        return torch.where(i[:, None] == i, x, 0.0)

    def indexed(x: torch.Tensor) -> torch.Tensor:
        return x[torch.arange(288) // 5]

    x = torch.randn(288, 288, dtype=torch.float64)
    program = mi.from_torch(compared, x).program
    assert not program.parameters
    assert sum(isinstance(op, Iota) for op in program.graph.ops) == 1
    (y,) = evaluate_floats(program.graph, [x.numpy()])
    np.testing.assert_array_equal(y, compared(x).numpy())
    assert len(mi.from_torch(indexed, x).program.parameters) == 1
