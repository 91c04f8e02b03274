"""Tensors that consist of other held tensors, joined.

Rotary tables are held twice as wide as they are computed, ``cat([cos, cos])``, or with the signs of
the halves in them, ``cat([-sin, sin])``, or consist of these signs alone; and they are held in
several shapes. The contents of a buffer are fixed. So a buffer that only one of two programs has
can be written as a join of other tensors, if each of its blocks has the elements of another held
tensor, or of a block of it, or their negatives, or is a single number; or as a join of its own
first block. Then both programs use the same tensors.
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
    """The elements of a block of an input, which begins at ``start``, or their negatives; without a
    ``source``, the same number everywhere."""

    source: int | None
    negative: bool = False
    number: Fraction = Fraction(0)
    start: int = 0


@dataclass(frozen=True)
class _Source:
    """The elements of a tensor that others may consist of, or its first block if it repeats that,
    and the shape of the tensor."""

    elements: Array
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Joined:
    """Parts of equal length that follow each other along a dimension."""

    dim: int
    parts: tuple[Part, ...]


def joined_of_others(
    inputs: Sequence[Value], foreign: Mapping[int, Array], contents: Mapping[int, Array]
) -> dict[int, Joined]:
    """Return the ``foreign`` tensors that consist of tensors that are not foreign, or are smaller
    or come before them."""
    found: dict[int, Joined] = {}

    def order(i: int) -> tuple[int, bool, int]:
        return inputs[i].type.size, i in foreign, i

    written: set[int] = set()
    firsts: dict[int, Array] = {}  # among those that repeat their first blocks
    for i in sorted(foreign, key=order):
        sources = {
            j: _Source(firsts.get(j, contents[j]), inputs[j].shape)
            for j in sorted(contents, key=order)
            if j not in written
            and inputs[j].dtype is inputs[i].dtype
            and inputs[j].type.size
            and order(j) < order(i)
        }
        signed = not inputs[i].dtype.is_integer
        joined = _joined(foreign[i], sources, signed)
        if joined is not None:
            written.add(i)
        elif (joined := _joined(foreign[i], {}, signed, own=i)) is not None:
            firsts[i] = np.split(foreign[i], len(joined.parts), joined.dim)[0]
        if joined is not None:
            found[i] = joined
    return found


def _joined(
    x: Array, sources: Mapping[int, _Source], signed: bool, own: int | None = None
) -> Joined | None:
    """Return a join of blocks of ``sources``, or of the first block of ``x``, the input ``own``."""
    if not x.size or not np.isfinite(x).all():
        return None
    for dim, n in enumerate(x.shape):
        counts = (k for k in range(1, _MOST_PARTS + 1) if n % k == 0)
        for count in counts:
            length = n // count
            if length * (x.size // n) <= 1 or (own is not None and count == 1):
                continue
            blocks = np.split(x, count, axis=dim)
            known = _by_elements(x.shape, dim, length, sources, signed)
            if own is not None:
                known = {_elements(-blocks[0]): Part(own, negative=True)} if signed else {}
                known[_elements(blocks[0])] = Part(own)
            parts = [known.get(_elements(block)) or _number(block) for block in blocks]
            if all(part is not None for part in parts):
                return Joined(dim, tuple(part for part in parts if part is not None))
    return None


def _number(x: Array) -> Part | None:
    first = x.flat[0]
    return Part(None, number=Fraction(float(first))) if (x == first).all() else None


def _by_elements(
    shape: tuple[int, ...], dim: int, length: int, sources: Mapping[int, _Source], signed: bool
) -> dict[bytes, Part]:
    """Return the blocks of a number of indices along a dimension of the sources, by their contents.
    Apart from this dimension, and from dimensions of one element, the sources have this shape."""
    found: dict[bytes, Part] = {}
    for negative in (False, True) if signed else (False,):
        for j, source in sources.items():
            y, like = source.elements, _shape_like(source.elements.shape, shape, dim)
            if like is None or like[dim] % length or _shape_like(source.shape, shape, dim) is None:
                continue
            for k, block in enumerate(np.split(y.reshape(like), like[dim] // length, axis=dim)):
                part = Part(j, negative, start=k * length)
                found.setdefault(_elements(-block if negative else block), part)
    return found


def _shape_like(given: tuple[int, ...], shape: tuple[int, ...], dim: int) -> tuple[int, ...] | None:
    """Return ``given`` as a shape that differs from ``shape`` along a dimension only; None if it
    differs elsewhere, too."""
    around = math.prod(n for d, n in enumerate(shape) if d != dim)
    length, rest = divmod(math.prod(given), around)
    like = (*shape[:dim], length, *shape[dim + 1 :])
    return like if not rest and _squeezed(like) == _squeezed(given) else None


def _elements(x: Array) -> bytes:
    return np.ascontiguousarray(x + 0.0).tobytes()  # zeros of both signs are equal


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def with_parts_joined(graph: KernelGraph, joined: Mapping[int, Joined]) -> KernelGraph:
    """Return the graph with joins of other inputs in place of tensors that have the same
    elements."""
    read_here = {v for op in graph.ops for v in op.operands} | set(graph.outputs)
    ops: list[Op] = []
    names: dict[Value, Value] = {}
    cut: dict[tuple[Value, int, tuple[int, ...]], Value] = {}
    for i, made in joined.items():
        value = graph.inputs[i]
        if value in read_here:
            b = Builder()
            length = value.shape[made.dim] // len(made.parts)
            shape = (*value.shape[: made.dim], length, *value.shape[made.dim + 1 :])
            given = TensorType(shape, value.dtype)
            parts = [_part(b, graph, p, given, made.dim, cut) for p in made.parts]
            names[value] = parts[0] if len(parts) == 1 else b.concat(tuple(parts), made.dim)
            ops.extend(b.ops)
    if not names:
        return graph
    renamed = rename_graph(KernelGraph(graph.name, (), graph.ops, graph.outputs), names)
    return KernelGraph(graph.name, graph.inputs, (*ops, *renamed.ops), renamed.outputs)


def _part(
    b: Builder,
    graph: KernelGraph,
    part: Part,
    given: TensorType,
    dim: int,
    cut: dict[tuple[Value, int, tuple[int, ...]], Value],
) -> Value:
    """Write a part; ``cut`` has the blocks of inputs that were cut before."""
    if part.source is None:
        return b.broadcast(b.constant(part.number, given.dtype), given.shape)
    x = graph.inputs[part.source]
    length, around = given.shape[dim], math.prod(given.shape[:dim])
    if x.type.size != given.size:  # cut in its own shape: several may cut it in the same way
        own = next(
            d
            for d, n in enumerate(x.shape)
            if n * given.size == length * x.type.size and math.prod(x.shape[:d]) == around
        )
        start = tuple(part.start if d == own else 0 for d in range(len(x.shape)))
        shape = tuple(length if d == own else n for d, n in enumerate(x.shape))
        key = x, part.start, shape
        if key not in cut:
            cut[key] = b.slice(x, start, shape)
        x = cut[key]
    x = x if x.shape == given.shape else b.reshape(x, given.shape)
    return b.unary(UnaryFn.NEG, x) if part.negative else x
