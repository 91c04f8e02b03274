"""Conditions and amounts that are the same for all choices of sizes: these need no array."""

from __future__ import annotations

from typing import Any

import numpy as np

Num = Any
"""A number or an array of them, one for each choice of sizes."""


def uniform(condition: Num) -> Num:
    """Return a condition as one truth value if it is the same everywhere, otherwise as an array."""
    if not isinstance(condition, np.ndarray):
        return np.bool_(condition)
    some = condition.any()
    return some if not some or condition.all() else condition


def somewhere(condition: Num) -> bool:
    """Return whether a condition holds for some choice of sizes."""
    return bool(condition.any()) if isinstance(condition, np.ndarray) else bool(condition)


def where(condition: Num, yes: Num, no: Num) -> Num:
    """Return ``yes`` where a condition holds and ``no`` elsewhere."""
    if isinstance(condition, np.ndarray):
        return np.where(condition, yes, no)
    return yes if condition else no


def is_zero(amount: Num) -> bool:
    """Return whether an amount is known to be 0 everywhere."""
    return isinstance(amount, float) and not amount


def plus(total: Num, amount: Num, each: Num) -> Num:
    """Return ``total + amount * each``, which is ``total`` if there is no amount."""
    return total if is_zero(amount) else total + amount * each
