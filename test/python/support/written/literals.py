"""Numbers of f32 that a program writes as tensors, and numbers that PyTorch computes from them."""

from __future__ import annotations

import math

import torch

from written.pairs import Pair

X = "4x8"


def number(value: float) -> torch.Tensor:
    return torch.tensor(value)


LITERALS_RIGHT = [
    Pair("a literal", X, lambda x: x * number(0.3), lambda x: x * 0.3),
    Pair("an exponential", X, lambda x: x * number(0.3).exp(), lambda x: x * math.exp(0.3)),
    Pair("a tanh", X, lambda x: x * number(0.3).tanh(), lambda x: x * math.tanh(0.3)),
    Pair("a root", X, lambda x: x / number(128.0).sqrt(), lambda x: x * 128**-0.5),
    Pair(
        "a factor of exponentials", X, lambda x: torch.exp(x + 0.3),
        lambda x: torch.exp(x) * number(0.3).exp(),
    ),
    Pair(
        "a factor in the exponent", X, lambda x: torch.exp(x) * 0.3,
        lambda x: torch.exp(x + number(0.3).log()),
    ),
    Pair(
        "a temperature", X, lambda x: torch.softmax(x / number(0.7), -1),
        lambda x: torch.softmax(x * (1 / 0.7), -1),
    ),
    Pair("digits that no kernel has", X, lambda x: x * 0.123456789,
         lambda x: x * number(0.12345679)),
]  # fmt: skip

LITERALS_WRONG = [
    Pair("the next literal", X, lambda x: x * number(0.3),
         lambda x: x * torch.nextafter(number(0.3), number(1.0))),
    Pair("another exponential", X, lambda x: x * number(0.3).exp(),
         lambda x: x * number(0.30001).exp()),
    Pair("a rounded exponential", X, lambda x: x * number(0.3).exp(), lambda x: x * 1.34986),
    Pair("a factor and no exponential", X, lambda x: torch.exp(x + 0.3),
         lambda x: torch.exp(x) * number(1.34986)),
    Pair("a factor beside the exponent", X, lambda x: torch.exp(x) * 0.3,
         lambda x: torch.exp(x + number(0.31).log())),
]  # fmt: skip
