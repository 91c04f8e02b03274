"""Tables that are the sum of a table that the other program holds and a smaller one.

A bias for each distance, ``slope * (column - row)``, is a bias by columns minus a number for each
row, which cancels in a softmax. The contents of tensors are fixed. So a tensor that only one
program has may be written as the sum of two that give the same elements, if this is true for each
element, in f32 as well.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mirage.semantics.builder import Builder
from mirage.semantics.scalar import Array, BinaryFn
from mirage.semantics.substitute import rename_graph
from mirage.semantics.ugraph import KernelGraph, TensorType, Value


@dataclass(frozen=True)
class HeldSum:
    """The sum of the input ``other`` and of ``rest``, which has one element along some dimensions
    of the sum."""

    other: int
    rest: Array


def read_as_sums(inputs: Sequence[Value], contents: Mapping[int, Array]) -> Mapping[int, HeldSum]:
    """Return the tensors, by their inputs, that are the sum of another tensor and a smaller one.
    The other tensors are not such sums themselves."""
    found: dict[int, HeldSum] = {}
    for i in sorted(contents, key=lambda i: -contents[i].size):
        others = (j for j in contents if j not in found and j != i)
        for j in others:
            if inputs[i].dtype is not inputs[j].dtype or inputs[i].dtype.is_integer:
                continue
            rest = _rest(np.asarray(contents[i], float), np.asarray(contents[j], float))
            if rest is not None and all(j != s.other or i != k for k, s in found.items()):
                found[i] = HeldSum(j, rest)
                break
    return found


def _rest(x: Array, part: Array) -> Array | None:
    """Return the difference of ``x`` and ``part``, if it is smaller than ``x``."""
    fits = part.size > 1 and part.ndim <= x.ndim and part.size < x.size
    if not fits or any(n not in (1, m) for n, m in zip(part.shape[::-1], x.shape[::-1])):
        return None
    if not (np.isfinite(x).all() and np.isfinite(part).all()):
        return None
    rest = x - part
    for dim in range(x.ndim):
        first = rest.take([0], dim)
        rest = first if (rest == first).all() else rest
    if rest.size >= x.size:
        return None
    single = np.asarray(part, np.float32) + np.asarray(rest, np.float32)
    exact = (np.asarray(rest, np.float32) == rest).all() and (part + rest == x).all()
    return rest if exact and (single == x).all() else None


def rests_of(inputs: Sequence[Value], sums: Mapping[int, HeldSum]) -> tuple[Value, ...]:
    """Return an additional input for the smaller part of each sum, in their order."""
    return tuple(
        Value(TensorType(held.rest.shape, inputs[i].dtype), "rest") for i, held in sums.items()
    )


def with_sums_written(
    graph: KernelGraph, sums: Mapping[int, HeldSum], rests: Sequence[Value]
) -> KernelGraph:
    """Return the graph with these inputs, and with sums in place of tensors."""
    b, names = Builder(), dict[Value, Value]()
    for (i, held), rest in zip(sums.items(), rests, strict=True):
        names[graph.inputs[i]] = b.binary(BinaryFn.ADD, graph.inputs[held.other], rest)
    body = rename_graph(KernelGraph(graph.name, (), graph.ops, graph.outputs), names)
    read = {v for op in body.ops for v in op.operands} | set(body.outputs)
    ops = tuple(op for op in b.ops if op.results[0] in read)
    return replace(body, inputs=(*graph.inputs, *rests), ops=(*ops, *body.ops))
