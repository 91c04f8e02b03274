"""Integers and truth values: which kernels compute, and which PyTorch does.

Tiles hold whole numbers as f32, exactly up to 2^24. So a kernel computes with an integer where its
range is known to lie within: positions and what is made of them, truth values, bytes. All else (a
sum of token ids, say) is a call. So is what a kernel would have to write for somebody who expects
an integer: what the program returns, indices, operands of calls. And so is a conversion that may
change a number: to integers from floats, or to narrower ones.

One thing kernels do with any integer: compare it with a number whose range is known
(`arange(n) <= position`) and less than 2^24. Rounding to f32 keeps the order of integers, is exact
up to 2^24 and takes none from beyond that to less: so the answer is the same. (2^24 itself is what
2^24 + 1 is rounded to.) What is chosen among integers is compared like them.

Of floats, those have a range that are known to be whole and exact: counts, and what is chosen among
positions. What they are converted to has the same range; of any other float nothing is known, not
even that it is a number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import floor, inf
from typing import TypeAlias

from mirage.semantics.positions import MAX_POSITIONS, Iota
from mirage.semantics.scalar import BINARY, BinaryFn, DType, ReduceFn, UnaryFn
from mirage.semantics.ugraph import (
    Binary,
    Boundary,
    Composite,
    Contraction,
    Elementwise,
    KernelGraph,
    Movement,
    Op,
    Slice,
    Source,
    Structure,
    Unary,
    Value,
    View,
    no_rule,
)
from mirage.transforms.calls import calls_of

Range: TypeAlias = "tuple[float, float]"
"""The least and the largest number that a value may hold."""

_ALL: Range = (-inf, inf)
_TYPES: dict[DType, Range] = {
    DType.I1: (0, 1), DType.I8: (-128, 127), DType.I16: (-(1 << 15), (1 << 15) - 1),
}  # fmt: skip
"""Types all of whose numbers are known to be small."""
_EXACT: dict[DType, int] = {
    DType.BF16: 1 << 8, DType.F16: 1 << 11, DType.F32: 1 << 24, DType.F64: 1 << 53,
}  # fmt: skip
"""Up to where a type of floats has all whole numbers."""


def integers_as_calls(graph: KernelGraph) -> KernelGraph:
    """``graph`` with calls for the ops on integers that kernels do not compute."""
    if not any(v.dtype.is_integer for op in graph.ops for v in (*op.operands, *op.results)):
        return graph
    ranges = ranges_of(graph)
    outside = {v for op in graph.ops if isinstance(op, Boundary) for v in op.operands}
    outside.update(graph.outputs)
    called: set[Op] = set()
    for op in reversed(graph.ops):
        if isinstance(op, Boundary | Structure):
            continue
        integers = [v for v in (*op.operands, *op.results) if v.dtype.is_integer]
        exported = any(v.dtype.is_integer and v in outside for v in op.results)
        if integers and (exported or not _in_kernels(op, ranges)):
            called.add(op)
            outside.update(op.operands)
    if not called:
        return graph
    ops = (made for op in graph.ops for made in (calls_of(op) if op in called else (op,)))
    return replace(graph, ops=tuple(ops))


def _in_kernels(op: Op, ranges: dict[Value, Range]) -> bool:
    """Whether kernels compute an op on integers."""
    if isinstance(op, Slice) or (isinstance(op, Elementwise) and op.cuts):
        return False  # those that are copied are copied as floats
    if not isinstance(op, View | Elementwise | Source):
        return False
    integers = [v for v in (*op.operands, *op.results) if v.dtype.is_integer]
    small = [max(abs(end) for end in ranges[v]) for v in integers]
    if isinstance(op, View):  # those of large ones that kernels read are compared
        return True
    compared = all(v.dtype.is_integer for v in op.operands)
    fn = getattr(op, "fn", None)
    if compared and fn in (BinaryFn.LT, BinaryFn.LE, BinaryFn.EQ, BinaryFn.NE):
        return min(small[:2]) < MAX_POSITIONS
    if fn is BinaryFn.KEEP:  # so are those that are chosen
        return True
    return all(end <= MAX_POSITIONS for end in small)


def ranges_of(graph: KernelGraph, given: Mapping[Value, Range] | None = None) -> dict[Value, Range]:
    """What is known of each value's numbers; ``given``, of those that no op computes."""
    ranges: dict[Value, Range] = dict(given or {})

    def known(value: Value) -> Range:
        return ranges.get(value, _TYPES.get(value.dtype, _ALL))

    for op in graph.ops:
        for v in op.results:
            ranges[v] = _range(op, v, [known(x) for x in op.operands])
    for v in graph.inputs:
        ranges[v] = known(v)
    return ranges


def _range(op: Op, result: Value, xs: list[Range]) -> Range:
    limits = _TYPES.get(result.dtype, _ALL)
    if op.number is not None:
        number = float(op.number)
        return (number, number) if number == number // 1 else limits
    found = _found(op, result, xs)
    if found is None:
        return limits
    if result.dtype.is_integer:
        return _both(found, limits)
    exact = max(abs(end) for end in found) <= _EXACT[result.dtype]
    return found if exact else _ALL


def _found(op: Op, result: Value, xs: list[Range]) -> Range | None:
    """What follows from the ranges of the operands, whatever the type holds."""
    match op:
        case Iota():
            return (0, max(result.shape[op.dim] - 1, 0))
        case Elementwise(cuts=True):
            half = 1 << (result.dtype.bits - 1)
            return xs[0] if -half <= xs[0][0] and xs[0][1] < half else None
        case View() | Elementwise(identity=True):
            return xs[0]
        case Unary():
            return _unary(op.fn, xs[0])
        case Binary():
            return (0, 1) if BINARY[op.fn].truth else _binary(op.fn, *xs)
        case Contraction(function=ReduceFn.MAX):
            return xs[0]
        case Contraction(function=ReduceFn.SUM):
            terms = op.operands[0].type.size // max(result.type.size, 1)
            return (terms * xs[0][0], terms * xs[0][1]) if terms else (0, 0)
        case Elementwise() | Movement() | Contraction() | Boundary() | Structure() | Composite():
            return None
        case _:
            no_rule(op, "ranges of integers")
            return None


def _both(a: Range, b: Range) -> Range:
    """What lies in both; a value that would leave its type wraps, so it may be any of the type."""
    return a if b[0] <= a[0] and a[1] <= b[1] else b


def _unary(fn: UnaryFn, x: Range) -> Range:
    match fn:
        case UnaryFn.NEG:
            return (-x[1], -x[0])
        case UnaryFn.ABS:
            return (0.0, max(-x[0], x[1]))
        case UnaryFn.FLOOR:
            return x
        case UnaryFn.RELU:
            return (max(x[0], 0.0), max(x[1], 0.0))
        case _:
            return (0, 1) if fn is UnaryFn.NOT else _ALL


def _binary(fn: BinaryFn, a: Range, b: Range) -> Range:
    ends = [(x, y) for x in a for y in b]
    finite = all(abs(x) < inf for x in (*a, *b))
    match fn:
        case BinaryFn.ADD:
            return (a[0] + b[0], a[1] + b[1])
        case BinaryFn.SUB:
            return (a[0] - b[1], a[1] - b[0])
        case BinaryFn.MUL if finite:
            return (min(x * y for x, y in ends), max(x * y for x, y in ends))
        case BinaryFn.MAX:
            return (max(a[0], b[0]), max(a[1], b[1]))
        case BinaryFn.MIN:
            return (min(a[0], b[0]), min(a[1], b[1]))
        case BinaryFn.KEEP:
            return (min(b[0], 0.0), max(b[1], 0.0))
        case BinaryFn.FLOOR_DIV if finite and b[0] > 0:
            return (min(floor(x / y) for x, y in ends), max(floor(x / y) for x, y in ends))
        case BinaryFn.REMAINDER if finite and b[0] > 0:
            return (0.0, b[1] - 1.0)
        case _:
            return _ALL


__all__ = ["integers_as_calls", "ranges_of"]
