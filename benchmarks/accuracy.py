"""Errors against float64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

Results = tuple[torch.Tensor, ...]


@dataclass(frozen=True)
class Errors:
    """``l2``: norm of the difference over the norm of the exact result. ``max``: largest difference
    over largest value.
    """

    l2: float
    max: float

    @staticmethod
    def of_all(got: Results, exact: Results) -> Errors:
        """The worst of several results."""
        errors = [Errors.of(x, y) for x, y in zip(got, exact, strict=True)]
        return Errors(max(e.l2 for e in errors), max(e.max for e in errors))

    @staticmethod
    def of(got: torch.Tensor, exact: torch.Tensor) -> Errors:
        """Return the errors of a result; NaN and infinity in ``got`` give infinite errors."""
        if not torch.isfinite(got).all():
            return Errors(float("inf"), float("inf"))
        difference = got.double() - exact
        return Errors(
            float(difference.norm() / exact.norm()),
            float(difference.abs().max() / exact.abs().max()),
        )

    def worst(self, other: Errors) -> Errors:
        """Return the component-wise maximum."""
        return Errors(max(self.l2, other.l2), max(self.max, other.max))

    def within(self, factor: float, reference: Errors, least: float = 0.0) -> bool:
        """Return whether both are at most ``factor`` times the reference's. A largest difference of
        at most ``least`` is always accepted: the largest of millions of elements is a matter of
        chance."""
        return self.l2 <= factor * reference.l2 and self.max <= max(factor * reference.max, least)


def results_of(module: Callable[..., torch.Tensor | Results], inputs: Results) -> Results:
    """Return the results of a program, as a tuple."""
    with torch.no_grad():
        results = module(*inputs)
    return (results,) if isinstance(results, torch.Tensor) else tuple(results)


def exact_results(module: Callable[..., torch.Tensor | Results], inputs: Results) -> Results:
    """Return the program in float64."""
    return results_of(module, tuple(x.double() if x.is_floating_point() else x for x in inputs))
