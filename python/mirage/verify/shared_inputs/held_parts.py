"""Tensors that consist of other held tensors, joined.

Rotary tables are held twice as wide as they are computed, ``cat([cos, cos])``, or with the signs of
the halves in them, ``cat([-sin, sin])``, or consist of these signs alone. The contents of a buffer
are fixed. So a buffer that only one of two programs has can be written as a join of other tensors,
if each of its blocks has the elements of another held tensor, or their negatives, or is a single
number. Then both programs use the same tensors.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import Array, UnaryFn
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, Op, TensorType, Value

_MOST_PARTS = 16
"""The most parts of a tensor: as many as small models pin."""


@dataclass(frozen=True)
class Part:
    """The elements of an input, or their negatives; without a ``source``, the same number
    everywhere."""

    source: int | None
    negative: bool = False
    number: Fraction = Fraction(0)


@dataclass(frozen=True)
class Joined:
    """Parts of equal length that follow each other along a dimension."""

    dim: int
    parts: tuple[Part, ...]


def joined_of_others(
    inputs: Sequence[Value], foreign: Mapping[int, Array], contents: Mapping[int, Array]
) -> dict[int, Joined]:
    """Return the ``foreign`` tensors that consist of smaller tensors which are not foreign."""
    found: dict[int, Joined] = {}
    for i in sorted(foreign, key=lambda i: inputs[i].type.size):
        sources = {
            j: x
            for j, x in contents.items()
            if j not in found
            and inputs[j].dtype is inputs[i].dtype
            and 0 < inputs[j].type.size < inputs[i].type.size
        }
        joined = _joined(foreign[i], sources, signed=not inputs[i].dtype.is_integer)
        if joined is not None:
            found[i] = joined
    return found


def _joined(x: Array, sources: Mapping[int, Array], signed: bool) -> Joined | None:
    if not x.size or not np.isfinite(x).all():
        return None
    for dim, n in enumerate(x.shape):
        around = x.size // n
        lengths = {y.size // around for y in sources.values() if y.size % around == 0}
        for length in sorted(lengths | {_step(x, dim)}, reverse=True):
            if n % length or not 2 <= n // length <= _MOST_PARTS:
                continue
            shape = (*x.shape[:dim], length, *x.shape[dim + 1 :])
            known = _by_elements(shape, sources, signed)
            blocks = np.split(x, n // length, axis=dim)
            parts = [known.get(_elements(block)) or _number(block) for block in blocks]
            if length * around > 1 and all(part is not None for part in parts):
                return Joined(dim, tuple(part for part in parts if part is not None))
    return None


def _step(x: Array, dim: int) -> int:
    """Return the length of the largest blocks along a dimension within which nothing changes."""
    rows = np.moveaxis(x, dim, 0).reshape(x.shape[dim], -1)
    (changes,) = np.nonzero((rows[1:] != rows[:-1]).any(1))
    return math.gcd(len(rows), *(int(i) + 1 for i in changes))


def _number(x: Array) -> Part | None:
    first = x.flat[0]
    return Part(None, number=Fraction(float(first))) if (x == first).all() else None


def _by_elements(
    shape: tuple[int, ...], sources: Mapping[int, Array], signed: bool
) -> dict[bytes, Part]:
    """Return the sources that have this shape, except for dimensions of one element, by their
    contents."""
    found: dict[bytes, Part] = {}
    for negative in (False, True) if signed else (False,):
        for j, y in sources.items():
            if y.size == math.prod(shape) and _squeezed(y.shape) == _squeezed(shape):
                found.setdefault(_elements(-y if negative else y), Part(j, negative))
    return found


def _elements(x: Array) -> bytes:
    return np.ascontiguousarray(x + 0.0).tobytes()  # the zeros of both signs are one


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def with_parts_joined(graph: KernelGraph, joined: Mapping[int, Joined]) -> KernelGraph:
    """Return the graph with joins of other inputs in the place of tensors that have the same
    elements."""
    read_here = {v for op in graph.ops for v in op.operands} | set(graph.outputs)
    ops: list[Op] = []
    names: dict[Value, Value] = {}
    for i, made in joined.items():
        value = graph.inputs[i]
        if value in read_here:
            b = Builder()
            length = value.shape[made.dim] // len(made.parts)
            shape = (*value.shape[: made.dim], length, *value.shape[made.dim + 1 :])
            parts = [_part(b, graph, p, TensorType(shape, value.dtype)) for p in made.parts]
            names[value] = b.concat(tuple(parts), made.dim)
            ops.extend(b.ops)
    if not names:
        return graph
    renamed = rename_graph(KernelGraph(graph.name, (), graph.ops, graph.outputs), names)
    return KernelGraph(graph.name, graph.inputs, (*ops, *renamed.ops), renamed.outputs)


def _part(b: Builder, graph: KernelGraph, part: Part, given: TensorType) -> Value:
    if part.source is None:
        return b.broadcast(b.constant(part.number, given.dtype), given.shape)
    x = graph.inputs[part.source]
    x = x if x.shape == given.shape else b.reshape(x, given.shape)
    return b.unary(UnaryFn.NEG, x) if part.negative else x
