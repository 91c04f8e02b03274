"""Integers that wrap around, written as remainders.

Every arithmetic of the verifier reads integers as numbers without bounds. Programs that compute
with bytes rely on their bounds: ``(p << 4) >> 4`` of a signed byte is its lower half with a sign,
not ``p``. So an op on integers of 8 or 16 bits whose result may leave its type is written as the
number that the type then holds: ``(y + h) mod 2h - h``, where ``h`` is one more than the largest
number of the type. The same holds for products of integers of 32 bits, which shifts to the left
are. Sums of 32 bits, and integers of 64 bits, are assumed not to wrap, except by shifts that leave
fewer than 32 of 64 bits: ``x << 60`` is the lower four bits of ``x``, with a sign, times ``2^60``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from mirage.semantics.bounds.integer_ranges import may_wrap, ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, DType
from mirage.semantics.substitute import rewritten
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, TensorType, Value

_NARROW = (DType.I8, DType.I16)
_LEAST_FACTOR = 1 << 33
"""The least power of two of which products of 64 bits hold fewer than 32 bits of the other
factor."""


def with_wraps(graph: KernelGraph) -> KernelGraph:
    """Return ``graph`` in which the ops of kernel level that may wrap around are written out;
    ``graph`` itself if there is none. Kernels do not compute with such integers."""
    shifts = _shifts(graph)
    bounded = [op for op in graph.ops if _is_bounded(op) or op in shifts]
    ranges = ranges_of(graph) if bounded else {}
    ways = {
        op: partial(_shifted, bits=shifts[op]) if op in shifts else _wrapped
        for op in bounded
        if may_wrap(op, ranges)
    }
    return rewritten(graph, ways)


def _shifts(graph: KernelGraph) -> dict[Op, int]:
    """Return the number of bits by which products of 64 bits with powers of two shift, where that
    leaves fewer than 32 bits."""
    numbers = {op.result: op.number for op in graph.ops if op.number is not None}
    found: dict[Op, int] = {}
    for op in graph.ops:
        if op.function is BinaryFn.MUL and op.result.dtype is DType.I64:
            factor = int(numbers.get(op.operands[1], 0))
            if factor >= _LEAST_FACTOR and factor & (factor - 1) == 0:
                found[op] = factor.bit_length() - 1
    return found


def _shifted(b: Builder, op: Op, *, bits: int) -> Value:
    """Write a shift of 64 bits to the left: a product of the number, with a sign, that the bits
    which are not shifted out hold."""
    half = b.constant(1 << (63 - bits), DType.I64)
    whole = b.constant(1 << (64 - bits), DType.I64)
    above = b.binary(BinaryFn.REMAINDER, b.binary(BinaryFn.ADD, op.operands[0], half), whole)
    kept = b.binary(BinaryFn.SUB, above, half)
    return b.binary(BinaryFn.MUL, kept, op.operands[1])


def _is_bounded(op: Op) -> bool:
    """Return whether the bounds of an op's type are part of the program."""
    if len(op.results) != 1 or (isinstance(op, Elementwise) and op.cuts):
        return False
    dtype = op.result.dtype
    return dtype in _NARROW or (dtype is DType.I32 and op.function is BinaryFn.MUL)


def _wrapped(b: Builder, op: Op) -> Value:
    """Write an op in 64 bits, and the number that its type holds for the result."""
    dtype = op.result.dtype
    half = b.constant(1 << (dtype.bits - 1), DType.I64)
    whole = b.constant(1 << dtype.bits, DType.I64)
    operands = tuple(b.cast(v, DType.I64) if v.dtype is dtype else v for v in op.operands)
    y = Value(TensorType(op.result.shape, DType.I64))
    b.ops.append(replace(op, operands=operands, results=(y,)))
    above = b.binary(BinaryFn.REMAINDER, b.binary(BinaryFn.ADD, y, half), whole)
    return b.cast(b.binary(BinaryFn.SUB, above, half), dtype, whole=True)
