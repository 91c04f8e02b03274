"""Numbers that affect only other numbers, such as a count of calls: a graph is compiled once for
all of them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from mirage.torch.graph_compiler import MOST_SIZES, backend
from torch_programs.op_by_op import op_by_op

X = torch.arange(12.0).reshape(3, 4)


class State:
    """The state that a caller keeps between calls."""

    def __init__(self) -> None:
        self.calls, self.twice = 3, 6


def counted(x: torch.Tensor, state: State) -> torch.Tensor:
    y = x * 2
    state.calls += 1
    state.twice = 2 * state.calls
    return y + 1


def as_size(x: torch.Tensor, state: State) -> torch.Tensor:
    """The number is a size, too."""
    state.calls += 1
    return x.sum() * state.calls


@pytest.fixture
def compiled() -> list[Any]:
    torch._dynamo.reset()  # pyright: ignore[reportPrivateUsage]
    return []


def run(function: Any, compiled: list[Any], calls: int) -> list[int]:
    """Return the numbers of graphs that were compiled after each call; all results are those of
    eager."""

    def compiler(program: Any, options: Any) -> Any:
        compiled.append(program)
        return op_by_op(program, options)

    fast = torch.compile(function, backend=partial(backend, compiler=compiler, devices=("cpu",)))
    mine, theirs, made = State(), State(), list[int]()
    for _ in range(calls):
        torch.testing.assert_close(fast(X, mine), function(X, theirs))
        assert vars(mine) == vars(theirs)
        made.append(len(compiled))
    return made


def test_a_count_is_no_size(compiled: list[Any], caplog: pytest.LogCaptureFixture) -> None:
    made = run(counted, compiled, MOST_SIZES + 4)
    assert made[0] == 1
    assert made[-1] == made[2] <= 3
    assert "others stay eager" not in caplog.text


def test_a_number_that_a_tensor_depends_on_is_a_size(compiled: list[Any]) -> None:
    made = run(as_size, compiled, 5)
    assert made[-1] > made[2]
