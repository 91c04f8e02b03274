"""Indices that are computed from inputs before a program runs."""

from __future__ import annotations

import pytest
import torch
from mirage.runtime.serialization.index_steps import (
    evaluate,
    inputs_of,
    why_malformed,
    with_inputs,
)
from thorough import some_of

X = torch.tensor([[3, -1, 2**31], [4, 0, 7]])
STEPS: dict[str, tuple[list[str], torch.Tensor]] = {
    "arithmetic": (
        ["input 0", "constant 3 : i64", "floor_div 0 1 : i64", "remainder 0 1 : i64",
         "sub 2 3 : i64"],
        X // 3 - X % 3,
    ),
    "wraps": (["input 0", "cast 0 : i32", "cast 1 : i64"], X.to(torch.int32).long()),
    "kept": (["input 0", "constant 0 : i64", "lt 1 0 : i1", "keep 2 0 : i64"], X * (X > 0)),
    "moved": (
        ["input 0", "transpose 0 1 0", "slice 1 0 1 2", "reshape 2 4", "repeat 3 2 4"],
        X.t()[1:].reshape(4).expand(2, 4),
    ),
    "joined": (
        ["input 0", "position 3 : i64", "reshape 1 1 3", "join 0 0 2"],
        torch.cat([X, torch.arange(3)[None]]),
    ),
    "rows": (["input 0", "position 2 : i64", "row 0 1"], X),
    "limited": (
        ["input 0", "constant 0 : i64", "max 0 1 : i64", "neg 2 : i64", "abs 3 : i64"],
        X.clamp(min=0),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", some_of(STEPS, 3))
def test_steps_compute_what_pytorch_does(name: str) -> None:
    steps, expected = STEPS[name]
    assert why_malformed(steps, 1) is None
    got = evaluate(steps, [X])
    assert got.dtype is expected.dtype
    assert torch.equal(got, expected)


def test_inputs_have_other_numbers_in_a_part() -> None:
    steps = ["input 4", "input 2", "add 0 1 : i64", "constant 4 : i64", "mul 2 3 : i64"]
    assert inputs_of(steps) == (4, 2)
    moved = with_inputs(steps, {4: 0, 2: 1})
    assert moved[:3] == ("input 0", "input 1", "add 0 1 : i64")
    assert torch.equal(evaluate(moved, [X, X]), 8 * X)


@pytest.mark.parametrize(
    ("step", "why"),
    [
        ("sub 0 x", "a step such as"),
        ("sub 0", "the name and the numbers"),
        ("round 0", "the name and the numbers"),
        ("sub 0 1 : i64", "earlier steps"),
        ("cast 0 : i3", "a type"),
        ("input 1", "one of 1 inputs"),
    ],
)
def test_malformed_steps(step: str, why: str) -> None:
    assert why in (why_malformed(["input 0", step], 1) or "")
