"""Large integers that are compared with each other, as parts that kernels can compare.

Tiles hold whole numbers as f32, so kernels compare integers only if one of them is known to be
small. Two document ids may be any integers. But two integers are equal exactly if their remainders
and their quotients (rounded down) by a number are equal; the same applies to the quotients, until
all parts are small. The parts have as many elements as the ids, and PyTorch computes them; the
comparison of all pairs, which is large, is computed where it is read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce

from mirage.semantics.bounds.integer_ranges import Range
from mirage.semantics.builder import Builder
from mirage.semantics.ops.op import Op, Value
from mirage.semantics.positions import MAX_POSITIONS
from mirage.semantics.scalar import BinaryFn, UnaryFn
from mirage.semantics.ugraph import KernelGraph

PART = 1 << 22
"""The divisor: remainders and the last quotient are below 2^24."""
LARGER = 4
"""The least ratio of the elements of a comparison to those of its operands."""


def compared_in_parts(graph: KernelGraph, ranges: Mapping[Value, Range]) -> KernelGraph:
    """Return ``graph`` with comparisons of many pairs of large integers as comparisons of parts;
    the same object if there are none."""
    found = {op for op in graph.ops if _is_of_large(op, ranges)}
    if not found:
        return graph
    definitions = {v: op for op in graph.ops for v in op.results}
    build = Builder()
    known: dict[Value, list[Value]] = {}
    for op in graph.ops:
        if op not in found:
            build.ops.append(op)
            continue
        sides = [_parts(build, v, definitions, known) for v in op.operands]
        pairs = [build.binary(BinaryFn.EQ, a, b) for a, b in zip(*sides, strict=True)]
        same = reduce(lambda a, b: build.binary(BinaryFn.AND, a, b), pairs)
        if op.function is BinaryFn.NE:
            build.unary(UnaryFn.NOT, same)
        build.define(op.result)
    return replace(graph, ops=tuple(build.ops))


def _is_of_large(op: Op, ranges: Mapping[Value, Range]) -> bool:
    if op.function not in (BinaryFn.EQ, BinaryFn.NE):
        return False
    if not all(
        v.dtype.is_integer and largest_magnitude(v, ranges) >= MAX_POSITIONS for v in op.operands
    ):
        return False
    if len({v.dtype for v in op.operands}) > 1:
        return False
    return all(LARGER * v.type.size <= op.result.type.size for v in op.operands)


def largest_magnitude(value: Value, ranges: Mapping[Value, Range]) -> float:
    """Return the largest magnitude of a value's elements."""
    return max(abs(end) for end in ranges[value])


def _parts(
    b: Builder,
    value: Value,
    definitions: Mapping[Value, Op],
    known: dict[Value, list[Value]],
) -> list[Value]:
    """Return the remainders and the last quotient, as many as integers of the type may need; they
    are computed once for a tensor, whatever its shape."""
    root = value
    while (op := definitions.get(root)) is not None and op.renames:
        root = op.operands[0]
    if root not in known:
        known[root], rest = [], root
        left = 8 * root.dtype.bytes - 1  # bits, besides the sign
        while left > 22:
            by = b.constant(PART, root.dtype)
            known[root].append(b.binary(BinaryFn.REMAINDER, rest, by))
            rest = b.binary(BinaryFn.FLOOR_DIV, rest, by)
            left -= 22
        known[root].append(rest)
    return [v if v.shape == value.shape else b.reshape(v, value.shape) for v in known[root]]
