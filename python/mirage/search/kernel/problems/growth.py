"""The growth of a program's values with its inputs, and the values that it keeps in 16 bits.

A tensor core multiplies 16-bit numbers, so a computed value that a kernel then multiplies is
rounded to 16 bits. ``x * gain`` may leave the range of f16 although ``x``, ``gain`` and the
normalised ``x * rsqrt(mean(x^2)) * gain`` do not: it grows with both scales at once.

The *size* of a value is the power of two of its scale, for each of a number of scales of the
program's inputs. The size of a product is the sum of its factors' sizes, and that of a sum is the
largest size, as if nothing cancelled.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from random import Random

import numpy as np

from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import (
    Boundary,
    Contraction,
    Cumulation,
    Elementwise,
    KernelGraph,
    Matmul,
    Movement,
    Op,
    Source,
    Value,
    no_rule,
)

Sizes = np.ndarray[tuple[int], np.dtype[np.float64]]
"""The sizes of a value: one for each of the scales."""

_DRAWN = 128
_PAIRED = 16  # inputs up to which each pair is made large alone
_BOUNDED = (UnaryFn.EXP, UnaryFn.SIGMOID, UnaryFn.TANH, UnaryFn.LOG)
"""Functions with bounded values; exponentials are taken relative to their maximum before they
run."""


@dataclass(frozen=True)
class Scales:
    """The sizes of the tensors that a kernel reads, and of the largest value that the program keeps
    in 16 bits."""

    leaves: tuple[Sizes, ...]
    kept: Sizes

    @property
    def kind(self) -> bytes:
        """A key that is equal for tensors with equal roles in the program: their sizes where one or
        two of the program's inputs are large, in any order. It does not matter which input is
        which, and the randomly drawn scales only sample the cases in between."""
        rows = np.stack([*self.leaves, self.kept])[:, :-_DRAWN] + 0.0  # no zero has a sign
        return b"".join(sorted({column.tobytes() for column in rows.T}))


@dataclass(frozen=True)
class Growth:
    """The sizes of a program's values, and of the largest value that it keeps in 16 bits."""

    values: dict[Value, Sizes]
    kept: Sizes

    def scales(self, leaves: tuple[Value, ...]) -> Scales:
        """Return the sizes for a kernel that reads ``leaves``."""
        return Scales(tuple(self.values[v] for v in leaves), self.kept)


def growth_of(graph: KernelGraph) -> Growth:
    """Return how the values of a program grow with its inputs."""
    inputs = _scales(len(graph.inputs))
    values: dict[Value, Sizes] = dict(zip(graph.inputs, inputs, strict=True))
    read = {v for op in graph.ops for v in op.operands}
    for op in graph.ops:
        size = _of_op(op, [values[v] for v in op.operands], inputs.shape[1])
        values.update(dict.fromkeys(op.results, size))
    kept = np.zeros(inputs.shape[1])
    for value, size in values.items():
        if value.dtype.in_tile.is_half and (value in read or value in graph.inputs):
            kept = np.maximum(kept, size)
    return Growth(values, kept)


def _scales(count: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return scales of the inputs, [inputs, scales]: each input large alone, each pair large, and
    random ones."""
    large = [*combinations(range(count), 1)]
    if count <= _PAIRED:
        large.extend(combinations(range(count), 2))
    alone = np.full((count, len(large)), -1.0)
    for column, rows in enumerate(large):
        alone[list(rows), column] = 1.0
    uniform = Random(0).uniform
    drawn = [[uniform(-1.0, 1.0) for _ in range(_DRAWN)] for _ in range(count)]
    return np.concatenate([alone, np.array(drawn).reshape(count, _DRAWN)], axis=1)


def of_function(fn: UnaryFn, x: Sizes) -> Sizes:
    """Return the size of a function's value, given that of its argument."""
    match fn:
        case UnaryFn.SQUARE:
            return 2.0 * x
        case UnaryFn.SQRT:
            return 0.5 * x
        case UnaryFn.RSQRT:
            return -0.5 * x
        case UnaryFn.RECIPROCAL:
            return -x
        case UnaryFn.LOG1P:
            return np.minimum(x, 0.0)
        case _:
            return np.zeros_like(x) if fn in _BOUNDED else x


def _of_op(op: Op, operands: list[Sizes], count: int) -> Sizes:
    if isinstance(op.function, UnaryFn):
        return of_function(op.function, operands[0])
    if isinstance(op, Matmul):
        return operands[0] + operands[1]
    if isinstance(op.function, BinaryFn):
        a, b = operands
        match op.function:
            case BinaryFn.MUL:
                return a + b
            case BinaryFn.DIV:
                return a - b
            case BinaryFn.POW:
                return np.zeros(count)
            case _:
                return np.maximum(a, b)
    if not isinstance(op, Elementwise | Movement | Contraction | Cumulation | Source | Boundary):
        no_rule(op, "the growth of values")
    return np.max(operands, axis=0) if operands else np.zeros(count)
