"""Errors against float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch


@dataclass(frozen=True)
class Errors:
    """``l2``: norm of the difference over the norm of the exact result. ``max``: largest difference
    over largest value.
    """

    l2: float
    max: float

    @staticmethod
    def of(got: torch.Tensor, exact: torch.Tensor) -> Errors:
        """NaN and infinity in ``got`` give infinite errors."""
        if not torch.isfinite(got).all():
            return Errors(float("inf"), float("inf"))
        difference = got.double() - exact
        return Errors(
            float(difference.norm() / exact.norm()),
            float(difference.abs().max() / exact.abs().max()),
        )

    def worst(self, other: Errors) -> Errors:
        """Component-wise maximum."""
        return Errors(max(self.l2, other.l2), max(self.max, other.max))

    def within(self, factor: float, reference: Errors) -> bool:
        """Whether both are at most ``factor`` times the reference's."""
        return self.l2 <= factor * reference.l2 and self.max <= factor * reference.max


def exact_result(module: torch.nn.Module, inputs: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The program in float64."""
    with torch.no_grad():
        return module(*(x.double() for x in inputs))
