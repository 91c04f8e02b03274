"""Integers that wrap around, written as remainders.

Every arithmetic of the verifier reads integers as numbers without bounds. Programs that compute
with bytes rely on their bounds: ``(p << 4) >> 4`` of a signed byte is its lower half with a sign,
not ``p``. So an op on integers of 8 or 16 bits whose result may leave its type is written as the
number that the type then holds: ``(y + h) mod 2h - h``, where ``h`` is one more than the largest
number of the type. The same holds for products of integers of 32 bits, which shifts to the left
are. Integers of 64 bits are assumed not to wrap, except by shifts that leave fewer than 32 of 64
bits: ``x << 60`` is the lower four bits of ``x``, with a sign, times ``2^60``. The same is assumed
of sums of 32 bits, if both programs have such sums: PyTorch adds integers of 32 bits in 64 bits, so
a program that keeps 32 is another one. Without this assumption (``integers_fit``), all sums and
products are written in this way. Where nothing but sums and results of the same type read a
sum, or a product with a small number, it does not matter when it wraps around.
"""

from __future__ import annotations

from collections.abc import Collection
from collections.abc import Set as AbstractSet
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from mirage.semantics.bounds.integer_ranges import may_wrap, ranges_of
from mirage.semantics.builder import Builder
from mirage.semantics.scalar import BinaryFn, CumulateFn, DType, ReduceFn, UnaryFn
from mirage.semantics.substitute import rewritten
from mirage.semantics.ugraph import Elementwise, KernelGraph, Op, TensorType, Value, View
from mirage.verify.normal_form.bit_calls import BITS_OF_TWO, bits_of

if TYPE_CHECKING:
    from mirage.verify.shared_inputs.bound_tensors import Aligned

_NARROW = (DType.I8, DType.I16)
_USUAL, _WIDE = (DType.I32,), (DType.I32, DType.I64)
_SUMS = (BinaryFn.ADD, BinaryFn.SUB, UnaryFn.NEG, ReduceFn.SUM, CumulateFn.SUM)
INTEGERS_FIT = "sums of 32 and sums and products of 64 bits do not wrap around, as is assumed"

_MOST_TIMES = 256
"""The largest factor that makes a product as harmless as a sum. Programs with larger ones may be
equal for the sole reason that they wrap around: ``(x << 16) << 16`` is 0."""
_LEAST_FACTOR = 1 << 33
"""The least power of two of which products of 64 bits hold fewer than 32 bits of the other
factor."""


def with_wraps(graph: KernelGraph, *, sums: bool = False, long: bool = False) -> KernelGraph:
    """Return ``graph`` in which the ops of kernel level that may wrap around are written out, those
    of 32 bits other than products only if ``sums`` is given, and those of 64 bits only if they are
    ``long``; ``graph`` itself if there is none. Kernels do not compute with such integers."""
    wide = _WIDE if long else _USUAL
    shifts = {} if long else _shifts(graph)
    times = _small_multiples(graph, wide)
    read = _read_as_numbers(graph, times, wide) if sums or times else frozenset[Value]()
    harmless = {op for op in times if op.result not in read}
    some = read if sums else frozenset[Value]()
    bounded = [
        op
        for op in graph.ops
        if (_is_bounded(op, some, wide) and op not in harmless) or op in shifts
    ]
    ranges = ranges_of(graph) if bounded else {}
    ways = {
        op: partial(_shifted, bits=shifts[op]) if op in shifts else _wrapped
        for op in bounded
        if may_wrap(op, ranges)
    }
    return rewritten(graph, ways)


def with_other_wraps(aligned: Aligned, *, fit: bool) -> tuple[Aligned, bool]:
    """Return two programs in which the sums that may wrap around are written out: those of 32 bits
    if only one of the two has such sums, and all of 32 and 64 bits unless integers are assumed to
    ``fit``; and whether something is left that this assumption is about."""
    pair = aligned.reference, aligned.candidate
    every = [with_wraps(g, sums=True, long=True) for g in pair]
    found = [with_wraps(g, sums=True) for g in pair] if fit else every
    if fit and (found[0] is pair[0]) == (found[1] is pair[1]):
        found = list(pair)
    written = replace(aligned, reference=found[0], candidate=found[1])
    about = any(x is not y for x, y in zip(every, found, strict=True))
    return (aligned if all(x is y for x, y in zip(found, pair, strict=True)) else written), about


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


def _small_multiples(graph: KernelGraph, wide: Collection[DType]) -> AbstractSet[Op]:
    """Return the products of integers of ``wide`` types with small numbers, if the other factor may
    be any integer: a sum of inputs, or a function of their bits. Other factors (quotients,
    remainders, chosen bits) may be so large that all products are 0."""
    numbers = {op.result: op.number for op in graph.ops if op.number is not None}
    small = {v for v, number in numbers.items() if abs(number) <= _MOST_TIMES}
    any_integer = {v for v in graph.inputs if v.dtype in wide}
    found: set[Op] = set()
    for op in graph.ops:
        if len(op.results) != 1 or op.result.dtype not in wide:
            continue
        rest = [v for v in op.operands if v not in small]
        alike = all(v.dtype is op.result.dtype for v in rest)
        if not rest or not alike or not any_integer.issuperset(rest):
            continue
        if op.function is BinaryFn.MUL and len(rest) == 1:
            found.add(op)
        function = bits_of(op)
        bits = function is not None and function[0] in BITS_OF_TWO and len(rest) == 2
        if bits or op.function in _SUMS or isinstance(op, View):
            any_integer.add(op.result)
    return found


def _read_as_numbers(
    graph: KernelGraph, times: AbstractSet[Op], wide: Collection[DType]
) -> AbstractSet[Value]:
    """Return the integers of ``wide`` types that an op reads whose result would be another one if
    they had not wrapped around: a comparison, a quotient, a conversion. Sums in the same type, and
    these ``times`` a number, would not."""
    found: set[Value] = set()
    for op in reversed(graph.ops):
        follows = op.function in _SUMS or isinstance(op, View) or op in times
        follows = follows and not found.intersection(op.results)
        same = {v.dtype for v in op.results} if follows else set[DType]()
        found.update(v for v in op.operands if v.dtype in wide and v.dtype not in same)
    return found


def _is_bounded(op: Op, sums: AbstractSet[Value], wide: Collection[DType]) -> bool:
    """Return whether the bounds of an op's type are part of the program; those of ``wide`` types
    are so for products and for certain ``sums``."""
    if len(op.results) != 1 or (isinstance(op, Elementwise) and op.cuts):
        return False
    dtype = op.result.dtype
    return dtype in _NARROW or (
        dtype in wide and (op.result in sums or op.function is BinaryFn.MUL)
    )


def _wrapped(b: Builder, op: Op) -> Value:
    """Write an op in 64 bits, and the number that its type holds for the result."""
    dtype = op.result.dtype
    half = b.constant(1 << (dtype.bits - 1), DType.I64)
    whole = b.constant(1 << dtype.bits, DType.I64)
    operands = tuple(b.cast(v, DType.I64) if v.dtype is dtype else v for v in op.operands)
    y = Value(TensorType(op.result.shape, DType.I64))
    b.ops.append(replace(op, operands=operands, results=(y,)))
    above = b.binary(BinaryFn.ADD, y, half)
    if dtype is DType.I64:  # so that small numbers are exact in floating point
        turns = b.binary(BinaryFn.FLOOR_DIV, above, whole)
        return b.binary(BinaryFn.SUB, y, b.binary(BinaryFn.MUL, turns, whole))
    kept = b.binary(BinaryFn.SUB, b.binary(BinaryFn.REMAINDER, above, whole), half)
    return b.cast(kept, dtype, whole=True)
