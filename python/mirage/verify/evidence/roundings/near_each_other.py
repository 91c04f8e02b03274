"""Inputs that are nearly equal, far from zero: if their differences are multiplied out, the small
results are lost. ``|a - b|^2`` keeps the digits of the difference, ``|a|^2 + |b|^2 - 2 a b`` only
those of the squares.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations
from math import prod

from mirage.verify.evidence.roundings.activations import Activations, Situation
from mirage.verify.evidence.roundings.rows_of_activations import BOTH_SIGNS, ROWS

_MEANS = (30.0, 1.0)
_OFF = 1e-2
"""The difference of inputs, relative to their mean."""


def near_each_other(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations with two nearly equal inputs of the same shape, and situations in which all
    rows of all inputs with the same row length are nearly equal."""
    for i, j in _pairs(draw):
        for mean in _MEANS:
            if not draw.mine():
                yield None
                continue
            shape = draw.shapes[i]
            rng = draw.stream("beside each other", i, j, mean)
            x = mean + rng.standard_normal(shape)
            near = x + _OFF * mean * rng.standard_normal(shape)
            yield draw.situation(f"inputs {i} and {j} nearly equal, mean {mean:g}", {i: x, j: near})
    for length, inputs in _of_one_length(draw).items():
        for mean in _MEANS:
            if not draw.mine():
                yield None
                continue
            rng = draw.stream("rows near each other", length, mean)
            row = mean + rng.standard_normal(length)
            special = {i: row + _OFF * mean * rng.standard_normal(draw.shapes[i]) for i in inputs}
            names = ", ".join(str(i) for i in inputs)
            yield draw.situation(f"rows of inputs {names} nearly equal, mean {mean:g}", special)


def about_one_mean(draw: Activations) -> Iterator[Situation | None]:
    """Yield situations in which all inputs are far above zero, or far below it, with their usual
    differences."""
    inputs = _with_rows(draw)
    if len(inputs) < 2:
        return
    for kind in ROWS:
        if kind[0] not in BOTH_SIGNS:
            continue
        if not draw.mine():
            yield None
            continue
        every = {i: [kind] * prod(draw.shapes[i][:-1]) for i in inputs}
        yield draw.of_rows(f"all rows of all inputs: {kind[0]}", every)


def expected(draw: Activations) -> int:
    """Return the number of situations."""
    found = len(_MEANS) * (len(list(_pairs(draw))) + len(_of_one_length(draw)))
    return found + (len(BOTH_SIGNS) if len(_with_rows(draw)) > 1 else 0)


def _pairs(draw: Activations) -> Iterator[tuple[int, int]]:
    """Return pairs of inputs of the same shape."""
    for i, j in combinations(draw.free, 2):
        if draw.shapes[i] and draw.shapes[i] == draw.shapes[j]:
            yield i, j


def _of_one_length(draw: Activations) -> dict[int, list[int]]:
    """Return the inputs whose rows have the same length, by that length, if there are several of
    them."""
    found: dict[int, list[int]] = {}
    for i in _with_rows(draw):
        found.setdefault(draw.shapes[i][-1], []).append(i)
    return {length: inputs for length, inputs in found.items() if len(inputs) > 1}


def _with_rows(draw: Activations) -> list[int]:
    """Return the inputs whose rows may be near those of another input. Weights are left out: the
    product of a centred row and equal weights consists of roundings only."""
    return [i for i in draw.free if draw.has_rows(i) and i not in draw.weights]
