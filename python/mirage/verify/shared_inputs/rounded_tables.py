"""Held tensors read as the numbers that they are rounded from.

A triangle of averages holds 1/3 rounded to f32, and the program that divides by the number of
positions has 1/3 itself. Kernels contain only the rounded number, so a program with the tensor and
one with a tensor of any other numbers that round to the same compile to the same kernels: a proof
for one holds for the other, as for constants (``docs/verification.md``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction

import numpy as np

from mirage.semantics.numbers import Number, nearest
from mirage.semantics.scalar import Array, DType
from mirage.semantics.ugraph import KernelGraph
from mirage.verify.normal_form.simple_constants import simple_number
from mirage.verify.shared_inputs.tables_alike import MOST_ELEMENTS, nearest_of

_LARGEST = 1 << 12
"""The largest denominator of a simple fraction."""
_MOST_CONSTANTS, _POWERS = 8, 24
"""The most constants of programs, and the largest exponent, for which powers are examined."""
_TINY = 2.0**-60
"""The smallest of these powers."""


def before_rounding(
    graphs: tuple[KernelGraph, KernelGraph], contents: Mapping[int, Array]
) -> Mapping[int, Array] | None:
    """Return the contents with constants of the programs, their negatives, and simple fractions, in
    place of elements of f32 that these round to; None if there are none."""
    numbers = [x for c in _constants(graphs) for x in (nearest(c), -nearest(c))]
    known = {float(np.float32(x)): x for x in numbers}
    return _read(graphs, contents, lambda x: _unrounded(x, known))


def before_computing(
    graphs: tuple[KernelGraph, KernelGraph], contents: Mapping[int, Array]
) -> Mapping[int, Array] | None:
    """Return the contents with powers of the programs' constants, and their products with another
    constant, in place of elements of f32 from which they differ by a few roundings, as
    ``0.9 ** torch.arange(8)`` does; None if there are none. Programs with these numbers do not
    compile to the same, so the roundings are to be measured with the tensors as they are."""
    constants = sorted({abs(c) for c in _constants(graphs) if isinstance(c, Fraction) and c})
    if not 0 < len(constants) <= _MOST_CONSTANTS:
        return None
    powers = [c**n for c in constants for n in range(-_POWERS, _POWERS + 1)]
    numbers = {nearest(p * c) for p in powers for c in (*constants, 1) if _TINY < p * c < 1 / _TINY}
    known = np.array(sorted({0.0, *numbers, *(-x for x in numbers)}))
    return _read(graphs, contents, lambda x: nearest_of(x, known))


def _constants(graphs: Sequence[KernelGraph]) -> Iterator[Number]:
    """Yield the constants of programs, as constants are read."""
    for op in (op for g in graphs for op in g.ops):
        if op.number is not None:
            yield simple_number(op.number) or op.number


def _read(
    graphs: Sequence[KernelGraph],
    contents: Mapping[int, Array],
    read: Callable[[Array], Array],
) -> Mapping[int, Array] | None:
    """Return the contents with other elements of f32; None if all are the same."""
    inputs = graphs[0].inputs
    found = {i: read(x) for i, x in contents.items() if inputs[i].dtype is DType.F32}
    changed = {i: x for i, x in found.items() if not np.array_equal(x, contents[i])}
    return {**contents, **changed} if changed else None


def _unrounded(x: Array, known: Mapping[float, float]) -> Array:
    values, places = np.unique(x, return_inverse=True)
    if values.size > MOST_ELEMENTS:
        return x
    read = [known.get(v, _simple(v)) for v in map(float, values)]
    return np.asarray(read)[places].reshape(x.shape)


def _simple(x: float) -> float:
    """Return a simple fraction that rounds to ``x``, otherwise ``x``."""
    if not np.isfinite(x):
        return x
    fraction = float(Fraction(x).limit_denominator(_LARGEST))
    return fraction if float(np.float32(fraction)) == x else x
