"""Does a candidate still give numbers where all that a maximum is taken of is far below zero?

A maximum that starts at 0, or at -10000 for minus infinity, is right as long as something of the
row is above. Where nothing is, all exponentials vanish, and the sum of them with it. Normal inputs
do not show it: of many scores one is above zero.

So one input after the other is constant and negative, the others constant and positive, as large as
it takes for the largest score of a row to be at ``-DEPTH``. What is constant is rounded alike by
all: it is a matter of where maxima begin, not of errors.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mirage.semantics.domain import Planes, TypedFloat
from mirage.semantics.scalar import DType, ReduceFn
from mirage.semantics.ugraph import KernelGraph, all_ops
from mirage.verify.evidence.roundings.activations import Activations, Situation
from mirage.verify.evidence.samples.floats import outputs_of
from mirage.verify.evidence.samples.sampled_outputs import Sample

DEPTH = 4e4
"""Below what programs take for minus infinity in f16, as far as f16 itself allows."""
_NEAR = 0.6
"""Of the depth."""
_LARGEST = 2.0**9
_TURNS = 8
_MASKED = 1e20
"""Scores that are larger are masked."""


class NotedMaxima(TypedFloat):
    """Arithmetic of types that notes the largest of all maxima, but of what is masked."""

    def __init__(self) -> None:
        self.largest = -np.inf

    def reduce(self, fn: ReduceFn, x: Planes, dims: tuple[int, ...], dtype: DType) -> Planes:
        found = super().reduce(fn, x, dims, dtype)
        if fn is ReduceFn.MAX:
            seen = found[0][np.abs(found[0]) < _MASKED]
            self.largest = max(self.largest, float(seen.max(initial=-np.inf)))
        return found


def far_below(
    draw: Activations, reference: KernelGraph, sample: Sample
) -> Iterator[Situation | None]:
    """One input negative, all others positive, in programs that take maxima."""
    if not any(op.function is ReduceFn.MAX for op in all_ops(reference.ops)):
        return
    for i in draw.free:
        found = _deep_enough(draw, reference, sample, i)
        if found is not None:
            yield found if draw.mine() else None


def _deep_enough(
    draw: Activations, reference: KernelGraph, sample: Sample, negative: int
) -> Situation | None:
    """The inputs at which maxima are as far below zero as they should be, if there are any."""
    size = 1.0
    for _ in range(_TURNS):
        signs = {i: -size if i == negative else size for i in draw.free if i not in draw.gains}
        special = {i: np.full(draw.shapes[i], x) for i, x in signs.items()}
        name = f"scores far below zero: input {negative} is {-size:.4g}, the others {size:.4g}"
        situation = draw.situation(name, special)
        noted = NotedMaxima()
        outputs_of(reference, 0, noted, situation.inputs, sample)
        if not -np.inf < noted.largest < 0.0:
            return None
        if _NEAR <= -noted.largest / DEPTH <= 1.0:
            return situation
        # Scores grow with one input or with two: the root is right at once for two.
        size *= float(np.sqrt(0.8 * DEPTH / -noted.largest))
        if size > _LARGEST and -noted.largest < 1.0:
            return None
    return None
