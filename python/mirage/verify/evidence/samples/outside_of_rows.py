"""Tests in float64 in which whole numbers name no element of a row.

A program that picks an element of each row, and adds minus infinity if there is none, gives no
number there: it has no meaning, and a proof is about existing elements only. So a candidate must
not give a number there either, and must give the same results everywhere else.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

import numpy as np

from mirage.semantics.evaluation.evaluate import EvaluationError, evaluate_floats
from mirage.semantics.region import whole, whole_demand
from mirage.semantics.scalar import Array
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.evidence.samples.floats import TOLERANCE
from mirage.verify.evidence.samples.integer_inputs import draw_integers
from mirage.verify.evidence.samples.sampled_outputs import graph_work

_BEYOND = (-1, 0, 7)
"""Numbers that name no element: negative ones, and offsets that are added to the number of
elements."""
_SHARES = (1.0, 0.5, 0.1)
"""The shares of drawn numbers that name no element."""
_LEFT_OUT = 0.3
"""The share of the other numbers that leave an element out."""


def gives_no_number_outside(
    reference: KernelGraph,
    candidate: KernelGraph,
    counts: Mapping[int, int],
    contents: Mapping[int, Array],
    work: float,
    seed: int,
    also: Mapping[int, int] = {},
) -> bool:
    """Return whether a candidate gives a number only where its reference does, and the same number,
    on random inputs for which the inputs in ``counts`` are not all below their counts, nor all the
    number in ``also``; False if this takes too much ``work``."""
    graphs = reference, candidate
    if sum(graph_work(g, whole_demand(g)) for g in graphs) > work:
        return False
    rng = np.random.default_rng(seed)
    for share, beyond in product(_SHARES, _BEYOND):
        inputs: list[Array] = []
        for i, v in enumerate(reference.inputs):
            if i in contents:
                inputs.append(contents[i])
            elif i in counts:
                outside = np.full(v.shape, beyond if beyond < 0 else counts[i] + beyond)
                inside = rng.integers(0, counts[i], v.shape)
                if i in also:
                    inside = np.where(rng.random(v.shape) < _LEFT_OUT, also[i], inside)
                inputs.append(np.where(rng.random(v.shape) < share, outside, inside))
            elif v.dtype.is_integer:
                inputs.append(draw_integers(rng, v, whole(len(v.shape))))
            else:
                inputs.append(rng.standard_normal(v.shape))
        try:
            with np.errstate(all="ignore"):
                expected, actual = (evaluate_floats(g, inputs) for g in graphs)
        except EvaluationError:
            return False
        if not all(map(_is_same, expected, actual)):
            return False
    return True


def _is_same(x: Array, y: Array) -> bool:
    there = np.isfinite(x)
    size = np.abs(x[there]).max(initial=0.0)
    near = np.abs(x[there] - y[there]) <= TOLERANCE * size
    return bool(near.all() and not np.isfinite(y[~there]).any())
