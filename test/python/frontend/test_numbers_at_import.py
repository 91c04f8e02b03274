"""Numbers that are known when a program is imported are computed there."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.semantics.evaluation.evaluate import evaluate_floats
from mirage.semantics.scalar import BinaryFn
from mirage.semantics.ugraph import Elementwise
from thorough import some_of
from torch_programs.imported_values import Tensor, outputs, rand

X, Y = rand(4, 6), rand(4, 6)


@pytest.mark.parametrize("weight", some_of([0.0, 0.1, 0.5, 0.7, 1.0, -2.0], every=2))
def test_a_weight_decides_how_to_mix(weight: float) -> None:
    def mixed(x: Tensor, y: Tensor) -> Tensor:
        return torch.lerp(x, y, weight)

    graph = mi.from_torch(mixed, X.float(), Y.float()).program.graph
    functions = {op.function for op in graph.ops if op.operands}
    assert functions <= {BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL, None}  # None: views
    ((ours, expected),) = outputs(mixed, (X, Y), typed=False)
    np.testing.assert_allclose(ours, expected, rtol=1e-12, atol=1e-12)


def test_what_is_not_kept_for_certain_is_zero_even_where_it_is_no_number() -> None:
    def chosen(x: Tensor) -> Tensor:
        never = torch.tensor(3.0) < torch.tensor(2.0)
        return torch.where(never, x, 1.0)

    x = torch.tensor([torch.nan, torch.inf, 2.0]).double()
    ((ours, expected),) = outputs(chosen, (x,), typed=False)
    np.testing.assert_array_equal(ours, expected)


def test_what_a_cast_rounds_is_rounded() -> None:
    def scaled(x: Tensor) -> Tensor:
        return x * torch.tensor(0.1).half().float()

    ((ours, expected),) = outputs(scaled, (X.float(),), typed=True)
    np.testing.assert_array_equal(ours, expected)


NEUTRAL: dict[str, Callable[[Tensor], Tensor]] = {
    "plus zero": lambda i: torch.arange(1) + i,
    "less zero": lambda i: i - torch.zeros(4, 1, dtype=torch.long),
    "times one": lambda i: torch.ones(3, dtype=torch.long) * i,
    "by one": lambda i: i // 1,
}
OTHER: dict[str, Callable[[Tensor], Tensor]] = {
    "zero less": lambda i: 0 - i,
    "plus one": lambda i: torch.ones(1, dtype=torch.long) + i,
    "times zero": lambda i: i * torch.arange(1),
    "one by it": lambda i: torch.ones(1, dtype=torch.long) // i,
    "in a wider type": lambda i: i.int() + torch.arange(1),
}
INTEGERS = torch.tensor([[5], [-3], [1 << 40], [1]])


@pytest.mark.parametrize("name", [*NEUTRAL, *OTHER])
def test_integers_that_nothing_changes(name: str) -> None:
    program = (NEUTRAL | OTHER)[name]
    graph = mi.from_torch(program, INTEGERS).graph
    computed = any(isinstance(op, Elementwise) and not op.identity for op in graph.ops)
    assert computed == (name in OTHER)
    (y,) = evaluate_floats(graph, [INTEGERS.numpy()])
    np.testing.assert_array_equal(y, program(INTEGERS).numpy())


def test_zero_is_added_to_floats() -> None:
    """This makes a negative zero positive."""
    graph = mi.from_torch(lambda x: x + torch.zeros(1), X.float()).graph
    assert any(op.function is BinaryFn.ADD for op in graph.ops)


@pytest.mark.parametrize(
    ("number", "exact"),
    [
        (lambda: torch.full((), 12.0).sqrt(), 12.0**0.5),
        (lambda: torch.full((), 7.0).rsqrt(), 7.0**-0.5),
        (lambda: torch.full((), 3.0).log() / 2, math.log(3) / 2),
        (lambda: torch.full((), 0.3), Fraction(3, 10)),
        (lambda: torch.tensor(0.3), Fraction(3, 10)),
        (lambda: torch.tensor(0.3).exp(), math.exp(0.3)),
        (lambda: torch.tensor(0.30000004), Fraction(float(np.float32(0.30000004)))),
        (lambda: (torch.full((), 1e8) + 1) - 1e8, Fraction(0)),
        (lambda: 1 - torch.full((), 0.9), Fraction(float(1 - np.float32(0.9)))),
        (lambda: torch.full((), 0.3).half().float(), Fraction(float(np.float16(0.3)))),
    ],
)
def test_a_number_is_what_it_is_rounded_from(
    number: Callable[[], Tensor], exact: float | Fraction
) -> None:
    """Unless the result depends on the rounding."""
    graph = mi.from_torch(lambda x: x * number(), X.float()).program.graph
    (found,) = (op.number for op in graph.ops if op.number is not None)
    assert found == (exact if isinstance(exact, Fraction) else pytest.approx(exact, rel=1e-15))
