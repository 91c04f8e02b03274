"""Layers that PyTorch computes by one op in evaluation mode are imported as ops of ours, with the
same meaning."""

from __future__ import annotations

import mirage as mi
import numpy as np
import pytest
import torch
from mirage.frontend.torch_import.capture import fused_layers
from thorough import some_of
from torch import nn
from torch_programs.imported_programs import evaluate, rand

LENGTH, WIDTH = 5, 16
CAUSAL = torch.ones(LENGTH, LENGTH).triu(1).bool()
PADDED = torch.tensor([[False] * 3 + [True] * 2, [False] * LENGTH])
NOTHING = torch.tensor([[True] * LENGTH, [False] * LENGTH])
"""The first sequence is masked completely."""


class Encoder(nn.Module):
    """A layer that holds its masks."""

    def __init__(self, src_mask: object, padding: object, **options: object) -> None:
        super().__init__()
        torch.manual_seed(1)
        layer = nn.TransformerEncoderLayer(WIDTH, 4, 24, batch_first=True, **options)  # pyright: ignore[reportArgumentType]
        self.layer = layer.double().eval().requires_grad_(False)
        self.masks = {"src_mask": src_mask, "src_key_padding_mask": padding}

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x, **self.masks)


def compare(module: Encoder) -> None:
    x = rand(2, LENGTH, WIDTH)
    with torch.no_grad():
        imported = mi.from_torch(module, x)
        expected = module(x).numpy()
    (got,) = evaluate(imported, [x])
    np.testing.assert_allclose(got, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("src_mask", "padding"),
    some_of([(CAUSAL, None), (None, PADDED), (CAUSAL, PADDED), (None, NOTHING)], every=2),
)
def test_masks(src_mask: object, padding: object) -> None:
    compare(Encoder(src_mask, padding))


@pytest.mark.parametrize(
    "options", [{}, {"norm_first": True, "activation": "gelu", "layer_norm_eps": 1e-3}]
)
def test_options(options: dict[str, object]) -> None:
    compare(Encoder(None, None, **options))


def test_pytorch_has_these_ops() -> None:
    """With the arguments of our definitions."""
    for op, made in fused_layers.LAYERS.items():
        names = [argument.name for argument in op._schema.arguments]
        assert len(names) == made.__code__.co_argcount
        assert names[-2:] == list(made.__code__.co_varnames[len(names) - 2 : len(names)])
