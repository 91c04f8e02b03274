"""Does a candidate still give numbers when all arguments of a maximum are far below zero?

A maximum that starts at 0, or at -10000 in place of minus infinity, is right as long as some
element of the row is larger. If none is, all exponentials vanish, and so does their sum. Normal
inputs do not reveal it: among many scores, one is above zero.

So in each situation one input is constant and negative and the others are constant and positive, as
large as needed for the largest score of a row to be at ``-DEPTH``. All programs round constant
values in the same way, so the test concerns the start of maxima and not rounding errors.
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
"""The depth of the largest score: below the numbers that programs use for minus infinity in f16, as
far as the range of f16 allows."""
_VANISHED = 200.0
"""A depth at which exponentials are zero in f32: enough if a program cannot have deeper scores,
because products in f16 are infinite before they are scaled."""
_NEAR = 0.6
"""The share of the depth that the largest score must reach."""
_LARGEST = 2.0**9
_TURNS = 8
_MASKED = 1e20
"""Scores of at least this magnitude count as masked."""


class NotedMaxima(TypedFloat):
    """Arithmetic of types that notes the largest of all maxima, ignoring masked scores."""

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
    """Yield situations with one negative input and positive others, for programs that take
    maxima."""
    if not any(op.function is ReduceFn.MAX for op in all_ops(reference.ops)):
        return
    for i in draw.free:
        found = _deep_enough(draw, reference, sample, i)
        if found is not None:
            yield found if draw.mine() else None


def _deep_enough(
    draw: Activations, reference: KernelGraph, sample: Sample, negative: int
) -> Situation | None:
    """Return the inputs at which maxima are as far below zero as they should be, or None."""
    size, too_large = 1.0, np.inf
    deepest: tuple[float, float, Situation] | None = None
    for _ in range(_TURNS):
        signs = {i: -size if i == negative else size for i in draw.free if i not in draw.gains}
        special = {i: np.full(draw.shapes[i], x) for i, x in signs.items()}
        name = f"scores far below zero: input {negative} is {-size:.4g}, the others {size:.4g}"
        situation = draw.situation(name, special)
        noted = NotedMaxima()
        outputs_of(reference, 0, noted, situation.inputs, sample)
        if noted.largest == -np.inf and deepest is not None:
            too_large = size  # what the program stores on the way to its scores is infinite
        elif not -np.inf < noted.largest < 0.0:
            return None
        elif _NEAR <= -noted.largest / DEPTH <= 1.0:
            return situation
        elif deepest is None or deepest[0] < -noted.largest <= DEPTH:
            deepest = -noted.largest, size, situation
        if np.isfinite(too_large):
            size = float(np.sqrt(deepest[1] * too_large))
            continue
        # Scores grow with one input or with two: the root is right at once for two.
        size *= float(np.sqrt(0.8 * DEPTH / -noted.largest))
        if size > _LARGEST and -noted.largest < 1.0:
            return None
    return deepest[2] if deepest is not None and deepest[0] >= _VANISHED else None
