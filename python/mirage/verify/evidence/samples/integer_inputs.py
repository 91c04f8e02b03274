"""Integers and truth values like those of real programs, for tests in floating point.

Normal numbers say little about a program that compares positions: its mask is noise, and no two
numbers are equal. So half of the time, an integer input holds positions along the last of its
dimensions that have several elements; otherwise it holds whole numbers below the size of that
dimension. Truth values are true more often than not. Indices of a table's rows are below the number
of rows. Such numbers are hardly ever equal, so for inputs that say which segment an element is in,
segments are drawn as runs, the same ones for all inputs of one length.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from math import ceil

import numpy as np

from mirage.semantics.bounds.integer_ranges import ranges_of
from mirage.semantics.indexing.indices import Region, region_shape
from mirage.semantics.ops.kinds import Lookup, all_ops
from mirage.semantics.ops.op import Value
from mirage.semantics.scalar import BINARY, Array, BinaryFn, DType
from mirage.semantics.ugraph import Elementwise, KernelGraph, Source, View

_LINEAR = frozenset({BinaryFn.ADD, BinaryFn.SUB, BinaryFn.MUL})
_TRUE = 0.7
_AT_THE_ENDS = 0.3
_OF_ALL = 0.5
"""Share of the draws of bytes, such as quantised weights, that are any of all bytes."""
RUNS = (1.0, 0.5, 0.25, 1.0 / 16.0)
"""The lengths of segments, as shares of a row."""
_SMALL = 8


_OF_A_TYPE = 1 << 31
"""No number in a program is expected to be this large."""


def compared_with(graph: KernelGraph) -> Mapping[Value, int]:
    """Return, for each integer input that is compared with numbers of known range (a position among
    classes, the length of a sequence with positions), one more than the largest of these numbers.
    Ranges that follow from a type alone (of a quotient of any integer) do not count.
    """
    origin = {v: v for v in graph.inputs if v.dtype.is_integer and v.dtype is not DType.I1}
    found: dict[Value, int] = {}
    if not origin:
        return found
    ranges = ranges_of(graph)
    for op in graph.ops:
        fn = op.function
        same = isinstance(op, View) or (isinstance(op, Elementwise) and op.identity)
        if (same or fn is BinaryFn.KEEP) and op.operands[-1] in origin:
            origin[op.results[0]] = origin[op.operands[-1]]
        if isinstance(fn, BinaryFn) and BINARY[fn].truth:
            for x, y in (op.operands, op.operands[::-1]):
                most = ranges.get(y, (0.0, 0.0))[1]
                if x in origin and most < _OF_A_TYPE:
                    found[origin[x]] = max(found.get(origin[x], 0), int(most) + 1)
    return found


def looked_up(graph: KernelGraph) -> Mapping[Value, int]:
    """Return, for each integer input that holds row numbers of tables, or from which row numbers
    are computed, the number of rows of the shortest table."""
    origin = {v: v for v in graph.inputs if v.dtype.is_integer and v.dtype is not DType.I1}
    found: dict[Value, int] = {}
    for op in graph.ops if origin else ():
        if isinstance(op, Lookup) and op.names_rows and op.operands[-1] in origin:
            index, count = origin[op.operands[-1]], op.operands[0].shape[0]
            found[index] = min(found.get(index, count), count)
        elif isinstance(op, View | Elementwise) and op.result.dtype.is_integer:
            for v in op.operands:
                if v in origin:
                    origin[op.result] = origin[v]
    return found


def inside(graph: KernelGraph) -> Mapping[Value, int]:
    """Return, for each integer input, a bound below which its numbers name something: row numbers
    name a row, and numbers that are compared with others (targets with classes) name one of those.
    Numbers that are not compared may be truth values."""
    extents = compared_with(graph)
    integers = (v for v in graph.inputs if v.dtype.is_integer)
    named = {v: max(extents[v] - 1, 1) if v in extents else 2 for v in integers}
    return {**named, **looked_up(graph)}


def of_any_size(graph: KernelGraph, bits: int = 32) -> Set[Value]:
    """Return the integer inputs whose types have at least ``bits`` bits (with 32, they hold more
    integers than f32 does), except those that hold row numbers of tables: these are small."""
    wide = {v for v in graph.inputs if v.dtype.is_integer and v.dtype.bits >= bits}
    return wide - looked_up(graph).keys()


def compares_rounded(graph: KernelGraph) -> bool:
    """Return whether whole numbers that floats may not represent are compared as floats, directly
    or after sums and products with others."""
    rounded: set[Value] = set()
    for op in graph.ops:
        fn = op.function
        if isinstance(fn, BinaryFn) and BINARY[fn].truth and not rounded.isdisjoint(op.operands):
            return True
        if isinstance(op, View) or fn in _LINEAR or (isinstance(op, Elementwise) and op.identity):
            wide = any(v.dtype.is_integer and v.dtype.bits >= 32 for v in op.operands)
            if wide or not rounded.isdisjoint(op.operands):
                rounded.update(v for v in op.results if not v.dtype.is_integer)
    return False


def becomes_narrow(graph: KernelGraph, bits: int = 16) -> bool:
    """Return whether integers of at least so many bits become floats of 16 or 8 bits, in kernels
    also after they were loaded as f32. These do not hold all integers of 16 bits: positions in bf16
    are rounded above 256, and f16 has none above 65504. They hold bytes, but not their products."""
    held: set[Value] = set()  # floats that are such integers
    for op in all_ops(graph.ops):
        if not (isinstance(op, Source | View) or (isinstance(op, Elementwise) and op.identity)):
            continue
        given = op.operands[:1]  # of a lookup, the table
        if any(v in held or (v.dtype.is_integer and v.dtype.bits >= bits) for v in given):
            floats = [v for v in op.results if not v.dtype.is_integer]
            if any(v.dtype.bits < 32 for v in floats):
                return True
            held.update(floats)
    return False


def draw_integers(
    rng: np.random.Generator,
    value: Value,
    region: Region,
    least: int = 0,
    rows: int | None = None,
    runs: float = 0.0,
) -> Array:
    """Draw the part of an integer input that ``region`` selects, in float64. The numbers are below
    ``rows`` if given, and otherwise range over at least ``least`` values. With ``runs``, elements
    are equal in runs of that share of a row."""
    shape = region_shape(region, value.shape)
    if value.dtype is DType.I1:
        return (rng.random(shape) < _TRUE).astype(np.float64)
    long = [d for d, n in enumerate(value.shape) if n > 1]
    if long and (runs or rng.random() < 0.5):
        dim = long[-1]
        index = region[dim]
        along = np.arange(value.shape[dim]) if index is None else index
        if runs:
            along = along // ceil(runs * value.shape[dim])
        where = tuple(-1 if d == dim else 1 for d in range(len(shape)))
        along = along if rows is None else along % rows
        return np.broadcast_to(along.reshape(where), shape).astype(np.float64)
    if rows is not None:
        ends = rng.choice([0, rows - 1], shape)
        inside = rng.integers(0, rows, shape)
        return np.where(rng.random(shape) < _AT_THE_ENDS, ends, inside).astype(np.float64)
    if value.dtype is DType.I8 and rng.random() < _OF_ALL:
        return rng.integers(-128, 128, shape).astype(np.float64)
    most = max(_SMALL, least, value.shape[long[-1]] if long else 1)
    if value.dtype is DType.I8:
        most = min(most, 128)
    return rng.integers(0, most, shape).astype(np.float64)
