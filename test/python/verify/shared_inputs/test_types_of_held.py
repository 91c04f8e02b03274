"""Tensors with the same elements in two types, as truth values and as ones and zeros, are one
tensor."""

from __future__ import annotations

import mirage as mi
import pytest
import torch
from mirage.pipeline.commands.compare import verify_programs
from mirage.verify import Kind, SignatureMismatch, VerifyOptions
from written.pairs import Pair, verdict_of

KEPT = torch.tensor([1, 0, 0, 1, 1, 0, 1, 0]).bool()
X = "6x8"
SAME = [
    Pair("truth values and ones", X, lambda x: x * KEPT, lambda x: x * KEPT.float()),
    Pair("ones and truth values", X, lambda x: x * KEPT.float(), lambda x: x * KEPT),
    Pair(
        "a choice and factors",
        X,
        lambda x: torch.where(KEPT, x, 0.0).sum(-1),
        lambda x: x @ KEPT.float(),
    ),
    Pair(
        "whole numbers and fractions",
        X,
        lambda x: x + torch.tensor([3, 1, 4, 1, 5, 9, 2, 6]),
        lambda x: torch.tensor([3.0, 1.0, 4.0, 1.0, 5.0, 9.0, 2.0, 6.0]) + x,
    ),
]
OTHER = [
    Pair("other truth values", X, lambda x: x * KEPT, lambda x: x * (~KEPT).float()),
    Pair(
        "as a choice and as summands",
        X,
        lambda x: torch.where(KEPT, x, 0.0),
        lambda x: x + KEPT.float(),
    ),
]


@pytest.mark.parametrize("pair", SAME, ids=lambda pair: pair.name)
def test_equal_elements_of_two_types(pair: Pair) -> None:
    verdict = verdict_of(pair, [pair])
    assert verdict.accepted, verdict


@pytest.mark.parametrize("pair", OTHER, ids=lambda pair: pair.name)
def test_other_elements(pair: Pair) -> None:
    assert verdict_of(pair, [pair]).kind is Kind.REFUTED


class Bytes(torch.nn.Module):
    """Weights of 8 bits, which are scaled before the product or after it."""

    held: torch.Tensor

    def __init__(
        self, dtype: torch.dtype = torch.uint8, *, late: bool = False, zero: int = 3
    ) -> None:
        super().__init__()
        held = (torch.arange(12) * 71 % 256).view(4, 3).to(torch.uint8)
        self.register_buffer("held", held.view(dtype))
        self.late, self.zero = late, zero

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights = self.held.float() - self.zero
        return (x @ weights) * 0.125 if self.late else x @ (weights * 0.125)


def test_bytes_without_a_sign() -> None:
    x = torch.randn(2, 4)
    first, late, other, signed = (
        mi.from_torch(module, x).program
        for module in (Bytes(), Bytes(late=True), Bytes(zero=4), Bytes(torch.int8))
    )
    options = VerifyOptions(seed=1)
    assert verify_programs(first, late, options).accepted
    for wrong in (other, signed):
        assert verify_programs(first, wrong, options).kind is Kind.REFUTED


def test_bytes_without_a_sign_as_results() -> None:
    """Results that kernels carry as signed ones are compared with others of their type."""
    x = torch.randn(2, 4)
    first, same, other, signed = (
        mi.from_torch(program, x).program
        for program in (
            lambda x: (x > 0).to(torch.uint8),
            lambda x: 1 - (x <= 0).to(torch.uint8),
            lambda x: (x > 1).to(torch.uint8),
            lambda x: (x > 0).to(torch.int8),
        )
    )
    options = VerifyOptions(seed=1, numerics=False)
    assert verify_programs(first, same, options).accepted
    assert verify_programs(first, other, options).kind is Kind.REFUTED
    with pytest.raises(SignatureMismatch, match="uint8"):
        verify_programs(first, signed)


def test_results_of_other_types() -> None:
    program = mi.from_torch(lambda x: torch.complex(x, x), torch.randn(2, 4)).program
    with pytest.raises(SignatureMismatch, match="complex64"):
        verify_programs(program, program)
