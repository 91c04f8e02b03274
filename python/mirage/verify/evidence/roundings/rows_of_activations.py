"""The kinds of rows that activations have."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mirage.semantics.scalar import Array

Rng = np.random.Generator

Rows = Callable[[Rng, int, int], Array]
"""A function that draws a number of rows with a number of elements each."""

Kind = tuple[str, Rows]
"""What rows look like, with a name."""


def _shifted(mean: float, std: float = 1.0) -> Rows:
    return lambda rng, rows, n: mean + std * rng.standard_normal((rows, n))


def _constant(value: float) -> Rows:
    return lambda rng, rows, n: np.full((rows, n), value)


def _any_constant(rng: Rng, rows: int, n: int) -> Array:
    """Draw rows that are each constant: whether the squared mean exceeds the mean of squares
    depends on the constant."""
    return np.repeat(2.0 ** rng.uniform(0.0, 7.0, (rows, 1)), n, axis=1)


def _times(scale: float) -> Rows:
    return lambda rng, rows, n: scale * rng.standard_normal((rows, n))


def _single(rng: Rng, rows: int, n: int) -> Array:
    x = np.zeros((rows, n))
    x[np.arange(rows), rng.integers(n, size=rows)] = 4.0
    return x


def _heavy(rng: Rng, rows: int, n: int) -> Array:
    return np.clip(rng.standard_t(1.5, (rows, n)), -3e3, 3e3)


def _masked(value: float, share: float) -> Rows:
    """Mask the first part of a row, like the first tiles of a causal or padded row."""

    def draw(rng: Rng, rows: int, n: int) -> Array:
        x = rng.standard_normal((rows, n))
        x[:, : max(1, int(share * n))] = value
        return x

    return draw


ROWS: tuple[Kind, ...] = (
    ("mean 300", _shifted(300.0)),
    ("constant 20.3", _constant(20.3)),
    ("std 1e-3", _times(1e-3)),
    ("mean -1000", _shifted(-1000.0)),
    ("zeros", _constant(0.0)),
    ("heavy tails", _heavy),
    ("first half masked by -1e4", _masked(-1e4, 0.5)),
    ("constant 12.9", _constant(12.9)),
    ("mean 30, std 0.1", _shifted(30.0, 0.1)),
    ("subnormal", _times(2.0**-16)),
    ("a single number", _single),
    ("large", _times(2.0**9)),
    ("all about -1e4", _shifted(-1e4, 10.0)),
    ("constant 5.7", _constant(5.7)),
    ("a constant", _any_constant),
    ("another constant", _any_constant),
    ("all but the last masked by -1e4", _masked(-1e4, 0.99)),
    ("mean -8", _shifted(-8.0)),
    ("mean -16", _shifted(-16.0)),
    ("mean -3", _shifted(-3.0, 0.5)),
)
"""The kinds of rows that activations have."""

BOTH_SIGNS = ("mean 300", "mean -1000")
"""Two kinds of rows whose scores are all far above zero or all far below it: these are tried first
if all rows are of one kind."""

AVERAGED = (20.3, 12.9, 5.7, 17.1)
"""The elements of rows that a program averages, if all of them are equal."""

ABOUT_A_MEAN = tuple(
    kind
    for kind in ROWS
    if kind[0]
    in (*BOTH_SIGNS, "mean -3", "mean -8", "mean -16", "mean 30, std 0.1", "all about -1e4")
)
"""Rows whose deviation is no larger than the change that a few roundings to 16 bits cause."""

MASKS: tuple[Kind, ...] = (
    ("first half masked by -inf", _masked(-np.inf, 0.5)),
    ("all but the last masked by -inf", _masked(-np.inf, 0.99)),
    ("all masked by -inf", _constant(-np.inf)),
    ("all masked by -1e38", _constant(-1e38)),
)
"""Further kinds of rows, which masks and scores have."""

OUTLIERS = (3000.0, 300.0, 1000.0)
"""The factors by which one channel may exceed the others (in models it is always the same one)."""

GAINS = (24.0, 1.0, 30.0)
"""The gains that a norm may have there."""
