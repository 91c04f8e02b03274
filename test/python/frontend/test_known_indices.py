"""Indices that are known at import are tensors that the program holds."""

from __future__ import annotations

from collections.abc import Callable

import mirage as mi
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.positions import Gather, Iota, Lookup

Tensor = torch.Tensor
ORDER = torch.tensor([4, -1, 3, 3, 0])
PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "rows in reverse": lambda x: x.flip(0) * 2,
    "every other one in reverse": lambda x: x.flip(0)[::2] * 2,
    "the last ones first": lambda x: x.flip(0)[:3] + 1,
    "from the end": lambda x: x[ORDER - 0] * 2,
    "some of these": lambda x: x[ORDER - 0][1:3] * 2,
    "moved positions": lambda x: F.embedding(torch.arange(4) + 3, x) * 2,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_call_computes_indices(name: str) -> None:
    function = PROGRAMS[name]
    x = torch.randn(8, 32, generator=torch.Generator().manual_seed(4))
    program = mi.from_torch(function, x).program
    (found,) = (op for op in program.graph.ops if isinstance(op, Gather))
    assert found.operands[1] in program.graph.inputs
    assert not any(isinstance(op, Iota) for op in program.graph.ops)
    (held,) = (p.data.numpy() for p in program.parameters)
    (y,) = evaluate_floats(program.graph, [x.numpy(), held])
    np.testing.assert_allclose(y, function(x).numpy(), rtol=1e-6)


@pytest.mark.parametrize("dims", [(1,), (0, 1)])
def test_columns_in_reverse_are_addresses(dims: tuple[int, ...]) -> None:
    """A lookup by rows would need the tensor in another order in memory."""
    x = torch.randn(8, 32)
    program = mi.from_torch(lambda x: x.flip(dims) * 2, x, allow_fallback=True).program
    (found,) = (op for op in program.graph.ops if isinstance(op, Lookup))
    assert found.operands == program.graph.inputs
    (y,) = evaluate_floats(program.graph, [x.numpy()])
    np.testing.assert_allclose(y, (x.flip(dims) * 2).numpy())


def test_only_the_rows_that_are_taken_are_looked_up() -> None:
    program = mi.from_torch(PROGRAMS["every other one in reverse"], torch.randn(8, 32)).program
    (found,) = (op for op in program.graph.ops if isinstance(op, Gather))
    assert found.result.shape == (4, 32)
    (held,) = program.parameters
    assert held.data.tolist() == [7, 5, 3, 1]


def test_indices_that_depend_on_inputs_are_not_held() -> None:
    program = mi.from_torch(
        lambda x, i: x[i + torch.arange(3)] * 2, torch.randn(8, 32), torch.tensor([1])
    ).program
    assert not program.parameters


def test_indices_outside_are_as_before() -> None:
    """They have no rows: an empty lookup is not moved."""
    x = torch.randn(8, 32)
    program = mi.from_torch(lambda x: F.embedding(torch.arange(4) + 6, x)[1:3] * 2, x).program
    held = [p.data.numpy() for p in program.parameters]
    (y,) = evaluate_floats(program.graph, [x.numpy(), *held])
    np.testing.assert_allclose(y[:1], x[7:].numpy() * 2, rtol=1e-6)
    assert np.isnan(y[1:]).all()


def test_all_rows_in_their_order_are_not_looked_up() -> None:
    """A mask as in Transformers: looked up at each pair of a batch and a position."""

    def masked(mask: Tensor, x: Tensor) -> Tensor:
        batch, place = torch.arange(2), torch.arange(6)
        seen = mask[batch[:, None, None, None], place[None, None, None, :]] != 0
        return torch.where(seen, x, 0.0)

    mask, x = torch.tensor([[0, 0, 1, 1, 1, 1], [1] * 6]), torch.randn(2, 3, 4, 6)
    graph = mi.from_torch(masked, mask, x).graph
    assert not any(isinstance(op, Lookup) for op in graph.ops)
    (y,) = evaluate_floats(graph, [mask.numpy(), x.numpy()])
    np.testing.assert_allclose(y, masked(mask, x).numpy(), rtol=1e-6)


@pytest.mark.parametrize("order", [[0, 1, 2, 4, 3], [0, 1, 2, 3], [1, 2, 3, 4, 5]])
def test_other_orders_are_looked_up(order: list[int]) -> None:
    x = torch.randn(5 + (5 in order), 32)
    program = mi.from_torch(lambda x: F.embedding(torch.tensor(order), x) * 2, x).program
    assert any(isinstance(op, Gather) for op in program.graph.ops)


@pytest.mark.parametrize("times", [1, 3])
def test_rows_that_are_repeated_in_their_order_are_not_looked_up(times: int) -> None:
    x = torch.randn(4, 32, generator=torch.Generator().manual_seed(4))

    def function(x: Tensor) -> Tensor:
        return x[torch.arange(4 * times) // times] * 2

    program = mi.from_torch(function, x).program
    assert not any(isinstance(op, Lookup) for op in program.graph.ops)
    (y,) = evaluate_floats(program.graph, [x.numpy()])
    np.testing.assert_allclose(y, function(x).numpy(), rtol=1e-6)


def test_rows_that_are_repeated_unevenly_are_looked_up() -> None:
    x = torch.randn(4, 32, generator=torch.Generator().manual_seed(4))
    index = torch.tensor([0, 0, 1, 2, 3, 3, 3, 3])
    program = mi.from_torch(lambda x: x[index - 0] * 2, x).program
    assert any(isinstance(op, Gather) for op in program.graph.ops)
