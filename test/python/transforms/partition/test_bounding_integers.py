"""Integers that decide which products of a batch are kept."""

from __future__ import annotations

from typing import Any

import mirage as mi
import torch
from mirage.semantics.scalar import DType
from mirage.transforms.partition.bounding_integers import bounding_integers, masks_of_products
from mirage.transforms.partition.partition import Part, partition

Tensor = torch.Tensor
X, W, N = torch.zeros(4, 8, 8), torch.zeros(4, 8, 8), torch.zeros(4, 3)


def masked(mask: Any) -> Any:
    def program(x: Tensor, w: Tensor, n: Tensor) -> Tensor:
        return torch.where(mask(n), x @ w, 0.0)

    return mi.from_torch(program, X, W, N).graph


def test_counts_of_whole_products_are_passed_as_integers() -> None:
    graph = masked(lambda n: ((n > 1.0).sum(1) > 0)[:, None, None])
    assert len(list(masks_of_products(graph))) == 1
    parts = [step.graph for step in partition(graph) if isinstance(step, Part)]
    assert len(parts) == 2
    assert DType.I64 in [v.dtype for v in parts[1].inputs]


def test_masks_of_elements_are_no_bounds() -> None:
    """Masks of scores by positions stay in the part of the product."""
    places = torch.arange(8)
    graph = masked(lambda n: (places[:, None] >= places[None, :] - 2)[None])
    assert not list(masks_of_products(graph))
    assert not bounding_integers(graph)
    assert len(partition(graph)) == 1
