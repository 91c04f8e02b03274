"""Held tensors read as the numbers that they are rounded from.

A triangle of averages holds 1/3 as it is in f32, and the program that divides by the number of
positions has 1/3 itself. Kernels contain only the rounded number, so a program with the tensor and
one with a tensor of any other numbers that round to the same compile to the same kernels: what is
shown of one holds for the other, as for constants (``docs/verification.md``).
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

import numpy as np

from mirage.semantics.numbers import nearest
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.normal_form.simple_constants import simple_number

_LARGEST = 1 << 12
"""The largest denominator of a simple fraction."""
_MOST = 1 << 14
"""The most different numbers of a tensor that are examined."""


def before_rounding(
    graphs: tuple[KernelGraph, KernelGraph], contents: Mapping[int, Array]
) -> Mapping[int, Array] | None:
    """Return the contents with constants of the programs, and simple fractions, in the place of
    elements of f32 that these round to; None if there are none."""
    numbers = [
        nearest(simple_number(op.number) or op.number)  # as constants are read
        for g in graphs
        for op in g.ops
        if op.number is not None
    ]
    known = {float(np.float32(x)): x for x in numbers}
    found = {i: _unrounded(x, known) for i, x in contents.items()
             if graphs[0].inputs[i].dtype is DType.F32}  # fmt: skip
    changed = {i: x for i, x in found.items() if not np.array_equal(x, contents[i])}
    return {**contents, **changed} if changed else None


def _unrounded(x: Array, known: Mapping[float, float]) -> Array:
    values, places = np.unique(x, return_inverse=True)
    if values.size > _MOST:
        return x
    read = [known.get(v, _simple(v)) for v in map(float, values)]
    return np.asarray(read)[places].reshape(x.shape)


def _simple(x: float) -> float:
    """Return a simple fraction that rounds to ``x``, otherwise ``x``."""
    if not np.isfinite(x):
        return x
    fraction = float(Fraction(x).limit_denominator(_LARGEST))
    return fraction if float(np.float32(fraction)) == x else x
